//! Files of targets and hosts that use TLS: a key of the run's own, and a configuration that has it. They go when dropped.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use crate::answer::Answer;
use crate::cell::{Cell, Congestion, Transport, Word as _};
use crate::network::target_address_of;

/// The host that has the key.
pub(crate) const HOST_NQN: &str = "nqn.2014-08.org.nvmexpress:uuid:1b4e28ba-2fa1-11d2-883f-0016d3ccabcd";

/// Folder with the files.
pub(crate) struct TlsFiles {
    folder: PathBuf,
}

impl TlsFiles {
    /// Makes a key by `program`.
    ///
    /// # Errors
    /// The folder or the key cannot be made.
    pub(crate) fn new(program: &Path) -> Result<TlsFiles, String> {
        let folder = std::env::temp_dir().join(format!("selvedge-lab-tls-{}", std::process::id()));
        // One that an earlier process of this number has left.
        let _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        let files = TlsFiles { folder };
        let (program, key) = (program.display().to_string(), files.key().display().to_string());
        Answer::of(&[program.as_str(), "key", "generate", "--tls", "--output", key.as_str()])
            .and_then(Answer::well)
            .map_err(|reason| format!("cannot make a TLS key: {reason}"))?;
        Ok(files)
    }

    /// Path of the key.
    pub(crate) fn key(&self) -> PathBuf {
        self.folder.join("host.key")
    }

    /// Path of the target's configuration.
    pub(crate) fn target(&self) -> PathBuf {
        self.folder.join("target.toml")
    }

    /// Writes the configuration of a target for a cell, where `nqn` has the namespace.
    ///
    /// # Errors
    /// The file cannot be written.
    pub(crate) fn write_target(&self, cell: &Cell, nqn: &str) -> Result<(), String> {
        let path = self.target();
        std::fs::write(&path, target_toml(cell, nqn, &self.key()))
            .map_err(|error| format!("{}: {error}", path.display()))
    }
}

impl Drop for TlsFiles {
    fn drop(&mut self) {
        // A folder that stays has a key that no target has.
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

fn target_toml(cell: &Cell, nqn: &str, key: &Path) -> String {
    let mut text = String::new();
    for link in 1..=cell.paths {
        let address = target_address_of(cell.family, link);
        // Writing to a String does not fail.
        let _ = write!(text, "[[port]]\nid = {link}\naddress = \"{address}\"\ntls = \"required\"\n");
        if cell.transport == Transport::Mptcp {
            text += "transport = \"mptcp\"\n";
        }
        if cell.congestion != Congestion::Default {
            let _ = writeln!(text, "congestion = \"{}\"", cell.congestion.name());
        }
    }
    let key = key.display();
    let _ = write!(
        text,
        "[[subsystem]]\nnqn = \"{nqn}\"\nhosts = [\"{HOST_NQN}\"]\n\
         [[subsystem.host_key]]\nhost = \"{HOST_NQN}\"\ntls_key_file = \"{key}\"\n\
         [[subsystem.namespace]]\nmemory = \"256m\"\n"
    );
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cell::{Family, Tls};
    use crate::scenario::Scenario;

    #[test]
    fn the_target_has_the_cells_ports_and_requires_the_key() {
        let cell = Cell {
            transport: Transport::Mptcp,
            congestion: Congestion::Bbr,
            family: Family::Ipv6,
            tls: Tls::On,
            paths: 2,
            ..Cell::product(Scenario::Lossless)
        };
        let text = target_toml(&cell, "nqn.a", Path::new("host.key"));
        let port = "[[port]]\nid = 2\naddress = \"fd10:1:2::1\"\ntls = \"required\"\ntransport = \"mptcp\"\ncongestion = \"bbr\"\n";
        assert!(text.contains(port), "{text}");
        assert_eq!(text.matches("[[port]]").count(), 2);
        assert!(text.contains("tls_key_file = \"host.key\"\n"), "{text}");
        let plain = target_toml(&Cell::product(Scenario::Lossless), "nqn.a", Path::new("host.key"));
        assert!(!plain.contains("transport") && !plain.contains("congestion"), "{plain}");
    }
}
