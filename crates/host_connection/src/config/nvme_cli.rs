//! What nvme-cli keeps in a config.json, or in nvme-fabrics.conf from version 3 on: who this host is, and which secrets it has for
//! which subsystem. The rest of such a file is about how Linux connects, and is not looked at. Nothing that it says of a file shows
//! what is in it.

use std::fmt;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use authentication::Secret;
use engine::address::{HostAddress, NetAddress};
use engine::initiator::{HostIdentity, HostSecrets, TlsKeys};
use engine::secret_file;
use nvme::discovery::{DISCOVERY_NQN, Nqn};
use secure_channel::{ConfiguredPsk, PskIdentity};
use serde::{Deserialize, Deserializer, de};
use zeroize::Zeroizing;

use super::tls::TlsChoice;
use crate::kernel_initiator::fabrics_conf::is_ini;

#[path = "nvme_cli_ini.rs"]
mod ini;

/// Bytes that such a file may have: thousands of subsystems.
const BYTES_MAX: u64 = 4 << 20;
/// Service of a port without a service identifier.
const SERVICE: u16 = 4420;

/// A text that is wiped when it is dropped, and not shown.
#[derive(Clone)]
struct Hidden(Zeroizing<String>);

impl<'de> Deserialize<'de> for Hidden {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        String::deserialize(from).map(|text| Self(Zeroizing::new(text)))
    }
}

/// A text that may be written as a number: libnvme reads either.
#[derive(Clone)]
struct Text(String);

impl<'de> Deserialize<'de> for Text {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct TextVisitor;
        impl de::Visitor<'_> for TextVisitor {
            type Value = Text;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a text or a number")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Text, E> {
                Ok(Text(text.to_owned()))
            }

            fn visit_u64<E: de::Error>(self, number: u64) -> Result<Text, E> {
                Ok(Text(number.to_string()))
            }

            fn visit_i64<E: de::Error>(self, number: i64) -> Result<Text, E> {
                Ok(Text(number.to_string()))
            }
        }
        from.deserialize_any(TextVisitor)
    }
}

/// Yes or no, which libnvme also reads as a number.
#[derive(Clone, Copy, Default)]
struct Yes(bool);

impl<'de> Deserialize<'de> for Yes {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct YesVisitor;
        impl de::Visitor<'_> for YesVisitor {
            type Value = Yes;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("true, false or a number")
            }

            fn visit_bool<E: de::Error>(self, yes: bool) -> Result<Yes, E> {
                Ok(Yes(yes))
            }

            fn visit_u64<E: de::Error>(self, number: u64) -> Result<Yes, E> {
                Ok(Yes(number != 0))
            }

            fn visit_i64<E: de::Error>(self, number: i64) -> Result<Yes, E> {
                Ok(Yes(number != 0))
            }
        }
        from.deserialize_any(YesVisitor)
    }
}

/// A host of a config.json.
#[derive(Clone, Deserialize)]
struct Host {
    hostnqn: Option<Text>,
    hostid: Option<Text>,
    dhchap_key: Option<Hidden>,
    #[serde(default)]
    subsystems: Vec<Subsystem>,
}

#[derive(Clone, Deserialize)]
struct Subsystem {
    nqn: Option<Text>,
    dhchap_key: Option<Hidden>,
    #[serde(default)]
    ports: Vec<Port>,
}

#[derive(Clone, Deserialize)]
struct Port {
    transport: Option<Text>,
    traddr: Option<Text>,
    trsvcid: Option<Text>,
    dhchap_key: Option<Hidden>,
    dhchap_ctrl_key: Option<Hidden>,
    tls: Option<Yes>,
    tls_key: Option<Hidden>,
    tls_key_identity: Option<Text>,
    concat: Option<Yes>,
}

/// The object that libnvme's schema has round the list that libnvme writes.
#[derive(Deserialize)]
struct Hosts {
    hosts: Vec<Host>,
}

/// This host, as a config.json has it.
#[derive(Clone)]
pub(super) struct KnownHost {
    pub(super) identity: HostIdentity,
    reauth_interval: Option<Duration>,
    tls: TlsChoice,
    subsystems: Vec<KnownSubsystem>,
    /// The secret for all of which the file says nothing else.
    secret: Option<Secret>,
}

#[derive(Clone)]
struct KnownSubsystem {
    nqn: String,
    secret: Option<Secret>,
    ports: Vec<KnownPort>,
}

