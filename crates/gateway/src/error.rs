//! Errors of a group's gateway: refusals, for the administration's callers, and failures, for the
//! program that runs it.

use std::fmt;

use engine::ceph::CephError;
use engine::hand_over::Fault;
use engine::target::TargetError;

/// Why a change of what all gateways serve was refused, or cannot be made now. Nothing was changed.
#[derive(Debug, thiserror::Error)]
pub enum GroupError {
    /// The group itself refuses it.
    #[error("{0}")]
    Refused(Refused),
    /// This gateway's target cannot serve it.
    #[error(transparent)]
    Target(#[from] TargetError),
}

/// Class of a refusal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// The group's cluster does not answer, or this gateway serves nothing yet.
    Unavailable,
    /// There is nothing by that name.
    Unknown,
    /// The change contradicts the present state.
    Conflict,
    /// Another change came first. After a look at it, this one may be asked for again.
    Changed,
    /// A group of gateways cannot serve it.
    Unsupported,
}

/// Refusal of a change, with its reason and a hint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    /// Cause of the failure.
    pub reason: Reason,
    /// Description of the fault.
    pub what: String,
    /// Setting at fault, such as `subsystems[0].ports`.
    pub field: Option<String>,
    /// Suggested remedy.
    pub hint: Option<String>,
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(field) = &self.field {
            write!(f, "{field}: ")?;
        }
        write!(f, "{}", self.what)?;
        match &self.hint {
            Some(hint) => write!(f, "; {hint}"),
            None => Ok(()),
        }
    }
}

impl Refused {
    pub(crate) fn new(reason: Reason, what: impl fmt::Display) -> Self {
        Self { reason, what: what.to_string(), field: None, hint: None }
    }

    pub(crate) fn unavailable(what: impl fmt::Display) -> Self {
        Self::new(Reason::Unavailable, what)
    }

    pub(crate) fn conflict(what: impl fmt::Display) -> Self {
        Self::new(Reason::Conflict, what)
    }

    pub(crate) fn changed(what: impl fmt::Display) -> Self {
        Self::new(Reason::Changed, what)
    }

    pub(crate) fn unsupported(what: impl fmt::Display) -> Self {
        Self::new(Reason::Unsupported, what)
    }

    /// The same about this setting.
    #[must_use]
    pub(crate) fn about(mut self, field: impl fmt::Display) -> Self {
        self.field = Some(field.to_string());
        self
    }

    /// The same with what to do.
    #[must_use]
    pub(crate) fn hint(mut self, hint: impl fmt::Display) -> Self {
        self.hint = Some(hint.to_string());
        self
    }
}

impl From<Refused> for GroupError {
    fn from(refused: Refused) -> Self {
        Self::Refused(refused)
    }
}

/// Reason for which a gateway does not go on in another process.
#[derive(Debug, thiserror::Error)]
pub enum MemberHandOverError {
    /// The old process removes connections from the group's state, which takes long.
    #[error("this gateway is forgetting connections that it has closed; try again")]
    Pruning,
    /// The group has put the gateway on the blocklist.
    #[error("the group has declared this gateway dead")]
    Dead,
    /// The same since the offer.
    #[error("the group has declared this gateway dead meanwhile")]
    DeadMeanwhile,
    /// Commands on images of the old process that may be carried out yet.
    #[error("commands on its images have taken too long meanwhile")]
    LateMeanwhile,
    /// The cluster does not answer the new process.
    #[error(transparent)]
    Ceph(#[from] CephError),
    /// The new process cannot serve what the old one did.
    #[error(transparent)]
    Target(#[from] TargetError),
}

impl MemberHandOverError {
    /// Party at fault.
    pub const fn fault(&self) -> Fault {
        match self {
            Self::Pruning => Fault::Time,
            Self::Dead | Self::DeadMeanwhile | Self::LateMeanwhile | Self::Ceph(_) | Self::Target(_) => {
                Fault::System
            }
        }
    }
}

/// Why a gateway cannot run, or has ended otherwise than it should.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct MemberError(String);

impl MemberError {
    pub(crate) fn new(what: impl fmt::Display) -> Self {
        Self(what.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refused_hand_over_says_why_and_blames_the_cluster() {
        let configuration = TargetError::Config("a target listens on at most 1 address".to_owned());
        for (error, said) in [
            (
                MemberHandOverError::Pruning,
                "this gateway is forgetting connections that it has closed; try again",
            ),
            (MemberHandOverError::Dead, "the group has declared this gateway dead"),
            (MemberHandOverError::DeadMeanwhile, "the group has declared this gateway dead meanwhile"),
            (MemberHandOverError::LateMeanwhile, "commands on its images have taken too long meanwhile"),
            (MemberHandOverError::Target(configuration), "a target listens on at most 1 address"),
        ] {
            assert_eq!(error.to_string(), said);
            let fault =
                if matches!(error, MemberHandOverError::Pruning) { Fault::Time } else { Fault::System };
            assert_eq!(error.fault(), fault, "{said}");
        }
    }
}
