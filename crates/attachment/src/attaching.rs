//! `selvedge attach`: namespaces as disks for programs that know no NVMe, in the foreground until a signal ends it; and what is
//! done with disks that are attached.

mod confined;
mod controllers;
mod detach;
pub mod edges;
mod ending;
mod hand_over;
mod host_metrics;
mod list;
mod many;
mod nbd;
mod nbd_tls;
mod nvme_names;
mod other_attachment;
mod path_notice;
mod process;
mod record;
mod record_keeping;
mod records_lock;
mod recover;
mod stage_notice;
mod ublk;
mod udev;
mod upgrade;
mod vhost_user;

use std::fmt;
use std::io;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use attach::ublk::{Device, FoundDevice};
use attach::{Disk, Server, ServerOptions, ServerTls, Tally};
use chart::units;
use engine::initiator::{PathState, Paths};
use engine::ring::RingOptions;
use engine::ring::core::{descriptor_limit, raise_descriptor_limit};
use host_connection::config::connection::Connection;
use measurement::bench::paths::{self, PathsAsked};
use measurement::workload::Queues;
use nvme::discovery::Nqn;
use serde::Serialize;

use self::confined::Prepared;
use self::controllers::{AllControllers, WaitNotice};
pub use self::detach::Detached;
use self::ending::{EndRequest, Ending, EndingStep};
use self::hand_over::{
    DiskGroup, GroupServer, GroupTakeOver, HandedState, NewProcess, OldProcess, Registration,
};
use self::host_metrics::HostMetrics;
pub use self::list::AttachedDisks;
use self::nbd::{Address, NbdListener};
use self::nvme_names::NvmeNames;
use self::other_attachment::OtherAttachment;
use self::path_notice::PathNotice;
use self::record::{AttachMethod, CommandLine, KeptRecord, KnownRecord, RecordedDisk, identity};
use self::stage_notice::StageNotice;
pub use self::upgrade::UpgradedProcesses;
use crate::control::socket::{self, SocketFile};
use crate::discovery;
use crate::failure::Failure;
use crate::flags::OutputFormat;
use crate::flags::attach::{AttachAction, AttachFlags, HostMetricsFlags, NbdEndpoint};
use crate::mptcp;
use crate::report;
use crate::sleeper::Sleeper;
use crate::spec::size::Size;
use crate::stop::{self, Stop};

/// Interval of checks for remaining disks. Signals and upgrades are handled earlier.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);

/// A process that was killed still listens until the kernel has ended its ring: this is how long it is waited for.
const KILLED_FOR: Duration = Duration::from_secs(1);

/// Why a process does not go on with disks that were served otherwise.
const OTHER_WAY: &str = "the old process serves these disks in another way: start it again instead";

/// Maximum length of a Unix socket's path that clients can connect to (unix(7)).
const SOCKET_PATH_BYTES_MAX: usize = 107;

/// Reason why the kernel must not connect to a subsystem: a namespace of it is attached for writing.
pub fn writer_of(nqn: &Nqn) -> Option<String> {
    let found = FoundDevice::all().unwrap_or_default();
    OtherAttachment::writer_of(nqn.as_str(), &KnownRecord::all(), &found)
}

/// Does what was typed.
pub fn run(flags: &AttachFlags) -> Result<(), Failure> {
    // Each virtqueue has three descriptors. Before confinement, whose filter has no such call.
    raise_descriptor_limit();
    match &flags.action {
        None => {
            let line = CommandLine::here()?;
            let prepared = confined::prepare(flags)?;
            confined::confine(&flags.confinement, &[flags])?;
            let process = AttachProcess::begin(line.clone(), std::iter::once(&line), &flags.metrics)?;
            serve(flags, line, None, &process, prepared)
        }
        Some(AttachAction::List { udev: Some(device), .. }) => udev::run(*device),
        Some(AttachAction::List { udev: None, output }) => list::run(output.output_format),
        Some(AttachAction::Serve { config, disk, check, metrics, confinement, output, .. }) => {
            let format = output.output_format;
            many::run(&many::Asked { config, disks: disk, is_check: *check, metrics, confinement, format })
        }
        Some(AttachAction::Detach { disks, force, output }) => {
            detach::run(disks, *force, output.output_format)
        }
        Some(AttachAction::Upgrade(flags)) => upgrade::run(flags),
        Some(AttachAction::Recover { ublk_device, output, .. }) => {
            recover::run(*ublk_device, output.output_format)
        }
    }
}

/// Process of attached disks: the state for taking over from an old process, and for a handover to the new one; and metrics of
/// all its disks.
struct AttachProcess {
    new_process: Option<NewProcess>,
    old_process: OldProcess,
    metrics: HostMetrics,
    /// NBD clients of each part.
    clients_max: usize,
}