#[derive(Clone)]
struct KnownPort {
    /// `None` where it has a name, or nothing.
    address: Option<NetAddress>,
    secret: Option<Secret>,
    controller_secret: Option<Secret>,
    tls: KnownTls,
    /// True if the TLS key is derived from the authentication.
    concat: bool,
}

/// TLS settings of a port.
#[derive(Clone)]
struct KnownTls {
    is_on: Option<bool>,
    key: Option<ConfiguredPsk>,
    /// Identity under which the key is offered, with its version and suite.
    identity: Option<PskIdentity>,
}

impl fmt::Debug for KnownHost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KnownHost").field("identity", &self.identity).finish_non_exhaustive()
    }
}

/// Selection of a host in a file.
pub(super) struct Meant<'a> {
    pub(super) host: Option<&'a Nqn>,
    /// Addresses of the target.
    pub(super) addresses: &'a [SocketAddr],
    pub(super) reauth_interval: Option<Duration>,
    pub(super) tls: TlsChoice,
}

/// The host of this file that is meant: the one that is named, or has the target's address, or is the only one.
///
/// # Errors
/// What is wrong with the file, or which hosts it could be.
pub(super) fn read(path: &Path, meant: &Meant<'_>) -> Result<KnownHost, String> {
    let text = secret_file::text(path, BYTES_MAX).map_err(|error| error.to_string())?;
    let known = if is_ini(&text) { read_ini(path, &text, meant) } else { read_text(&text, meant) };
    known.map_err(|what| format!("{}: {what}", path.display()))
}

fn read_ini(path: &Path, text: &str, meant: &Meant<'_>) -> Result<KnownHost, String> {
    let own = match meant.host {
        Some(nqn) => nqn.to_string(),
        None => HostIdentity::of_this_machine().nqn,
    };
    chosen(ini::hosts(path, text, &own)?, meant)
}

pub(super) fn read_text(text: &str, meant: &Meant<'_>) -> Result<KnownHost, String> {
    let wrong = |error: serde_json::Error| {
        // The error itself may have a piece of the text in it.
        let (line, column) = (error.line(), error.column());
        let place = if line > 0 { format!(" (line {line}, column {column})") } else { String::new() };
        format!("it is not a config.json of nvme-cli{place}")
    };
    let hosts: Vec<Host> = if text.trim_start().starts_with('[') {
        serde_json::from_str(text).map_err(wrong)?
    } else {
        serde_json::from_str::<Hosts>(text).map_err(wrong)?.hosts
    };
    chosen(hosts, meant)
}

fn chosen(hosts: Vec<Host>, meant: &Meant<'_>) -> Result<KnownHost, String> {
    let mut known = Vec::with_capacity(hosts.len());
    for (at, host) in hosts.into_iter().enumerate() {
        known.extend(KnownHost::of(&host, &format!("hosts[{at}]"), meant)?);
    }
    let host = choose(known, meant)?;
    host.check_tls(meant.addresses)?;
    Ok(host)
}

fn choose(mut known: Vec<KnownHost>, meant: &Meant<'_>) -> Result<KnownHost, String> {
    if let Some(nqn) = meant.host {
        let found = known.into_iter().find(|host| host.identity.nqn == nqn.as_str());
        return found.ok_or_else(|| format!("it has no host {nqn}"));
    }
    if known.len() > 1 && known.iter().any(|host| host.connects_to(meant.addresses)) {
        known.retain(|host| host.connects_to(meant.addresses));
    }
    match known.len() {
        0 => Err("it has no host".to_owned()),
        1 => Ok(known.remove(0)),
        _ => {
            let names: Vec<&str> = known.iter().map(|host| host.identity.nqn.as_str()).collect();
            Err(format!("it has several hosts for this target; name one with -q: {}", names.join(", ")))
        }
    }
}

