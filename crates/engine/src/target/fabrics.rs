//! Fabrics commands: Connect makes controllers and queues, Property Get and Set drive a controller's state.
//! Who may connect is asked of the subsystem; what a configuration does is the controller's.

use std::sync::Arc;

use nvme::discovery::{Nqn, NqnError, decode_text};
use nvme::fabrics::{
    CONTROLLER_ID_ANY, Capabilities, Connect, ConnectData, InvalidParameter, PropertyAccess, VERSION_2_0,
    fabrics_type, property,
};
use nvme::{Status, SubmissionEntry};
use uuid::Uuid;
use zerocopy::FromBytes;

use super::admin::Answer;
use super::admission::{Guest, Network};
use super::connection::{Connection, Environment, Session};
use super::controller::{Controller, Host, Quiesce};
use super::end::End;
use super::fabric::NoController;
use super::namespace_table::Views;
use super::peculiarity::Peculiarity;
use super::slot::Slots;
use super::status::OpenQueue;
use super::subsystem::Subsystem;
use crate::limits::{
    ADMIN_QUEUE_ENTRIES_MAX, CONTROLLER_QUIESCE_MS_MAX, DISCOVERY_KEEP_ALIVE_MS_MAX, KEEP_ALIVE_MS_USUAL,
    QUEUE_ENTRIES_MAX,
};

/// How long a host waits for a controller to become ready, or to be reset, in units of 500 ms (CAP.TO). It is ready at once; its
/// reset is complete with its last command, for which the host has to wait longer than it does for the command itself.
const READY_TIMEOUT_500MS: u8 = (CONTROLLER_QUIESCE_MS_MAX / 500) as u8;

/// Why a Connect is refused: the status, where the fault is, and the rule where that says more.
struct Refusal {
    status: Status,
    parameter: Option<InvalidParameter>,
    rule: Option<NoController>,
}

impl From<InvalidParameter> for Refusal {
    fn from(parameter: InvalidParameter) -> Self {
        let status = Status::CONNECT_INVALID_PARAMETERS.do_not_retry();
        Self { status, parameter: Some(parameter), rule: None }
    }
}

