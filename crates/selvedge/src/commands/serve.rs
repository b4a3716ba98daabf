//! `selvedge serve`: a target in the foreground, until a signal ends it.

mod confined;

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use engine::address::NetAddress;
use engine::limits::SECRET_FILE_BYTES_MAX;
use engine::secret_file;
use engine::target::{FabricConfig, Nguid, PortConfig, Target, TargetConfig};
use secure_channel::SealingKey;
use serde::Serialize;
use uuid::Uuid;

use crate::announce::Announcer;
use crate::cluster_connections::ClusterConnections;
use crate::config::target::ServeConfig;
use crate::control::access::AllowedStorage;
use crate::control::administration::Administration;
use crate::control::audit::{AuditLog, Event, Kind};
use crate::control::{Control, HostRequestWorker, Listeners, SizeWatch};
use crate::failure::Failure;
use crate::flags::OutputFormat;
use crate::flags::serve::ServeFlags;
use crate::hand_over::{NewProcess, OldProcess};
use crate::machine::Machine;
use crate::mptcp::{Applied, HandedSettings, MptcpMachine, MptcpPlan};
use crate::report;
use crate::report::table::{Side, Table};
use crate::service::{self, Service};
use crate::spec::namespace;
use crate::spec::size::Size;
use crate::state::StateFile;
use crate::state_directory::StateDirectory;
use crate::stop::Stop;
use gateway::{GroupSpec, Member, host_name};

/// Time limit, and interval, of attempts to start a target whose old process was killed.
const START_LIMIT: Duration = Duration::from_secs(30);
const START_AGAIN: Duration = Duration::from_millis(100);

/// Serves until SIGINT or SIGTERM.
pub(super) fn run(flags: &ServeFlags) -> Result<(), Failure> {
    let listeners = Listeners::new(&flags.administered)?;
    let list = listeners.storage();
    // Before the target: a signal that comes while it opens its namespaces is not lost.
    let mut stop = Stop::on_signals()?;
    engine::ring::core::raise_descriptor_limit();
    let new_process = NewProcess::from_environment()?;
    let slow_commands = match &new_process {
        Some(new_process) => new_process.slow_commands(flags.slow_commands),
        None => flags.slow_commands,
    };
    let Begun { target, administration, member, connections, mptcp, former, directory } =
        match &flags.gateway_group {
            Some(group) => begin_as_gateway(flags, list.as_ref(), group, new_process)?,
            None => begin(flags, list.as_ref(), new_process)?,
        };
    administration.audit().write(Event::done(Kind::Start));
    // Before an administrator can change it.
    target.keep_slow_commands(slow_commands);
    let host_requests = HostRequestWorker::open(&target, administration.clone())?;
    let size_watch = SizeWatch::start(&administration);
    let metrics = listeners.start_metrics(&administration)?;
    let calls = listeners.start_calls(&administration)?;
    let controls = listeners.start_controls(&target, &administration)?;
    let announcer = announce(flags, &target)?;
    let (mptcp, settings) = MptcpSummary::prepare(flags, mptcp.as_ref(), &target, former)?;
    let summary = Summary::new(&target.config(), &target, &controls, mptcp);
    let printed = match flags.output.output_format {
        OutputFormat::Normal => report::print(&summary),
        OutputFormat::Json => report::print_json(&summary),
    };
    match printed {
        // A target serves even if its output has no reader.
        Ok(()) | Err(Failure::ReaderGone) => {}
        Err(failure) => return Err(failure),
    }
    let endpoints = controls.iter().map(|control| control.endpoint().clone());
    let settings_left = settings.as_ref().map(Applied::handed);
    let old_process = OldProcess::wait(endpoints, &target, &administration, directory, settings_left);
    let service = Service::ready(&target);
    stop.wait();
    if old_process.as_ref().is_some_and(OldProcess::is_over) {
        // Where the new process listens for administrators, too.
        drop((old_process, announcer, controls, metrics, calls, host_requests, size_watch));
        if let Some(settings) = settings {
            settings.disown();
        }
        target.leave();
        return Ok(());
    }
    drop(old_process);
    service.stopping();
    // Discovery announcements end before the target stops answering.
    drop(announcer);
    // Nothing may still be changed by the time connections are closed.
    drop((controls, metrics, calls, host_requests, size_watch));
    administration.audit().write(Event::done(Kind::Stop));
    // Others serve what this gateway does before its hosts lose their connections.
    let left = member.map_or(Ok(()), Member::leave);
    target.shutdown();
    // The next start has no process to shut out.
    if let Some(connections) = connections {
        connections.end();
    }
    // Connections that go over the addresses have ended in order.
    drop(settings);
    Ok(left?)
}

