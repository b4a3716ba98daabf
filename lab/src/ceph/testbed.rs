//! Testbed of checks: a cluster, the program under test, images and their contents.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde_json::Value;

use super::cluster::Cluster;
use super::config::{POOL, Shape};
use super::site::Site;
use super::target::Target;
use crate::emulator::link::Dice;

/// Time for an event that happens by itself, on a machine with other work.
const PATIENCE: Duration = Duration::from_secs(60);
/// Interval of checks.
const LOOK: Duration = Duration::from_millis(20);
/// Bytes of an object of an image, unless an image is made with others.
pub(super) const OBJECT_BYTES: u64 = 4 << 20;

/// Cluster, and the program under test.
pub(super) struct Testbed {
    pub(super) cluster: Cluster,
    pub(super) program: String,
    output: PathBuf,
    /// Of all contents.
    seed: u64,
}

impl Testbed {
    /// Starts a cluster below `output`.
    ///
    /// # Errors
    /// What failed and why.
    pub(super) fn new(program: &str, output: &Path, shape: Shape, seed: u64) -> Result<Testbed, String> {
        Testbed::at(Site::LOOPBACK, program, output, shape, seed)
    }

    /// The same somewhere else. What is started here does not see such a cluster.
    ///
    /// # Errors
    /// What failed and why.
    pub(super) fn at(
        site: Site,
        program: &str,
        output: &Path,
        shape: Shape,
        seed: u64,
    ) -> Result<Testbed, String> {
        let folder = output.join(format!("cluster-{}-{}", shape.osds, std::process::id()));
        let cluster = Cluster::up_at(site, &folder, shape)?;
        Ok(Testbed { cluster, program: program.to_owned(), output: output.to_owned(), seed })
    }

    /// Makes an image of `mib` MiB, `IMAGE` or `NAMESPACE/IMAGE`, and returns the argument of `--namespace` for it.
    ///
    /// # Errors
    /// It cannot be made.
    pub(super) fn image(&self, name: &str, mib: u64) -> Result<String, String> {
        self.cluster.rbd(&["create", "--size", &format!("{mib}M"), &format!("{POOL}/{name}")])?;
        Ok(self.spec(name))
    }

    /// Argument of `--namespace` for an image, `IMAGE`, `NAMESPACE/IMAGE` or `IMAGE@SNAPSHOT`.
    pub(super) fn spec(&self, name: &str) -> String {
        format!("rbd:{POOL}/{name},conf={}", self.cluster.conf().display())
    }

    /// A target that serves `specs` as namespaces 1, 2...
    ///
    /// # Errors
    /// It does not listen.
    pub(super) fn serve(&self, specs: &[&str]) -> Result<Target, String> {
        self.serve_with(specs, &[])
    }

    /// The same, with further flags.
    ///
    /// # Errors
    /// It does not listen.
    pub(super) fn serve_with(&self, specs: &[&str], flags: &[&str]) -> Result<Target, String> {
        Target::start(&[&self.program], specs, flags)
    }

    /// Content of an image, by `rbd export`.
    ///
    /// # Errors
    /// It cannot be exported.
    pub(super) fn export(&self, name: &str) -> Result<Vec<u8>, String> {
        let path = self.file(&name.replace('/', "-"));
        self.cluster.rbd(&[
            "export",
            "--no-progress",
            &format!("{POOL}/{name}"),
            &path.display().to_string(),
        ])?;
        let bytes = std::fs::read(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        // What is left goes with the folder.
        let _ = std::fs::remove_file(&path);
        Ok(bytes)
    }

    /// Objects of an image that exist.
    ///
    /// # Errors
    /// They cannot be counted.
    pub(super) fn objects(&self, name: &str) -> Result<usize, String> {
        let info = self.cluster.rbd(&["info", "--format", "json", &format!("{POOL}/{name}")])?;
        let info: Value =
            serde_json::from_str(&info).map_err(|error| format!("rbd info: {error}: {info}"))?;
        let prefix = info["block_name_prefix"].as_str().ok_or("rbd info tells no prefix of objects")?;
        let all = self.cluster.rados(&["-p", POOL, "ls"])?;
        Ok(all.lines().filter(|object| object.starts_with(prefix)).count())
    }

    /// Random bytes that depend only on the seed and `which`.
    pub(super) fn content(&self, which: u64, length: usize) -> Vec<u8> {
        let mut dice = Dice::new(self.seed.wrapping_mul(1000).wrapping_add(which));
        let mut bytes = Vec::with_capacity(length.next_multiple_of(4));
        while bytes.len() < length {
            bytes.extend_from_slice(&dice.next().to_le_bytes());
        }
        bytes.truncate(length);
        bytes
    }

    /// Puts the daemons' logs beside the cluster's folder, which goes.
    pub(super) fn keep_logs(&self) {
        let (from, to) = (self.cluster.folder().join("log"), self.file("logs"));
        // Without its logs a failure is reported all the same.
        let _ = std::fs::rename(from, to);
    }

    /// A file of the output folder.
    pub(super) fn file(&self, name: &str) -> PathBuf {
        self.output.join(name)
    }
}

/// Succeeds if two contents are the same.
///
/// # Errors
/// Where they differ first.
pub(super) fn same(what: &str, found: &[u8], wanted: &[u8]) -> Result<(), String> {
    if found.len() != wanted.len() {
        return Err(format!("{what}: {} bytes instead of {}", found.len(), wanted.len()));
    }
    let Some(at) = found.iter().zip(wanted).position(|(one, other)| one != other) else { return Ok(()) };
    let differ = found.iter().zip(wanted).filter(|(one, other)| one != other).count();
    Err(format!("{what}: byte {at} is {:#04x} and not {:#04x}; {differ} bytes differ", found[at], wanted[at]))
}

/// Waits until `look` finds something, and says how long that took.
///
/// # Errors
/// It does not in time: with what it said last.
pub(super) fn soon<T>(
    what: &str,
    mut look: impl FnMut() -> Result<T, String>,
) -> Result<(T, Duration), String> {
    let began = Instant::now();
    loop {
        match look() {
            Ok(found) => return Ok((found, began.elapsed())),
            Err(reason) if began.elapsed() >= PATIENCE => {
                return Err(format!("{what}: not within {} s: {reason}", PATIENCE.as_secs()));
            }
            Err(_) => std::thread::sleep(LOOK),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn says_where_contents_differ() {
        assert!(same("a", &[1, 2, 3], &[1, 2, 3]).is_ok());
        let reason = same("a", &[1, 2, 3], &[1, 0, 0]).unwrap_err();
        assert!(reason.contains("byte 1 is 0x02 and not 0x00; 2 bytes"), "{reason}");
        assert!(same("a", &[1], &[1, 2]).is_err());
    }
}
