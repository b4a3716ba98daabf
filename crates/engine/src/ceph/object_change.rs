//! A change of an object's pairs, as its caller describes it.

use std::collections::BTreeMap;

/// Pairs as they are in an object.
pub type Pairs = BTreeMap<String, Vec<u8>>;

/// A change of an object's pairs: all of it happens, or nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ObjectChange {
    /// Set if the object must not exist before this change. Else it is created if missing, unless
    /// pairs are relied on.
    pub exclusive: bool,
    /// Pairs that must be there just so; otherwise nothing happens.
    pub relies_on: Pairs,
    /// Pairs that are there afterwards.
    pub set: Pairs,
    /// Keys that are not there afterwards.
    pub remove: Vec<String>,
    /// Set if the change removes the object with all pairs.
    pub deletes: bool,
}
