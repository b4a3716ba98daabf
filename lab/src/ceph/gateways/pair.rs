//! Two gateways of one group, on a network on which one of them can be cut off: a cluster, gateway b and all hosts are at one
//! end of emulated links, gateway a at the other. It keeps out what happens to them.

use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde_json::Value;

use super::status::Status;
use crate::answer::Answer;
use crate::ceph::cluster::Cluster;
use crate::ceph::config::{POOL, Shape};
use crate::ceph::daemon::Daemon;
use crate::ceph::ground::soon;
use crate::ceph::site::Site;
use crate::network::{LINKS, Network};

/// The subsystem that both serve.
pub(super) const NQN: &str = "nqn.2026-01.io.selvedge:gateways";
/// Which gateway has links: a.
pub(super) const LINKED: usize = 0;
/// The link that hosts take to gateway a, and the one that it takes to the cluster.
pub(super) const HOST_LINK: usize = 1;
pub(super) const CLUSTER_LINK: usize = 2;
const _: () = assert!(HOST_LINK <= LINKS && CLUSTER_LINK <= LINKS);
/// Namespaces of each load-balancing group.
const IMAGES: u32 = 2;
/// Bytes of an image: a host's range of 16 MiB and something behind it, in MiB.
const IMAGE_MIB: u64 = 24;
/// Images that share a connection, so that one more has its own; how often one comes and goes; and how many closed
/// connections the gateways may have in their group state at the end, which is less.
const SHARERS: &str = "2";
pub(super) const CLOSINGS: u64 = 40;
const CLOSED_MAX: u64 = 36;
/// A dead gateway's connections must stay on the blocklist for longer than this number of days.
const FENCE_DAYS: u32 = 300;
/// How often to look for a gateway that takes over.
const LOOK: Duration = Duration::from_millis(20);
/// A gateway that has not taken over after so long does not.
pub(super) const TAKEOVER_LIMIT: Duration = Duration::from_secs(60);

/// What gateways log.
const LEVEL: &str = "SELVEDGE_LOG=info,selvedge::gateway=debug";

/// A gateway that runs or not.
pub(super) struct Gateway {
    pub(super) name: &'static str,
    /// Where hosts find it.
    pub(super) address: String,
    /// The load-balancing group that it serves whenever it can.
    pub(super) group: u32,
    pub(super) daemon: Daemon,
    socket: PathBuf,
    log: PathBuf,
    /// What a command line begins with so that the program runs where the gateway does.
    there: Vec<String>,
}

impl Gateway {
    /// A gateway at the first or the second place, counted from 1.
    fn new(name: &'static str, place: u8, group: u32, pair: &Grounds<'_>) -> Gateway {
        let ip = Ipv4Addr::new(10, 1, HOST_LINK as u8, place);
        let place = if place == 1 { pair.names.0 } else { pair.names.1 };
        let (socket, log) =
            (pair.output.join(format!("{name}.sock")), pair.output.join(format!("gateway-{name}.log")));
        let site = Site::inside(place, ip);
        let there = site.words().into_iter().map(str::to_owned).collect();
        let (ip, shared) = (ip.to_string(), format!("{POOL}/group,conf={}", pair.conf.display()));
        let control = format!("unix:{}", socket.display());
        let written = log.display().to_string();
        // What it said before it was killed is kept, and stands before what it says when it is back.
        let logged = ["sh", "-c", "exec \"$@\" 2>>\"$0\"", &written, "env", LEVEL, pair.program];
        let flags = ["serve", "-a", &ip, "--reactors", "1", "--control", &control];
        let flags = [&flags[..], &["--bdevs-per-cluster", SHARERS]].concat();
        let member = ["--gateway-group", &shared, "--gateway-name", name];
        let words = [&site.words(), &logged[..], &flags, &member].concat();
        let words = words.into_iter().map(str::to_owned).collect();
        Gateway {
            name,
            address: ip.clone(),
            group,
            daemon: Daemon::new(format!("gateway {name}"), words),
            socket,
            log,
            there,
        }
    }

    /// The group, as this gateway sees it.
    ///
    /// # Errors
    /// It does not answer.
    pub(super) fn status(&self) -> Result<Status, String> {
        Status::ask(&self.socket)
    }
}

/// What a gateway is started with.
struct Grounds<'a> {
    program: &'a str,
    output: &'a Path,
    conf: &'a Path,
    /// The network namespaces of gateway a and of all others.
    names: (&'a str, &'a str),
}