/// A target that serves, whose it is to change, and its part in a group of gateways.
struct Begun {
    target: Arc<Target>,
    administration: Arc<Administration>,
    member: Option<Member>,
    /// Record of its connections to Ceph clusters, which holds its state directory.
    connections: Option<Arc<ClusterConnections>>,
    /// The machine's settings, where a port has MPTCP.
    mptcp: Option<MptcpMachine>,
    /// MPTCP settings that the old process has made.
    former: Option<Applied>,
    /// State directory.
    directory: Option<Arc<StateDirectory>>,
}

/// Serves what flags, a file or the state directory say.
fn begin(
    flags: &ServeFlags,
    list: Option<&AllowedStorage>,
    new_process: Option<NewProcess>,
) -> Result<Begun, Failure> {
    let directory = flags.state_dir.as_deref().map(StateDirectory::take).transpose()?.map(Arc::new);
    let state = directory.clone().map(StateFile::new);
    let kept = state.as_ref().map_or(Ok(None), StateFile::read)?;
    let machine = Machine::find(directory.as_deref().map(|directory| directory.folder.path()))?;
    machine.warn();
    let config = ServeConfig::new(flags, kept.as_ref(), &machine)?;
    let mut engine =
        config.to_engine(&machine, directory.as_ref().map(|directory| directory.folder.path().to_owned()));
    engine.sealing_key = sealing_key(flags)?;
    for subsystem in engine.fabric.subsystems.iter().filter(|subsystem| !subsystem.nqn.starts_with("nqn.")) {
        tracing::warn!(
            "subsystem {}: the name does not begin with nqn.; Linux takes it, and other hosts may not",
            subsystem.nqn
        );
    }
    for text in engine.fabric.former_texts() {
        tracing::warn!("{} {}; kept from an earlier version, remove or replace it", text.path, text.reason());
    }
    // An error in the flags is reported at once; a service that starts with the machine waits for its disks.
    engine.may_disks_be_absent = flags.namespaces.is_empty();
    match &new_process {
        Some(new_process) => new_process.prepare(&mut engine),
        None => engine.inherited = service::inherited()?,
    }
    let addresses: Vec<SocketAddr> =
        engine.fabric.ports.iter().map(|port| port.address.to_socket_addr()).collect();
    service::check_inherited(&engine.inherited, &addresses)?;
    let connections = match &new_process {
        Some(_) => directory.clone().map(ClusterConnections::beside),
        None => directory.clone().map(ClusterConnections::open),
    };
    engine.ceph.before_use = connections.as_ref().map(ClusterConnections::before_use);
    let mptcp = MptcpSummary::look(flags, &engine.fabric.ports)?;
    let packets = topology::Machine::live_with_former_answers();
    // Before the first thread: each has what the one had that started it.
    let confinement = confined::confine(flags, list, &engine)?;
    let mut target = Arc::new(Target::start(&engine).map_err(Failure::failed)?);
    let mut former = None;
    if let Some(new_process) = new_process {
        let settings = new_process.settings();
        let serves = new_process.take_place(&target, None)?;
        former = settings.map(HandedSettings::go_on);
        if !serves {
            drop(target);
            engine.is_held = false;
            engine.directives.standby.clear();
            target = Arc::new(start_after_kill(&engine)?);
        }
        connections.iter().for_each(|connections| connections.forget_left());
    }
    // Only now: the old process has written there until its end.
    let audit = AuditLog::open(flags.audit_log.as_ref(), directory.as_ref())?;
    let administration = Administration::new(target.clone(), state)
        .map_err(|error| Failure::failed(format!("the state cannot be written: {error}")))?;
    let administration = Arc::new(administration.audited(audit).confined(confinement).on_machine(packets));
    Ok(Begun { target, administration, member: None, connections, mptcp, former, directory })
}