impl AttachProcess {
    /// Starts the process with this command line for these parts.
    fn begin<'a>(
        line: CommandLine,
        groups: impl Iterator<Item = &'a CommandLine> + Clone,
        metrics: &HostMetricsFlags,
    ) -> Result<Self, Failure> {
        // An upgrade needs another descriptor for each client, and a file for one with requests or answers in part. The rest is for
        // paths and records.
        let clients_max = descriptor_limit() / 4 / groups.clone().count().max(1);
        let new_process = NewProcess::from_environment()?;
        if let Some(new_process) = &new_process {
            new_process.check(&groups.map(|group| &group.arguments))?;
        }
        let metrics = HostMetrics::start(metrics, new_process.is_some())?;
        Ok(Self { new_process, old_process: OldProcess::wait(line), metrics, clients_max })
    }
}

/// Reads all files that are named, and looks whether the flags go together.
fn check(flags: &AttachFlags) -> Result<(), Failure> {
    vhost_user::check(flags)?;
    nbd_tls::read(&flags.nbd_tls)?;
    Connection::new(&flags.connection).map(drop)
}

/// Connects, serves, and ends. The disks are new ones, or those of a process that is gone.
fn serve(
    flags: &AttachFlags,
    line: CommandLine,
    previous: Option<KnownRecord>,
    process: &AttachProcess,
    Prepared { connection, nbd_tls, found }: Prepared,
) -> Result<(), Failure> {
    let registration = process.old_process.register(&line.arguments);
    let take_over = process.new_process.as_ref().and_then(|new_process| new_process.take(&line.arguments));
    let stop = Stop::on_signals()?;
    // Clients may take all descriptors that are left.
    let sleeper =
        Sleeper::new().map_err(|error| Failure::failed(format!("cannot watch for signals: {error}")))?;
    let stages = StageNotice::new()?;
    if take_over.is_none() {
        eprintln!("connecting to {}", connection.addresses());
    }
    let nqn = discovery::subsystem(&connection, flags.nqn.as_ref())?;
    let _machine = mptcp::prepare_host(flags.connection.transport, flags.paths.configure_mptcp)?;
    let threads = flags.threads.unwrap_or_else(|| if flags.ublk { ublk::processors() } else { 1 });
    let controllers = Arc::new(AllControllers::new());
    let attaching = Attaching {
        flags,
        line,
        previous,
        connection: &connection,
        nqn: &nqn,
        threads,
        controllers,
        found,
        registration,
        sleeper,
        stages,
        metrics: &process.metrics,
        clients_max: process.clients_max,
    };
    let disks = attaching.disks()?;
    let _reported = process.metrics.report(&disks);
    match &flags.nbd {
        Some(endpoint) => attaching.serve_clients((endpoint, nbd_tls), disks, take_over, &stop),
        None if flags.ublk => ublk::serve(&attaching, &disks, take_over, &stop),
        None => vhost_user::serve(&attaching, disks, take_over, &stop),
    }
}

/// Options and state of a process that attaches disks.
struct Attaching<'a> {
    flags: &'a AttachFlags,
    line: CommandLine,
    /// Record of the old process, whose disks are taken over.
    previous: Option<KnownRecord>,
    connection: &'a Connection,
    nqn: &'a Nqn,
    threads: u16,
    controllers: Arc<AllControllers>,
    /// Block devices of the kernel's driver when the process began.
    found: Vec<FoundDevice>,
    /// By which the process that comes after this one gets the disks.
    registration: Registration<'a>,
    /// Wakes the thread that waits for the end.
    sleeper: Sleeper,
    /// Prints the stages of commands on request.
    stages: StageNotice,
    metrics: &'a HostMetrics,
    clients_max: usize,
}

