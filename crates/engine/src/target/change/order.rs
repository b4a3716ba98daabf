//! One call of `apply`: the configuration that is wanted, and all that comes beside it.

use super::preparation::{Absence, Reopened};
use crate::target::config::{Directives, FabricConfig, KnownHost};
use crate::target::image::Wanted;

/// What is to be put into effect.
#[derive(Clone, Copy)]
pub(crate) struct Order<'a> {
    pub(crate) wanted: &'a FabricConfig,
    /// Run-time orders; without them, those in effect stay.
    pub(crate) directives: Option<&'a Directives>,
    pub(crate) absence: Absence,
    /// The host that asks for it, if one does: nothing is changed that another host has reserved.
    pub(crate) host: Option<&'a KnownHost>,
    /// What is open already on another connection, by which these namespaces go on.
    pub(crate) anew: &'a [Wanted],
    /// A namespace that goes on by what was opened anew after it had failed.
    pub(crate) reopened: Option<&'a Reopened>,
}

impl<'a> Order<'a> {
    /// Just this configuration, all of it.
    pub(crate) const fn of(wanted: &'a FabricConfig) -> Self {
        Self { wanted, directives: None, absence: Absence::Refused, host: None, anew: &[], reopened: None }
    }
}
