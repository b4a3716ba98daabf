//! Horizontal bars as data. It keeps out how they are drawn, and what was measured.

use crate::Unit;

/// A picture of bars: panels side by side, and in each a value of every bar.
#[derive(Clone, Debug, PartialEq)]
pub struct Bars {
    /// Letters, digits and hyphens.
    pub id: String,
    /// Above all panels.
    pub title: String,
    /// Unit of the values.
    pub unit: Unit,
    /// Titles of the panels.
    pub panels: Vec<String>,
    /// Meanings of the colours.
    pub kinds: Vec<String>,
    /// From above.
    pub groups: Vec<Group>,
}

/// Bars under one heading.
#[derive(Clone, Debug, PartialEq)]
pub struct Group {
    /// The heading.
    pub name: String,
    /// From above.
    pub bars: Vec<Bar>,
}

/// Row of bars.
#[derive(Clone, Debug, PartialEq)]
pub struct Bar {
    /// Empty where its colour says all.
    pub name: String,
    /// Index of its kind.
    pub kind: usize,
    /// Value in each panel. None where the measurement failed.
    pub values: Vec<Option<f64>>,
}
