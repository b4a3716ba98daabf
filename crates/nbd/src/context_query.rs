//! The data of NBD_OPT_LIST_META_CONTEXT and NBD_OPT_SET_META_CONTEXT: which export, and which kinds of block status. There is
//! one kind, `base:allocation`.

use crate::fields::Fields;

/// The only context.
pub(crate) const ALLOCATION: &str = "base:allocation";
/// The number by which replies name it.
pub(crate) const ALLOCATION_ID: u32 = 1;

/// Data of NBD_OPT_LIST_META_CONTEXT and NBD_OPT_SET_META_CONTEXT.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ContextQuery<'a> {
    pub(crate) export: &'a str,
    /// Set if no query was sent, which lists all contexts and chooses none.
    pub(crate) is_empty: bool,
    /// `base:allocation` was named.
    pub(crate) names_allocation: bool,
    /// The whole of `base:` was named, which lists it and chooses none.
    pub(crate) names_base: bool,
}

impl<'a> ContextQuery<'a> {
    /// Reads all of the data; `None` when it is anything else, or a query has no namespace.
    pub(crate) fn read(data: &'a [u8]) -> Option<Self> {
        let mut fields = Fields(data);
        let export = fields.string()?;
        let count = fields.u32()?;
        let mut query = Self { export, is_empty: count == 0, names_allocation: false, names_base: false };
        for _ in 0..count {
            let text = fields.string()?;
            if !text.contains(':') {
                return None;
            }
            query.names_allocation |= text == ALLOCATION;
            query.names_base |= text == "base:";
        }
        fields.0.is_empty().then_some(query)
    }
}
