//! A connection to the simulated cluster.

use std::io;
use std::sync::Arc;

use super::{CephError, ClusterOptions, Lateness};
use crate::ring::simulated::rados::{self, ClientId};

/// Prefix of a connection's address.
const ADDRESS: &str = "client:";

/// A connection to a cluster. It ends when the last pool that uses it is gone.
#[derive(Debug)]
pub struct Cluster {
    id: ClientId,
    options: ClusterOptions,
    lateness: Lateness,
}

impl Cluster {
    /// Connects, within the time that the options give.
    ///
    /// # Errors
    /// When the cluster does not answer.
    pub fn connect(options: &ClusterOptions) -> Result<Arc<Self>, CephError> {
        Self::connect_within(options, options.connect_timeout_ms)
    }

    /// The same within another time, in milliseconds, that counts for connecting alone.
    ///
    /// # Errors
    /// As above.
    pub fn connect_within(options: &ClusterOptions, timeout_ms: u64) -> Result<Arc<Self>, CephError> {
        let seconds = timeout_ms.div_ceil(1000).max(1);
        let silent = |_| CephError::NoMonitor { monitors: "simulated".to_owned(), seconds };
        let id = rados::connect(seconds * 1000).map_err(silent)?;
        Ok(Arc::new(Self { id, options: options.clone(), lateness: Lateness::default() }))
    }

    /// The value of an option of the library, empty when it has none.
    pub const fn setting(&self, _: &str) -> String {
        String::new()
    }

    /// Identifier of the cluster: there is one.
    pub fn fsid(&self) -> String {
        "simulated".to_owned()
    }

    /// The address by which the cluster knows this connection.
    ///
    /// # Errors
    /// Never.
    pub fn address(&self) -> Result<String, CephError> {
        Ok(format!("{ADDRESS}{}", self.id.number()))
    }

    /// Forbids the connection with this address everything in the cluster, for `seconds`.
    ///
    /// # Errors
    /// When the monitors do not answer.
    pub fn blocklist(&self, address: &str, seconds: u32) -> Result<(), CephError> {
        let number = address.strip_prefix(ADDRESS).and_then(|number| number.parse().ok());
        let other = number.map(ClientId::of);
        let unknown = || self.failed("blocklisting", address, io::Error::from_raw_os_error(libc::EINVAL));
        let other = other.ok_or_else(unknown)?;
        let outcome = rados::call_monitor(self.id, self.monitor_timeout_ms(), Some((other, seconds.into())));
        self.outcome("blocklisting", address, outcome).map(drop)
    }

    /// The same for several connections, all of which are tried.
    ///
    /// # Errors
    /// One of those that there were, when not all went well.
    pub fn blocklist_all(&self, addresses: &[&str], seconds: u32) -> Result<(), CephError> {
        let outcomes = addresses.iter().map(|address| self.blocklist(address, seconds));
        outcomes.fold(Ok(()), Result::and)
    }

    /// Waits until this connection works by the newest map of the cluster, the blocklist included.
    ///
    /// # Errors
    /// When the monitors do not answer.
    pub fn wait_for_latest_map(&self) -> Result<(), CephError> {
        let outcome = rados::call_monitor(self.id, self.monitor_timeout_ms(), None);
        self.outcome("waiting for", "the cluster's newest map", outcome).map(drop)
    }

    /// Options of the connection.
    pub const fn options(&self) -> &ClusterOptions {
        &self.options
    }

    pub(in crate::ceph) const fn lateness(&self) -> &Lateness {
        &self.lateness
    }

    pub(super) const fn id(&self) -> ClientId {
        self.id
    }

    pub(super) const fn monitor_timeout_ms(&self) -> u64 {
        self.options.connect_timeout_ms.div_ceil(1000) * 1000
    }

    /// The library counts whole seconds.
    pub(super) const fn timeout_ms(&self) -> u64 {
        self.options.operation_timeout_ms.div_ceil(1000) * 1000
    }

    /// An outcome with what was tried.
    pub(super) fn outcome<T>(
        &self,
        what: &'static str,
        name: &str,
        outcome: Result<T, i32>,
    ) -> Result<T, CephError> {
        outcome.map_err(|code| self.failed(what, name, io::Error::from_raw_os_error(code)))
    }

    fn failed(&self, what: &'static str, name: &str, source: io::Error) -> CephError {
        CephError::Failed { what, name: name.to_owned(), source }
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        rados::close(self.id);
    }
}
