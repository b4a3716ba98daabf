//! The kernel's controllers over a network, and their disks, as sysfs has them.

use std::fs;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use engine::address::{HostAddress, NetAddress};

/// Below the file systems' root.
const CLASS: &str = "sys/class/nvme";
/// Interval of checks for new and removed entries.
const LOOK_INTERVAL: Duration = Duration::from_millis(20);
/// Namespaces are scanned one after the other: when nothing has come for this long, all are there.
const SCANNED_AFTER: Duration = Duration::from_millis(300);

/// The controllers of this machine.
#[derive(Clone, Debug)]
pub struct Controllers {
    root: PathBuf,
}

/// A controller that is connected over a network.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Controller {
    /// The kernel's name of it, as in `nvme0`.
    pub name: String,
    pub transport: String,
    pub nqn: String,
    /// Address in the kernel's syntax: `traddr=…,trsvcid=…`, and more.
    pub address: String,
    pub state: String,
}

/// A namespace as a disk.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Disk {
    pub nsid: u32,
    /// The kernel's name of it, as in `nvme0n1`.
    pub name: String,
    pub size_bytes: u64,
    /// Path of the device file.
    pub device: PathBuf,
}

impl Controller {
    /// Returns one part of the address.
    fn part(&self, name: &str) -> Option<&str> {
        let pairs = self.address.split(',').filter_map(|pair| pair.split_once('='));
        pairs.into_iter().find(|(key, _)| key.trim() == name).map(|(_, value)| value.trim())
    }

    /// The target's address, where it has one of TCP's.
    pub fn peer(&self) -> Option<NetAddress> {
        self.part("traddr")?.parse::<HostAddress>().ok()?.literal(self.part("trsvcid")?.parse().ok()?)
    }

    /// True if the controller's target is at this address.
    pub fn is_at(&self, address: SocketAddr) -> bool {
        self.peer().is_some_and(|peer| peer.fits(&address.into()))
    }
}

impl Controllers {
    /// Controllers of this machine.
    pub fn live() -> Self {
        Self { root: PathBuf::from("/") }
    }

    #[cfg(any(test, feature = "testing"))]
    pub fn at(root: &Path) -> Self {
        Self { root: root.to_owned() }
    }

    fn folder(&self, name: &str) -> PathBuf {
        self.root.join(CLASS).join(name)
    }

    /// All that are connected over a network, by their numbers.
    pub fn all(&self) -> Vec<Controller> {
        let entries = fs::read_dir(self.root.join(CLASS)).into_iter().flatten().flatten();
        let names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
        let mut found: Vec<Controller> = names.filter_map(|name| self.get(&name)).collect();
        found.sort_by_key(|controller| number(&controller.name));
        found
    }

    /// The one with this name, if it is connected over a network.
    pub fn get(&self, name: &str) -> Option<Controller> {
        number(name)?;
        let folder = self.folder(name);
        let transport = text(&folder.join("transport"))?;
        if transport == "pcie" {
            return None;
        }
        Some(Controller {
            name: name.to_owned(),
            transport,
            nqn: text(&folder.join("subsysnqn"))?,
            address: text(&folder.join("address")).unwrap_or_default(),
            state: text(&folder.join("state")).unwrap_or_default(),
        })
    }

    /// True if a controller has this name, over a network or not.
    pub fn has(&self, name: &str) -> bool {
        number(name).is_some() && self.folder(name).exists()
    }

    /// The disks that a controller is a path to, and that can be opened.
    pub fn disks(&self, name: &str) -> Vec<Disk> {
        let entries = fs::read_dir(self.folder(name)).into_iter().flatten().flatten();
        let mut found: Vec<Disk> = entries
            .filter_map(|entry| {
                let disk = disk_of(&entry.file_name().to_string_lossy())?;
                let device = Path::new("/dev").join(&disk);
                if !self.root.join("dev").join(&disk).exists() {
                    return None;
                }
                // The block layer counts sectors of 512 bytes, whatever the blocks are.
                let sectors: u64 =
                    text(&self.root.join("sys/block").join(&disk).join("size"))?.parse().ok()?;
                let nsid = text(&entry.path().join("nsid"))?.parse().ok()?;
                Some(Disk { nsid, name: disk, size_bytes: sectors * 512, device })
            })
            .collect();
        found.sort();
        found
    }

    /// Waits until the kernel has scanned a controller's namespaces, which it does after
    /// connecting. Without one in this time, there are none.
    pub fn wait_for_disks(&self, name: &str, limit: Duration) -> Vec<Disk> {
        let begin = Instant::now();
        let (mut found, mut since) = (Vec::new(), begin);
        while begin.elapsed() < limit && self.has(name) {
            let now = self.disks(name);
            if now != found {
                (found, since) = (now, Instant::now());
            } else if !found.is_empty() && since.elapsed() >= SCANNED_AFTER {
                break;
            }
            thread::sleep(LOOK_INTERVAL);
        }
        found
    }

