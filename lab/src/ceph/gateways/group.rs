//! Gateways of one group, on a network on which each of them can be cut off: a cluster and all hosts are at one end of emulated
//! links, and each gateway at the other end of two of its own. It keeps out what happens to them.

use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde_json::Value;

use super::control;
use super::locations::{FAILBACK, location};
use super::status::Status;
use crate::answer::Answer;
use crate::ceph::cluster::Cluster;
use crate::ceph::config::{POOL, Shape};
use crate::ceph::daemon::Daemon;
use crate::ceph::site::Site;
use crate::ceph::testbed::soon;
use crate::chaos::host::{self, fresh};
use crate::emulator::LINKS_MAX;
use crate::network::Network;
use crate::program::Program;

/// The subsystem that all serve.
pub(super) const NQN: &str = "nqn.2026-01.io.selvedge:gateways";
/// The gateways that there can be, by their names, and who comes in the place of the first one.
const NAMES: [&str; 7] = ["a", "b", "c", "d", "e", "f", "g"];
pub(super) const GATEWAYS_MAX: usize = NAMES.len();
const REPLACEMENT: &str = "r";
/// The links of a gateway: that which hosts take to it, and that which it takes to the cluster.
const LINKS_EACH: usize = 2;
const _: () = assert!(GATEWAYS_MAX * LINKS_EACH <= LINKS_MAX);
/// Address of the cluster, at no link, so that each gateway reaches it by a link of its own.
const CLUSTER: Ipv4Addr = Ipv4Addr::new(10, 2, 0, 1);
/// Hosts that come by TLS, and have a key: one that writes, and the one that checks what it has left.
pub(super) const SECURE_HOST: u64 = 1;
/// Bytes of an image: a host's range of 16 MiB and something behind it, in MiB.
const IMAGE_MIB: u64 = 24;
/// Namespaces of each load-balancing group where checks count them.
pub(super) const IMAGES: u32 = 2;
/// Images that share a connection: as few, so that one more has its own; and as many as by default, where there are more. How often one comes and goes; and how many closed
/// connections the gateways may have in their group state at the end, which is less.
const SHARERS: [&str; 2] = ["2", "32"];
pub(super) const CLOSINGS: u64 = 40;
const CLOSED_MAX: u64 = 36;
/// A dead gateway's connections must stay on the blocklist for longer than this number of days.
const FENCE_DAYS: u32 = 300;
/// Interval of checks for a gateway that takes over.
const LOOK: Duration = Duration::from_millis(20);
/// A gateway that has not taken over after so long does not.
pub(super) const TAKEOVER_LIMIT: Duration = Duration::from_secs(60);

/// Log level of gateways.
const LEVEL: &str = "SELVEDGE_LOG=info,gateway=debug";

/// The links of a gateway, counted from 1.
#[derive(Clone, Copy, Debug)]
pub(super) struct Links {
    pub(super) hosts: usize,
    pub(super) cluster: usize,
}

impl Links {
    /// Links of the gateway with this index.
    const fn of(index: usize) -> Links {
        Links { hosts: index * LINKS_EACH + 1, cluster: index * LINKS_EACH + 2 }
    }
}

/// A gateway that runs or not.
pub(super) struct Gateway {
    pub(super) name: &'static str,
    /// Address at which hosts find it.
    pub(super) address: String,
    /// The load-balancing group that it serves whenever it can.
    pub(super) group: u32,
    pub(super) links: Links,
    pub(super) daemon: Daemon,
    socket: PathBuf,
    log: PathBuf,
    /// Prefix of a command line that is to run where the gateway does.
    there: Vec<String>,
}