impl Attaching<'_> {
    /// The namespaces, each by paths of its own.
    fn disks(&self) -> Result<Vec<Disk>, Failure> {
        let Self { flags, connection, nqn, threads, ref controllers, .. } = *self;
        let queues = Queues { count: threads, entries: flags.queue_size };
        let mut disks: Vec<Disk> = Vec::with_capacity(flags.nsid.len());
        for nsid in &flags.nsid {
            let name = nsid.to_string();
            if disks.iter().any(|disk| disk.name == name) {
                return Err(Failure::usage(format!("namespace {nsid} is named twice")));
            }
            let asked = PathsAsked { flags: &flags.paths, nsid: *nsid, is_kept: true };
            let mut options = paths::options(&asked, (connection, nqn), queues, flags.engine.into(), None)?;
            if flags.ublk {
                ublk::bound_waiting(&mut options);
            }
            let paths = controllers.connect(options)?;
            // The target's controllers are alike for all of its namespaces.
            if let Some(notice) = paths::quiesce_notice(&flags.paths, &paths).filter(|_| disks.is_empty()) {
                tracing::warn!(target: "selvedge::commands::attach", "{notice}");
            }
            let description = format!("namespace {nsid} of {nqn}");
            disks.push(Disk { name, description, paths, is_read_only: flags.read_only });
        }
        Ok(disks)
    }

    fn ring(&self) -> RingOptions {
        RingOptions {
            engine: self.flags.engine.into(),
            poll_us_max: self.flags.poll_us.unwrap_or(RingOptions::default().poll_us_max),
        }
    }

    /// Options of a server that takes no client yet: another process may have the disks, or get
    /// them at the same moment.
    fn server_options(&self) -> ServerOptions {
        let Self { threads, clients_max, .. } = *self;
        ServerOptions { threads, ring: self.ring(), is_held: true, clients_max }
    }

    fn prints_text(&self) -> bool {
        matches!(self.flags.output.output_format, OutputFormat::Normal)
    }

    /// Prints the stages of the commands of all disks, once their threads have ended.
    fn print_stages(&self, disks: &[Arc<Paths>]) {
        if self.prints_text() {
            StageNotice::end(disks);
        }
    }

    /// Returns the disks' records, without their places. `former` are those of the process whose disks
    /// these are.
    ///
    /// # Errors
    /// When another process has attached one of them for writing, or its block device waits for a recovery.
    fn recorded(
        &self,
        disks: &[Disk],
        former: Option<&[RecordedDisk]>,
    ) -> Result<Vec<RecordedDisk>, Failure> {
        let recorded = |disk: &Disk| {
            let info = disk.paths.namespace();
            let former = former.and_then(|former| former.iter().find(|former| former.nsid == info.nsid));
            RecordedDisk {
                nsid: info.nsid,
                namespace: identity(self.nqn, &info),
                names: NvmeNames::of(&disk.paths),
                device: None,
                socket: None,
                address: None,
                // A block device stays as it began; guests and NBD clients write once the protection has ended.
                read_only: disk.is_read_only || (self.flags.ublk && info.is_write_protected),
                is_second: former.is_some_and(|former| former.is_second),
            }
        };
        let mut recorded: Vec<RecordedDisk> = disks.iter().map(recorded).collect();
        if former.is_none() {
            self.check_alone(&mut recorded, None)?;
        }
        Ok(recorded)
    }

    fn serve_clients(
        &self,
        (endpoint, tls): (&NbdEndpoint, Option<ServerTls>),
        disks: Vec<Disk>,
        mut take_over: Option<GroupTakeOver>,
        stop: &Stop,
    ) -> Result<(), Failure> {
        let all_paths: Vec<Arc<Paths>> = disks.iter().map(|disk| disk.paths.clone()).collect();
        let recorded = self.recorded(&disks, take_over.as_ref().map(|one| &one.offered.disks[..]))?;
        let listener = self.nbd_listener(endpoint, &all_paths[0], take_over.as_mut())?;
        let duplicate = listener.duplicate().map_err(Failure::failed)?;
        let (file, own_listener, address) = listener.parts();
        let recorded: Vec<RecordedDisk> = recorded.into_iter().map(|disk| address.record(disk)).collect();
        let server = Server::start_with(disks, vec![own_listener], tls, self.server_options());
        let server = server.map_err(|error| Failure::failed(format!("cannot serve NBD clients: {error}")))?;
        let holder = server.holder();
        if let Some(take_over) = &mut take_over {
            let adopt = |state, sockets| {
                let HandedState::Nbd(clients) = state else { return Err(OTHER_WAY.to_owned()) };
                holder.adopt(clients, sockets).map_err(|error| error.to_string())
            };
            let service = match take_over.complete(adopt) {
                Ok(service) => service,
                Err(failure) => {
                    // It is still the old process's.
                    file.into_iter().for_each(SocketFile::leave);
                    return Err(failure);
                }
            };
            if service.has_old_died {
                self.controllers.look_again();
            }
            holder.thaw(service.is_disowned);
        }
        let previous = take_over.as_ref().and_then(|one| one.offered.record.as_deref());
        let kept = self.keep(AttachMethod::Nbd, recorded.clone(), previous)?;
        if take_over.is_none() {
            holder.thaw(false);
        }
        self.hold(kept.as_ref(), recorded, GroupServer::Nbd { holder, listener: duplicate });
        match take_over {
            Some(take_over) => take_over.serves(),
            None => {
                let attached = self.attached(server.threads());
                let attached = attached.with_clients(&server, &address, self.flags.nbd_tls.is_wanted());
                report::print_as(self.flags.output.output_format, &attached)?;
            }
        }
        let has_failed = || {
            let said = "a thread of the NBD server has ended; see the log";
            (server.has_failed() && !self.registration.is_over()).then(|| said.to_owned())
        };
        let outcome = watch(stop, self, &all_paths, has_failed, || None);
        if self.registration.is_over() {
            file.into_iter().for_each(SocketFile::leave);
            drop(server);
            return Ok(());
        }
        let tally = server.stop();
        drop((file, kept));
        if self.prints_text() {
            eprintln!("{}", summary(&tally));
        }
        self.print_stages(&all_paths);
        outcome
    }

    /// Returns the listening socket: that of the old process, or a new one.
    fn nbd_listener(
        &self,
        asked: &NbdEndpoint,
        paths: &Paths,
        take_over: Option<&mut GroupTakeOver>,
    ) -> Result<NbdListener, Failure> {
        let namespace = paths.namespace();
        let Some(take_over) = take_over else {
            let listener = NbdListener::open(asked, self.nqn, &namespace)?;
            self.controllers.look_again();
            return Ok(listener);
        };
        let listener = take_over.descriptors.pop();
        let offered = listener.zip(take_over.offered.disks.first());
        let offered = offered.ok_or_else(|| Failure::failed(OTHER_WAY))?;
        NbdListener::inherited(asked, (self.nqn, &namespace), offered)
    }

    /// Registers the disks for a handover to the new process.
    fn hold(&self, kept: Option<&KeptRecord>, disks: Vec<RecordedDisk>, holder: GroupServer) {
        let (record, controllers) = (kept.map(KeptRecord::content), self.controllers.clone());
        self.registration.hold(DiskGroup { record, restored: Mutex::default(), disks, controllers, holder });
    }

    /// Returns the output, without the disks.
    fn attached(&self, threads: usize) -> Attached {
        let (nqn, addresses) = (self.nqn.to_string(), self.connection.addresses());
        Attached { nqn, addresses, nbd: None, threads, disks: Vec::new() }
    }
}

