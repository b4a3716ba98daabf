//! The caller of a request: its identity, its address and its rights.

use std::fmt;
use std::net::SocketAddr;

use engine::backend::RbdConfig;
use engine::target::{FabricConfig, PortConfig, SubsystemConfig, TlsUse};
use rustls::pki_types::CertificateDer;
use serde::{Deserialize, Serialize};

use super::super::fingerprint::Fingerprint;
use super::super::refusal::Refusal;
use super::allowed_storage::{AllowedStorage, pin_files};
use super::rights::Rights;
use crate::spec::role::Role;

/// The other end of a connection, as the system knows it.
#[derive(Clone, Debug)]
pub enum Peer {
    /// This process itself.
    Process,
    /// A process of this machine, on the Unix socket.
    Local { uid: u32, pid: Option<i32> },
    /// A client over TCP, with the certificate whose key it has proved to have.
    Remote { address: SocketAddr, certificate: Option<CertificateDer<'static>> },
}

impl Peer {
    /// True if its name may have to be looked up, perhaps by a directory service that is slow.
    pub(in crate::control) fn may_be_looked_up(&self) -> bool {
        matches!(self, Self::Local { uid, .. } if !is_operator(*uid))
    }
}

/// True for root and this process's user, which may administer the target in any case.
pub(in crate::control) fn is_operator(uid: u32) -> bool {
    uid == 0 || uid == rustix::process::geteuid().as_raw()
}

impl fmt::Display for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Process => f.write_str("this process"),
            Self::Local { uid, pid: Some(pid) } => write!(f, "process {pid} of user {uid}"),
            Self::Local { uid, pid: None } => write!(f, "a process of user {uid}"),
            Self::Remote { address, .. } => address.fmt(f),
        }
    }
}

/// Identity by which a caller is known.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Identity {
    Process,
    /// A user of the machine.
    User {
        uid: u32,
        name: Option<String>,
    },
    /// The name of a token.
    Token(String),
    Certificate {
        name: String,
        sha256: Fingerprint,
    },
    /// A host, by what it says that it is.
    Host {
        nqn: String,
        host_id: Option<String>,
    },
    /// A caller without valid credentials.
    #[serde(rename = "nobody")]
    Unknown,
}

impl fmt::Display for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Process => f.write_str("this process"),
            Self::User { uid, name: Some(name) } => write!(f, "user {name} ({uid})"),
            Self::User { uid, name: None } => write!(f, "user {uid}"),
            Self::Token(name) => write!(f, "token {name}"),
            Self::Certificate { name, .. } => write!(f, "certificate {name}"),
            Self::Host { nqn, .. } => write!(f, "host {nqn}"),
            Self::Unknown => f.write_str("unknown caller"),
        }
    }
}

/// The sender of a request, with its rights.
#[derive(Clone, Debug)]
pub struct Caller {
    pub identity: Identity,
    pub rights: Rights,
    /// Lists of which each has to contain the storage that the caller names.
    pub(in crate::control) lists: Vec<AllowedStorage>,
}

impl Caller {
    /// A caller without credentials, for routes that are open to everybody.
    pub(in crate::control) fn anybody() -> Self {
        let rights = Rights { role: Role::Metrics, subsystems: Vec::new(), storage: None };
        Self { identity: Identity::Unknown, rights, lists: Vec::new() }
    }

    /// Refuses what it may not do.
    pub(in crate::control) fn check(&self, needed: Role, subsystem: Option<&str>) -> Result<(), Refusal> {
        let who = &self.identity;
        self.rights
            .allow(needed, subsystem)
            .map_err(|why| Refusal::new(403, format!("{who} may not do that: {why}")))
    }

    /// Refuses a change that names what it may not name.
    pub(in crate::control) fn check_names(
        &self,
        before: &FabricConfig,
        wanted: &FabricConfig,
    ) -> Result<(), Refusal> {
        self.lists.iter().try_for_each(|list| list.allow(before, wanted))
    }

    /// Refuses a change by which a port comes to require TLS (`FabricConfig::tls_on`) that has subsystems which the caller may not
    /// change: their hosts without a key would lose their connections.
    pub(in crate::control) fn check_ports(
        &self,
        before: &FabricConfig,
        wanted: &FabricConfig,
    ) -> Result<(), Refusal> {
        let requires = |fabric: &FabricConfig, id: u16| {
            let port = fabric.ports.iter().find(|port| port.id == id);
            port.is_some_and(|port| fabric.tls_on(port) == TlsUse::Required)
        };
        let comes_to = |port: &&PortConfig| requires(wanted, port.id) && !requires(before, port.id);
        for port in wanted.ports.iter().filter(comes_to) {
            let is_others = |subsystem: &&SubsystemConfig| {
                subsystem.is_on(port) && self.rights.allow(Role::Operate, Some(&subsystem.nqn)).is_err()
            };
            if let Some(other) = wanted.subsystems.iter().find(is_others) {
                let what = format!("port {} would require TLS of hosts of {}, too", port.id, other.nqn);
                let refusal = Refusal::new(403, what);
                return Err(refusal.hint("have an administrator set `tls` of it, or use a port of its own"));
            }
        }
        Ok(())
    }

    /// Pins new files to the folders of the caller's lists. A caller without lists is the operator of the machine, whose paths are
    /// not limited.
    pub(in crate::control) fn pin_files(
        &self,
        before: &FabricConfig,
        wanted: &mut FabricConfig,
    ) -> Result<(), Refusal> {
        pin_files(&self.lists, before, wanted)
    }

    /// Refuses an image that the caller may not name, also one that a subsystem serves.
    pub(in crate::control) fn check_image(
        &self,
        image: &RbdConfig,
        fabric: &FabricConfig,
    ) -> Result<(), Refusal> {
        self.lists.iter().try_for_each(|list| list.allow_image(image, fabric))
    }
}