impl KnownHost {
    /// The host, if it has a name: libnvme passes over one that has none.
    fn of(host: &Host, place: &str, meant: &Meant<'_>) -> Result<Option<Self>, String> {
        let Some(Text(nqn)) = &host.hostnqn else { return Ok(None) };
        let nqn = Nqn::new(nqn).map_err(|error| format!("{place}.hostnqn: {error}"))?;
        let mut identity = HostIdentity::from_nqn(nqn.as_str());
        if let Some(Text(id)) = &host.hostid {
            let id = engine::target::parse_uuid(id).map_err(|error| format!("{place}.hostid: {error}"))?;
            identity.id = id.into_bytes();
        }
        let mut subsystems = Vec::with_capacity(host.subsystems.len());
        for (at, subsystem) in host.subsystems.iter().enumerate() {
            subsystems.push(KnownSubsystem::of(subsystem, &format!("{place}.subsystems[{at}]"))?);
        }
        let secret = secret(&host.dhchap_key, &format!("{place}.dhchap_key"))?;
        let Meant { reauth_interval, tls, .. } = *meant;
        Ok(Some(Self { identity, reauth_interval, tls, subsystems, secret }))
    }

    fn connects_to(&self, addresses: &[SocketAddr]) -> bool {
        self.ports().any(|port| port.is_at(addresses))
    }

    fn ports(&self) -> impl Iterator<Item = &KnownPort> {
        self.subsystems.iter().flat_map(|subsystem| &subsystem.ports)
    }

    /// Checks that the host has the keys that it needs at these addresses. The kernel's keyring is
    /// for the kernel alone: its keys are derived for one identity already, and other processes
    /// cannot read them.
    fn check_tls(&self, addresses: &[SocketAddr]) -> Result<(), String> {
        if self.tls.is_required && !self.ports().any(|port| port.tls.key.is_some()) {
            return Err("it has no tls_key: name a file with --tls-key-file".to_owned());
        }
        let ports = self
            .subsystems
            .iter()
            .flat_map(|subsystem| subsystem.ports.iter().map(move |port| (subsystem, port)));
        let meant = ports.filter(|(_, port)| port.address.is_none() || port.is_at(addresses));
        for (subsystem, port) in meant {
            let has_secret = [&port.secret, &subsystem.secret, &self.secret].into_iter().any(Option::is_some);
            if port.concat && !has_secret {
                return Err(format!(
                    "subsystem {} has concat, and no dhchap_key of which a TLS key can be made",
                    subsystem.nqn
                ));
            }
            if !port.concat && self.is_tls(&port.tls) && port.tls.key.is_none() {
                return Err(format!(
                    "subsystem {} is to be reached by TLS, and there is no tls_key for it: keys of the kernel's \
                     keyring cannot be used here; name a file with --tls-key-file",
                    subsystem.nqn
                ));
            }
        }
        Ok(())
    }

    fn is_tls(&self, tls: &KnownTls) -> bool {
        self.tls.is_required || tls.is_on.unwrap_or(tls.key.is_some())
    }

    /// TLS keys of the host for a subsystem at this address; `None` if connections to it are not
    /// TLS. The discovery service accepts those of all subsystems there.
    pub(super) fn tls_keys(&self, nqn: &str, address: SocketAddr) -> Option<TlsKeys> {
        if self.concatenates(nqn, address) {
            return None;
        }
        let subsystem = self.subsystem(nqn);
        let ports: Vec<&KnownPort> = match subsystem {
            Some(subsystem) => subsystem.port(address).into_iter().collect(),
            None if nqn == DISCOVERY_NQN => {
                self.subsystems.iter().filter_map(|other| other.port(address)).collect()
            }
            None => Vec::new(),
        };
        let is_usable = |port: &&KnownPort| self.is_tls(&port.tls) && port.tls.key.is_some();
        let mut with_key: Vec<&KnownTls> =
            ports.into_iter().filter(is_usable).map(|port| &port.tls).collect();
        if with_key.is_empty() && self.tls.is_required {
            // The file does not say which key this subsystem has, and in clear it must not be.
            with_key = self.ports().filter(is_usable).map(|port| &port.tls).collect();
        }
        let mut keys: Vec<ConfiguredPsk> = Vec::new();
        for key in with_key.iter().filter_map(|tls| tls.key.as_ref()) {
            if !keys.contains(key) {
                keys.push(key.clone());
            }
        }
        let identity = with_key.first()?.identity.as_ref();
        let keys = self.tls.keys(keys);
        Some(TlsKeys {
            identity: keys.identity.or(identity.map(PskIdentity::version)),
            suite: identity.map(|identity| identity.suite),
            ..keys
        })
    }

    /// True if the TLS key for a subsystem at this address is derived from the authentication.
    pub(super) fn concatenates(&self, nqn: &str, address: SocketAddr) -> bool {
        self.subsystem(nqn).and_then(|subsystem| subsystem.port(address)).is_some_and(|port| port.concat)
    }

