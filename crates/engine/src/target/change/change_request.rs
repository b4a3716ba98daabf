//! Request for a change: a configuration to apply, with its options.

use std::time::Duration;

use crate::target::config::{Directives, FabricConfig, KnownHost};
use crate::target::image::OpenRequest;

/// Treatment of namespaces whose images are not available.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Absence {
    /// A new namespace without its image makes the change fail; one that was absent before stays
    /// absent.
    Refused,
    /// Such namespaces, new ones included, are left out until they are available.
    Allowed,
    /// As before, and all that are absent are tried again.
    TriedAgain,
}

/// Request for a change of the configuration.
#[derive(Clone, Copy)]
pub(crate) struct ChangeRequest<'a> {
    /// Without it, the configuration in effect stays, and is looked at again.
    pub(crate) wanted: Option<&'a FabricConfig>,
    /// Run-time directives; without them, those in effect stay.
    pub(crate) directives: Option<&'a Directives>,
    pub(crate) absence: Absence,
    /// For how long secrets that others replace are still accepted.
    pub(crate) overlap: Duration,
    /// Hosts whose configuration stays keep the secrets that they have, and their files are not read: what is put into effect
    /// is not about them, and must not fail for a file that has become wrong.
    pub(crate) keeps_secrets: bool,
    /// The host that asks for it, if one does: nothing is changed that another host has reserved.
    pub(crate) host: Option<&'a KnownHost>,
    /// Namespaces whose images are open on another connection already, and continue there.
    pub(crate) reconnected: &'a [OpenRequest],
    /// A failed namespace (NQN of its subsystem, and NSID) whose storage is reopened.
    pub(crate) reopen: Option<(&'a str, u32)>,
}

impl<'a> ChangeRequest<'a> {
    /// Request that changes nothing.
    pub(crate) const SAME: Self = Self {
        wanted: None,
        directives: None,
        absence: Absence::Refused,
        overlap: Duration::ZERO,
        keeps_secrets: true,
        host: None,
        reconnected: &[],
        reopen: None,
    };

    /// Request for this configuration, all of it.
    pub(crate) const fn of(wanted: &'a FabricConfig) -> Self {
        Self { wanted: Some(wanted), keeps_secrets: false, ..Self::SAME }
    }
}
