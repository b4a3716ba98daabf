//! Opening of a queue: connection, ICReq and ICResp, Fabrics Connect. A live queue is in `receive`
//! and `send`.

use std::collections::VecDeque;
use std::sync::Arc;

use nvme::Status;
use nvme::fabrics::{Connect, ConnectData, InvalidParameter};
use nvme::tcp::{Initialize, Negotiated, PduType, Receiver, Role, settle};
use zerocopy::IntoBytes;

use super::departures::Departures;
use super::fault::Fault;
use super::slot::Slots;
use super::{Completion, Data, Queue, QueueState, Request};
use crate::initiator::authentication_worker::AuthenticationWorker;
use crate::initiator::{InitiatorError, QueueOptions};
use crate::limits::{BUFFER_LENGTH_MAX, QUEUE_ENTRIES_MAX};
use crate::ring::tcp::{self, PendingConnection};
use crate::ring::{Buffer, Moment, Ring};
use crate::transport::{ConnectionOptions, congestion};

/// The longest NQN in bytes, without its ending NUL (Base 4.7).
const NQN_LENGTH_MAX: usize = nvme::discovery::NQN_BYTES_MAX;

impl Queue {
    /// Begins to open a queue on `ring`, whose events for it will carry `token`. It is usable once `state` is
    /// `QueueState::Live`; until then feed it events, and `flush`.
    ///
    /// # Errors
    /// When the options are invalid, or the connection cannot even be started.
    pub fn open(ring: &mut Ring, token: u32, options: &QueueOptions) -> Result<Queue, InitiatorError> {
        let worker = AuthenticationWorker::new(ring.waker());
        Self::open_with(ring, token, options, &worker)
    }

    /// The same, where this computes for the queue when it authenticates, and wakes the ring.
    pub(in crate::initiator) fn open_with(
        ring: &mut Ring,
        token: u32,
        options: &QueueOptions,
        worker: &AuthenticationWorker,
    ) -> Result<Queue, InitiatorError> {
        check(options)?;
        let pending = connect(ring, token, options)?;
        let slots = Slots::new(options.entries);
        let now = ring.now();
        let mut queue = Queue {
            options: options.clone(),
            token,
            state: QueueState::Connecting,
            pending: Some(pending),
            socket: None,
            securing: None,
            offers_alone: None,
            has_recalled: false,
            secure: None,
            sealed_space: None,
            is_worn: false,
            receiver: Receiver::new(Role::Host, BUFFER_LENGTH_MAX as u32),
            transmitter: slots.transmitter(),
            departures: Departures::new(slots.count()),
            ended: VecDeque::with_capacity(slots.count()),
            slots,
            negotiated: unsettled(),
            incoming: None,
            data_length_last: 0,
            blocked: true,
            clock: now,
            more: false,
            is_at_end: false,
            controller_id: options.controller_id,
            exchange: None,
            exchange_at: None,
            message: None,
            worker: worker.clone(),
            connect_deadline: now.after(options.connect_timeout),
            scan_at: Moment(0),
            error: None,
        };
        queue.recall_offer();
        Ok(queue)
    }

    /// Goes on when the TCP connection has been made, or not.
    pub(super) fn connected(&mut self) -> Result<(), Box<Fault>> {
        let Some(pending) = self.pending.take() else { return Ok(()) };
        let address = self.options.address;
        let failed = |error| Fault::ended(InitiatorError::Connect { address, error: Arc::new(error) });
        match pending.is_made() {
            Ok(true) => {
                let socket = Arc::new(pending.into_socket().map_err(failed)?);
                congestion::follow(self.options.congestion.as_deref(), &socket);
                self.socket = Some(socket);
            }
            Ok(false) => {
                self.pending = Some(pending);
                return Ok(());
            }
            Err(error) => {
                self.pending = Some(pending);
                return Err(failed(error));
            }
        }
        self.blocked = false;
        if let Some(concat) = self.options.concat.clone() {
            return match concat.get() {
                Some(key) => self.begin_handshake_with(vec![key]),
                None if self.options.queue_id == 0 => {
                    self.initialize();
                    Ok(())
                }
                None => {
                    Err(self.tls_failed("the admin queue has no TLS key yet (secure channel concatenation)"))
                }
            };
        }
        if let Some(keys) = self.options.tls.clone() {
            return self.begin_handshake(&keys);
        }
        self.initialize();
        Ok(())
    }

    /// Sends the first PDU.
    pub(super) fn initialize(&mut self) {
        // MAXR2T 0: one R2T at a time, so that a command's data never waits behind requests for it.
        let digests = self.options.digests.bits();
        self.transmitter.initialize(&Initialize::new(PduType::InitializeRequest, digests, 0));
        self.state = QueueState::Initializing;
    }

