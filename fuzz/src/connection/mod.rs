//! Whole connections to a living target, several at a time, by sequences that know where a connection stands: what
//! comes back is what a controller may send, a bystander notices nothing, and nothing is left behind.

mod peer;
mod plan;
mod testbed;

use std::cell::RefCell;

use arbitrary::{Arbitrary as _, Unstructured};
use engine::ring::Engine;
use nvme::command::{admin_opcode, io_opcode};
use nvme::fabrics::{CONTROLLER_ID_ANY, Connect, ConnectData, PropertyAccess, property};
use nvme::tcp::digest::crc32c;
use nvme::tcp::{DataPdu, FatalError, Initialize, PduType, flags};
use nvme::{SglDescriptor, SubmissionEntry};
use zerocopy::little_endian::{U16, U32};
use zerocopy::{FromBytes, IntoBytes};

use peer::Peer;
use plan::{
    Action, Command, Connecting, DataPiece, Dword, Give, Initialization, Opening, PEERS, Plan, Start, Step,
};
use testbed::{NQN, SPACES, Testbed, connect, enable, initialize, run};

/// Hosts that inputs connect as.
const HOSTS: [&str; 4] = [
    "nqn.2014-08.org.example:host-a",
    "nqn.2014-08.org.example:host-b",
    "nqn.2014-08.org.example:host-b ",
    "no name",
];
const SUBSYSTEMS: [&str; 4] =
    [NQN, NQN, "nqn.2014-08.org.nvmexpress.discovery", "nqn.2014-08.org.example:other"];
const NSIDS: [u32; 8] = [1, 2, 1, 2, 3, 4, 0, u32::MAX];
const IO_OPCODES: [u8; 14] = [
    io_opcode::READ,
    io_opcode::WRITE,
    io_opcode::FLUSH,
    io_opcode::COMPARE,
    io_opcode::WRITE_ZEROES,
    io_opcode::VERIFY,
    io_opcode::DATASET_MANAGEMENT,
    io_opcode::WRITE_UNCORRECTABLE,
    io_opcode::COPY,
    io_opcode::RESERVATION_REGISTER,
    io_opcode::RESERVATION_REPORT,
    io_opcode::RESERVATION_ACQUIRE,
    io_opcode::RESERVATION_RELEASE,
    0x7f,
];
const PROPERTIES: [u32; 7] = [
    property::CAPABILITIES,
    property::VERSION,
    property::CONFIGURATION,
    property::STATUS,
    0x0c,
    0x20,
    0x1000,
];
/// The longest data that a command is given.
const DATA_LENGTH_MAX: usize = 64 << 10;

thread_local! {
    static TESTBEDS: RefCell<[Option<Testbed>; 2]> = const { RefCell::new([None, None]) };
}

/// Does what one input says, on a target of either machinery.
pub fn check(bytes: &[u8]) {
    let Some((first, rest)) = bytes.split_first() else { return };
    let Ok(plan) = Plan::arbitrary(&mut Unstructured::new(rest)) else { return };
    TESTBEDS.with_borrow_mut(|testbeds| {
        let (at, engine) = if first & 1 == 0 { (0, Engine::IoUring) } else { (1, Engine::Epoll) };
        let testbed = testbeds[at].get_or_insert_with(|| Testbed::new(engine));
        Play::new(testbed, &plan).steps(&plan.steps);
        testbed.check();
    });
}

/// The connections of one input.
struct Play<'a> {
    testbed: &'a Testbed,
    peers: [Option<Peer>; PEERS],
    /// The controller that the first admin queue has got.
    controller_id: u16,
    next_id: u16,
}

impl<'a> Play<'a> {
    fn new(testbed: &'a Testbed, plan: &Plan) -> Self {
        let mut play = Self { testbed, peers: [None, None, None], controller_id: 1, next_id: 0 };
        for (at, opening) in plan.openings.iter().enumerate() {
            play.open(at, *opening);
        }
        play
    }

