//! Connect: who may become a queue of which controller. What the queue is for then is what this gives back.

use std::net::SocketAddr;
use std::sync::Arc;

use authentication::{Authenticated, Concatenation};
use nvme::cross_reset::ControllerInstance;
use nvme::discovery::{Nqn, NqnError, decode_text};
use nvme::fabrics::{CONTROLLER_ID_ANY, Connect, ConnectData, InvalidParameter};
use nvme::{Status, SubmissionEntry};
use secure_channel::{Derivation, Origin};
use uuid::Uuid;
use zerocopy::{FromBytes, IntoBytes};

use super::role::{Role, Unproved};
use crate::limits::{
    ADMIN_QUEUE_ENTRIES_MAX, DISCOVERY_KEEP_ALIVE_MS_MAX, KEEP_ALIVE_MS_USUAL, QUEUE_ENTRIES_MAX,
};
use crate::ring::{Moment, Socket};
use crate::secure_stream::Protection;
use crate::target::admin::AdminCommands;
use crate::target::config::TlsUse;
use crate::target::controller::{Controller, Guest, Network, OpenQueue};
use crate::target::fabric::{Fabric, Fault, NoController, Promise, WantedId};
use crate::target::io::{Commands, QueueIdentity};
use crate::target::messaging::{Address, RefusedHost};
use crate::target::served::{GeneratedKey, Host, Subsystem};
use crate::target::telemetry::{Peculiarity, Seen};

/// Result of a host's authentication, with the identifier promised for its controller.
pub(super) type Proof = (Authenticated, Option<Promise>);

/// The connection that sent a Connect command.
pub(super) struct Caller<'a> {
    pub(super) address: Address,
    pub(super) port: u16,
    pub(super) peer: SocketAddr,
    pub(super) socket: &'a Arc<Socket>,
    pub(super) has_data_digest: bool,
    /// Parameters of the connection's TLS, `None` without TLS.
    pub(super) protection: Option<&'a Arc<Protection>>,
    pub(super) fabric: &'a Arc<Fabric>,
    pub(super) now: Moment,
    /// Result of the host's authentication, with the identifier promised for its controller.
    pub(super) proof: Option<Proof>,
    /// State in the old process, for a queue that was handed over.
    pub(super) former: Option<Former>,
}

/// State of a queue in the old process.
pub(super) struct Former {
    /// Controller of an admin queue.
    pub(super) instance: Option<ControllerInstance>,
    /// The TLS key of its association that has come out of an authentication. The one that protects its own stream may be gone
    /// since.
    pub(super) key: Option<Arc<GeneratedKey>>,
}

/// Result of a successful Connect.
pub(super) struct Connected {
    pub(super) role: Role,
    pub(super) controller_id: u16,
    pub(super) entries: u16,
    pub(super) has_flow_control: bool,
    /// Authentication that the host has to pass, or may repeat.
    pub(super) wants_proof: Option<WantsProof>,
}

/// Authentication of a host.
pub(super) struct WantsProof {
    pub(super) subsystem: Arc<Subsystem>,
    pub(super) host_nqn: String,
    /// Kind of TLS key that the authentication generates, if any.
    pub(super) concatenation: Concatenation,
}

/// Response to a refused Connect.
pub(super) struct Refused {
    pub(super) status: Status,
    pub(super) result: u64,
}

/// Does a Connect command.
///
/// # Errors
/// How it is refused.
pub(super) fn connect(
    entry: &SubmissionEntry,
    data: &[u8],
    caller: &Caller<'_>,
    seen: &mut Seen,
) -> Result<Connected, Refused> {
    let connect = Connect::decode(entry);
    let outcome = match ConnectData::read_from_prefix(data) {
        Ok((data, _)) => join(entry, &connect, &data, caller, seen),
        Err(_) => Err(Status::DATA_SGL_LENGTH_INVALID.do_not_retry().into()),
    };
    match outcome {
        Ok((controller_id, role, wants_proof)) => Ok(Connected {
            role,
            controller_id,
            entries: connect.queue_size + 1,
            has_flow_control: connect.attributes & Connect::DISABLE_FLOW_CONTROL == 0,
            wants_proof,
        }),
        Err(refusal) => {
            tell_refusal(&refusal, data, caller);
            let result = u64::from(refusal.parameter.map_or(0, InvalidParameter::encode));
            Err(Refused { status: refusal.status, result })
        }
    }
}

