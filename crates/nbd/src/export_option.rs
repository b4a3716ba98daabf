//! The data of NBD_OPT_INFO and NBD_OPT_GO: which export, and what the client wants to know of it.

use crate::fields::Fields;

/// Kinds of information (section "Option reply types").
pub(crate) mod info {
    pub(crate) const EXPORT: u16 = 0;
    pub(crate) const NAME: u16 = 1;
    pub(crate) const DESCRIPTION: u16 = 2;
    pub(crate) const BLOCK_SIZE: u16 = 3;
}

/// Data of NBD_OPT_INFO and NBD_OPT_GO.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ExportOption<'a> {
    pub(crate) name: &'a str,
    pub(crate) wants_name: bool,
    pub(crate) wants_description: bool,
}

impl<'a> ExportOption<'a> {
    /// Reads all of the data; `None` when it is anything else.
    pub(crate) fn read(data: &'a [u8]) -> Option<Self> {
        let mut fields = Fields(data);
        let name = fields.string()?;
        let count = fields.u16()?;
        let mut option = Self { name, wants_name: false, wants_description: false };
        for _ in 0..count {
            match fields.u16()? {
                info::NAME => option.wants_name = true,
                info::DESCRIPTION => option.wants_description = true,
                // What is always sent, and what is not known.
                _ => {}
            }
        }
        fields.0.is_empty().then_some(option)
    }
}
