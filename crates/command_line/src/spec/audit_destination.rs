//! Destination of an audit log, as people write it.

use std::path::PathBuf;
use std::str::FromStr;

/// Destination of an audit log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AuditDestination {
    None,
    Journal,
    File(PathBuf),
}

impl FromStr for AuditDestination {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "none" => Ok(Self::None),
            "journal" => Ok(Self::Journal),
            "" => Err("write the path of a file, journal or none".to_owned()),
            path => Ok(Self::File(super::absolute(path.as_ref()))),
        }
    }
}
