//! The ports of a saved configuration, with their ANA groups and referrals.

use std::collections::{BTreeMap, BTreeSet};

use engine::address::{HostAddress, NetAddress};
use engine::limits::ANA_GROUPS_MAX;
use engine::target::{FabricConfig, GroupState, PortConfig, ReferralConfig, TlsUse};
use serde::Deserialize as _;

use super::{KnownPort, KnownReferral, Object, Reader, join, text};

/// Values that stand for "no secure channel".
const PLAIN: &[&str] = &["not specified", "not required", "none", ""];
/// Name of the secure channel in the kernel.
const TLS: &str = "tls1.3";

impl Reader {
    pub(super) fn port(&mut self, path: &str, port: &Object, fabric: &mut FabricConfig) {
        let subsystems = self.names(port, path, "subsystems");
        if subsystems.is_empty() {
            // The kernel listens from the first subsystem on, so that only what else was set up here can be missed.
            if !self.list(port, path, "referrals").is_empty() {
                let what = "they are not announced: the kernel does not listen on a port without subsystems";
                self.lose(&join(path, "referrals"), what);
            }
            return;
        }
        self.only(port, path, &["addr", "ana_groups", "param", "portid", "referrals", "subsystems"]);
        let address_path = join(path, "addr");
        let address = self.object(port, path, "addr");
        let Some((address, tls)) = self.address(&address_path, &address) else { return };
        let Some(id) = text(port, "portid").and_then(|id| id.parse().ok()).filter(|id: &u16| *id > 0) else {
            return self.lose(&join(path, "portid"), "port numbers are 1 to 65535 here");
        };
        if fabric.ports.iter().any(|port| port.id == id || port.address == address) {
            return self.lose(path, "a port with this number or address exists already");
        }
        let parameters = self.object(port, path, "param");
        self.parameters(&join(path, "param"), &parameters);
        let ana = self.ana(path, port);
        for (path, referral) in self.list(port, path, "referrals") {
            self.referral(&path, &referral, id);
        }
        fabric.ports.push(PortConfig { tls, ..PortConfig::at(id, address) });
        self.ports.push(KnownPort { path: path.to_owned(), id, subsystems, ana });
    }

    /// Address on which the kernel listens for TCP, with its TLS setting. Ports of other transports
    /// are left out.
    fn address(&mut self, path: &str, address: &Object) -> Option<(NetAddress, Option<TlsUse>)> {
        let kind = text(address, "trtype").unwrap_or_default();
        if kind != "tcp" {
            self.lose(&join(path, "trtype"), format!("`{kind}`: only tcp is served"));
            return None;
        }
        self.only(address, path, &["adrfam", "traddr", "treq", "trsvcid", "trtype", "tsas"]);
        let service = text(address, "trsvcid").and_then(|service| service.parse().ok());
        let Some(service) = service.filter(|service: &u16| *service > 0) else {
            self.lose(&join(path, "trsvcid"), "it is not a TCP port");
            return None;
        };
        let traddr = text(address, "traddr").unwrap_or_default();
        let listened = match traddr.parse::<HostAddress>() {
            // The kernel takes no brackets.
            Ok(written) if written.port().is_none() && !traddr.starts_with('[') => written.literal(service),
            _ => None,
        };
        let Some(listened) = listened else {
            self.lose(&join(path, "traddr"), format!("`{traddr}` is not an IP address"));
            return None;
        };
        let ip = listened.ip();
        let family = if ip.is_ipv4() { "ipv4" } else { "ipv6" };
        let what = format!("{ip} is not such an address");
        if !self.expect(address, path, "adrfam", &[family, ""], &what) {
            return None;
        }
        let tls = self.tls(path, address)?;
        self.warn_of_keys(path, tls);
        Some((listened, tls))
    }

    /// TLS setting of an address. An unknown requirement leaves the port out: hosts that were to
    /// use a secure channel must not be served in the clear.
    fn tls(&mut self, path: &str, address: &Object) -> Option<Option<TlsUse>> {
        let what = "there is nothing like it here, and in the clear it is not served";
        let requirement = self.expect(address, path, "treq", &[PLAIN, &["required"]].concat(), what);
        let security = self.expect(address, path, "tsas", &[PLAIN, &[TLS]].concat(), what);
        let says = |name, value| text(address, name).is_some_and(|text| text == value);
        (requirement && security).then(|| match says("tsas", TLS) {
            // The kernel lets hosts in the clear in where it says so alone.
            true if says("treq", "not required") => Some(TlsUse::Allowed),
            true => Some(TlsUse::Required),
            false => says("treq", "required").then_some(TlsUse::Required),
        })
    }

