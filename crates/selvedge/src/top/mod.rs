//! What `selvedge top` knows and shows of a running target: its answers as numbers, their differences as rates, what of
//! them is chosen, and how that is drawn. It asks nobody and reads no key: the command does.

pub(crate) mod exposition;
pub(crate) mod grid;
pub(crate) mod keys;
pub(crate) mod rates;
#[cfg(test)]
mod rates_tests;
pub(crate) mod sample;
pub(crate) mod screen;
#[cfg(test)]
mod screen_tests;
pub(crate) mod terminal;
pub(crate) mod text;
pub(crate) mod view;
pub(crate) mod watch;
#[cfg(test)]
pub(crate) mod worked;

/// Letters that do nothing on a terminal: names come from hosts, and none of them moves the cursor.
fn printable(text: &str) -> String {
    text.chars().map(|letter| if letter.is_control() { '?' } else { letter }).collect()
}