impl Gateway {
    /// Gateway with this index.
    fn new(name: &'static str, index: usize, group: u32, settings: &GroupSettings<'_>) -> Gateway {
        let links = Links::of(index);
        let ip = Ipv4Addr::new(10, 1, links.hosts as u8, 1);
        let (socket, log) = (
            settings.output.join(format!("{name}.sock")),
            settings.output.join(format!("gateway-{name}.log")),
        );
        let site = Site::inside(&settings.network_namespaces[index], ip);
        let there = site.words().into_iter().map(str::to_owned).collect();
        let (ip, mut shared) = (ip.to_string(), format!("{POOL}/group,conf={}", settings.conf.display()));
        let mut place = Vec::new();
        if settings.members.has_locations {
            shared += &format!(",failback={}s", FAILBACK.as_secs());
            place.extend(["--gateway-location", location(index)]);
        }
        let control = format!("unix:{}", socket.display());
        let written = log.display().to_string();
        // What it said before it was killed is kept, and stands before what it says when it is back.
        let logged = ["sh", "-c", "exec \"$@\" 2>>\"$0\"", &written, "env", LEVEL, settings.program];
        // Hosts come by TLS and without.
        let flags = ["serve", "-a", &ip, "--reactors", "1", "--tls", "allowed", "--control", &control];
        let flags =
            [&flags[..], &["--bdevs-per-cluster", SHARERS[usize::from(settings.members.images > IMAGES)]]]
                .concat();
        let member = ["--gateway-group", &shared, "--gateway-name", name];
        let words = [&site.words(), &logged[..], &flags, &member, &place].concat();
        let words = words.into_iter().map(str::to_owned).collect();
        Gateway {
            name,
            address: ip.clone(),
            group,
            links,
            daemon: Daemon::new(format!("gateway {name}"), words),
            socket,
            log,
            there,
        }
    }

    /// Metrics, as Prometheus gets them.
    ///
    /// # Errors
    /// It does not answer.
    pub(super) fn metrics(&self) -> Result<String, String> {
        control::get(&self.socket, "/metrics")
    }

    /// The group, as this gateway sees it.
    ///
    /// # Errors
    /// It does not answer.
    pub(super) fn status(&self) -> Result<Status, String> {
        Status::ask(&self.socket)
    }
}

/// Settings of a gateway.
struct GroupSettings<'a> {
    program: &'a str,
    output: &'a Path,
    conf: &'a Path,
    /// The network namespaces of gateways.
    network_namespaces: &'a [String],
    members: Members,
}

/// Gateways of a group, as all of them are.
#[derive(Clone, Copy, Debug)]
pub(super) struct Members {
    pub(super) count: usize,
    /// Namespaces of each load-balancing group.
    pub(super) images: u32,
    /// True if they have locations, and give groups back after a delay.
    pub(super) has_locations: bool,
}

/// Gateways and all that is around them.
pub(super) struct Group {
    /// In the order of their numbers.
    pub(super) gateways: Vec<Gateway>,
    pub(super) cluster: Cluster,
    pub(super) network: Network,
    /// The key of hosts that come by TLS.
    pub(super) key: PathBuf,
    pub(super) members: Members,
    /// Site of the hosts.
    site: Site,
    program: String,
    output: PathBuf,
}

impl Group {
    /// Starts a cluster, gateways, and a subsystem with namespaces in the load-balancing group of each.
    ///
    /// # Errors
    /// What failed and why.
    pub(super) fn start(program: &str, output: &Path, members: Members, seed: u64) -> Result<Group, String> {
        let count = members.count;
        let network = Network::with_targets(seed, count, LINKS_EACH)?;
        let links: Vec<usize> = (0..count).map(|index| Links::of(index).cluster).collect();
        network.anchor(&CLUSTER.to_string(), &links)?;
        let site = Site::inside(network.names().1, CLUSTER);
        let cluster = Cluster::up_at(site.clone(), &output.join("cluster"), Shape::SMALL)?;
        let settings = GroupSettings {
            program,
            output,
            conf: cluster.conf(),
            network_namespaces: network.targets(),
            members,
        };
        let gateways = NAMES.iter().zip(0..count).zip(1..);
        let gateways = gateways.map(|((name, index), group)| Gateway::new(name, index, group, &settings));
        let (gateways, key) = (gateways.collect(), output.join("host.key"));
        let (program, output) = (program.to_owned(), output.to_owned());
        let mut group = Group { gateways, cluster, network, key, members, site, program, output };
        for number in 0..count {
            // One after the other: who comes first has the first number.
            group.gateways[number].daemon.start()?;
            let gateway = &group.gateways[number];
            soon(&format!("gateway {}", gateway.name), || {
                let status = gateway.status()?;
                if status.serves(gateway.group) { Ok(()) } else { Err(status.line()) }
            })?;
        }
        group.make_namespaces()?;
        group.await_rest()?;
        Ok(group)
    }