/// Returns the key that seals hosts' keys stored by the target.
fn sealing_key(flags: &ServeFlags) -> Result<Option<Arc<SealingKey>>, Failure> {
    let read = |file: &PathBuf| {
        let wrong = |what: String| Failure::usage(format!("--encryption-key: {what}"));
        let text =
            secret_file::text(file, SECRET_FILE_BYTES_MAX).map_err(|error| wrong(error.to_string()))?;
        let key = SealingKey::read(&text);
        key.map(Arc::new).map_err(|what| wrong(format!("{}: {what}", file.display())))
    };
    flags.encryption_key.as_ref().map(read).transpose()
}

/// Starts a target whose old process was killed: unfinished operations of that process hold its files until they end.
fn start_after_kill(engine: &TargetConfig) -> Result<Target, Failure> {
    let until = Instant::now() + START_LIMIT;
    loop {
        match Target::start(engine) {
            Ok(target) => return Ok(target),
            Err(error) if Instant::now() >= until => return Err(Failure::failed(error)),
            Err(error) => tracing::warn!(%error, "the target cannot be started yet; retrying"),
        }
        std::thread::sleep(START_AGAIN);
    }
}

/// Serves what a group of gateways does.
fn begin_as_gateway(
    flags: &ServeFlags,
    list: Option<&AllowedStorage>,
    group: &GroupSpec,
    new_process: Option<NewProcess>,
) -> Result<Begun, Failure> {
    let config = ServeConfig::of_gateway(flags)?;
    let name = flags.gateway_name.clone().unwrap_or_else(host_name);
    let group = &GroupSpec { location: flags.gateway_location.clone(), ..group.clone() };
    // Of what a group serves, nothing is known by the machine but serial numbers, which the group keeps.
    let mut engine = config.to_engine(&Machine::find(None)?, None);
    engine.sealing_key = sealing_key(flags)?;
    let mptcp = MptcpSummary::look(flags, &engine.fabric.ports)?;
    let packets = topology::Machine::live_with_former_answers();
    // Before the cluster's library starts threads.
    let confinement = confined::confine(flags, list, &engine)?;
    let (target, member, former) = match new_process {
        Some(new_process) => take_place_as_gateway(&engine, (group, &name), new_process)?,
        None => {
            let (target, member) = join(&mut engine, (group, &name))?;
            (target, member, None)
        }
    };
    let administration = Administration::of_gateway(target.clone(), member.membership());
    let audit = AuditLog::open(flags.audit_log.as_ref(), None)?;
    let administration = Arc::new(administration.audited(audit).confined(confinement).on_machine(packets));
    Ok(Begun {
        target,
        administration,
        member: Some(member),
        connections: None,
        mptcp,
        former,
        directory: None,
    })
}

/// Becomes a gateway of a group, and serves.
fn join(
    engine: &mut TargetConfig,
    (group, name): (&GroupSpec, &str),
) -> Result<(Arc<Target>, Member), Failure> {
    let mut member = Member::join(group, name)?;
    member.number_ports(&mut engine.fabric.ports);
    let target = start_gateway(engine, &member)?;
    member.serve(target.clone())?;
    Ok((target, member))
}

/// Takes over as the gateway of the old process, or rejoins the group if that process has died.
fn take_place_as_gateway(
    engine: &TargetConfig,
    who: (&GroupSpec, &str),
    new_process: NewProcess,
) -> Result<(Arc<Target>, Member, Option<Applied>), Failure> {
    let prepare = || {
        let (mut engine, (group, name)) = (engine.clone(), who);
        let (offered, ports) = new_process.gateway()?;
        engine.fabric.ports = ports.to_vec();
        new_process.hold(&mut engine);
        let member = Member::in_place_of(group, name, offered)?;
        start_gateway(&mut engine, &member).map(|target| (target, member))
    };
    match prepare() {
        Ok((target, mut member)) => {
            let settings = new_process.settings();
            new_process.take_place(&target, Some(&mut member))?;
            Ok((target, member, settings.map(HandedSettings::go_on)))
        }
        // The others may have given up a gateway whose process died meanwhile.
        Err(failure) if new_process.is_alone() => {
            let reason = failure.line().unwrap_or_default();
            tracing::warn!(reason, "the old process has died; rejoining the group");
            let mut engine = engine.clone();
            let settings = new_process.replace_dead(&mut engine);
            let (target, member) = join(&mut engine, who)?;
            Ok((target, member, settings.map(HandedSettings::go_on)))
        }
        Err(failure) => Err(failure),
    }
}

