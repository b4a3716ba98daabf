//! A queue's commands with everything round them that they need: a namespace, a host, a storage that writes down what it is
//! asked for, and a host's data that is there when it is asked for.

use std::collections::HashMap;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use nvme::cross_reset::ControllerInstance;
use nvme::io::{Fused, IoCommand};
use nvme::reservation::{AcquireAction, PersistenceChange, RegisterAction, ReservationType};
use nvme::{SglDescriptor, Status, SubmissionEntry};
use uuid::Uuid;

use crate::backend::{Backend, BackendConfig, Clusters, Device, MemoryHolder, Opening};
use crate::ring::channel::{Receiver, channel};
use crate::ring::{Buffer, BufferPool, Moment, StorageOp, Waker};
use crate::target::config::{NamespaceConfig, QosConfig, SubsystemConfig};
use crate::target::controller::{Controller, Guest, Network};
use crate::target::fabric::{Fabric, TargetConfig};
use crate::target::io::context::Storage;
use crate::target::io::{Capsule, Commands, Context, Next, QueueIdentity, StorageToken};
use crate::target::messaging::{Address, Mailbox, Message};
use crate::target::queue::{Payload, Place, Reply};
use crate::target::reservation::{Acquire, HostDigest, Register, Reservations};
use crate::target::served::{Host, HostKeys, Namespace, Subsystem};
use crate::target::telemetry::{NamespaceCounts, Seen};

const NQN: &str = "nqn.2026-01.io.selvedge:a";
/// Bytes of a block.
pub(super) const BLOCK: usize = 4096;
/// Entries of the queue.
const ENTRIES: u16 = 32;

/// Reply to a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Answer {
    pub(super) command_id: u16,
    pub(super) status: Status,
    pub(super) data: Vec<u8>,
}

/// A storage that does nothing, and writes down what it is asked for.
#[derive(Default)]
struct Recorder(Vec<(u16, StorageOp)>);

impl Storage for Recorder {
    fn start(&mut self, _: &Device, operation: StorageOp, token: u64) {
        self.0.push((StorageToken::from_bits(token).slot, operation));
    }
}

/// The commands of one queue, and what is round them.
pub(super) struct Rig {
    pub(super) commands: Commands,
    pub(super) namespace: Arc<Namespace>,
    pub(super) fabric: Arc<Fabric>,
    pub(super) now: Moment,
    storage: Recorder,
    pool: BufferPool,
    seen: Seen,
    messages: Receiver<Message>,
    /// The data of commands whose data was not in their capsules, by their identifiers.
    unsent: HashMap<u16, Vec<u8>>,
    answers: Vec<Answer>,
    /// Commands whose data was written to its place in memory, as a queue does that has all of it.
    pub(super) placed: Vec<u16>,
    /// Delay of requested data.
    pub(super) data_takes: Duration,
    /// A file that stands for a disk; nothing is read from it or written to it.
    _folder: Option<tempfile::TempDir>,
}

impl Rig {
    /// On a namespace of memory with this number of blocks.
    pub(super) fn on_memory(blocks: u64) -> Self {
        Self::on(BackendConfig::Memory { size: blocks * BLOCK as u64 }, None, QosConfig::default())
    }

    /// The same, with limits.
    pub(super) fn with_limits(blocks: u64, qos: QosConfig) -> Self {
        Self::on(BackendConfig::Memory { size: blocks * BLOCK as u64 }, None, qos)
    }

