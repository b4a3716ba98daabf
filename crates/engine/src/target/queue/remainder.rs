//! The rest of a page of memory whose beginning has left: it stays as it was then, while the page may be written.

use crate::ring::Buffer;

/// The rest of a page.
#[derive(Debug)]
pub(super) struct Remainder {
    pub(super) page: Buffer,
    /// Where in the page the rest begins.
    pub(super) at: usize,
}

impl Remainder {
    pub(super) fn bytes(&self) -> &[u8] {
        &self.page[self.at..]
    }
}
