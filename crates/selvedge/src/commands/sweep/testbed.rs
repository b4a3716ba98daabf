//! Basis of a sweep: the target, its namespace, the path. It is inspected once, before the first measurement, so that
//! errors are reported early.

use std::net::SocketAddr;

use engine::initiator::{Controller, NamespaceInfo, Paths, Volume};
use measurement::setting::fit;
use nvme::discovery::Nqn;
use uuid::Uuid;

use crate::bench::paths::{self, PathsAsked};
use crate::commands::identify::ControllerReport;
use crate::config::connection::Connection;
use crate::config::workload::{Queues, Workload};
use crate::discovery;
use crate::failure::Failure;
use crate::flags::bench::BenchFlags;
use crate::flags::connection::Transport;
use crate::flags::sweep::{Given, Preset};
use crate::mptcp::{self, Applied};
use crate::report::document::FactGroup;
use crate::spec::size::Size;
use crate::sweep::advice::Surroundings;
use crate::sweep::environment;
use crate::sweep::journal::Identity;
use crate::sweep::plan::Plan;
use crate::sweep::preset::Abilities;

/// A target with a namespace, as they were found.
pub(super) struct Testbed {
    flags: BenchFlags,
    nqn: Nqn,
    addresses: Vec<SocketAddr>,
    pub(super) namespace: NamespaceInfo,
    target: FactGroup,
}

impl Testbed {
    /// Connects once, and checks that every point can be measured. A new sweep, with its typed options, leaves out values of its
    /// preset that the target does not support; the plan of a resumed one stays.
    pub(super) fn look(plan: Plan, typed: Option<&[Given]>) -> Result<(Self, Plan), Failure> {
        let first = plan.points().into_iter().next();
        let first = first.ok_or_else(|| Failure::usage("there is no point to measure"))?;
        // Any rate does: a share becomes a number when the full load is known.
        let bench = plan.bench_flags(&first, Some(1)).map_err(Failure::usage)?;
        let connection = Connection::new(&bench.connection)?;
        let nqn = discovery::subsystem(&connection, bench.nqn.as_ref())?;
        let queues = Queues { count: 1, entries: 32 };
        let options = paths::options(
            &PathsAsked::of(&bench, bench.first_nsid()),
            (&connection, &nqn),
            queues,
            bench.engine.into(),
            None,
        )?;
        let found = Paths::connect(options).map_err(Failure::failed)?;
        let (controllers, namespace) = (found.controllers(), found.namespace());
        // Other sweeps do not depend on abilities, and a target may count an unknown Identify as an error.
        let plan = match typed.filter(|_| plan.preset.and_then(Preset::question).is_some()) {
            Some(typed) => plan.within(abilities(&controllers, &namespace)?, typed),
            None => plan,
        };
        for point in &plan.points() {
            let flags = plan.bench_flags(point, Some(1)).map_err(Failure::usage)?;
            let (workload, _) = Workload::new(&flags)?;
            let fitted = fit(workload, &controllers, &namespace, None)?;
            if let Some(preset) = plan.preset {
                preset.check_room(point, &fitted).map_err(Failure::usage)?;
            }
        }
        let target = about(&nqn, &controllers, &namespace);
        let addresses = connection.socket_addresses();
        Ok((Self { nqn, addresses, flags: bench, namespace, target }, plan))
    }

    /// Sets what MPTCP needs on this machine, if any point uses it and that was asked for.
    pub(super) fn prepare_machine(&self, plan: &Plan) -> Result<Option<Applied>, Failure> {
        let points = plan.points();
        let flags = points.iter().filter_map(|point| plan.bench_flags(point, Some(1)).ok());
        let over_mptcp = flags.into_iter().find(|flags| flags.connection.transport == Transport::Mptcp);
        let flags = over_mptcp.as_ref().unwrap_or(&self.flags);
        mptcp::prepare_host(flags.connection.transport, flags.paths.configure_mptcp)
    }

    /// Returns the facts about the environment for a report.
    pub(super) fn facts(&self) -> Vec<FactGroup> {
        let mut groups = environment::facts(&self.addresses);
        groups.insert(1, self.target.clone());
        groups
    }