    fn open(&mut self, at: usize, opening: Opening) {
        // The old one goes first, as a host's would that connects again.
        self.peers[at] = None;
        let (digests, queue) = match opening {
            Opening::Nothing => return,
            Opening::Opened => {
                self.peers[at] = Some(Peer::open(self.testbed.address()));
                return;
            }
            Opening::Initialized { digests } => (digests, None),
            Opening::Admin { digests } => (digests, Some((0, 32))),
            Opening::Queue { digests, number, entries } => {
                (digests, Some((1 + u16::from(number % 4), 2 + u16::from(entries))))
            }
        };
        let mut peer = Peer::open(self.testbed.address());
        initialize(&mut peer, digests);
        if let Some((queue_id, entries)) = queue {
            let controller_id = if queue_id == 0 { CONTROLLER_ID_ANY } else { self.controller_id };
            let (entry, data) = connect(queue_id, entries, controller_id, HOSTS[0]);
            let answer = run(&mut peer, entry, Some(data.as_bytes()), 0);
            if queue_id == 0 {
                assert!(answer.status.is_success(), "a good Connect: {answer:?}");
                self.controller_id = answer.result as u16;
                assert!(run(&mut peer, enable(), None, 0).status.is_success());
            }
        }
        self.peers[at] = Some(peer);
    }

    fn steps(mut self, steps: &[Step]) {
        for step in steps {
            let at = usize::from(step.peer) % PEERS;
            if let Action::Reopen(opening) = step.action {
                self.open(at, opening);
                continue;
            }
            let Some(peer) = &mut self.peers[at] else { continue };
            peer.pump();
            if peer.is_ended {
                continue;
            }
            let bytes = self.bytes(at, &step.action);
            let Some(peer) = &mut self.peers[at] else { continue };
            if let Some(mut bytes) = bytes {
                if let Some((place, other)) = step.bend.0
                    && !bytes.is_empty()
                {
                    let place = usize::from(place) % bytes.len();
                    bytes[place] ^= other.max(1);
                }
                peer.send(&bytes, step.cut.0);
            }
        }
        for peer in self.peers.iter_mut().flatten() {
            peer.await_owed();
        }
    }

    /// Bytes of an action; actions without bytes are done here.
    fn bytes(&mut self, at: usize, action: &Action) -> Option<Vec<u8>> {
        let controller_id = self.controller_id;
        self.next_id = self.next_id.wrapping_add(1);
        let id = self.next_id;
        let peer = self.peers[at].as_mut()?;
        match action {
            Action::Initialize(wanted) => return Some(initialization(peer, wanted)),
            Action::Connect(wanted) => return Some(connecting(peer, wanted, controller_id, id)),
            Action::Property { sets, wide, which, value } => {
                let offset = PROPERTIES[usize::from(*which) % PROPERTIES.len()];
                let access = PropertyAccess { offset, wide: wide.0.unwrap_or(false), value: (*value).into() };
                let entry = if *sets { access.encode_set() } else { access.encode_get() };
                return Some(command(peer, entry, id, Give::Nothing));
            }
            Action::Enable => return Some(command(peer, enable(), id, Give::Nothing)),
            Action::Admin { opcode, nsid, dwords, give } => {
                return Some(command(peer, admin(*opcode, *nsid, dwords), id, *give));
            }
            Action::Command(wanted) | Action::Other(wanted) => return Some(io(peer, wanted, id)),
            Action::Data(wanted) => return data(peer, wanted),
            Action::Raw { bytes, repeat } => return Some(bytes.repeat(1 + usize::from(*repeat))),
            Action::Terminate { error } => {
                let error =
                    if *error == 1 { FatalError::PduSequence } else { FatalError::InvalidHeaderField };
                let send = |transmitter: &mut nvme::tcp::Transmitter<()>| {
                    transmitter.terminate(PduType::HostTerminate, error, 8, &[0; 24]);
                };
                return Some(peer.frame(&[], send));
            }
            Action::Await => peer.await_owed(),
            Action::AwaitAll => self.peers.iter_mut().flatten().for_each(Peer::await_owed),
            Action::HalfClose => peer.half_close(),
            Action::Close => self.peers[at] = None,
            Action::Reset => peer.reset(),
            Action::Reopen(_) => {}
        }
        None
    }
}

fn initialization(peer: &mut Peer, wanted: &Initialization) -> Vec<u8> {
    let mut request =
        Initialize::new(PduType::InitializeRequest, wanted.digests & 3, u32::from(wanted.limit));
    request.format_version = U16::new(wanted.version.0.unwrap_or(0));
    request.data_alignment = wanted.alignment.0.unwrap_or(0);
    peer.frame(&[], |transmitter| transmitter.initialize(&request))
}