/// Why a Connect is refused: the status, where the fault is, and what says more, for the log.
struct Refusal {
    status: Status,
    parameter: Option<InvalidParameter>,
    rule: Option<NoController>,
    fault: Fault,
    why: Option<&'static str>,
}

impl Refusal {
    /// Counts the refusal under this fault.
    fn counted(self, fault: Fault) -> Self {
        Self { fault, ..self }
    }

    /// The same, with why in words.
    fn because(self, why: &'static str) -> Self {
        Self { why: Some(why), ..self }
    }

    /// Reason in words, for reports of refused hosts.
    fn reason(&self, host_id: Uuid) -> String {
        let status = self.status;
        match (&self.rule, self.why, self.parameter) {
            (Some(NoController::HostIdTaken(holder)), _, _) => {
                format!("{status}: HOSTID {host_id} is in use by {holder}")
            }
            (Some(NoController::NoPlace(rule)), _, _) => format!("{status}: {rule}"),
            (None, Some(why), _) => format!("{status}: {why}"),
            (None, None, Some(parameter)) => format!("{status}: {}", parameter.name()),
            (None, None, None) => status.to_string(),
        }
    }
}

impl From<InvalidParameter> for Refusal {
    fn from(parameter: InvalidParameter) -> Self {
        let status = Status::CONNECT_INVALID_PARAMETERS.do_not_retry();
        Self { parameter: Some(parameter), ..Self::from(status) }
    }
}

impl From<Status> for Refusal {
    fn from(status: Status) -> Self {
        Self { status, parameter: None, rule: None, fault: Fault::Invalid, why: None }
    }
}

impl From<NoController> for Refusal {
    fn from(rule: NoController) -> Self {
        let refusal = match &rule {
            NoController::NoPlace(_) => Self::from(Status::CONNECT_CONTROLLER_BUSY),
            NoController::HostIdTaken(_) => Self::from(InvalidParameter::HOST_ID),
        };
        Self { rule: Some(rule), ..refusal }
    }
}

/// Logs and reports a refusal: host, subsystem, status and rule. A host identifier that is in use
/// by another host is a configuration error, and is logged as such.
fn tell_refusal(refusal: &Refusal, data: &[u8], caller: &Caller<'_>) {
    let data = ConnectData::read_from_prefix(data).ok().map(|(data, _)| data);
    let name = |bytes: &[u8; 256]| Nqn::decode(bytes).ok().map(|name| name.to_string());
    let host = data.as_ref().and_then(|data| name(&data.host_nqn));
    let subsystem = data.as_ref().and_then(|data| name(&data.subsystem_nqn));
    let id = data.map_or(Uuid::nil(), |data| Uuid::from_bytes(data.host_id));
    let address = caller.peer;
    caller.fabric.tell_refused_connect(|| {
        let (host, subsystem) = (host.clone(), subsystem.clone());
        RefusedHost { host, subsystem, address, reason: refusal.reason(id) }
    });
    let (status, field) = (refusal.status, refusal.parameter.map(InvalidParameter::name));
    match &refusal.rule {
        None => {
            if let Some(times) = caller.fabric.refusals.count_fault(refusal.fault) {
                let (rule, why) =
                    (refusal.fault.name(), refusal.why.unwrap_or("it contradicts what is here"));
                tracing::warn!(%address, host, subsystem, %status, field, rule, times, "Refused a Connect: {why}");
            }
        }
        Some(NoController::HostIdTaken(holder)) => {
            if let Some(times) = caller.fabric.refusals.count_fault(Fault::HostIdInUse) {
                let rule = Fault::HostIdInUse.name();
                tracing::warn!(
                    %address, host, subsystem, %status, rule, times, "Refused a Connect: HOSTID {id} is in use by {holder}"
                );
            }
        }
        Some(NoController::NoPlace(rule)) => {
            if let Some(times) = caller.fabric.refusals.count(*rule) {
                let name = rule.name();
                tracing::warn!(%address, host, subsystem, rule = name, times, "Refused a Connect: {rule}");
            }
        }
    }
}

/// The identifier of the controller, what the connection is for, and who has to prove what for which subsystem.
type Joined = (u16, Role, Option<WantsProof>);

