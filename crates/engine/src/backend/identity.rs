//! Identity of a backend, apart from its path and name: the same disk after a restart, and another
//! one when other blocks are there. What hosts learn of it is the target's.

use std::fmt;
use std::path::PathBuf;

/// Identity of a backend.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BackendIdentity {
    /// Backend that does not outlive the target.
    Fresh,
    /// A name that it has wherever it is used, by any machine.
    Everywhere(IdentityText),
    /// A name that means this disk on this machine. Other machines that share it know it by the same name.
    OnMachine(IdentityText),
    /// The system has no name for what is at this path.
    Unknown(PathBuf),
}

/// A name that identifies something of one kind, with its parts in order.
#[derive(Clone, PartialEq, Eq)]
pub struct IdentityText {
    kind: &'static str,
    parts: Vec<String>,
}

impl IdentityText {
    /// Identity of these parts, in this order.
    pub(super) fn new(kind: &'static str, parts: Vec<String>) -> Self {
        Self { kind, parts }
    }

    /// The kind of thing it names.
    pub const fn kind(&self) -> &'static str {
        self.kind
    }

    /// All parts as one text that no other parts give.
    pub fn text(&self) -> String {
        let lengths = self.parts.iter().map(|part| format!("{}:{part}", part.len()));
        lengths.collect::<Vec<_>>().join(",")
    }
}

impl fmt::Debug for IdentityText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.kind, self.parts.join(" "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_parts_give_another_text() {
        let text = |parts: &[&str]| {
            IdentityText::new("file", parts.iter().map(|part| (*part).to_owned()).collect()).text()
        };
        let all =
            [text(&["a", "b"]), text(&["ab"]), text(&["", "ab"]), text(&["a,1:b"]), text(&["a", "", "b"])];
        for (at, one) in all.iter().enumerate() {
            assert!(all[..at].iter().all(|other| other != one), "{one}");
        }
    }
}