/// Listens on a Unix socket for its owner alone. `option` is what chooses another place.
fn listen(path: &Path, option: &str) -> Result<(UnixListener, SocketFile, PathBuf), Failure> {
    let shown = path.display();
    // The kernel would create it under a shortened name, and clients could not connect.
    if path.as_os_str().len() > SOCKET_PATH_BYTES_MAX {
        return Err(Failure::usage(format!(
            "the path of the socket {shown} is longer than the {SOCKET_PATH_BYTES_MAX} bytes that clients can use: choose another \
             place with {option}"
        )));
    }
    let path = std::path::absolute(path).map_err(|error| Failure::usage(format!("{shown}: {error}")))?;
    let until = Instant::now() + KILLED_FOR;
    let listened = loop {
        match socket::listen(&path, false) {
            Err(error) if error.kind() == io::ErrorKind::AddrInUse && Instant::now() < until => {
                thread::sleep(KILLED_FOR / 20);
            }
            listened => break listened,
        }
    };
    let (listener, file) = listened.map_err(|error| match error.kind() {
        io::ErrorKind::AddrInUse => Failure::failed(format!(
            "another process listens on {shown}: end it, or choose another place with {option}"
        )),
        io::ErrorKind::AlreadyExists => Failure::failed(format!(
            "{shown} is a file and not a socket: remove it, or choose another place with {option}"
        )),
        _ => Failure::failed(format!("the socket {shown} cannot be made: {error}")),
    })?;
    Ok((listener, file, path))
}

