//! Testbed of chaos: the network, the targets on it, and the begin and end of each disturbance. The
//! schedule of disturbances and the hosts that must not notice are elsewhere.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use engine::limits::HALF_OPEN_ACCEPTED_MAX;
use rustix::process::Signal;
use serde_json::Value;

use super::admission::{Admission, Watch};
use super::attack::{self, Attack, Tally};
use super::host::{Damage, Deeds, Plan, Site, doomed_region, regions};
use super::schedule::{Disturbance, Kind};
use super::target::{Role, THIN_FILE, Target};
use super::tasks::Task;
use crate::emulator::link::{Dice, LossUnit, Settings};
use crate::namespace;
use crate::network::{LINKS, Network};

/// Connections that ended leave their ports taken for a minute, and looking for one that is free would soon cost more than
/// the attack: the hostile hosts' namespace forgets most of them.
const SYSCTLS: [(&str, &str); 3] =
    [("tcp_max_tw_buckets", "1024"), ("tcp_tw_reuse", "1"), ("ip_local_port_range", "10000 64999")];

/// The network and the targets on it.
pub(crate) struct Testbed {
    network: Network,
    pub(crate) targets: Vec<Target>,
    program: String,
    logs: PathBuf,
    attackers: usize,
    /// Counts hosts, so that each is another one, and tasks.
    serial: u64,
    /// Number of times that each kind of disturbance happened.
    pub(crate) happened: BTreeMap<String, u64>,
    pub(crate) attacks: BTreeMap<&'static str, AttackCount>,
    pub(crate) damage: Arc<Damage>,
}

/// Totals of the attacks of one kind.
#[derive(Clone, Copy, Debug, Default, serde::Serialize)]
pub(crate) struct AttackCount {
    pub(crate) attacks: u64,
    pub(crate) connections: u64,
    pub(crate) refused: u64,
    /// The longest that a named host took to get in meanwhile, and the worst p99 of another one's reads.
    pub(crate) entry_ms_max: f64,
    pub(crate) read_p99_ms_max: f64,
}

/// A disturbance that goes on.
pub(crate) struct Active {
    pub(crate) disturbance: Disturbance,
    pub(crate) until: Instant,
    work: Work,
}

/// Activity of a disturbance besides its effect.
enum Work {
    None,
    Task(JoinHandle<Result<Deeds, String>>),
    Attack(Watch, Arc<AtomicBool>, Arc<Tally>, JoinHandle<Result<(), String>>),
}

impl Active {
    /// True if it is time to end it: tasks end by themselves.
    pub(crate) fn is_over(&self) -> bool {
        match &self.work {
            Work::Task(thread) => thread.is_finished(),
            Work::None | Work::Attack(..) => Instant::now() >= self.until,
        }
    }
}

impl Testbed {
    /// Makes the network and starts all targets.
    ///
    /// # Errors
    /// What failed and why. Nothing is left then but files.
    pub(crate) fn new(
        program: &Path,
        data: &Path,
        logs: &Path,
        seed: u64,
        attackers: usize,
    ) -> Result<Testbed, String> {
        let network = Network::new(seed)?;
        namespace::inside(network.names().0, || {
            SYSCTLS.iter().try_for_each(|(name, value)| {
                let path = format!("/proc/sys/net/ipv4/{name}");
                std::fs::write(&path, value).map_err(|error| format!("{path}: {error}"))
            })
        })?;
        let program = program.display().to_string();
        let mut targets = Vec::new();
        for role in Role::ALL {
            let mut target = Target::new(role, &program, network.names().0, data, logs)?;
            target.start()?;
            targets.push(target);
        }
        let logs = logs.to_owned();
        let (happened, attacks) = (BTreeMap::new(), BTreeMap::new());
        let damage = Arc::default();
        Ok(Testbed { network, targets, program, logs, attackers, serial: 1, happened, attacks, damage })
    }

    /// Site of hosts: at the other end of the links, or with the targets.
    pub(crate) fn site(&self, beyond_links: bool) -> Site {
        let (target, host) = self.network.names();
        let namespace = if beyond_links { host } else { target };
        Site {
            program: self.program.clone(),
            namespace: namespace.to_owned(),
            logs: self.logs.clone(),
            damage: self.damage.clone(),
        }
    }

    /// Returns a unique number.
    pub(crate) fn number(&mut self) -> u64 {
        self.serial += 1;
        self.serial
    }

    pub(crate) fn target(&mut self, role: Role) -> &mut Target {
        &mut self.targets[role as usize]
    }