    /// The subsystem lets all hosts in, some of them by TLS alone.
    fn make_subsystem(&self) -> Result<(), String> {
        let _ = std::fs::remove_file(&self.key);
        let key = self.key.display().to_string();
        Answer::of(&[&self.program, "key", "generate", "--tls", "--output", &key])?.well()?;
        self.administer(0, &["subsystem", "add", NQN, "--allow-any-host"])?;
        for number in [SECURE_HOST, fresh(SECURE_HOST)] {
            self.administer(0, &["host", "set-key", NQN, &host::nqn(number), "--tls-key-file", &key])?;
        }
        Ok(())
    }

    /// Writes a new secret of a host to a file.
    ///
    /// # Errors
    /// It is not written.
    pub(super) fn generate_secret(&self, file: &str) -> Result<(), String> {
        Answer::of(&[&self.program, "key", "generate", "--output", file])?.well().map(drop)
    }

    fn make_namespaces(&self) -> Result<(), String> {
        self.make_subsystem()?;
        for nsid in 1..=self.gateways.len() as u32 * self.members.images {
            let image = self.image(nsid);
            self.cluster.rbd(&["create", "--size", &format!("{IMAGE_MIB}M"), &image])?;
            let spec = format!("rbd:{image},conf={},nsid={nsid}", self.cluster.conf().display());
            let group = ((nsid - 1) / self.members.images + 1).to_string();
            self.administer(0, &["namespace", "add", NQN, &spec, "--load-balancing-group", &group])?;
        }
        Ok(())
    }

    /// Has a gateway do something.
    ///
    /// # Errors
    /// It refuses.
    pub(super) fn administer(&self, gateway: usize, words: &[&str]) -> Result<(), String> {
        let answer = self.ask(gateway, words)?;
        answer.well().map(drop).map_err(|reason| format!("{}: {reason}", words.join(" ")))
    }

    /// Adds and removes an image, each time with a connection of its own, until the gateways have to forget some; how many
    /// connections the cluster shuts out more than before.
    ///
    /// # Errors
    /// They do not, or what they forget is not shut out.
    pub(super) fn close_many(&self) -> Result<u64, String> {
        let before = self.blocklist()?.len() as u64;
        let spec = format!("{},nsid=99", self.make_image("comes-and-goes")?);
        for _ in 0..CLOSINGS {
            self.administer(0, &["namespace", "add", NQN, &spec])?;
            self.administer(0, &["namespace", "remove", NQN, "99"])?;
        }
        soon("forgetting closed connections", || {
            let status = self.gateways[0].status()?;
            let reported = self.gateways.iter().map(|gateway| status.connections(gateway.name));
            let reported: Vec<Option<u64>> = reported.collect();
            let is_done = reported.iter().all(|count| count.is_some_and(|count| count < CLOSED_MAX));
            if is_done { Ok(()) } else { Err(format!("gateways report {reported:?} connections")) }
        })?;
        let shut_out = self.blocklist()?.len() as u64 - before;
        let least = self.gateways.len() as u64 * (CLOSINGS - CLOSED_MAX);
        if shut_out > least { Ok(shut_out) } else { Err(format!("{shut_out} connections are shut out")) }
    }

    /// The cluster's blocklist: a connection and the time until which it is on it in each line.
    ///
    /// # Errors
    /// The cluster does not tell.
    pub(super) fn blocklist(&self) -> Result<Vec<String>, String> {
        Ok(self.cluster.ceph(&["osd", "blocklist", "ls"])?.lines().map(str::to_owned).collect())
    }