fn connecting(peer: &mut Peer, wanted: &Connecting, own_controller_id: u16, id: u16) -> Vec<u8> {
    let queue_id = wanted.wild_queue.0.unwrap_or(u16::from(wanted.queue % 4));
    let connect = Connect {
        record_format: wanted.format.0.unwrap_or(0),
        queue_id,
        queue_size: wanted.entries.0.unwrap_or(31),
        attributes: wanted.attributes & Connect::DISABLE_FLOW_CONTROL,
        keep_alive_ms: wanted.keep_alive_ms.0.unwrap_or(0),
    };
    let usual_controller_id = if queue_id == 0 { CONTROLLER_ID_ANY } else { own_controller_id };
    let controller_id = wanted.controller.0.unwrap_or(usual_controller_id);
    let [host, subsystem] = [
        HOSTS[usize::from(wanted.host) % HOSTS.len()],
        SUBSYSTEMS[usize::from(wanted.subsystem) % SUBSYSTEMS.len()],
    ];
    let host_id = u128::from(crc32c(host.as_bytes())) + 1;
    let data = ConnectData::new(host_id.to_le_bytes(), controller_id, subsystem, host);
    let length = size_of::<ConnectData>().saturating_sub(wanted.missing.0.unwrap_or(0).into());
    capsule(peer, connect.encode(), id, &data.as_bytes()[..length])
}

fn admin(opcode: u8, nsid: u8, dwords: &[Dword; 6]) -> SubmissionEntry {
    const USUAL: [u8; 12] = [
        admin_opcode::IDENTIFY,
        admin_opcode::GET_LOG_PAGE,
        admin_opcode::GET_FEATURES,
        admin_opcode::SET_FEATURES,
        admin_opcode::ASYNC_EVENT_REQUEST,
        admin_opcode::ABORT,
        admin_opcode::KEEP_ALIVE,
        admin_opcode::NAMESPACE_MANAGEMENT,
        admin_opcode::NAMESPACE_ATTACHMENT,
        admin_opcode::CROSS_CONTROLLER_RESET,
        admin_opcode::DIRECTIVE_RECEIVE,
        admin_opcode::FABRICS,
    ];
    let opcode = if opcode < 0xc0 { USUAL[usize::from(opcode) % USUAL.len()] } else { opcode };
    let mut entry = SubmissionEntry::new(opcode, NSIDS[usize::from(nsid) % NSIDS.len()]);
    let values = dwords.map(|dword| U32::new(dword.value()));
    [entry.cdw10, entry.cdw11, entry.cdw12, entry.cdw13, entry.cdw14, entry.cdw15] = values;
    entry
}

/// The bytes of a command with data as `give` says.
fn command(peer: &mut Peer, mut entry: SubmissionEntry, id: u16, give: Give) -> Vec<u8> {
    let transport = match give {
        Give::Nothing => 0,
        Give::Room { dwords } => u32::from(dwords) * 4,
        Give::Page => 4096,
        Give::Asked { length } => length.into(),
        Give::Capsule { length } => {
            let data = pattern(usize::from(length).min(DATA_LENGTH_MAX), id);
            return capsule(peer, entry, id, &data);
        }
        Give::Wild { address, length, kind } => {
            let mut bytes = [0; 16];
            bytes[..8].copy_from_slice(&address.to_le_bytes());
            bytes[8..12].copy_from_slice(&length.to_le_bytes());
            bytes[15] = kind;
            entry.data = SglDescriptor::read_from_bytes(&bytes).expect("16 bytes");
            entry.command_id = id.into();
            return peer.frame(&[], |transmitter| transmitter.command(entry, None));
        }
    };
    entry.data = SglDescriptor::transport(transport);
    entry.command_id = id.into();
    peer.frame(&[], |transmitter| transmitter.command(entry, None))
}

fn capsule(peer: &mut Peer, mut entry: SubmissionEntry, id: u16, data: &[u8]) -> Vec<u8> {
    entry.data = SglDescriptor::in_capsule(data.len() as u32);
    entry.command_id = id.into();
    let payload = (!data.is_empty()).then(|| ((), data.len(), crc32c(data)));
    peer.frame(data, |transmitter| transmitter.command(entry, payload))
}

