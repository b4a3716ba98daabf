//! Effects of a change in words, for its preview: settings before and after, and hosts by name.
//! Secrets are not among them.

use std::path::Path;

use engine::target::{Change, FabricConfig, HostKeyConfig, KeyKind, SealedSecret, SubsystemConfig};
use serde_json::Value;

use super::difference;

/// Returns the effects of these changes, which lead from one configuration to the other.
pub(super) fn of(changes: &[Change], before: &FabricConfig, wanted: &FabricConfig) -> Vec<String> {
    let json = |fabric: &FabricConfig| serde_json::to_value(fabric).unwrap_or_default();
    let mut found: Vec<Value> =
        changes.iter().map(|change| serde_json::to_value(change).unwrap_or_default()).collect();
    difference::add_to(&mut found, &json(before), &json(wanted));
    let words = |(change, found): (&Change, &Value)| match change {
        Change::AccessChanged { nqn } => {
            let words = access(nqn, before, wanted);
            if words.is_empty() { vec![change.to_string()] } else { words }
        }
        _ => vec![with_settings(change, found)],
    };
    changes.iter().zip(&found).flat_map(words).collect()
}

/// Returns a change with its settings before and after.
fn with_settings(change: &Change, found: &Value) -> String {
    let differences = found["differences"].as_array().into_iter().flatten();
    let settings: Vec<String> = differences.map(difference::words).collect();
    match settings.is_empty() {
        true => change.to_string(),
        false => format!("{change} ({})", settings.join("; ")),
    }
}

/// Returns the changes of hosts, keys and ports of a subsystem.
fn access(nqn: &str, before: &FabricConfig, wanted: &FabricConfig) -> Vec<String> {
    let Some((from, to)) = before.subsystem(nqn).zip(wanted.subsystem(nqn)) else { return Vec::new() };
    let mut words = hosts(from, to);
    let known = from.host_keys.iter().chain(&to.host_keys).map(|key| key.host.as_str());
    let mut known: Vec<&str> = known.collect();
    known.sort_unstable();
    known.dedup();
    for host in known {
        let entry = |config: &SubsystemConfig| config.host_keys.iter().find(|key| key.host == host).cloned();
        words.extend(keys(host, entry(from).as_ref(), entry(to).as_ref()));
    }
    if from.dhchap_ctrl_secret_sealed != to.dhchap_ctrl_secret_sealed {
        words.push(match &to.dhchap_ctrl_secret_sealed {
            Some(_) => "new secret by which it authenticates to hosts".to_owned(),
            None => "the secret by which it authenticates to hosts is removed".to_owned(),
        });
    }
    if from.dhchap_dhgroup != to.dhchap_dhgroup {
        words.push("Diffie-Hellman groups change".to_owned());
    }
    if (&from.ports, &from.networks) != (&to.ports, &to.networks) {
        words.push("its ports change".to_owned());
    }
    words.iter().map(|text| format!("subsystem {nqn}: {text}")).collect()
}

fn hosts(from: &SubsystemConfig, to: &SubsystemConfig) -> Vec<String> {
    let mut words = Vec::new();
    if from.allow_any_host != to.allow_any_host {
        let text = if to.allow_any_host { "all hosts are allowed" } else { "only listed hosts are allowed" };
        words.push(text.to_owned());
    }
    let all = if to.allow_any_host { " (all hosts are allowed)" } else { "" };
    for host in to.hosts.iter().filter(|host| !from.hosts.contains(host)) {
        words.push(format!("host {host} is added to the allowed hosts{all}"));
    }
    for host in from.hosts.iter().filter(|host| !to.hosts.contains(host)) {
        let stay = if to.kept_hosts.contains(host) { "; its connections stay" } else { "" };
        words.push(format!("host {host} is removed from the allowed hosts{stay}{all}"));
    }
    words
}

/// Location of a key.
#[derive(PartialEq)]
enum Source<'a> {
    File(&'a Path),
    Sealed(&'a SealedSecret),
}

fn source(key: Option<&HostKeyConfig>, kind: KeyKind) -> Option<Source<'_>> {
    let key = key?;
    let name = format!("{}_file", kind.name());
    let file = key.files().find(|(known, _)| *known == name).map(|(_, file)| Source::File(file));
    file.or_else(|| key.sealed(kind).map(Source::Sealed))
}

