//! A change of an object's pairs, as whoever makes it says it.

use std::collections::BTreeMap;

/// Pairs as they are in an object.
pub type Pairs = BTreeMap<String, Vec<u8>>;

/// A change of an object's pairs: all of it happens, or nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ObjectChange {
    /// Whether the object has to be made by this change. Else it is made where it is missing, if nothing is relied on.
    pub exclusive: bool,
    /// Pairs that must be there just so; otherwise nothing happens.
    pub relies_on: Pairs,
    /// Pairs that are there afterwards.
    pub set: Pairs,
    /// Keys that are not there afterwards.
    pub remove: Vec<String>,
    /// Whether the object itself is not there afterwards, nor anything in it.
    pub deletes: bool,
}
