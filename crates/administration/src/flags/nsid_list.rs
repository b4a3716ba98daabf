//! List of namespace IDs.

use std::str::FromStr;

use engine::limits::NAMESPACES_MAX;

/// Namespace IDs of a subsystem.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NsidList {
    All,
    Some(Vec<u32>),
}

impl FromStr for NsidList {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "all" {
            return Ok(Self::All);
        }
        let nsid = |text: &str| {
            let nsid = text.parse().ok().filter(|nsid| (1..=NAMESPACES_MAX).contains(nsid));
            nsid.ok_or_else(|| format!("`{text}` is neither `all` nor an nsid of 1 to {NAMESPACES_MAX}"))
        };
        text.split(',').map(nsid).collect::<Result<_, _>>().map(Self::Some)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_read() {
        assert_eq!("all".parse(), Ok(NsidList::All));
        assert_eq!("7".parse(), Ok(NsidList::Some(vec![7])));
        assert_eq!("1,2,1".parse(), Ok(NsidList::Some(vec![1, 2, 1])));
        for wrong in ["", "1,", "0", "x", "1-3", "ALL", "4294967295"] {
            assert!(wrong.parse::<NsidList>().is_err(), "{wrong}");
        }
    }
}
