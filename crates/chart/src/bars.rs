//! Horizontal bars as data. It keeps out how they are drawn, and what was measured.

use crate::Unit;

/// A picture of bars: panels side by side, and in each a value of every bar.
#[derive(Clone, Debug, PartialEq)]
pub struct Bars {
    /// Letters, digits and hyphens.
    pub id: String,
    /// Above all panels.
    pub title: String,
    /// What the values are.
    pub unit: Unit,
    /// What each panel shows.
    pub panels: Vec<String>,
    /// What the colours mean.
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

/// One row of bars.
#[derive(Clone, Debug, PartialEq)]
pub struct Bar {
    /// Empty where its colour says all.
    pub name: String,
    /// Which of the kinds it is.
    pub kind: usize,
    /// Its value in each panel; none of what failed.
    pub values: Vec<Option<f64>>,
}
