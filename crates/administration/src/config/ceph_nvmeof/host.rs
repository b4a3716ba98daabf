//! The hosts of a subsystem, with their keys.

use std::path::PathBuf;

use authentication::Secret;
use engine::target::{HostKeyConfig, SubsystemConfig};
use nvme::discovery::Nqn;
use secure_channel::ConfiguredPsk;

use super::secrets::{Kept, SecretField};
use super::{Entry, Reader};

const SECRET: SecretField =
    SecretField { field: "dhchap_key", encrypted: "key_encrypted", kind: "dhchap.key" };
const CONTROLLER_SECRET: SecretField =
    SecretField { field: "dhchap_ctrlr_key", encrypted: "ctrlr_key_encrypted", kind: "ctrl.key" };
const TLS_KEY: SecretField = SecretField { field: "psk", encrypted: "psk_encrypted", kind: "tls.key" };
/// Secret by which a subsystem authenticates to every host that has a secret.
const SUBSYSTEM_SECRET: SecretField = SecretField { kind: "ctrl.key", ..SECRET };

impl Reader<'_> {
    /// Hosts of a subsystem. No host gets in that the gateways would refuse, or would have
    /// authenticated first.
    pub(super) fn access(&mut self, entry: &Entry, hosts: &[Entry], config: &mut SubsystemConfig) {
        let controller = self.secret::<Secret>(entry, &SUBSYSTEM_SECRET, &config.nqn);
        if matches!(controller, Kept::Lost) {
            self.lose(entry, "hosts that ask the subsystem for a proof do not get in");
        }
        let controller = controller.file();
        let (mut open, mut is_one_lost) = (None, false);
        for host in hosts {
            if !host.is_of(&config.nqn) {
                continue;
            }
            match self.host(host, controller.as_ref(), config) {
                Some(name) if name == "*" => open = Some(host),
                Some(name) => config.hosts.push(name),
                None => is_one_lost = true,
            }
        }
        config.allow_any_host = open.is_some() && !is_one_lost;
        if let Some(open) = open.filter(|_| is_one_lost) {
            self.lose(open, "not imported: omitted hosts could connect without their keys");
        }
    }

    /// The name of a host that is let in, its keys being in the configuration; `*` for all hosts.
    fn host(
        &mut self,
        entry: &Entry,
        controller: Option<&PathBuf>,
        config: &mut SubsystemConfig,
    ) -> Option<String> {
        let fields = ["dhchap_key", "key_encrypted", "dhchap_ctrlr_key", "ctrlr_key_encrypted"];
        let more = ["host_nqn", "psk", "psk_encrypted", "subsystem_nqn"];
        self.only(entry, &[&fields[..], &more[..]].concat());
        let nqn = self.text(entry, "subsystem_nqn")?;
        let name = self.text(entry, "host_nqn")?;
        if nqn != config.nqn || entry.within(&nqn) != Some(&name) {
            self.lose(entry, "key and value name different hosts; omitted");
            return None;
        }
        if name == "*" {
            return Some(name);
        }
        if let Err(error) = Nqn::configured(&name) {
            self.lose(entry, format!("{error}; omitted"));
            return None;
        }
        let secret = self.secret::<Secret>(entry, &SECRET, &name);
        let own = self.secret::<Secret>(entry, &CONTROLLER_SECRET, &name);
        let tls = self.secret::<ConfiguredPsk>(entry, &TLS_KEY, &name);
        if [&secret, &own, &tls].iter().any(|kept| matches!(kept, Kept::Lost)) {
            self.lose(
                entry,
                "the host is omitted: without this key it could connect without a proof, or not at all",
            );
            return None;
        }
        let (own, tls) = (own.file(), tls.file());
        let keys = match (secret.file(), tls) {
            (None, None) => None,
            (None, Some(tls)) => Some(HostKeyConfig::tls(&name, tls)),
            (Some(secret), tls_key_file) => Some(HostKeyConfig {
                tls_key_file,
                dhchap_ctrl_secret_file: own.clone().or_else(|| controller.cloned()),
                ..HostKeyConfig::new(&name, secret)
            }),
        };
        if own.is_some() && keys.as_ref().is_none_or(|keys| keys.dhchap_secret_file.is_none()) {
            self.lose(entry, "dhchap_ctrlr_key: it means nothing without a dhchap_key");
        }
        config.host_keys.extend(keys);
        Some(name)
    }
}