fn join(
    entry: &SubmissionEntry,
    connect: &Connect,
    data: &ConnectData,
    caller: &Caller<'_>,
    seen: &mut Seen,
) -> Result<Joined, Refusal> {
    let names = check_names(connect, data, caller)?;
    let key = generated_key(caller)?;
    let is_admin = connect.queue_id == 0;
    let entries_max = if is_admin { ADMIN_QUEUE_ENTRIES_MAX } else { QUEUE_ENTRIES_MAX };
    let known =
        if is_admin { check_admin(data).map(|()| None) } else { find(&names, data, caller).map(Some) }?;
    if connect.queue_size == 0 || connect.queue_size >= entries_max {
        return Err(InvalidParameter::QUEUE_SIZE.into());
    }
    let wants_proof = names.subsystem.wants_proof(&names.host.nqn).then(|| WantsProof {
        subsystem: names.subsystem.clone(),
        host_nqn: names.host.nqn.clone(),
        concatenation: concatenation(is_admin, key.is_some(), &names, caller),
    });
    // Who has a key that has come out of an authentication has proved its name by that.
    let proof = caller.proof.or_else(|| key.as_ref().map(|key| (key.proof, None)));
    if wants_proof.is_some() && proof.is_none() {
        // Before the host has proved its name, it takes no resources of the target and learns
        // nothing of it: a host with a false name must neither use up the real host's quota nor get
        // in its way.
        let promised =
            if is_admin { Some(caller.fabric.promise_id(Network::of(caller.peer.ip()))?) } else { None };
        let id = promised.as_ref().map_or(data.controller_id.get(), |promised| promised.promise.id);
        let unproved = Unproved { connect: *entry, data: data.as_bytes().to_vec(), promised };
        return Ok((id, Role::Unproved(Box::new(unproved)), wants_proof));
    }
    let (id, role) = match known {
        None => connect_admin(connect, names, (proof, key), caller, seen)?,
        Some(controller) => connect_io(connect, names, controller, caller, seen)?,
    };
    Ok((id, role, wants_proof))
}

/// The key that protects the stream, if it has come out of an authentication. It may have been replaced since the handshake, or
/// its association may have ended.
fn generated_key(caller: &Caller<'_>) -> Result<Option<Arc<GeneratedKey>>, Refusal> {
    if let Some(former) = &caller.former {
        return Ok(former.key.clone());
    }
    let Some(protection) = caller.protection else { return Ok(None) };
    if protection.identity.origin != Origin::Generated {
        return Ok(None);
    }
    let key = caller.fabric.generated_key(caller.port, &protection.identity, caller.now);
    // With another association comes another key.
    key.map(Some).ok_or_else(|| Status::CONNECT_INVALID_HOST.into())
}

/// Kind of TLS key that the authentication of a queue has to generate. Without TLS on the port, no
/// key could be used.
fn concatenation(is_admin: bool, has_key: bool, names: &Names, caller: &Caller<'_>) -> Concatenation {
    if !is_admin || !names.subsystem.concatenates(&names.host.nqn) {
        return Concatenation::None;
    }
    match caller.fabric.directory().tls_on(caller.port) {
        TlsUse::Off => Concatenation::None,
        _ if has_key => Concatenation::Replace,
        _ => Concatenation::New,
    }
}

fn check_admin(data: &ConnectData) -> Result<(), Refusal> {
    if data.controller_id.get() == CONTROLLER_ID_ANY {
        return Ok(());
    }
    Err(InvalidParameter::CONTROLLER_ID.into())
}

/// The controller that an I/O queue is for. Without it the host may try again: its controller has ended since its admin queue
/// was connected, perhaps with a target before this one, and it gets another. Linux (from 6.10 on) and volumes give a path up
/// for good when a Connect is not to be retried.
fn find(names: &Names, data: &ConnectData, caller: &Caller<'_>) -> Result<Arc<Controller>, Refusal> {
    let gone = |parameter: InvalidParameter| Refusal {
        status: Status::CONNECT_INVALID_PARAMETERS,
        ..Refusal::from(parameter)
    };
    let found = caller.fabric.controller(data.controller_id.get());
    let is_meant = |found: &Arc<Controller>| found.subsystem.nqn == names.subsystem.nqn && !found.has_ended();
    let controller = found.filter(is_meant).ok_or_else(|| gone(InvalidParameter::CONTROLLER_ID))?;
    if controller.host.nqn != names.host.nqn {
        return Err(gone(InvalidParameter::HOST_NQN));
    }
    // On a port that takes a host with a key in clear, too, its name alone would be enough to take the places of its
    // controller's queues, and to act as the host that has proved itself.
    if caller.protection.is_none() && controller.state().has_secure_admin_queue() {
        return Err(invalid_host("the controller's admin queue uses TLS, and this queue does not"));
    }
    Ok(controller)
}