/// Waits for a signal, or until nothing is left to serve. After the first signal, disks that are in use are served until they
/// are not; a second one ends them all the same.
fn watch(
    stop: &Stop,
    attaching: &Attaching<'_>,
    all_paths: &[Arc<Paths>],
    mut has_failed: impl FnMut() -> Option<String>,
    user: impl Fn() -> Option<String>,
) -> Result<(), Failure> {
    let Attaching { registration, sleeper, .. } = attaching;
    registration.set_waker(sleeper.waker());
    let mut notice = WaitNotice::new();
    let mut path_notices: Vec<PathNotice> = all_paths.iter().map(|_| PathNotice::default()).collect();
    let mut ending = Ending::default();
    // What came before the sleeper existed is seen here, and what comes later wakes it.
    loop {
        // Where another process serves, the signal is this one's own, and the disks stay.
        let is_over = registration.is_over();
        let request = match stop.is_asked() {
            false => EndRequest::None,
            true if stop::has_hung_up() => EndRequest::HangUp,
            true => EndRequest::Signal,
        };
        match ending.step(request, || if is_over { None } else { user() }) {
            EndingStep::GoOn => {}
            EndingStep::Wait(user) => {
                stop.postpone();
                tracing::warn!(
                    target: "selvedge::commands::attach",
                    "{user}: this process ends when it is not in use; another signal removes it at once"
                );
            }
            EndingStep::End => return Ok(()),
        }
        sleeper.sleep(LOOK_INTERVAL);
        notice.look(all_paths);
        attaching.stages.look(all_paths);
        attaching.metrics.look();
        for (paths, notice) in all_paths.iter().zip(&mut path_notices) {
            notice.look(paths);
        }
        if let Some(reason) = has_failed() {
            return Err(Failure::failed(reason));
        }
        let is_dead = |paths: &Arc<Paths>| paths.status().iter().all(|path| path.state == PathState::Dead);
        if all_paths.iter().all(is_dead) {
            let status = all_paths[0].status();
            let reason = status.iter().find_map(|path| path.error.clone()).unwrap_or_default();
            return Err(Failure::failed(format!("all paths have been given up: {reason}")));
        }
    }
}

fn summary(tally: &Tally) -> String {
    let Tally { clients, requests, errors, unread } = *tally;
    let closed = match unread {
        0 => String::new(),
        count => format!("; {} that read nothing closed for an upgrade", units::plural(count, "client")),
    };
    format!(
        "detached after {} of {}, {} answered with an error{closed}",
        units::plural(requests, "request"),
        units::plural(clients, "client"),
        units::grouped(errors)
    )
}

/// Output once the disks can be used.
#[derive(Serialize, schemars::JsonSchema)]
pub struct Attached {
    nqn: String,
    /// Addresses of the target, separated by commas.
    addresses: String,
    /// Address for NBD clients: `unix:PATH`, or an address and a port.
    #[serde(skip_serializing_if = "Option::is_none")]
    nbd: Option<String>,
    /// Threads that serve the disks.
    threads: usize,
    disks: Vec<AttachedDisk>,
}

/// A namespace that is attached.
#[derive(Serialize, schemars::JsonSchema)]
struct AttachedDisk {
    nsid: u32,
    /// By which NBD clients open it.
    #[serde(skip_serializing_if = "Option::is_none")]
    uri: Option<String>,
    /// The block device.
    #[serde(skip_serializing_if = "Option::is_none")]
    device: Option<PathBuf>,
    /// Socket for vhost-user front ends.
    #[serde(skip_serializing_if = "Option::is_none")]
    socket: Option<PathBuf>,
    size_bytes: u64,
    block_bytes: u32,
    read_only: bool,
}

impl Attached {
    fn with_clients(mut self, server: &Server, address: &Address, has_tls: bool) -> Self {
        let disk = |export: &::nbd::Export| AttachedDisk {
            nsid: export.name.parse().unwrap_or_default(),
            uri: Some(address.uri(&export.name, has_tls)),
            device: None,
            socket: None,
            size_bytes: export.size,
            block_bytes: export.block_bytes,
            read_only: export.is_read_only,
        };
        self.nbd = Some(address.to_string());
        self.disks = server.exports().iter().map(disk).collect();
        self
    }

    fn with_devices(mut self, devices: &[Device]) -> Self {
        let disk = |device: &Device| AttachedDisk {
            nsid: device.geometry().nsid,
            uri: None,
            device: Some(device.path()),
            socket: None,
            size_bytes: device.geometry().size_bytes,
            block_bytes: device.geometry().block_bytes,
            read_only: device.geometry().is_read_only,
        };
        self.disks = devices.iter().map(disk).collect();
        self
    }
}

impl AttachedDisk {
    /// Returns the name by which programs open the disk.
    fn place(&self) -> String {
        let device = self.device.as_ref().map(|device| device.display().to_string());
        let socket = self.socket.as_ref().map(|socket| format!("vhost-user socket {}", socket.display()));
        device.or(socket).or_else(|| self.uri.clone()).unwrap_or_default()
    }
}

impl fmt::Display for Attached {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for disk in &self.disks {
            let access = if disk.read_only { ", read only" } else { "" };
            writeln!(
                f,
                "namespace {} of {}: {}, blocks of {} bytes{access}\n{}",
                disk.nsid,
                self.nqn,
                Size(disk.size_bytes),
                disk.block_bytes,
                disk.place()
            )?;
        }
        Ok(())
    }
}