impl From<Status> for Refusal {
    fn from(status: Status) -> Self {
        Self { status, parameter: None, rule: None }
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

impl Connection {
    /// The first command of a connection, which is Connect.
    pub(super) fn first_command(
        &mut self,
        entry: &SubmissionEntry,
        data: &[u8],
        env: &mut Environment<'_>,
    ) -> Result<(), End> {
        // Who came by a port that is closed by now is not told that nothing is there: the host would not come again.
        if env.fabric.directory().port(self.port).is_none() {
            return Err(End::Gone);
        }
        let connect = Connect::decode(entry);
        let outcome = match ConnectData::read_from_prefix(data) {
            Ok((data, _)) if connect.queue_id == 0 => self.connect_admin(&connect, &data, env),
            Ok((data, _)) => self.connect_io(&connect, &data, env),
            Err(_) => Err(Status::DATA_SGL_LENGTH_INVALID.do_not_retry().into()),
        };
        match outcome {
            Ok(controller_id) => {
                self.flow_control = connect.attributes & Connect::DISABLE_FLOW_CONTROL == 0;
                self.entries = connect.queue_size + 1;
                // Connect itself was the first entry of the queue that it made.
                self.queue_head = 1;
                self.slots = Slots::new(self.entries);
                self.deadline = None;
                self.is_queue = true;
                self.respond_connect(entry.command_id.get(), controller_id);
            }
            Err(refusal) => {
                self.log_refusal(&refusal, data, env);
                let result = refusal.parameter.map_or(0, InvalidParameter::encode);
                self.refuse_with(entry, refusal.status, u64::from(result));
            }
        }
        Ok(())
    }

    /// Says in the log who was refused, for what, and by which rule. An identifier that two hosts have is somebody's mistake, to
    /// be put right.
    fn log_refusal(&self, refusal: &Refusal, data: &[u8], env: &Environment<'_>) {
        let data = ConnectData::read_from_bytes(data).ok();
        let name = |bytes: &[u8; 256]| Nqn::decode(bytes).map_or("?".to_owned(), |name| name.to_string());
        let host = data.as_ref().map(|data| name(&data.host_nqn));
        let subsystem = data.as_ref().map(|data| name(&data.subsystem_nqn));
        let address = self.peer;
        let (status, field) = (refusal.status, refusal.parameter.map(InvalidParameter::name));
        match &refusal.rule {
            None => tracing::info!(%address, host, subsystem, %status, field, "Refused a Connect"),
            Some(NoController::HostIdTaken(holder)) => {
                let id = data.map_or(Uuid::nil(), |data| Uuid::from_bytes(data.host_id));
                tracing::warn!(
                    %address, host, subsystem, %status, "Refused a Connect: HOSTID {id} is in use by {holder}"
                );
            }
            Some(NoController::NoPlace(rule)) => {
                if let Some(times) = env.fabric.refusals.count(*rule) {
                    let name = rule.name();
                    tracing::warn!(%address, host, subsystem, rule = name, times, "Refused a Connect: {rule}");
                }
            }
        }
    }

    fn connect_admin(
        &mut self,
        connect: &Connect,
        data: &ConnectData,
        env: &mut Environment<'_>,
    ) -> Result<u16, Refusal> {
        let Names { subsystem, host, unusual } = check_names(connect, data, self.port, env)?;
        if connect.queue_size == 0 || connect.queue_size >= ADMIN_QUEUE_ENTRIES_MAX {
            return Err(InvalidParameter::QUEUE_SIZE.into());
        }
        if data.controller_id.get() != CONTROLLER_ID_ANY {
            return Err(InvalidParameter::CONTROLLER_ID.into());
        }
        let most = if subsystem.is_discovery { DISCOVERY_KEEP_ALIVE_MS_MAX } else { u32::MAX };
        let (port, keep_alive_ms, now) = (self.port, connect.keep_alive_ms.min(most), env.now);
        let guest = Guest {
            nqn: host.nqn.clone(),
            network: Network::of(self.peer.ip()),
            is_named: subsystem.names(&host.nqn),
        };
        let make = |instance| {
            let of = (port, guest.clone());
            Controller::new(instance, subsystem.clone(), host.clone(), of, keep_alive_ms, now)
        };
        let controller = env.fabric.add_controller(&subsystem, &host, &guest, make)?;
        tracing::info!(
            controller = controller.id,
            subsystem = controller.subsystem.nqn,
            host = controller.host.nqn,
            "a host connects"
        );
        let id = controller.id;
        controller.add_admin_queue(self.serial, self.open_queue(connect, env));
        self.session = Session::Admin { controller, events: Vec::new(), held: Vec::new() };
        self.note_unusual_connect(unusual, keep_alive_ms, env);
        Ok(id)
    }

    fn connect_io(
        &mut self,
        connect: &Connect,
        data: &ConnectData,
        env: &mut Environment<'_>,
    ) -> Result<u16, Refusal> {
        let Names { subsystem, host, unusual } = check_names(connect, data, self.port, env)?;
        let controller = env
            .fabric
            .controller(data.controller_id.get())
            .filter(|controller| controller.subsystem.nqn == subsystem.nqn && !controller.has_ended())
            .ok_or(InvalidParameter::CONTROLLER_ID)?;
        if controller.host.nqn != host.nqn {
            return Err(InvalidParameter::HOST_NQN.into());
        }
        if connect.queue_size == 0 || connect.queue_size >= QUEUE_ENTRIES_MAX {
            return Err(InvalidParameter::QUEUE_SIZE.into());
        }
        if subsystem.is_discovery {
            return Err(InvalidParameter::QUEUE_ID.into());
        }
        env.fabric.take_queue(&controller).map_err(NoController::from)?;
        let is_granted =
            controller.add_queue(self.serial, self.open_queue(connect, env)).map_err(|status| {
                env.fabric.give_queue(&controller);
                let unknown = status.without_flags() == Status::CONNECT_INVALID_PARAMETERS;
                Refusal { parameter: unknown.then_some(InvalidParameter::QUEUE_ID), ..status.into() }
            })?;
        // The association's host is the admin queue's, whatever its other queues say: there are hosts that make up another
        // identifier for each of them.
        let has_own_id = controller.host.id != host.id;
        let id = controller.id;
        let views = Views::new(controller.table());
        let counters = subsystem.counters.of_reactor(env.mailbox.number);
        let meter = controller.meters.open(connect.queue_id);
        self.session = Session::Io { controller, views, counters, meter, queue_id: connect.queue_id };
        self.note_unusual_connect(unusual, 0, env);
        if has_own_id {
            self.note_peculiarity(Peculiarity::IoQueueHostId, env);
        }
        if !is_granted {
            self.note_peculiarity(Peculiarity::UngrantedQueue, env);
        }
        Ok(id)
    }

    fn note_unusual_connect(&mut self, name: Option<Peculiarity>, keep_alive_ms: u32, env: &Environment<'_>) {
        if let Some(name) = name {
            self.note_peculiarity(name, env);
        }
        if keep_alive_ms > KEEP_ALIVE_MS_USUAL {
            self.note_peculiarity(Peculiarity::LongKeepAlive, env);
        }
    }

    /// What is to be told of the queue that this connection becomes.
    fn open_queue(&self, connect: &Connect, env: &Environment<'_>) -> OpenQueue {
        OpenQueue {
            queue_id: connect.queue_id,
            entries: connect.queue_size + 1,
            reactor: env.mailbox.number,
            peer: self.peer,
            socket: Arc::downgrade(&self.socket),
        }
    }

    /// A Fabrics command on an admin queue.
    pub(super) fn fabrics_command(&mut self, entry: &SubmissionEntry, env: &mut Environment<'_>) -> Answer {
        let Some(controller) = self.controller().cloned() else {
            return Status::COMMAND_SEQUENCE_ERROR.into();
        };
        match entry.fabrics_type() {
            fabrics_type::PROPERTY_GET => get_property(entry, &controller),
            fabrics_type::PROPERTY_SET => match set_property(entry, &controller) {
                Ok(begun) => {
                    if let Some(quiesce) = begun {
                        env.fabric.quiesce(&controller, quiesce);
                    }
                    Status::SUCCESS.into()
                }
                Err(status) => status.into(),
            },
            fabrics_type::CONNECT => Status::COMMAND_SEQUENCE_ERROR.do_not_retry().into(),
            fabrics_type::DISCONNECT => Status::INVALID_QUEUE_TYPE.do_not_retry().into(),
            _ => Status::INVALID_OPCODE.do_not_retry().into(),
        }
    }
}

/// Who is connected to what.
struct Names {
    subsystem: Arc<Subsystem>,
    host: Host,
    /// What is unusual about the host's name.
    unusual: Option<Peculiarity>,
}

/// Checks what is common to all queues: the record format and the two names.
fn check_names(
    connect: &Connect,
    data: &ConnectData,
    port: u16,
    env: &Environment<'_>,
) -> Result<Names, Refusal> {
    if connect.record_format != 0 {
        return Err(Status::CONNECT_INCOMPATIBLE_FORMAT.do_not_retry().into());
    }
    // Whoever is on a list of hosts has a valid name. Where any host may connect, there are some without one.
    let host = decode_text(&data.host_nqn).map_err(|_| InvalidParameter::HOST_NQN)?;
    let unusual = match Nqn::new(host) {
        Ok(_) => None,
        Err(NqnError::Empty) => Some(Peculiarity::EmptyHostNqn),
        Err(_) => Some(Peculiarity::OddHostNqn),
    };
    let subsystem = Nqn::decode(&data.subsystem_nqn)
        .ok()
        .and_then(|name| env.fabric.find(name.as_str()))
        .filter(|subsystem| env.fabric.directory().port(port).is_some_and(|port| subsystem.is_on(port)))
        .ok_or(InvalidParameter::SUBSYSTEM_NQN)?;
    if !subsystem.allows(host) {
        return Err(Status::CONNECT_INVALID_HOST.do_not_retry().into());
    }
    Ok(Names { subsystem, host: Host { nqn: host.to_owned(), id: data.host_id }, unusual })
}

fn get_property(entry: &SubmissionEntry, controller: &Controller) -> Answer {
    let access = match PropertyAccess::decode(entry) {
        Ok(access) => access,
        Err(status) => return status.into(),
    };
    let state = controller.state();
    let value = match (access.offset, access.wide) {
        (property::CAPABILITIES, true) => {
            let entries =
                if controller.subsystem.is_discovery { ADMIN_QUEUE_ENTRIES_MAX } else { QUEUE_ENTRIES_MAX };
            Capabilities::new(entries, READY_TIMEOUT_500MS).0
        }
        (property::VERSION, false) => u64::from(VERSION_2_0),
        (property::CONFIGURATION, false) => u64::from(state.configuration),
        (property::STATUS, false) => u64::from(state.status),
        // Controller Ready With Media Timeout, as long as CAP.TO.
        (property::READY_TIMEOUTS, false) => u64::from(READY_TIMEOUT_500MS),
        _ => return Status::INVALID_FIELD.do_not_retry().into(),
    };
    Answer::Status(Status::SUCCESS, value)
}

/// Sets a property; what that begins.
fn set_property(entry: &SubmissionEntry, controller: &Controller) -> Result<Option<Quiesce>, Status> {
    let access = PropertyAccess::decode(entry)?;
    match (access.offset, access.wide) {
        (property::CONFIGURATION, false) => Ok(controller.configure(access.value as u32)),
        _ => Err(Status::INVALID_FIELD.do_not_retry()),
    }
}