/// Two gateways and all that is around them.
pub(super) struct Pair {
    /// Gateway a, and gateway b.
    pub(super) gateways: [Gateway; 2],
    pub(super) cluster: Cluster,
    pub(super) network: Network,
    /// Where hosts are.
    site: Site,
    program: String,
    output: PathBuf,
}

impl Pair {
    /// Starts a cluster, both gateways, and a subsystem with namespaces in the load-balancing groups of both.
    ///
    /// # Errors
    /// What failed and why.
    pub(super) fn start(program: &str, output: &Path, seed: u64) -> Result<Pair, String> {
        let network = Network::new(seed)?;
        let names = network.names();
        let site = Site::inside(names.1, Ipv4Addr::new(10, 1, CLUSTER_LINK as u8, 2));
        let cluster = Cluster::up_at(site.clone(), &output.join("cluster"), Shape::SMALL)?;
        let grounds = Grounds { program, output, conf: cluster.conf(), names };
        let gateways = [Gateway::new("a", 1, 1, &grounds), Gateway::new("b", 2, 2, &grounds)];
        let (program, output) = (program.to_owned(), output.to_owned());
        let mut pair = Pair { gateways, cluster, network, site, program, output };
        for number in 0..2 {
            // One after the other: who comes first has the first number.
            pair.gateways[number].daemon.start()?;
            let gateway = &pair.gateways[number];
            soon(&format!("gateway {}", gateway.name), || {
                let status = gateway.status()?;
                if status.serves(gateway.group) { Ok(()) } else { Err(status.line()) }
            })?;
        }
        pair.make_namespaces()?;
        pair.await_rest()?;
        Ok(pair)
    }

    fn make_namespaces(&self) -> Result<(), String> {
        self.administer(0, &["subsystem", "add", NQN, "--allow-any-host"])?;
        for nsid in 1..=2 * IMAGES {
            let image = self.image(nsid);
            self.cluster.rbd(&["create", "--size", &format!("{IMAGE_MIB}M"), &image])?;
            let spec = format!("rbd:{image},conf={},nsid={nsid}", self.cluster.conf().display());
            let group = ((nsid - 1) / IMAGES + 1).to_string();
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
        let (image, before) = (format!("{POOL}/comes-and-goes"), self.blocklist()?.len() as u64);
        self.cluster.rbd(&["create", "--size", "1M", &image])?;
        let spec = format!("rbd:{image},conf={},nsid=99", self.cluster.conf().display());
        for _ in 0..CLOSINGS {
            self.administer(0, &["namespace", "add", NQN, &spec])?;
            self.administer(0, &["namespace", "remove", NQN, "99"])?;
        }
        soon("forgetting closed connections", || {
            let status = self.gateways[0].status()?;
            let told = ["a", "b"].map(|name| status.connections(name));
            let is_done = told.iter().all(|told| told.is_some_and(|told| told < CLOSED_MAX));
            if is_done { Ok(()) } else { Err(format!("a and b report {told:?} connections")) }
        })?;
        let shut_out = self.blocklist()?.len() as u64 - before;
        let least = 2 * (CLOSINGS - CLOSED_MAX);
        if shut_out > least { Ok(shut_out) } else { Err(format!("{shut_out} connections are shut out")) }
    }

    /// The cluster's blocklist: a connection and the time until which it is on it in each line.
    ///
    /// # Errors
    /// The cluster does not tell.
    pub(super) fn blocklist(&self) -> Result<Vec<String>, String> {
        Ok(self.cluster.ceph(&["osd", "blocklist", "ls"])?.lines().map(str::to_owned).collect())
    }

    /// Whether all connections on the blocklist that were not there `before` stay for long, and there are some: the process behind
    /// them may have been stopped, and go on much later.
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

    /// Asks a gateway to serve an image of another cluster, where its group's blocklist stops nobody.
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
        // What is logged follows from the environment of whoever starts the next process.
        let words = ["env", LEVEL, &self.program, "upgrade", "--control", &control, "-o", "json"];
        let there: Vec<&str> = there.iter().map(String::as_str).collect();
        let told = Answer::of(&[&there[..], &words].concat())?
            .well()
            .map_err(|reason| format!("upgrade: {reason}"))?;
        let told: Value = serde_json::from_str(&told.output).map_err(|error| format!("upgrade: {error}"))?;
        let process = told["process"].as_u64().and_then(|process| i32::try_from(process).ok());
        self.gateways[gateway].daemon.follow(process.ok_or("upgrade: no process")?)
    }

