//! A small Ceph of the system's own programs, on the loopback or in a network namespace, in a folder of its own: it comes up,
//! is asked for things, loses and gets back daemons, and is gone with this value or this process. It keeps out what it is
//! there for.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde_json::Value;

use super::config::{POOL, Shape, USER};
use super::daemon::Daemon;
use super::ports::Ports;
use super::site::Site;
use crate::answer::Answer;
use crate::guard::Guard;

/// Time for one command, on a machine with other work.
const ORDER_LIMIT: Duration = Duration::from_secs(60);
/// Until a daemon is up, or all placement groups are clean.
const STATE_LIMIT: Duration = Duration::from_secs(120);
/// Interval of checks.
const LOOK: Duration = Duration::from_millis(50);
/// Variables of the environment about another cluster, which are removed.
pub(super) const OWN_ENVIRONMENT: [&str; 7] =
    ["env", "-u", "CEPH_ARGS", "-u", "CEPH_CONF", "-u", "CEPH_KEYRING"];

/// A running cluster. Dropping it ends its daemons and removes its folder.
pub(crate) struct Cluster {
    shape: Shape,
    site: Site,
    folder: PathBuf,
    conf: PathBuf,
    ports: Ports,
    monitor: Daemon,
    manager: Option<Daemon>,
    osds: Vec<Daemon>,
    // The last to be dropped: what has files open there has ended then.
    _guard: Guard,
}

impl Cluster {
    /// Starts a cluster in `folder`, which is made, or is empty. It has the pool `POOL` for images when this returns.
    ///
    /// # Errors
    /// What failed and why. Nothing is left then.
    pub(crate) fn up(folder: &Path, shape: Shape) -> Result<Cluster, String> {
        Cluster::up_at(Site::LOOPBACK, folder, shape)
    }

    /// The same somewhere else.
    ///
    /// # Errors
    /// What failed and why. Nothing is left then.
    pub(crate) fn up_at(site: Site, folder: &Path, shape: Shape) -> Result<Cluster, String> {
        let folder = empty_folder(folder)?;
        let guard = Guard::new(&folder).map_err(|error| format!("cannot run sh: {error}"))?;
        let conf = folder.join("ceph.conf");
        let ports = site.free_ports(std::process::id())?;
        let daemon = |program: &str, name: &str, id: &str| {
            let words = [program, "-f", "--conf", text(&conf)?, "-i", id];
            let words = [&site.words(), &OWN_ENVIRONMENT[..], &words].concat();
            Ok::<_, String>(Daemon::new(format!("{name}{id}"), owned(&words)))
        };
        let monitor = daemon("ceph-mon", "mon.", "a")?;
        let manager = shape.has_manager.then(|| daemon("ceph-mgr", "mgr.", "x")).transpose()?;
        let osds = (0..shape.osds).map(|number| daemon("ceph-osd", "osd.", &number.to_string()));
        let osds = osds.collect::<Result<_, _>>()?;
        let mut cluster = Cluster { shape, site, folder, conf, ports, monitor, manager, osds, _guard: guard };
        cluster.start_monitor()?;
        cluster.start_osds()?;
        cluster.make_pool()?;
        cluster.await_clean()?;
        Ok(cluster)
    }

    /// Path of its configuration file, for `conf=`.
    pub(crate) fn conf(&self) -> &Path {
        &self.conf
    }

    /// Folder of its files.
    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Runs `ceph WORDS`, and returns what it printed.
    ///
    /// # Errors
    /// It failed, or took too long.
    pub(crate) fn ceph(&self, words: &[&str]) -> Result<String, String> {
        self.run_client("ceph", words)
    }

    /// Runs `rbd WORDS`, and returns what it printed.
    ///
    /// # Errors
    /// It failed, or took too long.
    pub(crate) fn rbd(&self, words: &[&str]) -> Result<String, String> {
        self.run_client("rbd", words)
    }

    /// Runs `rados WORDS`, and returns what it printed.
    ///
    /// # Errors
    /// It failed, or took too long.
    pub(crate) fn rados(&self, words: &[&str]) -> Result<String, String> {
        self.run_client("rados", words)
    }

    /// An OSD by its number, to be killed, stopped, continued and started.
    ///
    /// # Panics
    /// There is none with this number.
    pub(crate) fn osd(&mut self, number: u32) -> &mut Daemon {
        &mut self.osds[number as usize]
    }

    /// The process ids of all OSDs that live.
    pub(super) fn osd_ids(&self) -> Vec<u32> {
        self.osds.iter().filter_map(Daemon::id).collect()
    }