/// Starts the target of a gateway.
fn start_gateway(engine: &mut TargetConfig, member: &Member) -> Result<Arc<Target>, Failure> {
    (engine.fabric, engine.directives) = member.first_fabric(&engine.fabric.ports);
    engine.controller_ids = member.controller_ids();
    engine.ceph.before_use = Some(member.before_use());
    engine.tag = Some(member.tag());
    engine.peer_resets = Some(member.peer_resets());
    engine.ceph.are_images_shared = true;
    Target::start(engine).map(Arc::new).map_err(Failure::failed)
}

/// Announces the target on the local network, if wanted.
fn announce(flags: &ServeFlags, target: &Arc<Target>) -> Result<Option<Announcer>, Failure> {
    let served = target.clone();
    let start = || Announcer::start(move || served.config());
    let announcer = flags.mdns.then(start).transpose();
    announcer.map_err(|error| Failure::failed(format!("the target cannot be announced: {error}")))
}

#[derive(Serialize, schemars::JsonSchema)]
pub(super) struct Summary {
    listening: Vec<String>,
    /// Address of the control API: the first of `controls`.
    control: Option<String>,
    /// Addresses of the control API.
    controls: Vec<String>,
    subsystems: Vec<SubsystemSummary>,
    /// Settings of the machine that MPTCP needs, if a port uses it.
    #[serde(skip_serializing_if = "Option::is_none")]
    mptcp: Option<MptcpSummary>,
}

/// Settings of the machine for MPTCP.
#[derive(Default, Serialize, schemars::JsonSchema)]
struct MptcpSummary {
    /// Commands that were run, and are undone at the end.
    configured: Vec<String>,
    /// Commands that an administrator must run.
    missing: Vec<String>,
    /// Obstacles to further settings.
    remarks: Vec<String>,
}

impl MptcpSummary {
    /// Looks at the machine's settings, where a port has MPTCP. It runs a program, which a confined process cannot.
    fn look(flags: &ServeFlags, ports: &[PortConfig]) -> Result<Option<MptcpMachine>, Failure> {
        if ports.iter().all(|port| port.transport.is_tcp()) {
            return if flags.configure_mptcp {
                Err(Failure::usage("--configure-mptcp: no port has MPTCP; -t mptcp gives it to those of -a"))
            } else {
                Ok(None)
            };
        }
        match MptcpMachine::look() {
            Ok(machine) => Ok(Some(machine)),
            Err(failure) if flags.configure_mptcp => Err(failure),
            // One address serves without any settings.
            Err(failure) => {
                let reason = failure.line().unwrap_or_default();
                tracing::warn!("cannot read the MPTCP configuration: {reason}");
                Ok(None)
            }
        }
    }

    /// Prints missing MPTCP settings of the machine for the ports, and makes them if wanted, in
    /// addition to those of the old process. The returned value reverts them when it is
    /// dropped.
    fn prepare(
        flags: &ServeFlags,
        machine: Option<&MptcpMachine>,
        target: &Target,
        former: Option<Applied>,
    ) -> Result<(Option<Self>, Option<Applied>), Failure> {
        let Some(machine) = machine else { return Ok((None, former)) };
        let ports = target.config().ports;
        let addresses: Vec<SocketAddr> = ports
            .iter()
            .filter(|port| !port.transport.is_tcp())
            .map(|port| port.address.to_socket_addr())
            .collect();
        let plan = MptcpPlan::for_target(machine, &addresses);
        let mut summary = Self { remarks: plan.remarks().to_vec(), ..Self::default() };
        if !flags.configure_mptcp {
            summary.missing = plan.lines();
            return Ok((Some(summary), former));
        }
        let mut applied = plan.apply()?;
        if let Some(former) = former {
            applied = applied.behind(former);
        }
        summary.configured = applied.lines().to_vec();
        Ok((Some(summary), Some(applied)))
    }
}