    /// Checks that all connections on the blocklist that were not there `before` stay for long, and
    /// that there are some: the process behind them may have been stopped, and go on much later.
    ///
    /// # Errors
    /// They do not.
    pub(super) fn is_shut_out_for_long(&self, before: &[String]) -> Result<(), String> {
        let far = Answer::of(&["date", "-u", "-d", &format!("+{FENCE_DAYS} days"), "+%F"])?.well()?.output;
        let new: Vec<String> = self
            .blocklist()?
            .into_iter()
            .filter(|line| line.contains(' ') && !before.contains(line))
            .collect();
        let ends_soon = |line: &&String| line.split(' ').nth(1).is_none_or(|until| until < far.trim());
        match new.iter().find(ends_soon) {
            Some(line) => Err(format!("not on the blocklist for {FENCE_DAYS} days: {line}")),
            None if new.is_empty() => Err("the dead gateway is not on the blocklist".to_owned()),
            None => Ok(()),
        }
    }

    /// Asks a gateway to serve an image of another cluster, where its group's blocklist has no
    /// effect.
    ///
    /// # Errors
    /// It does, or says something else.
    pub(super) fn refuse_other_cluster(&self) -> Result<(), String> {
        let other = Cluster::up_at(self.site.clone(), &self.output.join("other-cluster"), Shape::SMALL)?;
        other.rbd(&["create", "--size", "1M", "rbd/foreign"])?;
        let spec = format!("rbd:rbd/foreign,conf={}", other.conf().display());
        let words = ["it is cluster", "the gateways' group", "a group of its own"];
        self.is_refused(0, &["namespace", "add", NQN, &spec], &words)
    }

    /// Has another process of the same program go on in place of a gateway's.
    ///
    /// # Errors
    /// It does not.
    pub(super) fn upgrade(&mut self, gateway: usize) -> Result<(), String> {
        let Gateway { socket, there, .. } = &self.gateways[gateway];
        let control = format!("unix:{}", socket.display());
        // The log level follows from the environment in which the next process is started.
        let words = ["env", LEVEL, &self.program, "upgrade", "--control", &control, "-o", "json"];
        let there: Vec<&str> = there.iter().map(String::as_str).collect();
        let answer = Answer::of(&[&there[..], &words].concat())?
            .well()
            .map_err(|reason| format!("upgrade: {reason}"))?;
        let upgrade: Value =
            serde_json::from_str(&answer.output).map_err(|error| format!("upgrade: {error}"))?;
        let process = upgrade["process"].as_u64().and_then(|process| i32::try_from(process).ok());
        self.gateways[gateway].daemon.follow(process.ok_or("upgrade: no process")?)
    }