    fn subsystem(&self, nqn: &str) -> Option<&KnownSubsystem> {
        self.subsystems.iter().find(|subsystem| subsystem.nqn == nqn)
    }

    /// Secrets of the host for a subsystem at this address: those of the port, else of the
    /// subsystem, else of the host.
    pub(super) fn secrets(&self, nqn: &str, address: SocketAddr) -> Option<Arc<HostSecrets>> {
        let subsystem = self.subsystem(nqn);
        let port = subsystem.and_then(|subsystem| subsystem.port(address));
        let of_port = port.and_then(|port| port.secret.as_ref());
        let of_subsystem = subsystem.and_then(|subsystem| subsystem.secret.as_ref());
        let secret = of_port.or(of_subsystem).or(self.secret.as_ref())?.clone();
        let controller_secret = port.and_then(|port| port.controller_secret.clone());
        let reauth_interval = self.reauth_interval;
        Some(Arc::new(HostSecrets { secret, controller_secret, reauth_interval }))
    }
}

impl KnownSubsystem {
    fn of(subsystem: &Subsystem, place: &str) -> Result<Self, String> {
        let mut ports = Vec::with_capacity(subsystem.ports.len());
        for (at, port) in subsystem.ports.iter().enumerate() {
            // Another transport's secrets are not for this one.
            if port.transport.as_ref().is_none_or(|Text(transport)| transport == "tcp") {
                ports.push(KnownPort::of(port, &format!("{place}.ports[{at}]"))?);
            }
        }
        let secret = secret(&subsystem.dhchap_key, &format!("{place}.dhchap_key"))?;
        Ok(Self { nqn: subsystem.nqn.clone().map(|Text(nqn)| nqn).unwrap_or_default(), secret, ports })
    }

    /// Settings of the port at this address; else those of an entry without an address.
    fn port(&self, address: SocketAddr) -> Option<&KnownPort> {
        let at = self.ports.iter().find(|port| port.is_at(&[address]));
        at.or_else(|| self.ports.iter().find(|port| port.address.is_none()))
    }
}

impl KnownPort {
    fn is_at(&self, addresses: &[SocketAddr]) -> bool {
        let fits = |own: NetAddress| addresses.iter().any(|address| own.fits(&(*address).into()));
        self.address.is_some_and(fits)
    }

    fn of(port: &Port, place: &str) -> Result<Self, String> {
        let service = match &port.trsvcid {
            Some(Text(service)) => {
                service.parse().map_err(|_| format!("{place}.trsvcid is not a TCP port"))?
            }
            None => SERVICE,
        };
        // A name is not looked up: a file of many would be slow to read where one name is not known.
        let traddr = port.traddr.as_ref().and_then(|Text(traddr)| traddr.parse::<HostAddress>().ok());
        let concat = port.concat.is_some_and(|Yes(yes)| yes);
        if concat && port.tls.is_some_and(|Yes(yes)| yes) {
            return Err(format!("{place} has both tls and concat"));
        }
        Ok(Self {
            address: traddr.and_then(|traddr| traddr.literal(service)),
            secret: secret(&port.dhchap_key, &format!("{place}.dhchap_key"))?,
            controller_secret: secret(&port.dhchap_ctrl_key, &format!("{place}.dhchap_ctrl_key"))?,
            tls: KnownTls::of(port, place)?,
            concat,
        })
    }
}

impl KnownTls {
    fn of(port: &Port, place: &str) -> Result<Self, String> {
        let key = port.tls_key.as_ref().map(|Hidden(text)| text.parse());
        let identity = port.tls_key_identity.as_ref().map(|Text(text)| text.parse());
        Ok(Self {
            is_on: port.tls.map(|Yes(yes)| yes),
            key: key.transpose().map_err(|error| format!("{place}.tls_key: {error}"))?,
            identity: identity.transpose().map_err(|error| format!("{place}.tls_key_identity: {error}"))?,
        })
    }
}

fn secret(text: &Option<Hidden>, place: &str) -> Result<Option<Secret>, String> {
    let parsed = text.as_ref().map(|Hidden(text)| text.parse().map_err(|error| format!("{place}: {error}")));
    parsed.transpose()
}

#[cfg(test)]
#[path = "nvme_cli_tests.rs"]
mod tests;