impl fmt::Display for MptcpSummary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.missing.is_empty() {
            writeln!(f, "for MPTCP to use all addresses, root has to run (--configure-mptcp does):")?;
        } else if !self.configured.is_empty() {
            writeln!(f, "set for MPTCP, and undone at the end:")?;
        }
        for line in self.missing.iter().chain(&self.configured) {
            writeln!(f, "  {line}")?;
        }
        for remark in &self.remarks {
            writeln!(f, "  # {remark}")?;
        }
        Ok(())
    }
}

#[derive(Serialize, schemars::JsonSchema)]
struct SubsystemSummary {
    nqn: String,
    serial: String,
    allow_any_host: bool,
    hosts: Vec<String>,
    namespaces: Vec<NamespaceSummary>,
}

#[derive(Serialize, schemars::JsonSchema)]
struct NamespaceSummary {
    nsid: u32,
    /// Size in bytes; unknown while the namespace is absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    size_bytes: Option<u64>,
    /// Bytes of a block; a device that is absent has not been asked for them.
    #[serde(skip_serializing_if = "Option::is_none")]
    block_size: Option<u32>,
    backend: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    uuid: Option<Uuid>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    nguid: Option<Nguid>,
}

impl Summary {
    fn new(
        fabric: &FabricConfig,
        target: &Target,
        controls: &[Control],
        mptcp: Option<MptcpSummary>,
    ) -> Self {
        let known = target.status().namespaces;
        let subsystems = fabric.subsystems.iter().map(|subsystem| SubsystemSummary {
            nqn: subsystem.nqn.clone(),
            serial: subsystem.serial.clone(),
            allow_any_host: subsystem.allow_any_host,
            hosts: if subsystem.allow_any_host { Vec::new() } else { subsystem.hosts.clone() },
            namespaces: subsystem
                .namespaces
                .iter()
                .map(|config| {
                    let status = known.iter().find(|known| {
                        (known.subsystem.as_str(), known.nsid) == (subsystem.nqn.as_str(), config.nsid)
                    });
                    NamespaceSummary {
                        nsid: config.nsid,
                        size_bytes: status.and_then(|status| status.size_bytes),
                        block_size: Some(config.block_size).filter(|bytes| *bytes > 0),
                        backend: namespace::describe(&config.backend),
                        uuid: status.and_then(|status| status.uuid),
                        nguid: status.and_then(|status| status.nguid),
                    }
                })
                .collect(),
        });
        Self {
            listening: target.ports().into_iter().map(|port| NetAddress::from(port).to_string()).collect(),
            control: controls.first().map(|control| control.endpoint().to_string()),
            controls: controls.iter().map(|control| control.endpoint().to_string()).collect(),
            subsystems: subsystems.collect(),
            mptcp,
        }
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for address in &self.listening {
            writeln!(f, "listening on {address}")?;
        }
        for control in &self.controls {
            writeln!(f, "administered at {control}")?;
        }
        if self.subsystems.is_empty() {
            writeln!(
                f,
                "nothing is served yet: `selvedge subsystem add` and `selvedge namespace add` change that"
            )?;
        }
        for subsystem in &self.subsystems {
            let hosts = match subsystem.hosts.as_slice() {
                [] if subsystem.allow_any_host => "any host".to_owned(),
                [] => "no host yet".to_owned(),
                [host] => format!("host {host}"),
                hosts => format!("{} hosts", hosts.len()),
            };
            writeln!(f, "{}  serial {}, {hosts}", subsystem.nqn, subsystem.serial)?;
            let columns = [
                ("nsid", Side::Right),
                ("size", Side::Right),
                ("block", Side::Right),
                ("backend", Side::Left),
                ("uuid", Side::Left),
            ];
            let mut table = Table::new(&columns).indented(2);
            for namespace in &subsystem.namespaces {
                let absent = || "-".to_owned();
                table.row(vec![
                    namespace.nsid.to_string(),
                    namespace.size_bytes.map_or_else(absent, |bytes| Size(bytes).to_string()),
                    namespace.block_size.map_or_else(absent, |bytes| bytes.to_string()),
                    namespace.backend.clone(),
                    namespace.uuid.map_or_else(absent, |uuid| uuid.to_string()),
                ]);
            }
            write!(f, "{table}")?;
        }
        if let Some(mptcp) = &self.mptcp {
            write!(f, "{mptcp}")?;
        }
        Ok(())
    }
}