    /// The monitor.
    pub(crate) const fn monitor(&mut self) -> &mut Daemon {
        &mut self.monitor
    }

    /// Waits until the monitor says that `count` OSDs are up.
    ///
    /// # Errors
    /// It does not in time, or a daemon has ended by itself.
    pub(crate) fn await_osds_up(&mut self, count: u32) -> Result<(), String> {
        self.wait(&format!("{count} OSDs up"), |cluster| {
            let state = json(&cluster.ceph(&["osd", "stat", "-f", "json"])?)?;
            Ok((state["num_up_osds"] == count, format!("{} are", state["num_up_osds"])))
        })
    }

    /// Waits until all OSDs are up and all placement groups active and clean. Without a manager the
    /// latter is unknown.
    ///
    /// # Errors
    /// They are not in time, or a daemon has ended by itself.
    pub(crate) fn await_clean(&mut self) -> Result<(), String> {
        self.await_osds_up(self.shape.osds)?;
        if !self.shape.has_manager {
            return Ok(());
        }
        self.wait("all placement groups active+clean", |cluster| {
            let state = json(&cluster.ceph(&["pg", "stat", "-f", "json"])?)?;
            let summary = &state["pg_summary"];
            let states = summary["num_pg_by_state"].as_array().map_or(&[][..], Vec::as_slice);
            let is_clean = matches!(states, [only] if only["name"] == "active+clean");
            let all = summary["num_pgs"].as_u64().unwrap_or_default() >= u64::from(cluster.shape.groups());
            Ok((is_clean && all, summary.to_string()))
        })
    }

    /// Brings all daemons back, whatever was done to them, and waits until all is clean.
    ///
    /// # Errors
    /// They do not come back.
    pub(crate) fn restore(&mut self) -> Result<(), String> {
        self.monitor.resume();
        self.osds.iter_mut().for_each(Daemon::resume);
        self.osds.iter_mut().try_for_each(Daemon::start)?;
        self.await_clean()
    }

    fn start_monitor(&mut self) -> Result<(), String> {
        for name in ["log", "run", "crash", "mon", "mgr/x"] {
            make_folder(&self.folder.join(name))?;
        }
        let cluster_id = random_uuid()?;
        let config = self.shape.config(&self.folder, &cluster_id, self.site.address, self.ports);
        std::fs::write(&self.conf, config).map_err(|error| cannot(&self.conf, &error))?;
        self.make_keys()?;
        let (map, keyring) = (self.folder.join("monmap"), self.keyring());
        let (map, keyring) = (text(&map)?, text(&keyring)?);
        let address = format!("[v2:{}:{}]", self.site.address, self.ports.monitor);
        self.run(&["monmaptool", "--create", "--fsid", &cluster_id, "--addv", "a", &address, map])?;
        let conf = text(&self.conf)?;
        let make = ["ceph-mon", "--conf", conf, "--mkfs", "-i", "a", "--monmap", map, "--keyring", keyring];
        self.run(&make)?;
        self.monitor.start()?;
        self.wait("the monitor listens", |cluster| {
            Ok((cluster.site.answers(cluster.ports.monitor, LOOK)?, String::new()))
        })
    }

    /// Makes keys with their capabilities. The monitor takes all of it into its own records when it
    /// is made.
    fn make_keys(&self) -> Result<(), String> {
        let keyring = self.keyring();
        let add = |name: &str, rights: &[(&str, &str)]| {
            let mut words = vec!["ceph-authtool", text(&keyring)?, "--gen-key", "-n", name];
            if !keyring.exists() {
                words.push("--create-keyring");
            }
            words.extend(rights.iter().flat_map(|(to, what)| ["--cap", to, what]));
            self.run(&words).map(drop)
        };
        let all = "allow *";
        add("mon.", &[("mon", all)])?;
        add("client.admin", &[("mon", all), ("osd", all), ("mgr", all), ("mds", all)])?;
        let profile = "profile rbd";
        add(&format!("client.{USER}"), &[("mon", profile), ("osd", profile), ("mgr", profile)])?;
        if self.shape.has_manager {
            add("mgr.x", &[("mon", "allow profile mgr"), ("osd", all), ("mds", all)])?;
        }
        for number in 0..self.shape.osds {
            let profile = "allow profile osd";
            add(&format!("osd.{number}"), &[("mon", profile), ("mgr", profile), ("osd", all)])?;
        }
        Ok(())
    }