    /// On a file with this number of blocks, whose operations are the test's to end.
    pub(super) fn on_disk(blocks: u64) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("disk");
        let config = BackendConfig::File { path, size: Some(blocks * BLOCK as u64) };
        Self::on(config, Some(folder), QosConfig::default())
    }

    fn on(backend: BackendConfig, folder: Option<tempfile::TempDir>, qos: QosConfig) -> Self {
        let namespace = NamespaceConfig { qos, ..NamespaceConfig::new(1, backend, BLOCK as u32) };
        let config = SubsystemConfig::new(NQN, "A", "Selvedge").with(vec![namespace.clone()]);
        let clusters = Clusters::default();
        let opened = Backend::open(&namespace.backend, Opening::alone(BLOCK as u32, &clusters));
        let opened = Arc::new(opened.expect("the backend opens"));
        let namespace = Arc::new(Namespace::on(NQN, &namespace, Uuid::from_u128(1), opened));
        let subsystem =
            Arc::new(Subsystem::new(&config, [(1, namespace.clone())].into(), HostKeys::default()));
        let fabric = Arc::new(Fabric::new(None, &TargetConfig::default(), clusters));
        let (sender, messages) = channel();
        let mailbox = Mailbox::new(0, sender, Waker::new().expect("a waker"));
        fabric.mailboxes().introduce(vec![Arc::new(mailbox)]);
        let peer = ([127, 0, 0, 1], 1).into();
        let of = QueueIdentity {
            controller: controller(&subsystem),
            counters: subsystem.counters.of_reactor(0),
            meter: Arc::default(),
            slow_commands: fabric.slow_commands.clone(),
            queue_id: 1,
            entries: ENTRIES,
            has_data_digest: false,
            address: Address { reactor: 0, connection: 7, serial: 1 },
            peer,
        };
        Self {
            commands: Commands::new(of),
            namespace,
            seen: Seen::new(fabric.peculiarities.clone(), peer),
            fabric,
            now: Moment(1),
            storage: Recorder::default(),
            pool: BufferPool::new(),
            messages,
            unsent: HashMap::new(),
            answers: Vec::new(),
            placed: Vec::new(),
            data_takes: Duration::ZERO,
            _folder: folder,
        }
    }

    /// Does something with the commands, and then what they want.
    pub(super) fn act(&mut self, act: impl FnOnce(&mut Commands, &mut Context<'_>) -> Vec<Next>) {
        let Self { commands, storage, pool, fabric, seen, now, .. } = self;
        let mut ctx = Context { storage, pool, fabric, seen, now: *now };
        let mut wanted = act(commands, &mut ctx);
        while let Some(next) = commands.advance(&mut ctx) {
            wanted.push(next);
        }
        wanted.into_iter().for_each(|next| self.take(next));
    }

    fn take(&mut self, next: Next) {
        match next {
            Next::Reply(reply) => self.reply(&reply),
            Next::After(reply, next) => {
                self.reply(&reply);
                self.take(*next);
            }
            Next::Request { slot, command_id, mut buffer, place } => {
                let data = self.unsent.remove(&command_id).expect("it is asked for once");
                self.now = self.now.after(self.data_takes);
                if let Some(Place { holder, offset }) = place
                    && holder.takes_data()
                {
                    assert_eq!(holder.memory().write(offset, &data), data.len());
                    self.placed.push(command_id);
                    return self.act(|commands, ctx| vec![commands.data_placed(slot, buffer, ctx)]);
                }
                buffer.copy_from_slice(&data);
                self.act(|commands, ctx| vec![commands.data_came(slot, buffer, true, ctx)]);
            }
            Next::Capsule { slot, skip, mut buffer } => {
                let data = self.unsent.remove(&u16::MAX).expect("the capsule that has just come");
                let length = buffer.len();
                buffer.copy_from_slice(&data[skip..skip + length]);
                self.act(|commands, ctx| vec![commands.data_came(slot, buffer, true, ctx)]);
            }
            Next::Nothing => {}
        }
    }

    fn reply<H: MemoryHolder>(&mut self, reply: &Reply<H>) {
        let data = match reply.data() {
            None => Vec::new(),
            Some((Payload::Buffer(buffer), length)) => buffer[..length as usize].to_vec(),
            Some((Payload::Zeroes, length)) => vec![0; length as usize],
            Some((Payload::Memory { holder, offset }, length)) => {
                let mut bytes = vec![0; length as usize];
                assert_eq!(holder.memory().read(*offset, &mut bytes, true), bytes.len());
                bytes
            }
        };
        if let Some((Payload::Buffer(buffer), _)) = reply.data() {
            self.commands.buffers_left(buffer.capacity());
        }
        self.answers.push(Answer { command_id: reply.command_id(), status: reply.status(), data });
    }

    /// Sends a command with its data, in its capsule or to be asked for.
    pub(super) fn send(&mut self, command_id: u16, command: &IoCommand, data: &[u8], in_capsule: bool) {
        self.send_fused(command_id, command, (data, in_capsule), Fused::No);
    }

    /// The same, of a command that may be one of a pair.
    pub(super) fn send_fused(
        &mut self,
        command_id: u16,
        command: &IoCommand,
        (data, in_capsule): (&[u8], bool),
        fused: Fused,
    ) {
        let mut entry = command.encode(1);
        entry.command_id = command_id.into();
        entry.flags |= fused as u8;
        let travels = if data.is_empty() { self.length_of(command) } else { data.len() };
        entry.data = match in_capsule {
            true => SglDescriptor::in_capsule(data.len() as u32),
            false => SglDescriptor::transport(travels as u32),
        };
        let length = if in_capsule { data.len() } else { 0 };
        if !data.is_empty() {
            self.unsent.insert(if in_capsule { u16::MAX } else { command_id }, data.to_vec());
        }
        self.submit(&entry, Capsule { length, whole: in_capsule.then_some(data) });
    }

    fn submit(&mut self, entry: &SubmissionEntry, capsule: Capsule<'_>) {
        self.act(|commands, ctx| {
            vec![commands.begin(entry, capsule, ctx).unwrap_or_else(|_| panic!("the connection would end"))]
        });
    }

    fn length_of(&self, command: &IoCommand) -> usize {
        match *command {
            IoCommand::Read { blocks, .. } => blocks as usize * BLOCK,
            IoCommand::ReservationReport { dwords, .. } => dwords as usize * 4,
            _ => 0,
        }
    }

    /// Replies since the previous call.
    pub(super) fn answers(&mut self) -> Vec<Answer> {
        std::mem::take(&mut self.answers)
    }

    /// The same, by identifiers and statuses alone.
    pub(super) fn statuses(&mut self) -> Vec<(u16, Status)> {
        self.answers().into_iter().map(|answer| (answer.command_id, answer.status)).collect()
    }

    /// Queued storage operations, in order, without removing them.
    pub(super) fn operations(&self) -> Vec<String> {
        let name = |operation: &StorageOp| match operation {
            StorageOp::Read { buffer, offset } => format!("read {} at {offset}", buffer.len()),
            StorageOp::Write { buffer, offset, durable } => {
                let durable = if *durable { " durably" } else { "" };
                format!("write {} at {offset}{durable}", buffer.len())
            }
            StorageOp::Sync => "sync".to_owned(),
            StorageOp::Allocate { offset, length, .. } => format!("allocate {length} at {offset}"),
        };
        self.storage.0.iter().map(|(_, operation)| name(operation)).collect()
    }

    /// Ends the operation that the storage was asked for first: a read brings these bytes.
    pub(super) fn store(&mut self, read: &[u8]) {
        self.store_with(0, Ok(read));
    }

    /// Ends one of the operations, well or not.
    pub(super) fn store_with(&mut self, at: usize, outcome: Result<&[u8], i32>) {
        let (slot, operation) = self.storage.0.remove(at);
        let (moved, buffer): (usize, Option<Buffer>) = match operation {
            StorageOp::Read { mut buffer, .. } => {
                if let Ok(read) = outcome {
                    buffer.copy_from_slice(read);
                }
                (buffer.len(), Some(buffer))
            }
            StorageOp::Write { buffer, .. } => (buffer.len(), Some(buffer)),
            StorageOp::Sync | StorageOp::Allocate { .. } => (0, None),
        };
        let result = outcome.map(|_| moved).map_err(io::Error::from_raw_os_error);
        self.act(|commands, ctx| vec![commands.stored(slot, result, buffer, ctx)]);
    }

    /// Operations that the storage has not ended.
    pub(super) fn stored_left(&self) -> usize {
        self.storage.0.len()
    }

    /// Does what a reactor does with its messages: passes fences whose commands have ended, and tells pairs of it.
    pub(super) fn read_messages(&mut self) {
        while let Ok(message) = self.messages.try_recv() {
            match message {
                Message::Fence(fence) => {
                    assert!(
                        !self.commands.slots.have(&fence.fenced, &self.commands.owner()),
                        "it would wait"
                    );
                    if let Some(then) = fence.pass() {
                        self.fabric.after_fence(then);
                    }
                }
                Message::FencePassed { slot, .. } => {
                    self.act(|commands, ctx| vec![commands.pair_goes_on(slot, ctx)]);
                }
                Message::Resume => self.act(|commands, _| {
                    commands.retry();
                    Vec::new()
                }),
                _ => {}
            }
        }
    }

    /// Counters of the namespace.
    pub(super) fn counts(&self) -> NamespaceCounts {
        let counted = self.commands.of.controller.subsystem.counters.by_namespace();
        counted.get(&1).cloned().unwrap_or_default()
    }

    /// Time passes.
    pub(super) fn wait(&mut self, time: Duration) {
        self.now = self.now.after(time);
        self.act(|commands, ctx| {
            commands.run_throttles(ctx.now);
            Vec::new()
        });
    }

    /// Contents of blocks in memory.
    pub(super) fn memory(&self, offset: u64, length: usize) -> Vec<u8> {
        let Backend::Memory(memory) = &*self.namespace.backend else { panic!("it is on memory") };
        let mut bytes = vec![0; length];
        assert_eq!(memory.read(offset, &mut bytes, true), length);
        bytes
    }

    /// Lets a host alone write to the namespace from now on.
    pub(super) fn reserve_for(&self, host_nqn: &str, host_id: [u8; 16]) {
        let mut reservations = Reservations::default();
        let register = Register {
            action: RegisterAction::Register,
            ignore_existing_key: false,
            persistence: PersistenceChange::NoChange,
            current_key: 0,
            new_key: 5,
        };
        reservations.register(host_id, host_nqn, &register).expect("is registered");
        let acquire = Acquire {
            action: AcquireAction::Acquire,
            ignore_existing_key: false,
            kind: ReservationType::WriteExclusive,
            current_key: 5,
            preempt_key: 0,
        };
        reservations.acquire(HostDigest::of(host_nqn, &host_id), &acquire).expect("holds it");
        self.namespace.publish_reservation(reservations.view());
    }

    /// Writes blocks of memory.
    pub(super) fn fill(&self, offset: u64, bytes: &[u8]) {
        let Backend::Memory(memory) = &*self.namespace.backend else { panic!("it is on memory") };
        assert_eq!(memory.write(offset, bytes), bytes.len());
    }
}

/// A controller that takes I/O commands.
fn controller(subsystem: &Arc<Subsystem>) -> Arc<Controller> {
    let host = Host::new("nqn.2026-01.io.selvedge:host".to_owned(), [1; 16]);
    let instance = ControllerInstance { controller_id: 1, uniquifier: 1, random_number: 1 };
    let network = Network::of([127, 0, 0, 1].into());
    let guest = Guest { nqn: host.nqn.clone(), network, is_named: false, is_proved: false };
    let controller =
        Controller::new(instance, subsystem.clone(), host, (1, guest), (None, false), 0, Moment(1));
    /// CC.EN with entries of 64 and 16 bytes.
    const ENABLED: u32 = 0x0046_0001;
    assert_eq!(controller.configure(ENABLED), (false, None));
    assert!(controller.is_ready());
    Arc::new(controller)
}

/// A block of this byte.
pub(super) fn block(byte: u8) -> Vec<u8> {
    vec![byte; BLOCK]
}