fn connect_admin(
    connect: &Connect,
    names: Names,
    (proof, key): (Option<Proof>, Option<Arc<GeneratedKey>>),
    caller: &Caller<'_>,
    seen: &mut Seen,
) -> Result<(u16, Role), Refusal> {
    let Names { subsystem, host, unusual } = names;
    let most = if subsystem.is_discovery { DISCOVERY_KEEP_ALIVE_MS_MAX } else { u32::MAX };
    let (port, keep_alive_ms, now) = (caller.port, connect.keep_alive_ms.min(most), caller.now);
    // A TLS key is the host's whose name it has, as `check_protection` has seen.
    let is_proved = proof.is_some() || caller.protection.is_some();
    let guest = Guest {
        nqn: host.nqn.clone(),
        network: Network::of(caller.peer.ip()),
        is_named: is_proved || subsystem.names(&host.nqn),
        is_proved,
    };
    let former = caller.former.as_ref().and_then(|former| former.instance);
    let make = |instance| {
        let (of, proof) = ((port, guest.clone()), (proof.map(|(proof, _)| proof), is_proved));
        let instance = former.unwrap_or(instance);
        Controller::new(instance, subsystem.clone(), host.clone(), of, proof, keep_alive_ms, now)
    };
    let promised = proof.and_then(|(_, promised)| promised);
    let wanted = match (former, promised) {
        (Some(former), _) => WantedId::Former(former.controller_id),
        (None, Some(promise)) => WantedId::Promised(promise),
        (None, None) => WantedId::Any,
    };
    let controller = caller.fabric.add_controller(&subsystem, (&host, is_proved), &guest, wanted, make)?;
    tracing::info!(
        controller = controller.id,
        subsystem = controller.subsystem.nqn,
        host = controller.host.nqn,
        authenticated = controller.proof.map(tracing::field::display),
        "a host connects"
    );
    if let Some(key) = key {
        caller.fabric.generated_keys.claim(&key);
        let _ = controller.hold_key(key);
    }
    let id = controller.id;
    controller.add_admin_queue(caller.address.serial, open_queue(connect, caller));
    seen.introduce(&controller.host.nqn);
    note_derivation(caller, seen);
    note_unusual(unusual, keep_alive_ms, seen);
    let place = (caller.address, caller.peer);
    let commands = AdminCommands::new(controller, connect.queue_size + 1, place, caller.socket.local_ip());
    Ok((id, Role::Admin(Box::new(commands))))
}

fn connect_io(
    connect: &Connect,
    names: Names,
    controller: Arc<Controller>,
    caller: &Caller<'_>,
    seen: &mut Seen,
) -> Result<(u16, Role), Refusal> {
    let Names { subsystem, host, unusual } = names;
    if subsystem.is_discovery {
        return Err(InvalidParameter::QUEUE_ID.into());
    }
    caller.fabric.take_queue(&controller).map_err(NoController::from)?;
    let (queue, is_former) = (open_queue(connect, caller), caller.former.is_some());
    let is_granted = controller.add_queue(caller.address.serial, queue, is_former).map_err(|status| {
        caller.fabric.give_queue(&controller);
        let unknown = status.without_flags() == Status::CONNECT_INVALID_PARAMETERS;
        Refusal { parameter: unknown.then_some(InvalidParameter::QUEUE_ID), ..status.into() }
    })?;
    // The association's host is the admin queue's, whatever its other queues say: there are hosts that make up another
    // identifier for each of them.
    let has_own_id = controller.host.id != host.id;
    let id = controller.id;
    let of = QueueIdentity {
        counters: subsystem.counters.of_reactor(caller.address.reactor),
        meter: controller.meters.open(connect.queue_id),
        slow_commands: caller.fabric.slow_commands.clone(),
        controller,
        queue_id: connect.queue_id,
        entries: connect.queue_size + 1,
        has_data_digest: caller.has_data_digest,
        address: caller.address,
        peer: caller.peer,
    };
    seen.introduce(&host.nqn);
    note_unusual(unusual, 0, seen);
    if has_own_id {
        seen.note(Peculiarity::IoQueueHostId);
    }
    if !is_granted {
        seen.note(Peculiarity::UngrantedQueue);
    }
    Ok((id, Role::Io(Box::new(Commands::new(of)))))
}

fn note_derivation(caller: &Caller<'_>, seen: &mut Seen) {
    if caller.protection.is_some_and(|protection| protection.derivation == Derivation::Compat) {
        seen.note(Peculiarity::CompatTlsKey);
    }
}