fn pattern(length: usize, seed: u16) -> Vec<u8> {
    (0..length).map(|at| (at as u16).wrapping_mul(31).wrapping_add(seed) as u8).collect()
}

fn io(peer: &mut Peer, wanted: &Command, id: u16) -> Vec<u8> {
    let opcode = match wanted.opcode {
        // Reads and writes come more often than all others.
        0..0x80 => IO_OPCODES[usize::from(wanted.opcode & 1)],
        opcode => IO_OPCODES[usize::from(opcode) % IO_OPCODES.len()],
    };
    let nsid = NSIDS[usize::from(wanted.nsid) % NSIDS.len()];
    let mut entry = SubmissionEntry::new(opcode, nsid);
    let space = SPACES[usize::from(wanted.nsid & 1)];
    let blocks = wanted.many_blocks.0.map_or(u32::from(wanted.blocks % 40), u32::from) + 1;
    let start = match wanted.start {
        Start::Near(start) => start.into(),
        Start::AtEnd(before) => space.blocks() - u64::from(before),
        Start::Any(start) => start,
    };
    entry.cdw10 = U32::new(start as u32);
    entry.cdw11 = U32::new((start >> 32) as u32);
    entry.cdw12 = U32::new((blocks - 1) | u32::from(wanted.control.0.unwrap_or(0)) << 16);
    if let Some([a, b, c, d]) = wanted.dwords.0 {
        (entry.cdw10, entry.cdw11, entry.cdw12, entry.cdw13) = (a.into(), b.into(), c.into(), d.into());
    }
    entry.flags |= wanted.fused.0.unwrap_or(0) & 3;
    let id = match (wanted.same_id.0, peer.outstanding.last()) {
        (Some(true), Some(command)) => command.entry.command_id.get(),
        _ => id,
    };
    let length = match opcode {
        io_opcode::READ | io_opcode::WRITE | io_opcode::COMPARE => blocks * space.block,
        io_opcode::DATASET_MANAGEMENT => (blocks & 0xff) * 16,
        io_opcode::COPY => (blocks & 0xff) * 32,
        io_opcode::RESERVATION_REGISTER | io_opcode::RESERVATION_ACQUIRE => 16,
        io_opcode::RESERVATION_RELEASE => 8,
        io_opcode::RESERVATION_REPORT => 4096,
        _ => 0,
    };
    let length = length.saturating_add_signed(wanted.excess.0.unwrap_or(0).into());
    if wanted.in_capsule && opcode & 3 == 1 {
        let data = pattern((length as usize).min(DATA_LENGTH_MAX), id);
        return capsule(peer, entry, id, &data);
    }
    entry.data = SglDescriptor::transport(length);
    entry.command_id = id.into();
    peer.frame(&[], |transmitter| transmitter.command(entry, None))
}

/// Data that the target has asked for. It is waited for, since nothing can be sent before it.
fn data(peer: &mut Peer, wanted: &DataPiece) -> Option<Vec<u8>> {
    peer.pump();
    if peer.asked.is_empty() {
        return None;
    }
    let at = usize::from(wanted.which) % peer.asked.len();
    let asked = peer.asked[at];
    let whole = asked.length.get();
    let part = if wanted.half { (whole / 2) & !3 } else { whole };
    let length = wanted.length.0.map_or(part, u32::from).min(DATA_LENGTH_MAX as u32);
    let offset = asked.offset.get();
    let is_last = wanted.is_last.0.unwrap_or(length == whole);
    // What is left of it is asked for no more, but still to be sent.
    match whole.checked_sub(length) {
        Some(left @ 1..) => {
            peer.asked[at].offset = U32::new(offset.wrapping_add(length));
            peer.asked[at].length = U32::new(left);
        }
        _ => drop(peer.asked.remove(at)),
    }
    let pdu = DataPdu::new(
        PduType::DataToController,
        if is_last { flags::LAST } else { 0 },
        wanted.id.0.unwrap_or(asked.command_id.get()),
        wanted.tag.0.unwrap_or(asked.transfer_tag.get()),
        offset.wrapping_add_signed(wanted.offset.0.unwrap_or(0).into()),
        length,
    );
    let data = pattern(length as usize, 7);
    let crc = if wanted.damaged.0 == Some(true) { 0 } else { crc32c(&data) };
    Some(peer.frame(&data, |transmitter| transmitter.data(pdu, (), 0..data.len(), Some(crc))))
}