    /// Takes the ICResp, and sends Connect.
    pub(super) fn initialized(&mut self, response: &Initialize) -> Result<(), Box<Fault>> {
        self.negotiated = settle(response, self.options.digests).map_err(Fault::decode)?;
        self.receiver.set_digests(self.negotiated.digests);
        self.transmitter.set_digests(self.negotiated.digests);
        self.transmitter.set_alignment(self.negotiated.data_alignment);
        let options = &self.options;
        let attributes = if options.disable_flow_control { Connect::DISABLE_FLOW_CONTROL } else { 0 };
        let connect = Connect {
            record_format: 0,
            queue_id: options.queue_id,
            queue_size: options.entries - 1,
            attributes,
            keep_alive_ms: if options.queue_id == 0 { options.keep_alive_ms } else { 0 },
        };
        let data = ConnectData::new(
            options.host.id,
            options.controller_id,
            &options.subsystem_nqn,
            &options.host.nqn,
        );
        let mut buffer = Buffer::zeroed(size_of::<ConnectData>());
        buffer.copy_from_slice(data.as_bytes());
        self.state = QueueState::Joining;
        let request = Request { entry: connect.encode(), data: Data::Send(buffer), user: 0 };
        // No command has been submitted yet, so there is a slot.
        let _ = self.start(request, false);
        Ok(())
    }

    /// Takes the completion of Connect.
    pub(super) fn joined(&mut self, completion: &Completion) -> Result<(), Box<Fault>> {
        let address = self.options.address;
        let Completion { status, result, .. } = *completion;
        if !status.is_success() {
            let invalid = status.without_flags() == Status::CONNECT_INVALID_PARAMETERS;
            let field = invalid.then(|| InvalidParameter::decode(result as u32));
            let queue_id = self.options.queue_id;
            return Err(Fault::ended(InitiatorError::Refused { address, queue_id, status, field }));
        }
        self.controller_id = result as u16;
        self.prove(result)
    }
}

/// Parameters of both ends before the negotiation.
pub(super) fn unsettled() -> Negotiated {
    Negotiated {
        digests: nvme::tcp::Digests::default(),
        data_alignment: 4,
        has_unknown_digests: false,
        ready_to_transfer_max: 1,
        data_to_controller_max: 0,
    }
}

/// Begins to connect, where the ring reports with this token how far that is.
pub(super) fn connect(
    ring: &mut Ring,
    token: u32,
    options: &QueueOptions,
) -> Result<PendingConnection, InitiatorError> {
    let address = options.address;
    let failed = |error| InitiatorError::Connect { address, error: Arc::new(error) };
    let connection = ConnectionOptions {
        transport: options.transport,
        congestion: congestion::choice(options.congestion.as_deref()),
        host_traddr: options.host_traddr,
        host_iface: options.host_iface.as_deref(),
        tos: options.tos,
        tclass: options.tclass,
        source_ports: &options.source_ports,
        send_buffer: options.send_buffer,
        receive_buffer: options.receive_buffer,
    };
    let pending = tcp::connect_start(address, &connection).map_err(failed)?;
    ring.watch(&pending, token).map_err(failed)?;
    if let Err(error) = ring.await_writable(&pending, token) {
        ring.unwatch(&pending, token);
        return Err(failed(error));
    }
    Ok(pending)
}

fn check(options: &QueueOptions) -> Result<(), InitiatorError> {
    let misuse = |text: String| Err(InitiatorError::ApiMisuse(text));
    if !(2..=QUEUE_ENTRIES_MAX).contains(&options.entries) {
        return misuse(format!("a queue has 2 to {QUEUE_ENTRIES_MAX} entries, not {}", options.entries));
    }
    for (what, nqn) in [("subsystem", &options.subsystem_nqn), ("host", &options.host.nqn)] {
        if nqn.is_empty() || nqn.len() > NQN_LENGTH_MAX || nqn.bytes().any(|byte| byte < b' ') {
            return misuse(format!(
                "the {what} NQN has to be 1 to {NQN_LENGTH_MAX} printable bytes: {nqn:?}"
            ));
        }
    }
    if options.concat.is_some() && (options.secrets.is_none() || options.tls.is_some()) {
        return misuse(
            "a TLS key that comes out of the authentication (concat) needs a secret, and no other key"
                .to_owned(),
        );
    }
    if options.command_timeout.is_zero() || options.connect_timeout.is_zero() {
        return misuse("a time-out of zero leaves no time for anything".to_owned());
    }
    Ok(())
}