    /// Log of a gateway's processes.
    ///
    /// # Errors
    /// It cannot be read.
    pub(super) fn log(&self, gateway: usize) -> Result<String, String> {
        let path = &self.gateways[gateway].log;
        std::fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))
    }

    /// Longest wait of hosts at a gateway's last upgrade, in milliseconds, by its log.
    ///
    /// # Errors
    /// It does not say.
    pub(super) fn last_pause_ms(&self, gateway: usize) -> Result<u64, String> {
        let log = self.log(gateway)?;
        let mut pauses =
            log.lines().filter_map(|line| line.split_once("pause_ms=")?.1.split(' ').next()?.parse().ok());
        pauses.next_back().ok_or_else(|| "the log has no pause_ms".to_owned())
    }

    /// The identifiers of the controllers that hosts have at a gateway.
    ///
    /// # Errors
    /// It does not answer.
    pub(super) fn controllers(&self, gateway: usize) -> Result<Vec<u64>, String> {
        let all = self.connections(gateway)?;
        let mut all: Vec<u64> = all.iter().filter_map(|controller| controller["cntlid"].as_u64()).collect();
        all.sort_unstable();
        Ok(all)
    }

    /// The controllers that hosts have at a gateway.
    ///
    /// # Errors
    /// It does not answer.
    pub(super) fn connections(&self, gateway: usize) -> Result<Vec<Value>, String> {
        let list = self.ask(gateway, &["connection", "list", "-o", "json"])?.json()?;
        list["controllers"].as_array().cloned().ok_or_else(|| "no list of controllers".to_owned())
    }

    /// Begins to ask a gateway for something.
    ///
    /// # Errors
    /// The program does not start.
    pub(super) fn begin(&self, gateway: usize, words: &[&str]) -> Result<Program, String> {
        let control = format!("unix:{}", self.gateways[gateway].socket.display());
        let words = [&[self.program.as_str()], words, &["--control", &control]].concat();
        Program::start(&words.into_iter().map(str::to_owned).collect::<Vec<_>>())
    }

    /// Makes an image, and says what `namespace add` takes for it.
    ///
    /// # Errors
    /// It cannot be made.
    pub(super) fn make_image(&self, name: &str) -> Result<String, String> {
        let image = format!("{POOL}/{name}");
        self.cluster.rbd(&["create", "--size", "1M", &image])?;
        Ok(format!("rbd:{image},conf={}", self.cluster.conf().display()))
    }

    /// Asks a gateway for something that it has to refuse, with all of these in what it says.
    ///
    /// # Errors
    /// It does not.
    pub(super) fn is_refused(&self, gateway: usize, words: &[&str], parts: &[&str]) -> Result<(), String> {
        let answer = self.ask(gateway, words)?;
        answer.fails(1, parts).map_err(|reason| format!("{}: {reason}", words.join(" ")))
    }

    fn ask(&self, gateway: usize, words: &[&str]) -> Result<Answer, String> {
        let control = format!("unix:{}", self.gateways[gateway].socket.display());
        Answer::of(&[&[self.program.as_str()], words, &["--control", &control]].concat())
    }

    /// Starts a gateway of another name where the first one was, which has ended. It becomes the last of the group.
    ///
    /// # Errors
    /// It does not serve.
    pub(super) fn replace_first(&mut self) -> Result<(), String> {
        let settings = GroupSettings {
            program: &self.program,
            output: &self.output,
            conf: self.cluster.conf(),
            network_namespaces: self.network.targets(),
            members: self.members,
        };
        let group = self.gateways.len() as u32 + 1;
        self.gateways[0] = Gateway::new(REPLACEMENT, 0, group, &settings);
        self.gateways[0].daemon.start()?;
        self.await_service(0, group, Instant::now()).map(drop)
    }

    /// `POOL/IMAGE` of a namespace.
    pub(super) fn image(&self, nsid: u32) -> String {
        format!("{POOL}/image-{nsid}")
    }

    /// Namespace of a gateway's load-balancing group.
    pub(super) fn nsid(&self, gateway: usize, chance: u32) -> u32 {
        self.gateways[gateway].group * self.members.images - chance % self.members.images
    }

    /// Another namespace of the same load-balancing group.
    pub(super) const fn neighbour(&self, nsid: u32) -> u32 {
        let first = (nsid - 1) / self.members.images * self.members.images + 1;
        first + (nsid + 1 - first) % self.members.images
    }

    /// Content of a namespace's image.
    ///
    /// # Errors
    /// It cannot be exported.
    pub(super) fn export(&self, nsid: u32) -> Result<Vec<u8>, String> {
        let path = self.output.join("export");
        let _ = std::fs::remove_file(&path);
        self.cluster.rbd(&["export", "--no-progress", &self.image(nsid), &path.display().to_string()])?;
        let bytes = std::fs::read(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        // What is left goes with the folder.
        let _ = std::fs::remove_file(&path);
        Ok(bytes)
    }

    /// The paths of a new host to a namespace, as it reports them after a few reads.
    ///
    /// # Errors
    /// It does not come so far.
    pub(super) fn paths(&self, nsid: u32) -> Result<Vec<Value>, String> {
        self.paths_of(nsid, &[])
    }

    /// The same of a host that further words of the bench name.
    ///
    /// # Errors
    /// It does not come so far.
    pub(super) fn paths_of(&self, nsid: u32, host: &[&str]) -> Result<Vec<Value>, String> {
        let addresses: Vec<&str> = self.gateways.iter().map(|gateway| gateway.address.as_str()).collect();
        let addresses = addresses.join(",");
        let nsid = nsid.to_string();
        let bench = ["bench", "-a", &addresses, "-n", NQN, "--nsid", &nsid, "-o", "json", "--rw", "read"];
        let words = [&self.site.words()[..], &[&self.program], &bench, &["--size", "64k"], host].concat();
        let report = Answer::of(&words)?.json()?;
        report["paths"].as_array().cloned().ok_or_else(|| format!("a report without paths: {report}"))
    }

    /// Waits until a gateway serves a load-balancing group, and says how long after `began` that is.
    ///
    /// # Errors
    /// It never does.
    pub(super) fn await_service(
        &self,
        gateway: usize,
        group: u32,
        began: Instant,
    ) -> Result<Duration, String> {
        self.await_one_of(&[gateway], group, began)
    }

    /// Waits until a gateway other than this one serves its load-balancing group, and says how long after `began` that is.
    ///
    /// # Errors
    /// None ever does.
    pub(super) fn await_takeover(&self, from: usize, began: Instant) -> Result<Duration, String> {
        let others: Vec<usize> = (0..self.gateways.len()).filter(|number| *number != from).collect();
        self.await_one_of(&others, self.gateways[from].group, began)
    }

    fn await_one_of(&self, gateways: &[usize], group: u32, began: Instant) -> Result<Duration, String> {
        let mut last = String::new();
        while began.elapsed() < TAKEOVER_LIMIT {
            for gateway in gateways {
                match self.gateways[*gateway].status() {
                    Ok(status) if status.serves(group) => return Ok(began.elapsed()),
                    Ok(status) => last = status.line(),
                    Err(reason) => last = reason,
                }
            }
            std::thread::sleep(LOOK);
        }
        let names: Vec<&str> = gateways.iter().map(|gateway| self.gateways[*gateway].name).collect();
        let (names, limit) = (names.join(" or "), TAKEOVER_LIMIT.as_secs());
        Err(format!("gateway {names} does not serve load-balancing group {group} within {limit} s: {last}"))
    }

    /// Waits until each gateway serves its own load-balancing group and no other, and all think each other well.
    ///
    /// # Errors
    /// It is never so, or a gateway has ended by itself.
    pub(super) fn await_rest(&mut self) -> Result<Duration, String> {
        for gateway in &mut self.gateways {
            gateway.daemon.check_alive()?;
        }
        let ((), took) = soon("all gateways with their own groups", || {
            for gateway in &self.gateways {
                let status = gateway.status()?;
                let is_right = |other: &Gateway| {
                    status.is_well(other.name) && status.serves(other.group) == (other.group == gateway.group)
                };
                if !self.gateways.iter().all(is_right) {
                    return Err(format!("gateway {} says {}", gateway.name, status.line()));
                }
            }
            Ok(())
        })?;
        Ok(took)
    }

    /// Checks that the first gateway is forgotten, and that the namespaces of its load-balancing
    /// group are served by the one that came in its place.
    ///
    /// # Errors
    /// It is not so yet.
    pub(super) fn has_moved_on(&self) -> Result<(), String> {
        let is_moved = |status: &Status| {
            let has_all =
                |gateway: &Gateway| status.namespaces(gateway.group) == Some(u64::from(self.members.images));
            !status.has_gateway(NAMES[0])
                && status.namespaces(1).is_none()
                && self.gateways.iter().all(has_all)
        };
        for gateway in &self.gateways {
            let status = gateway.status()?;
            if !is_moved(&status) || !status.serves(gateway.group) {
                return Err(format!("gateway {} says {}", gateway.name, status.line()));
            }
        }
        Ok(())
    }

    /// Ends whatever happens to the gateways, and waits until all is as it should be.
    ///
    /// # Errors
    /// It is not.
    pub(super) fn restore(&mut self) -> Result<(), String> {
        for gateway in &mut self.gateways {
            self.network.restore(gateway.links.hosts)?;
            self.network.restore(gateway.links.cluster)?;
            gateway.daemon.resume();
            gateway.daemon.start()?;
        }
        self.await_rest().map(drop)
    }
}