    /// Returns the identity of the namespace, and the facts that the report's statements need.
    pub(super) fn identity(&self) -> Identity {
        let namespace = &self.namespace;
        let uuid = namespace.uuid.map(|uuid| Uuid::from_bytes(uuid).to_string());
        let nguid = namespace.nguid.map(|nguid| Uuid::from_bytes(nguid).simple().to_string());
        Identity {
            nqn: self.nqn.to_string(),
            nsid: namespace.nsid,
            bytes: namespace.size_bytes(),
            unique: uuid.or(nguid),
            surroundings: Surroundings {
                processors: std::thread::available_parallelism().map_or(1, usize::from),
                is_local: self.is_local(),
                link_bits: environment::links_to(&self.addresses),
            },
        }
    }

    /// True if the target is on this machine.
    pub(super) fn is_local(&self) -> bool {
        self.addresses.iter().all(|address| environment::is_here(*address))
    }

    /// Process of a target on this machine, if it can be found.
    pub(super) fn target_process(&self) -> Option<u32> {
        self.is_local().then(|| environment::listener(&self.addresses)).flatten()
    }

    /// Checks that this is the namespace on which the sweep was begun.
    ///
    /// # Errors
    /// Another namespace, for which there is no consent to write.
    pub(super) fn is_still(&self, before: &Identity) -> Result<(), Failure> {
        let now = self.identity();
        if (&now.nqn, now.nsid, now.bytes, &now.unique)
            == (&before.nqn, before.nsid, before.bytes, &before.unique)
        {
            return Ok(());
        }
        Err(Failure::failed(format!(
            "namespace {} of {} is not the one this sweep was begun on ({} instead of {}): begin a new sweep",
            now.nsid,
            now.nqn,
            description(&now),
            description(before)
        )))
    }

    /// The namespace, for reading it.
    pub(super) fn open(&self) -> Result<Volume, Failure> {
        Connection::new(&self.flags.connection)?.volume(&self.nqn, self.namespace.nsid)
    }

    /// The subsystem's name.
    pub(super) const fn nqn(&self) -> &Nqn {
        &self.nqn
    }
}

/// Abilities over all paths: values of a preset must work on each of them.
fn abilities(controllers: &[Controller], namespace: &NamespaceInfo) -> Result<Abilities, Failure> {
    let longest = controllers.iter().map(Controller::transfer_length_max).min().unwrap_or(0);
    let mut has_volatile_cache = false;
    for controller in controllers {
        has_volatile_cache |= controller.has_volatile_cache(namespace.nsid).map_err(Failure::failed)?;
    }
    Ok(Abilities { transfer_bytes_max: longest as u64, has_volatile_cache })
}

fn description(identity: &Identity) -> String {
    format!("{}, {}", Size(identity.bytes), identity.unique.as_deref().unwrap_or("without an identifier"))
}

fn about(nqn: &Nqn, controllers: &[Controller], namespace: &NamespaceInfo) -> FactGroup {
    let fact = |name: &str, value: String| (name.to_owned(), value);
    let mut facts = vec![fact("NQN", nqn.to_string())];
    if let Some(controller) = controllers.first().map(ControllerReport::new) {
        facts.extend([
            fact("model", controller.model),
            fact("firmware", controller.firmware),
            fact("NVMe version", controller.version),
            fact("largest transfer", Size(controller.transfer_bytes_max as u64).to_string()),
            fact("largest queue", controller.queue_entries_max.to_string()),
            fact(
                "outstanding commands at most",
                match controller.outstanding_commands_max {
                    0 => "not said".to_owned(),
                    most => most.to_string(),
                },
            ),
            fact("data in a command capsule", Size(controller.in_capsule_bytes).to_string()),
            fact(
                "volatile write cache",
                if controller.volatile_write_cache { "yes" } else { "no" }.to_owned(),
            ),
        ]);
    }
    facts.push(fact("namespace", namespace.nsid.to_string()));
    facts.push(fact("namespace's size", Size(namespace.size_bytes()).to_string()));
    facts.push(fact("blocks", Size(u64::from(namespace.block_size)).to_string()));
    FactGroup { title: "Target".to_owned(), facts }
}