    fn start_osds(&mut self) -> Result<(), String> {
        if self.shape.has_manager {
            // Its only other pool would have one object, and placement groups of its own to wait for.
            let setting = "mgr/devicehealth/enable_monitoring";
            self.run_client("ceph", &["config", "set", "mgr", setting, "false", "--force"])?;
        }
        self.manager.as_mut().map_or(Ok(()), Daemon::start)?;
        let mut making = Vec::new();
        for number in 0..self.shape.osds {
            let (uuid, number) = (random_uuid()?, number.to_string());
            self.ceph(&["osd", "new", &uuid, &number])?;
            make_folder(&self.folder.join(format!("osd.{number}")))?;
            let conf = text(&self.conf)?;
            let words = ["ceph-osd", "--conf", conf, "-i", &number, "--mkfs", "--osd-uuid", &uuid];
            let words = [&self.site.words(), &OWN_ENVIRONMENT[..], &words].concat();
            making.push(std::thread::spawn({
                let words = owned(&words);
                move || Answer::within(&words.iter().map(String::as_str).collect::<Vec<_>>(), ORDER_LIMIT)
            }));
        }
        for making in making {
            let made = making.join().map_err(|_| "a thread that makes an OSD ended".to_owned())?;
            made?.well().map_err(|reason| format!("ceph-osd --mkfs: {reason}"))?;
        }
        self.osds.iter_mut().try_for_each(Daemon::start)?;
        self.await_osds_up(self.shape.osds)
    }

    fn make_pool(&self) -> Result<(), String> {
        let (groups, copies) = (self.shape.groups().to_string(), self.shape.copies().to_string());
        self.ceph(&["osd", "pool", "create", POOL, &groups, &groups, "replicated", "--size", &copies])?;
        self.ceph(&["osd", "pool", "application", "enable", POOL, "rbd"]).map(drop)
    }

    fn keyring(&self) -> PathBuf {
        self.folder.join("keyring")
    }

    fn run_client(&self, program: &str, words: &[&str]) -> Result<String, String> {
        self.run(&[&[program, "--conf", text(&self.conf)?], words].concat())
    }

    fn run(&self, words: &[&str]) -> Result<String, String> {
        let answer =
            Answer::within(&[&self.site.words(), &OWN_ENVIRONMENT[..], words].concat(), ORDER_LIMIT)?;
        answer.well().map(|answer| answer.output).map_err(|reason| format!("{}: {reason}", words.join(" ")))
    }

    /// Waits until `look` finds that something is so. It also says what is so instead.
    fn wait(
        &mut self,
        what: &str,
        look: impl Fn(&Cluster) -> Result<(bool, String), String>,
    ) -> Result<(), String> {
        let deadline = Instant::now() + STATE_LIMIT;
        loop {
            let (is_so, instead) = look(self)?;
            if is_so {
                return Ok(());
            }
            if Instant::now() >= deadline {
                return Err(format!("{what}: not within {} s: {instead}", STATE_LIMIT.as_secs()));
            }
            self.monitor.check_for(LOOK)?;
            self.manager.as_mut().map_or(Ok(()), Daemon::check_alive)?;
            self.osds.iter_mut().try_for_each(Daemon::check_alive)?;
        }
    }
}

fn empty_folder(folder: &Path) -> Result<PathBuf, String> {
    make_folder(folder)?;
    let mut entries = std::fs::read_dir(folder).map_err(|error| cannot(folder, &error))?;
    if entries.next().is_some() {
        return Err(format!("{} is not empty; a cluster removes its folder in the end", folder.display()));
    }
    folder.canonicalize().map_err(|error| cannot(folder, &error))
}

fn make_folder(folder: &Path) -> Result<(), String> {
    std::fs::create_dir_all(folder).map_err(|error| cannot(folder, &error))
}

fn cannot(path: &Path, error: &std::io::Error) -> String {
    format!("{}: {error}", path.display())
}

fn random_uuid() -> Result<String, String> {
    let path = Path::new("/proc/sys/kernel/random/uuid");
    std::fs::read_to_string(path).map(|uuid| uuid.trim().to_owned()).map_err(|error| cannot(path, &error))
}

fn json(text: &str) -> Result<Value, String> {
    serde_json::from_str(text).map_err(|error| format!("no JSON ({error}): {text}"))
}

/// A path as a word of a command line and of a configuration file.
fn text(path: &Path) -> Result<&str, String> {
    path.to_str().ok_or_else(|| format!("{} is not valid UTF-8", path.display()))
}

fn owned(words: &[&str]) -> Vec<String> {
    words.iter().map(|&word| word.to_owned()).collect()
}