    /// An attack on a target, from its own side of the links.
    pub(crate) fn attack(&self, kind: attack::Kind, role: Role) -> Result<Attack, String> {
        let address = &role.addresses()[0];
        Ok(Attack {
            kind,
            address: address.parse().map_err(|error| format!("{address}: {error}"))?,
            nqn: role.nqn().to_owned(),
            memory_nsid: 1,
            file_nsid: if role == Role::Steady { 2 } else { 1 },
            block_bytes: 4096,
            connections: kind.connections().unwrap_or(self.attackers),
        })
    }

    /// Has a host come to a target again and again, and another one read there, both of which the operator has named.
    pub(crate) fn watch_admission(&self, role: Role) -> Result<Watch, String> {
        let address = &role.addresses()[0];
        let address = address.parse().map_err(|error| format!("{address}: {error}"))?;
        let admission = Admission { address, nqn: role.nqn().to_owned(), nsid: 1, block_bytes: 4096 };
        namespace::inside(self.network.names().0, || admission.watch())
    }

    /// Runs an attack on a thread of its own until the end is signalled.
    pub(crate) fn start_attack(
        &self,
        attack: Attack,
        seed: u64,
    ) -> (Arc<AtomicBool>, Arc<Tally>, JoinHandle<Result<(), String>>) {
        let (stop, tally) = (Arc::new(AtomicBool::new(false)), Arc::new(Tally::default()));
        let (stopped, counted) = (stop.clone(), tally.clone());
        let name = self.network.names().0.to_owned();
        let thread = std::thread::spawn(move || {
            namespace::inside(&name, || {
                attack.run(&stopped, &counted, seed);
                Ok(())
            })
        });
        (stop, tally, thread)
    }

    /// Begins a disturbance.
    ///
    /// # Errors
    /// It cannot be begun, which no state of the hosts or targets excuses.
    pub(crate) fn begin(&mut self, disturbance: Disturbance) -> Result<Active, String> {
        let Disturbance { kind, link, role, degree, .. } = disturbance;
        *self.happened.entry(kind.name()).or_default() += 1;
        let mut work = Work::None;
        match kind {
            Kind::Cut => self.network.cut(link)?,
            Kind::CutOneWay(way) => self.network.cut_one_way(link, way)?,
            Kind::CutAll => (1..=LINKS).try_for_each(|link| self.network.cut(link))?,
            Kind::Slow => {
                let (rate_mbit, delay_ms) = (5.0 + 45.0 * degree, 40.0 * (1.0 - degree));
                self.network.set(link, &Settings { rate_mbit, delay_ms, ..Settings::default() })?;
            }
            Kind::Lossy => {
                let loss = 0.002 + 0.03 * degree;
                let mode = LossUnit::Mtu;
                self.network.set(link, &Settings { loss, mode, delay_ms: 2.0, ..Settings::default() })?;
            }
            Kind::Kill => self.target(role).kill(),
            Kind::Stop => self.target(role).terminate(),
            Kind::Pause => self.target(role).signal(Signal::STOP),
            Kind::Ana(state) => self.set_ana(role, state)?,
            Kind::Reset => self.reset_controller(role, degree)?,
            Kind::Namespace | Kind::Resize | Kind::DiskFull | Kind::HostKill => {
                work = self.begin_task(&disturbance)?;
            }
            Kind::Attack(kind) => {
                let watch = self.watch_admission(role)?;
                let (stop, tally, thread) = self.start_attack(self.attack(kind, role)?, disturbance.seed);
                work = Work::Attack(watch, stop, tally, thread);
            }
        }
        let until = Instant::now() + disturbance.lasts;
        Ok(Active { disturbance, until, work })
    }