    /// What a gateway's processes have said.
    ///
    /// # Errors
    /// It cannot be read.
    pub(super) fn log(&self, gateway: usize) -> Result<String, String> {
        let path = &self.gateways[gateway].log;
        std::fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))
    }

    /// How long hosts have waited at a gateway's last upgrade, in milliseconds, by its log.
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
        let told = self.ask(gateway, &["connection", "list", "-o", "json"])?.well()?;
        let told: Value =
            serde_json::from_str(&told.output).map_err(|error| format!("controllers: {error}"))?;
        let all = told["controllers"].as_array().ok_or("no list of controllers")?;
        let mut all: Vec<u64> = all.iter().filter_map(|controller| controller["cntlid"].as_u64()).collect();
        all.sort_unstable();
        Ok(all)
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

    /// Starts a gateway of another name where the first one was, which has ended. It becomes the third of the group.
    ///
    /// # Errors
    /// It does not serve.
    pub(super) fn replace_first(&mut self, name: &'static str) -> Result<(), String> {
        let names = self.network.names();
        let grounds =
            Grounds { program: &self.program, output: &self.output, conf: self.cluster.conf(), names };
        self.gateways[0] = Gateway::new(name, 1, 3, &grounds);
        self.gateways[0].daemon.start()?;
        self.await_service(0, 3, Instant::now()).map(drop)
    }

    /// `POOL/IMAGE` of a namespace.
    pub(super) fn image(&self, nsid: u32) -> String {
        format!("{POOL}/image-{nsid}")
    }

    /// One of the namespaces of a gateway's load-balancing group.
    pub(super) const fn nsid(&self, gateway: usize, chance: u32) -> u32 {
        self.gateways[gateway].group * IMAGES - chance % IMAGES
    }

    /// What is in the image of a namespace.
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
        let addresses = self.gateways.each_ref().map(|gateway| gateway.address.as_str()).join(",");
        let nsid = nsid.to_string();
        let bench = ["bench", "-a", &addresses, "-n", NQN, "--nsid", &nsid, "-o", "json", "--rw", "read"];
        let words = [&self.site.words()[..], &[&self.program], &bench, &["--size", "64k"]].concat();
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
        let mut last = String::new();
        while began.elapsed() < TAKEOVER_LIMIT {
            match self.gateways[gateway].status() {
                Ok(status) if status.serves(group) => return Ok(began.elapsed()),
                Ok(status) => last = status.line(),
                Err(reason) => last = reason,
            }
            std::thread::sleep(LOOK);
        }
        let (name, limit) = (self.gateways[gateway].name, TAKEOVER_LIMIT.as_secs());
        Err(format!("gateway {name} does not serve load-balancing group {group} within {limit} s: {last}"))
    }

    /// Waits until each gateway serves its own load-balancing group and no other, and both think each other well.
    ///
    /// # Errors
    /// It is never so, or a gateway has ended by itself.
    pub(super) fn await_rest(&mut self) -> Result<Duration, String> {
        for gateway in &mut self.gateways {
            gateway.daemon.check_alive()?;
        }
        let ((), took) = soon("both gateways with their own groups", || {
            for gateway in &self.gateways {
                let status = gateway.status()?;
                let served = [1, 2].map(|group| status.serves(group) == (group == gateway.group));
                if served != [true; 2] || !status.is_well("a") || !status.is_well("b") {
                    return Err(format!("gateway {} says {}", gateway.name, status.line()));
                }
            }
            Ok(())
        })?;
        Ok(took)
    }

    /// Whether the first gateway is forgotten that there was, and the namespaces of its load-balancing group are served by the third.
    ///
    /// # Errors
    /// It is not so yet.
    pub(super) fn has_moved_on(&self) -> Result<(), String> {
        for gateway in &self.gateways {
            let status = gateway.status()?;
            let namespaces = [1, 2, 3].map(|group| status.namespaces(group));
            let wanted = [None, Some(u64::from(IMAGES)), Some(u64::from(IMAGES))];
            if status.has_gateway("a") || namespaces != wanted || !status.serves(gateway.group) {
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
        self.network.restore(HOST_LINK)?;
        self.network.restore(CLUSTER_LINK)?;
        for gateway in &mut self.gateways {
            gateway.daemon.resume();
            gateway.daemon.start()?;
        }
        self.await_rest().map(drop)
    }
}
