//! Rates of a target between two moments, from its own answers: a sample as numbers, and the rates between two samples.
//! It sends no requests.

pub(crate) mod rates;
pub(crate) mod sample;

/// Letters that do nothing on a terminal: names come from hosts, and none of them moves the cursor.
pub(crate) fn printable(text: &str) -> String {
    text.chars().map(|letter| if letter.is_control() { '?' } else { letter }).collect()
}
