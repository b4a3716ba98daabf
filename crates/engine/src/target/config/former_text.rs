//! Texts that earlier versions took and kept, and that are refused where they are new: names with a comma or a space, which no host
//! can have or ask for, and models with control characters, which reach the terminals of administrators.

use nvme::discovery::{Nqn, NqnError};

use super::fabric::FabricConfig;

/// A text that is refused where it is new.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FormerText {
    /// Place of the text, such as `subsystems[0].hosts[1]`.
    pub path: String,
    /// The text.
    pub text: String,
    fault: String,
}

impl FormerText {
    /// The reason why it is refused.
    pub fn reason(&self) -> String {
        format!("`{}`: {}", self.text.escape_debug(), self.fault)
    }
}

/// Fault of the name of a host or subsystem.
fn fault_of_name(name: &str) -> Option<String> {
    Nqn::configured(name).err().filter(|error| *error == NqnError::Separator).map(|error| error.to_string())
}

/// Fault of a model.
fn fault_of_model(model: &str) -> Option<String> {
    let has_control = model.contains(char::is_control);
    has_control.then(|| "a model cannot contain control characters".to_owned())
}

impl FabricConfig {
    /// All such texts in it.
    pub fn former_texts(&self) -> Vec<FormerText> {
        let mut found = Vec::new();
        let mut look = |path: String, text: &str, fault_of: fn(&str) -> Option<String>| {
            if let Some(fault) = fault_of(text) {
                found.push(FormerText { path, text: text.to_owned(), fault });
            }
        };
        if let Some(name) = &self.discovery_nqn {
            look("discovery_nqn".to_owned(), name, fault_of_name);
        }
        for (at, referral) in self.referrals.iter().enumerate() {
            if let Some(name) = &referral.nqn {
                look(format!("referrals[{at}].nqn"), name, fault_of_name);
            }
        }
        for (at, subsystem) in self.subsystems.iter().enumerate() {
            let path = format!("subsystems[{at}]");
            look(format!("{path}.nqn"), &subsystem.nqn, fault_of_name);
            look(format!("{path}.model"), &subsystem.model, fault_of_model);
            for (at, host) in subsystem.hosts.iter().enumerate() {
                look(format!("{path}.hosts[{at}]"), host, fault_of_name);
            }
            for (at, key) in subsystem.host_keys.iter().enumerate() {
                look(format!("{path}.host_keys[{at}].host"), &key.host, fault_of_name);
            }
            for (at, namespace) in subsystem.namespaces.iter().enumerate() {
                for host in namespace.visible.hosts() {
                    look(format!("{path}.namespaces[{at}].visible"), host, fault_of_name);
                }
            }
        }
        found
    }

    /// Returns those that another configuration, such as the previous one, lacks.
    pub fn former_texts_beside(&self, other: &Self) -> Vec<FormerText> {
        let known = other.former_texts();
        let mut found = self.former_texts();
        found.retain(|new| !known.iter().any(|known| known.text == new.text));
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_that_earlier_versions_kept_are_read_and_found() {
        let kept = r#"{"ports": [{"id": 1, "address": "127.0.0.1:4420"}], "subsystems": [{"nqn": "nqn.a",
            "serial": "s", "model": "Disk\u001b[2J", "hosts": ["nqn.h", "nqn.b,nqn.c"], "namespaces": [{"nsid": 1, "backend": {"memory":
            {"size": "1m"}}, "visible": {"only": ["d e"]}}]}],
            "referrals": [{"address": "storage.example:8010", "service": "8009", "nqn": "nqn r"}]}"#;
        let kept: FabricConfig = serde_json::from_str(kept).unwrap();
        kept.clone().numbered().check().unwrap();
        let found: Vec<(String, String)> =
            kept.former_texts().into_iter().map(|found| (found.path, found.text)).collect();
        let expected = [
            ("referrals[0].nqn", "nqn r"),
            ("subsystems[0].model", "Disk\u{1b}[2J"),
            ("subsystems[0].hosts[1]", "nqn.b,nqn.c"),
            ("subsystems[0].namespaces[0].visible", "d e"),
        ];
        let shown: Vec<(&str, &str)> = found.iter().map(|(path, name)| (&**path, &**name)).collect();
        assert_eq!(shown, expected);
        assert!(kept.former_texts_beside(&kept).is_empty());
        assert_eq!(kept.former_texts_beside(&FabricConfig::default()).len(), 4);
        let reason = kept.former_texts()[1].reason();
        assert_eq!(reason, "`Disk\\u{1b}[2J`: a model cannot contain control characters");
        // A referral's address was kept with its port.
        let referral = &kept.referrals[0];
        assert_eq!((referral.address.as_str(), referral.service.as_str()), ("storage.example", "8010"));
    }
}