/// Returns the changes of a host's keys.
fn keys(host: &str, from: Option<&HostKeyConfig>, to: Option<&HostKeyConfig>) -> Vec<String> {
    let mut words = Vec::new();
    for kind in KeyKind::ALL {
        let title = match kind {
            KeyKind::Secret => "secret",
            KeyKind::ControllerSecret => "secret of the subsystem",
            KeyKind::TlsKey => "TLS key",
        };
        match (source(from, kind), source(to, kind)) {
            (before, after) if before == after => {}
            (None, _) if matches!(kind, KeyKind::Secret) => {
                words.push(format!("new secret of host {host}, which must authenticate from then on"));
            }
            (None, _) => words.push(format!("new {title} for host {host}")),
            (Some(_), Some(_)) => words.push(format!("another {title} for host {host}")),
            (Some(_), None) => words.push(format!("{title} for host {host} is removed")),
        }
    }
    if words.is_empty() && from != to {
        words.push(format!("authentication settings of host {host} change"));
    }
    words
}

#[cfg(test)]
mod tests {
    use engine::backend::BackendConfig;
    use engine::target::NamespaceConfig;

    use super::*;

    fn fabric(change: impl FnOnce(&mut SubsystemConfig)) -> FabricConfig {
        let namespace = NamespaceConfig::new(1, BackendConfig::Memory { size: 1 << 20 }, 4096);
        let mut subsystem = SubsystemConfig::new("nqn.a", "A", "Selvedge").with(vec![namespace]);
        subsystem.allow_any_host = false;
        change(&mut subsystem);
        FabricConfig { subsystems: vec![subsystem], ..FabricConfig::default() }
    }

    fn words(from: &FabricConfig, to: &FabricConfig) -> Vec<String> {
        of(&from.changes_to(to), from, to)
    }

    #[test]
    fn a_change_of_hosts_names_them() {
        let none = fabric(|_| {});
        let some = fabric(|subsystem| subsystem.hosts.push("nqn.h".into()));
        assert_eq!(words(&none, &some), ["subsystem nqn.a: host nqn.h is added to the allowed hosts"]);
        assert_eq!(words(&some, &none), ["subsystem nqn.a: host nqn.h is removed from the allowed hosts"]);
        let any = fabric(|subsystem| subsystem.allow_any_host = true);
        assert_eq!(
            words(&some, &any),
            [
                "subsystem nqn.a: all hosts are allowed",
                "subsystem nqn.a: host nqn.h is removed from the allowed hosts (all hosts are allowed)",
            ]
        );
    }

    #[test]
    fn a_change_of_keys_names_their_kind_and_host() {
        let none = fabric(|_| {});
        let keyed = |file: &str| {
            fabric(|subsystem| subsystem.host_keys.push(HostKeyConfig::new("nqn.h", file.into())))
        };
        let one = keyed("/one");
        let new = "subsystem nqn.a: new secret of host nqn.h, which must authenticate from then on";
        assert_eq!(words(&none, &one), [new]);
        assert_eq!(words(&one, &keyed("/two")), ["subsystem nqn.a: another secret for host nqn.h"]);
        assert_eq!(words(&one, &none), ["subsystem nqn.a: secret for host nqn.h is removed"]);
        let tls = fabric(|subsystem| subsystem.host_keys.push(HostKeyConfig::tls("nqn.h", "/key".into())));
        assert!(words(&none, &tls).contains(&"subsystem nqn.a: new TLS key for host nqn.h".to_owned()));
    }

    #[test]
    fn settings_have_their_values_before_and_after() {
        let before = fabric(|_| {});
        let larger = fabric(|subsystem| {
            subsystem.namespaces[0].backend = BackendConfig::Memory { size: 2 << 20 };
        });
        let found = words(&before, &larger);
        let [resized] = &found[..] else { panic!("one change") };
        assert!(resized.contains("namespace 1") && resized.contains("1 MiB → 2 MiB"), "{resized}");
        let moved = fabric(|subsystem| subsystem.ports = vec![7]);
        assert_eq!(words(&before, &moved), ["subsystem nqn.a: its ports change"]);
    }
}
