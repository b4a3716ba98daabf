//! Names with a comma or a space, which no host can have or ask for. Earlier versions took and kept them: they stay, and new ones
//! are refused.

use nvme::discovery::{Nqn, NqnError};

use super::fabric::FabricConfig;

/// A name with a comma or a space.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SeparatedName {
    /// Place of the name, such as `subsystems[0].hosts[1]`.
    pub path: String,
    /// The name.
    pub name: String,
}

impl SeparatedName {
    /// The reason why it is refused.
    pub fn reason(&self) -> String {
        format!("`{}`: {}", self.name, NqnError::Separator)
    }
}

impl FabricConfig {
    /// All names in it that have a comma or a space.
    pub fn separated_names(&self) -> Vec<SeparatedName> {
        let mut found = Vec::new();
        let mut look = |path: String, name: &str| {
            if Nqn::configured(name) == Err(NqnError::Separator) {
                found.push(SeparatedName { path, name: name.to_owned() });
            }
        };
        if let Some(name) = &self.discovery_nqn {
            look("discovery_nqn".to_owned(), name);
        }
        for (at, referral) in self.referrals.iter().enumerate() {
            if let Some(name) = &referral.nqn {
                look(format!("referrals[{at}].nqn"), name);
            }
        }
        for (at, subsystem) in self.subsystems.iter().enumerate() {
            let path = format!("subsystems[{at}]");
            look(format!("{path}.nqn"), &subsystem.nqn);
            for (at, host) in subsystem.hosts.iter().enumerate() {
                look(format!("{path}.hosts[{at}]"), host);
            }
            for (at, key) in subsystem.host_keys.iter().enumerate() {
                look(format!("{path}.host_keys[{at}].host"), &key.host);
            }
            for (at, namespace) in subsystem.namespaces.iter().enumerate() {
                for host in namespace.visible.hosts() {
                    look(format!("{path}.namespaces[{at}].visible"), host);
                }
            }
        }
        found
    }

    /// Returns the names with a comma or a space that another configuration, such as the previous one, lacks.
    pub fn separated_names_beside(&self, other: &Self) -> Vec<SeparatedName> {
        let known = other.separated_names();
        let mut found = self.separated_names();
        found.retain(|new| !known.iter().any(|known| known.name == new.name));
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_earlier_versions_kept_are_read_and_found() {
        let kept = r#"{"ports": [{"id": 1, "address": "127.0.0.1:4420"}], "subsystems": [{"nqn": "nqn.a",
            "serial": "s", "hosts": ["nqn.h", "nqn.b,nqn.c"], "namespaces": [{"nsid": 1, "backend": {"memory":
            {"size": "1m"}}, "visible": {"only": ["d e"]}}]}],
            "referrals": [{"address": "storage.example:8010", "service": "8009", "nqn": "nqn r"}]}"#;
        let kept: FabricConfig = serde_json::from_str(kept).unwrap();
        kept.clone().numbered().check().unwrap();
        let found: Vec<(String, String)> =
            kept.separated_names().into_iter().map(|found| (found.path, found.name)).collect();
        let expected = [
            ("referrals[0].nqn", "nqn r"),
            ("subsystems[0].hosts[1]", "nqn.b,nqn.c"),
            ("subsystems[0].namespaces[0].visible", "d e"),
        ];
        let shown: Vec<(&str, &str)> = found.iter().map(|(path, name)| (&**path, &**name)).collect();
        assert_eq!(shown, expected);
        assert!(kept.separated_names_beside(&kept).is_empty());
        assert_eq!(kept.separated_names_beside(&FabricConfig::default()).len(), 3);
        // A referral's address was kept with its port.
        let referral = &kept.referrals[0];
        assert_eq!((referral.address.as_str(), referral.service.as_str()), ("storage.example", "8010"));
    }
}
