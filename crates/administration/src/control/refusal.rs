//! Why a request is refused: a status of HTTP, and one line that says what is wrong, where, and what to do.

use std::fmt;
use std::io;

use engine::backend::BackendError;
use engine::ceph::CephError;
use engine::target::{Denial, TargetError};
use gateway::{GroupError, Reason, Refused};
use nvme::Status;
use serde::{Deserialize, Serialize};

/// Mark of a refusal that programs treat in a way of their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
pub(crate) enum RefusalCode {
    /// Another change came first. After a look at it, the request may be made again.
    Changed,
}

/// A request that changed nothing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, schemars::JsonSchema)]
pub struct Refusal {
    #[serde(skip)]
    pub status: u16,
    /// The status of the command, where it was a host's and there is one for this.
    #[serde(skip)]
    pub(crate) for_host: Option<Status>,
    /// Description of the error.
    pub error: String,
    /// Mark for programs, if any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) code: Option<RefusalCode>,
    /// Field of the body with the error, such as `namespaces[0].size`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub field: Option<String>,
    /// Remedy.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
}

impl Refusal {
    pub fn new(status: u16, error: impl fmt::Display) -> Self {
        Self { status, for_host: None, error: error.to_string(), code: None, field: None, hint: None }
    }

    /// A change that goes as far as to where it would be made: its preview is there.
    pub(super) fn not_made() -> Self {
        Self::new(500, "it is not made")
    }

    /// Status 404: the object does not exist.
    pub(crate) fn not_found(what: impl fmt::Display) -> Self {
        Self::new(404, what)
    }

    /// Status 409: the object exists already, is in use, or contradicts the configuration.
    pub fn conflict(what: impl fmt::Display) -> Self {
        Self::new(409, what)
    }

    /// Status 409: the configuration is no longer as it was when the request began, or as its sender has seen it.
    pub(crate) fn changed() -> Self {
        let what = "the configuration was changed at the same moment; try again";
        Self { code: Some(RefusalCode::Changed), ..Self::conflict(what) }
    }

    /// Status 422: the request is well-formed, but impossible.
    pub(crate) fn unprocessable(what: impl fmt::Display) -> Self {
        Self::new(422, what)
    }

    /// Status 421: another process has taken the target over, which a client reaches by another connection.
    pub(super) fn served_elsewhere() -> Self {
        Self::new(421, "another process serves this target now, and nothing was changed").hint("ask again")
    }

    /// The same about this field.
    #[must_use]
    pub fn about(mut self, field: impl fmt::Display) -> Self {
        self.field = Some(field.to_string());
        self
    }

    /// The same with what to do.
    #[must_use]
    pub fn hint(mut self, hint: impl fmt::Display) -> Self {
        self.hint = Some(hint.to_string());
        self
    }

    /// The state could not be written, for this reason of the system's.
    pub(crate) fn not_kept(error: &io::Error) -> Self {
        let full = matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded);
        let refusal = Self::new(
            if full { 507 } else { 500 },
            format!("the state could not be written, and nothing was changed: {error}"),
        );
        refusal.hint("make room in the state directory, or repair it, and ask again")
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(field) = &self.field {
            write!(f, "{field}: ")?;
        }
        write!(f, "{}", self.error)?;
        match &self.hint {
            Some(hint) => write!(f, "; {hint}"),
            None => Ok(()),
        }
    }
}

impl From<Denial> for Refusal {
    fn from(denial: Denial) -> Self {
        Self { for_host: Some(denial.status), ..Self::conflict(denial.rule) }
    }
}

impl From<TargetError> for Refusal {
    fn from(error: TargetError) -> Self {
        if let TargetError::Reserved { .. } = error {
            return Self { for_host: Some(Status::RESERVATION_CONFLICT), ..Self::conflict(error) };
        }
        let status = match &error {
            TargetError::Namespace { source: BackendError::Locked { .. }, .. } => 409,
            TargetError::Namespace { source: BackendError::Memory { .. }, .. } => 507,
            TargetError::Namespace { source: BackendError::Ceph(error), .. } => ceph_status(error),
            TargetError::Listen { source, .. } if source.kind() == io::ErrorKind::AddrInUse => 409,
            TargetError::Reopen { .. } => 409,
            TargetError::Reactor(_) => 500,
            _ => 422,
        };
        Self::new(status, error)
    }
}

impl From<GroupError> for Refusal {
    fn from(error: GroupError) -> Self {
        match error {
            GroupError::Refused(refused) => refused.into(),
            GroupError::Target(error) => error.into(),
        }
    }
}

impl From<Refused> for Refusal {
    fn from(refused: Refused) -> Self {
        let (status, code) = match refused.reason {
            Reason::Unknown => (404, None),
            Reason::Conflict => (409, None),
            Reason::Changed => (409, Some(RefusalCode::Changed)),
            Reason::Unsupported => (422, None),
            Reason::Unavailable => (503, None),
        };
        Self { code, field: refused.field, hint: refused.hint, ..Self::new(status, refused.what) }
    }
}

impl From<CephError> for Refusal {
    fn from(error: CephError) -> Self {
        let refusal = Self::new(ceph_status(&error), &error);
        match error {
            CephError::Failed { source, .. } if source.kind() == io::ErrorKind::TimedOut => {
                refusal.hint("the cluster does not answer in time; `ceph -s` shows its state")
            }
            _ => refusal,
        }
    }
}

/// HTTP status of an error: fault of the request, state of the objects, or failure of the cluster.
fn ceph_status(error: &CephError) -> u16 {
    match error {
        CephError::NoImage { .. } | CephError::NoPool { .. } | CephError::NoNamespace { .. } => 404,
        CephError::ImageExists { .. }
        | CephError::SnapshotExists { .. }
        | CephError::InUse { .. }
        | CephError::HasSnapshots { .. }
        | CephError::Protected { .. }
        | CephError::WouldShrink { .. }
        | CephError::NoParent { .. }
        | CephError::Locked { .. } => 409,
        CephError::NoMonitor { .. } => 503,
        CephError::Failed { source, .. } | CephError::Connect { source, .. } => match source.kind() {
            io::ErrorKind::TimedOut => 503,
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => 507,
            _ => 500,
        },
        _ => 422,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_disk_and_a_broken_one_have_different_statuses() {
        let full = Refusal::not_kept(&io::Error::from_raw_os_error(28));
        assert_eq!(full.status, 507);
        assert_eq!(Refusal::not_kept(&io::Error::from_raw_os_error(5)).status, 500);
        assert!(full.to_string().contains("nothing was changed"));
    }

    #[test]
    fn an_image_without_exclusive_lock_is_refused_with_the_command_that_gives_it_one() {
        let source = CephError::NoExclusiveLock { image: "rbd/disk".to_owned() }.into();
        let refusal = Refusal::from(TargetError::Namespace { nqn: "nqn.a".to_owned(), nsid: 1, source });
        assert_eq!(refusal.status, 422);
        let line = refusal.to_string();
        assert!(line.contains("rbd feature enable rbd/disk exclusive-lock"), "{line}");
        assert!(!line.contains('\n'), "{line}");
    }

    #[test]
    fn a_refusal_says_where_and_what_to_do() {
        let refusal = Refusal::conflict("it is there").about("nsid").hint("take another");
        assert_eq!(refusal.to_string(), "nsid: it is there; take another");
        let json = serde_json::to_value(&refusal).unwrap();
        assert_eq!(
            json,
            serde_json::json!({"error": "it is there", "field": "nsid", "hint": "take another"})
        );
        assert_eq!(serde_json::to_value(Refusal::changed()).unwrap()["code"], "changed");
    }
}
