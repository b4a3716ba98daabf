//! Rates of a target between two moments, from its own answers: a sample as numbers, and the rates between two samples.
//! It sends no requests.

#[cfg(any(test, feature = "testing"))]
pub mod fixture;
pub mod rates;
#[cfg(test)]
mod rates_tests;
pub mod sample;

/// Letters that do nothing on a terminal: names come from hosts, and none of them moves the cursor.
pub fn printable(text: &str) -> String {
    text.chars().map(|letter| if letter.is_control() { '?' } else { letter }).collect()
}