    /// Deletes a controller, and waits until it is gone.
    ///
    /// # Errors
    /// When the kernel refuses, or it is still there after this time.
    pub fn delete(&self, name: &str, limit: Duration) -> io::Result<()> {
        let begin = Instant::now();
        fs::write(self.folder(name).join("delete_controller"), "1")?;
        while self.folder(name).exists() {
            if begin.elapsed() > limit {
                return Err(io::Error::from(io::ErrorKind::TimedOut));
            }
            thread::sleep(LOOK_INTERVAL);
        }
        Ok(())
    }
}

/// The number in `nvme3`.
fn number(name: &str) -> Option<u32> {
    name.strip_prefix("nvme")?.parse().ok()
}

/// The disk of a controller's entry: `nvme0n1` itself, and for the path `nvme0c3n1` the disk of all paths, `nvme0n1`.
fn disk_of(entry: &str) -> Option<String> {
    let (before, namespace) = entry.strip_prefix("nvme")?.rsplit_once('n')?;
    let subsystem = before.split_once('c').map_or(before, |(subsystem, _)| subsystem);
    let is_number = |digits: &str| !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    (is_number(subsystem) && is_number(namespace)).then(|| format!("nvme{subsystem}n{namespace}"))
}

fn text(path: &Path) -> Option<String> {
    let text = fs::read_to_string(path).ok()?;
    Some(text.trim().to_owned()).filter(|text| !text.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk_users::write_tree;

    /// Two paths to one subsystem with two namespaces, one of which has no device yet, and a local disk.
    fn machine(root: &Path) -> Controllers {
        for (name, service) in [("nvme0", "4420"), ("nvme10", "4421")] {
            let file = |file: &str| format!("sys/class/nvme/{name}/{file}");
            let address = format!("traddr=10.0.0.2,trsvcid={service},src_addr=10.0.0.1\n");
            let path = name.replace("nvme", "nvme0c");
            write_tree(
                root,
                &[
                    (&file("transport"), "tcp\n"),
                    (&file("subsysnqn"), "nqn.a\n"),
                    (&file("address"), &address),
                    (&file("state"), "live\n"),
                    (&file("delete_controller"), ""),
                    (&file(&format!("{path}n1/nsid")), "1\n"),
                    (&file(&format!("{path}n2/nsid")), "7\n"),
                    (&file("hwmon3/name"), "nvme\n"),
                ],
            );
        }
        write_tree(
            root,
            &[
                ("sys/class/nvme/nvme2/transport", "pcie\n"),
                ("sys/class/nvme/nvme2/subsysnqn", "nqn.local\n"),
                ("sys/block/nvme0n1/size", "2048\n"),
                ("sys/block/nvme0n2/size", "2048\n"),
                ("dev/nvme0n1", ""),
            ],
        );
        Controllers::at(root)
    }

    #[test]
    fn controllers_are_found_with_their_disks() {
        let folder = tempfile::tempdir().unwrap();
        let machine = machine(folder.path());
        let all = machine.all();
        let names: Vec<&str> = all.iter().map(|controller| controller.name.as_str()).collect();
        assert_eq!(names, ["nvme0", "nvme10"]);
        assert_eq!(all[0].peer(), Some("10.0.0.2:4420".parse().unwrap()));
        let own = |interface| Controller {
            address: format!("traddr=fe80::1%{interface},trsvcid=4420"),
            ..all[0].clone()
        };
        let address: NetAddress = "[fe80::1%lo]:4420".parse().unwrap();
        assert!(own("lo").is_at(address.socket_addr().unwrap()));
        assert!(!own("eth9").is_at(address.socket_addr().unwrap()), "another link");
        assert!(all[1].is_at("10.0.0.2:4421".parse().unwrap()));
        assert!(!all[1].is_at("10.0.0.2:4420".parse().unwrap()));
        let disk =
            Disk { nsid: 1, name: "nvme0n1".to_owned(), size_bytes: 1 << 20, device: "/dev/nvme0n1".into() };
        assert_eq!(machine.disks("nvme10"), [disk]);
        assert_eq!(machine.wait_for_disks("nvme10", prerequisite::patience()).len(), 1);
        assert!(machine.has("nvme2") && machine.get("nvme2").is_none());
        assert!(!machine.has("../nvme/nvme0") && machine.disks("nvme3").is_empty());
    }

    #[test]
    fn a_controller_that_stays_is_reported() {
        let folder = tempfile::tempdir().unwrap();
        let machine = machine(folder.path());
        let error = machine.delete("nvme0", Duration::from_millis(1)).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        let written = fs::read(folder.path().join("sys/class/nvme/nvme0/delete_controller")).unwrap();
        assert_eq!(written, b"1");
        assert!(machine.delete("nvme2", Duration::ZERO).is_ok() || machine.has("nvme2"));
    }

    #[test]
    fn paths_and_disks_have_different_names() {
        for (entry, disk) in [
            ("nvme0n1", Some("nvme0n1")),
            ("nvme3c12n7", Some("nvme3n7")),
            ("ng0n1", None),
            ("nvme0", None),
            ("nvme0n", None),
            ("nvme0n1p1", None),
            ("hwmon3", None),
        ] {
            assert_eq!(disk_of(entry).as_deref(), disk, "{entry}");
        }
    }
}
