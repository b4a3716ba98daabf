//! What a target is asked to put into effect: a configuration, and all that comes beside it.

use std::time::Duration;

use crate::target::config::{Directives, FabricConfig, KnownHost};
use crate::target::image::OpenRequest;

/// What becomes of namespaces whose images are not available.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Absence {
    /// One that comes with this change makes it fail; one that was absent before stays so.
    Refused,
    /// They are left out, those that come with this change too, until they are available.
    Allowed,
    /// As before, and all that are absent are tried again.
    TriedAgain,
}

/// What is to be put into effect.
#[derive(Clone, Copy)]
pub(crate) struct Order<'a> {
    /// Without it, the configuration in effect stays, and is looked at again.
    pub(crate) wanted: Option<&'a FabricConfig>,
    /// Run-time orders; without them, those in effect stay.
    pub(crate) directives: Option<&'a Directives>,
    pub(crate) absence: Absence,
    /// For how long secrets that others replace are still accepted.
    pub(crate) overlap: Duration,
    /// Hosts whose configuration stays keep the secrets that they have, and their files are not read: what is put into effect
    /// is not about them, and must not fail for a file that has become wrong.
    pub(crate) keeps_secrets: bool,
    /// The host that asks for it, if one does: nothing is changed that another host has reserved.
    pub(crate) host: Option<&'a KnownHost>,
    /// What is open already on another connection, by which these namespaces go on.
    pub(crate) anew: &'a [OpenRequest],
    /// A namespace (its subsystem's NQN, and its identifier) that has failed, and whose storage is opened anew.
    pub(crate) reopen: Option<(&'a str, u32)>,
}

impl<'a> Order<'a> {
    /// Nothing but what is in effect.
    pub(crate) const SAME: Self = Self {
        wanted: None,
        directives: None,
        absence: Absence::Refused,
        overlap: Duration::ZERO,
        keeps_secrets: true,
        host: None,
        anew: &[],
        reopen: None,
    };

    /// Just this configuration, all of it.
    pub(crate) const fn of(wanted: &'a FabricConfig) -> Self {
        Self { wanted: Some(wanted), keeps_secrets: false, ..Self::SAME }
    }
}