    /// Ends a disturbance: all is as it was. Tasks report their result.
    ///
    /// # Errors
    /// It cannot be ended, or what came of it is not what had to.
    pub(crate) fn end(&mut self, active: Active) -> Result<Deeds, String> {
        let Disturbance { kind, link, role, .. } = active.disturbance;
        match kind {
            Kind::Cut | Kind::CutOneWay(_) => self.network.restore(link)?,
            Kind::CutAll => (1..=LINKS).try_for_each(|link| self.network.restore(link))?,
            Kind::Slow | Kind::Lossy => self.network.set(link, &Settings::default())?,
            Kind::Kill => self.target(role).start()?,
            Kind::Stop => {
                let ended = self.target(role).ended();
                self.target(role).start()?;
                ended?;
            }
            Kind::Pause => self.target(role).signal(Signal::CONT),
            Kind::Ana(_) => self.set_ana(role, "optimized")?,
            _ => {}
        }
        match active.work {
            Work::None => Ok(Deeds::default()),
            Work::Task(thread) => thread.join().unwrap_or_else(|_| Err("a task panicked".to_owned())),
            Work::Attack(watch, stop, tally, thread) => {
                let seen = watch.end();
                stop.store(true, Ordering::Relaxed);
                let ended = thread.join().unwrap_or_else(|_| Err("an attacker panicked".to_owned()));
                let named = |reason: String| format!("beside {}: {reason}", active.disturbance.line());
                let seen = seen.map_err(named)?;
                if let Kind::Attack(kind) = kind {
                    let count = self.attacks.entry(kind.name()).or_default();
                    count.attacks += 1;
                    count.connections += tally.made.load(Ordering::Relaxed);
                    count.refused += tally.refused.load(Ordering::Relaxed);
                    count.entry_ms_max = count.entry_ms_max.max(seen.entry_ms_max());
                    count.read_p99_ms_max = count.read_p99_ms_max.max(seen.read_ms(0.99));
                }
                seen.fault().map_or(Ok(()), |reason| Err(named(reason)))?;
                ended.map(|()| Deeds::default())
            }
        }
    }

    fn set_ana(&mut self, role: Role, state: &str) -> Result<(), String> {
        self.target(role).control().ask(&["ana", "set", role.nqn(), "1", state]).map(drop)
    }

    /// Ends one of the controllers that are there, if any is.
    fn reset_controller(&mut self, role: Role, degree: f64) -> Result<(), String> {
        let control = self.target(role).control();
        let list: Value = serde_json::from_str(&control.ask(&["connection", "list", "-o", "json"])?)
            .map_err(|error| format!("the list of connections is none: {error}"))?;
        let mut ids = Vec::new();
        collect_ids(&list, &mut ids);
        let Some(id) = ids.get((degree * ids.len() as f64) as usize) else { return Ok(()) };
        // It may be gone by now, which is what was wanted.
        let _ = control.ask(&["connection", "reset", &id.to_string()]);
        Ok(())
    }

    fn begin_task(&mut self, disturbance: &Disturbance) -> Result<Work, String> {
        let (kind, role) = (disturbance.kind, disturbance.role);
        let number = self.number();
        let mut dice = Dice::new(disturbance.seed);
        let region = match role {
            Role::PairA | Role::PairB => doomed_region(number as u32),
            Role::Single => {
                regions().into_iter().find(|region| region.name == "single").ok_or("no region")?
            }
            Role::Steady => regions().into_iter().find(|region| region.name == "disk").ok_or("no region")?,
        };
        let mut plan = Plan::by_chance(&region, 0, number, &mut dice).modest();
        plan.name = kind.name().replace(' ', "-");
        let log = format!("{number}-{}", plan.name);
        let control = self.target(role).control();
        let task = Task { site: self.site(false), control, nqn: role.nqn(), plan, log };
        let works = Duration::from_millis(1500 + u64::from(dice.next() % 2500));
        let steady = self.target(Role::Steady);
        let disk = steady.on_disk(THIN_FILE).zip(steady.on_disk("filler"));
        let (file, filler) = disk.ok_or("the steady target is not there")?;
        let thread = std::thread::spawn(move || match (kind, role) {
            (Kind::Namespace, _) => task.namespace_comes_and_goes(),
            (Kind::Resize, Role::Steady) => task.namespace_grows(3, 8),
            (Kind::Resize, _) => task.namespace_grows(2, 8),
            (Kind::DiskFull, _) => task.disk_is_full(2, &file, &filler),
            _ => task.host_is_killed(works),
        });
        Ok(Work::Task(thread))
    }
}

/// Connections that are not queues yet, of a target that has a reactor for each processor.
pub(crate) fn half_open_max() -> u64 {
    let reactors = std::thread::available_parallelism().map_or(1, usize::from);
    (reactors * HALF_OPEN_ACCEPTED_MAX) as u64
}

/// Every controller identifier in the list, wherever in it.
fn collect_ids(list: &Value, ids: &mut Vec<u64>) {
    match list {
        Value::Array(all) => all.iter().for_each(|one| collect_ids(one, ids)),
        Value::Object(fields) => {
            ids.extend(fields.get("cntlid").and_then(Value::as_u64));
            fields.values().for_each(|one| collect_ids(one, ids));
        }
        _ => {}
    }
}