    /// Keys are in the kernel's keyring, which is not saved.
    fn warn_of_keys(&mut self, path: &str, tls: Option<TlsUse>) {
        let without = match tls {
            Some(TlsUse::Required) => "no host gets in here without one",
            Some(TlsUse::Allowed) => "without one a host gets in in the clear alone",
            Some(TlsUse::Off) | None => return,
        };
        let what = format!(
            "its hosts' TLS keys are not in such a file: give each its NVMeTLSkey-1:... by a tls_key_file (`selvedge \
             host set-key`); {without}"
        );
        self.warn(path, what);
    }

    /// True if a referral's address has no secure channel. Any other is reported as lost.
    fn is_plain(&mut self, path: &str, address: &Object) -> bool {
        let what = "a referral says nothing of TLS here: add it yourself, if its hosts know by themselves";
        let treq = self.expect(address, path, "treq", PLAIN, what);
        let tsas = self.expect(address, path, "tsas", PLAIN, what);
        treq && tsas
    }

    fn parameters(&mut self, path: &str, parameters: &Object) {
        self.only(parameters, path, &["inline_data_size", "max_queue_size", "mdts", "pi_enable"]);
        for (name, accepted, what) in [
            ("pi_enable", &["0"][..], "protection information is not served"),
            ("inline_data_size", &["-1", "16384"], "in-capsule data is 16384 bytes here"),
            ("max_queue_size", &["-1", "128", "1024"], "queues have up to 1024 entries here"),
            ("mdts", &["0", "-1", "8"], "one command transfers up to 1 MiB here"),
        ] {
            self.expect(parameters, path, name, accepted, what);
        }
    }

    fn ana(&mut self, path: &str, port: &Object) -> BTreeMap<u32, GroupState> {
        let mut groups = BTreeMap::new();
        for (path, group) in self.list(port, path, "ana_groups") {
            self.only(&group, &path, &["ana", "grpid"]);
            let states = self.object(&group, &path, "ana");
            let state = states.get("state").cloned().unwrap_or_default();
            let id = text(&group, "grpid").and_then(|id| id.parse().ok());
            let id = id.filter(|id| (1..=ANA_GROUPS_MAX).contains(id));
            match (id, GroupState::deserialize(&state)) {
                (Some(id), Ok(state)) => {
                    if groups.insert(id, state).is_some() {
                        self.lose(&path, "a group with this number exists already");
                    }
                }
                (None, _) => self.lose(&join(&path, "grpid"), "it is not a group number"),
                (_, Err(_)) => {
                    self.lose(&join(&path, "ana.state"), format!("{state} is not an ANA state"));
                }
            }
        }
        groups
    }

    fn referral(&mut self, path: &str, referral: &Object, port: u16) {
        // Name and port number are the other side's business: hosts get address and service.
        self.only(referral, path, &["addr", "enable", "name", "portid"]);
        if text(referral, "enable").is_some_and(|enable| enable == "0") {
            return self.lose(&join(path, "enable"), "a referral that is not enabled is none here");
        }
        let address_path = join(path, "addr");
        let address = self.object(referral, path, "addr");
        let kind = text(&address, "trtype").unwrap_or_default();
        if kind != "tcp" {
            return self.lose(&join(&address_path, "trtype"), format!("`{kind}`: only tcp is referred to"));
        }
        self.only(
            &address,
            &address_path,
            &["adrfam", "portid", "traddr", "treq", "trsvcid", "trtype", "tsas"],
        );
        if !self.is_plain(&address_path, &address) {
            return;
        }
        let config = ReferralConfig {
            address: text(&address, "traddr").unwrap_or_default(),
            service: text(&address, "trsvcid").unwrap_or_default(),
            nqn: None,
        };
        let config = config.split();
        if let Err(error) = config.check() {
            return self.lose(&address_path, error.to_string());
        }
        match self.referrals.iter_mut().find(|known| known.config == config) {
            Some(known) => {
                known.ports.insert(port);
            }
            None => {
                let ports = BTreeSet::from([port]);
                self.referrals.push(KnownReferral { path: path.to_owned(), config, ports });
            }
        }
    }
}
