//! A controller with one namespace that answers as a script says, and like a controller that is well where the script says
//! nothing.

use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::thread::JoinHandle;

use engine::initiator::ConnectOptions;
use nvme::command::admin_opcode;
use nvme::fabrics::{
    Capabilities, PropertyAccess, VERSION_2_0, configuration, controller_status, fabrics_type, property,
};
use nvme::identify::bits::{controller_type, optional_nvm_commands};
use nvme::identify::{
    Cns, IdentifyController, IdentifyNamespace, LbaFormat, NamespaceIdentifiers, NamespaceList,
};
use nvme::tcp::{Event, flags};
use nvme::{Status, SubmissionEntry};
use prerequisite::patience;
use zerocopy::IntoBytes;

use super::Fake;

pub(crate) const NQN: &str = "nqn.2014-08.org.example:fake";
/// Bytes of a block of namespace 1.
pub(crate) const BLOCK: u32 = 512;
/// Blocks of the namespace.
const BLOCKS: u64 = 1 << 20;

/// Answer to a command: status, result, and data, which is cut or filled up with zeroes to what the host has room for.
pub(crate) type Answer = (Status, u64, Vec<u8>);

/// Successful completion with this result.
pub(crate) const fn success(result: u64) -> Option<Answer> {
    Some((Status::SUCCESS, result, Vec::new()))
}

/// Successful completion with this data.
pub(crate) fn data(bytes: &[u8]) -> Option<Answer> {
    Some((Status::SUCCESS, 0, bytes.to_vec()))
}

/// Options of a host with one I/O queue.
pub(crate) fn options(address: SocketAddr) -> ConnectOptions {
    ConnectOptions {
        io_queues: 1,
        keep_alive_ms: 0,
        connect_timeout: patience(),
        command_timeout: patience(),
        ..ConnectOptions::new(address, NQN)
    }
}

/// True if the command reads this property.
pub(crate) fn reads(entry: &SubmissionEntry, offset: u32) -> bool {
    entry.opcode == admin_opcode::FABRICS
        && entry.fabrics_type() == fabrics_type::PROPERTY_GET
        && PropertyAccess::decode(entry).is_ok_and(|access| access.offset == offset)
}

/// Serves this number of connections. The script is given each command with the identifier of its queue.
pub(crate) fn controller(
    connections: usize,
    script: impl Fn(u16, &SubmissionEntry) -> Option<Answer> + Send + Sync + 'static,
) -> (SocketAddr, JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let script = Arc::new(script);
    let thread = std::thread::spawn(move || {
        let mut served = Vec::new();
        for _ in 0..connections {
            let (stream, _) = listener.accept().unwrap();
            let script = script.clone();
            served.push(std::thread::spawn(move || serve(&mut Fake::new(stream), &*script)));
        }
        served.into_iter().for_each(|thread| thread.join().unwrap());
    });
    (address, thread)
}

fn serve(fake: &mut Fake, script: &dyn Fn(u16, &SubmissionEntry) -> Option<Answer>) {
    let queue_id = fake.handshake_with_result(1 << 20, 4, 5);
    let mut configuration = 0;
    while let Some(event) = fake.next() {
        let Event::Command { entry, data_length } = event else { panic!("a command, not {event:?}") };
        if data_length > 0 {
            fake.data();
        }
        let otherwise = || usual(queue_id, &entry, &mut configuration);
        // An event request waits.
        let Some((status, result, mut data)) = script(queue_id, &entry).or_else(otherwise) else { continue };
        if !data.is_empty() {
            data.resize(entry.data_pointer().unwrap().length() as usize, 0);
            fake.c2h(entry.command_id.get(), flags::LAST, 0, &data);
        }
        fake.complete(&entry, status, result);
    }
}

/// Answer of a controller that is well; `None` for an event request, as nothing happens.
fn usual(queue_id: u16, entry: &SubmissionEntry, configuration: &mut u32) -> Option<Answer> {
    if queue_id > 0 {
        return success(0);
    }
    match entry.opcode {
        admin_opcode::FABRICS => of_property(entry, configuration),
        admin_opcode::IDENTIFY => identify(Cns(entry.cdw10.get() as u8)),
        admin_opcode::SET_FEATURES | admin_opcode::KEEP_ALIVE => success(0),
        admin_opcode::ASYNC_EVENT_REQUEST => None,
        _ => Some((Status::INVALID_OPCODE.do_not_retry(), 0, Vec::new())),
    }
}

fn of_property(entry: &SubmissionEntry, configuration: &mut u32) -> Option<Answer> {
    let access = PropertyAccess::decode(entry).unwrap();
    if entry.fabrics_type() == fabrics_type::PROPERTY_SET {
        *configuration = access.value as u32;
        return success(0);
    }
    let is_set = |bits: u32| *configuration & bits != 0;
    let ready = if is_set(configuration::ENABLE) { controller_status::READY } else { 0 };
    let shutdown =
        if is_set(configuration::SHUTDOWN_MASK) { controller_status::SHUTDOWN_COMPLETE } else { 0 };
    match access.offset {
        property::CAPABILITIES => success(Capabilities::new(128, 120).0),
        property::VERSION => success(VERSION_2_0.into()),
        property::CONFIGURATION => success((*configuration).into()),
        property::STATUS => success((ready | shutdown).into()),
        _ => Some((Status::INVALID_FIELD.do_not_retry(), 0, Vec::new())),
    }
}

fn identify(cns: Cns) -> Option<Answer> {
    match cns {
        Cns::CONTROLLER => {
            let mut identify = IdentifyController::default();
            identify.controller_type = controller_type::IO;
            identify.version = VERSION_2_0.into();
            identify.namespaces = 1.into();
            identify.optional_nvm_commands = optional_nvm_commands::WRITE_ZEROES.into();
            identify.io_command_capsule_size = ((size_of::<SubmissionEntry>() as u32 + 8192) / 16).into();
            identify.io_response_capsule_size = 1.into();
            data(identify.as_bytes())
        }
        Cns::NAMESPACE => {
            let mut identify = IdentifyNamespace::default();
            identify.size_blocks = BLOCKS.into();
            identify.capacity_blocks = BLOCKS.into();
            identify.lba_formats[0] = LbaFormat::new(BLOCK.trailing_zeros() as u8);
            data(identify.as_bytes())
        }
        Cns::ACTIVE_NAMESPACE_LIST => data(NamespaceList::after(0, [1]).as_bytes()),
        Cns::NAMESPACE_DESCRIPTORS => {
            let identifiers =
                NamespaceIdentifiers { nguid: Some([7; 16]), ..NamespaceIdentifiers::default() };
            data(&identifiers.encode())
        }
        _ => data(&[0]),
    }
}