fn note_unusual(name: Option<Peculiarity>, keep_alive_ms: u32, seen: &mut Seen) {
    if let Some(name) = name {
        seen.note(name);
    }
    if keep_alive_ms > KEEP_ALIVE_MS_USUAL {
        seen.note(Peculiarity::LongKeepAlive);
    }
}

/// The status of the queue that a connection becomes.
fn open_queue(connect: &Connect, caller: &Caller<'_>) -> OpenQueue {
    OpenQueue {
        queue_id: connect.queue_id,
        entries: connect.queue_size + 1,
        reactor: caller.address.reactor,
        peer: caller.peer,
        socket: Arc::downgrade(caller.socket),
        protection: caller.protection.cloned(),
    }
}

/// Host and subsystem of a Connect.
struct Names {
    subsystem: Arc<Subsystem>,
    host: Host,
    /// Peculiarity of the host's name, if there is one.
    unusual: Option<Peculiarity>,
}

/// Checks what is common to all queues: the record format and the two names.
fn check_names(connect: &Connect, data: &ConnectData, caller: &Caller<'_>) -> Result<Names, Refusal> {
    if connect.record_format != 0 {
        return Err(Status::CONNECT_INCOMPATIBLE_FORMAT.do_not_retry().into());
    }
    // Hosts on a list have valid names. Where any host may connect, some have invalid ones.
    let host = decode_text(&data.host_nqn).map_err(|_| InvalidParameter::HOST_NQN)?;
    let unusual = match Nqn::new(host) {
        Ok(name) if name.is_qualified() => None,
        Err(NqnError::Empty) => Some(Peculiarity::EmptyHostNqn),
        Ok(_) | Err(_) => Some(Peculiarity::OddHostNqn),
    };
    let subsystem = Nqn::decode(&data.subsystem_nqn)
        .ok()
        .and_then(|name| caller.fabric.find(name.as_str()))
        .filter(|subsystem| {
            caller.fabric.directory().port(caller.port).is_some_and(|port| subsystem.is_on(port))
        })
        .ok_or(InvalidParameter::SUBSYSTEM_NQN)
        .map_err(|parameter| {
            let refusal = Refusal::from(parameter).counted(Fault::UnknownSubsystem);
            refusal.because("there is no such subsystem on this port")
        })?;
    if !subsystem.allows(host) {
        let refusal = invalid_host(match subsystem.is_locked(host) {
            true => "the host's key cannot be opened with this target's encryption key",
            false => "the host is not on the subsystem's list",
        });
        return Err(refusal.counted(Fault::NotAllowed));
    }
    check_protection(&subsystem, host, connect.queue_id == 0, caller)?;
    Ok(Names { subsystem, host: Host::new(host.to_owned(), data.host_id), unusual })
}

/// Checks that a stream that is TLS is used by whom its key is for, and for what; and that one in clear may be.
fn check_protection(
    subsystem: &Subsystem,
    host: &str,
    is_admin: bool,
    caller: &Caller<'_>,
) -> Result<(), Refusal> {
    let Some(protection) = caller.protection else {
        let may_be_clear = match caller.fabric.directory().tls_on(caller.port) {
            // The admin queue gets a key, and becomes nothing before it comes back with that.
            _ if is_admin && subsystem.concatenates(host) => true,
            // A key may have been set since its first bytes came.
            TlsUse::Required => false,
            TlsUse::Allowed => !subsystem.concatenates(host),
            TlsUse::Off => true,
        };
        return if may_be_clear { Ok(()) } else { Err(invalid_host("the host has to use TLS here")) };
    };
    let names = &protection.identity.names;
    if names.host_nqn() != host {
        return Err(Refusal::from(InvalidParameter::HOST_NQN).because("the TLS key is another host's"));
    }
    // Either name of the discovery subsystem stands for both.
    let is_meant = names.subsystem_nqn() == subsystem.nqn
        || subsystem.is_discovery
            && caller.fabric.find(names.subsystem_nqn()).is_some_and(|meant| meant.is_discovery);
    if is_meant {
        return Ok(());
    }
    Err(Refusal::from(InvalidParameter::SUBSYSTEM_NQN).because("the TLS key is for another subsystem"))
}

fn invalid_host(why: &'static str) -> Refusal {
    Refusal::from(Status::CONNECT_INVALID_HOST.do_not_retry()).because(why)
}
