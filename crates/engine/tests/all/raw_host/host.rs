//! A host: connects admin and I/O queues in any way, and builds the commands that tests send most.

use std::net::SocketAddr;

use nvme::command::admin_opcode;
use nvme::fabrics::{
    CONTROLLER_ID_ANY, Connect, ConnectData, PropertyAccess, configuration, controller_status, property,
};
use nvme::features::{FeatureId, GetFeatures, Select, SetFeatures};
use nvme::identify::{Cns, IdentifyController, IdentifyNamespace, IdentifyRequest};
use nvme::io::IoCommand;
use nvme::log_page::{LogPageId, LogPageRequest, SmartLog};
use nvme::tcp::Digests;
use nvme::{Status, SubmissionEntry};
use zerocopy::little_endian::U32;
use zerocopy::{FromBytes, IntoBytes};

use super::{Client, Give, HOST_NQN, NQN, Reply, Space};

/// Options of a host's connection.
#[derive(Clone, Debug)]
pub(crate) struct Options {
    pub(crate) digests: Digests,
    pub(crate) flow_control: bool,
    /// Entries of a queue.
    pub(crate) entries: u16,
    pub(crate) keep_alive_ms: u32,
    pub(crate) subsystem_nqn: String,
    pub(crate) host_nqn: String,
    pub(crate) host_id: [u8; 16],
}

impl Default for Options {
    fn default() -> Self {
        Self {
            digests: Digests::default(),
            flow_control: false,
            entries: 64,
            keep_alive_ms: 0,
            subsystem_nqn: NQN.to_owned(),
            host_nqn: HOST_NQN.to_owned(),
            host_id: [7; 16],
        }
    }
}

impl Options {
    /// Another host, with a name and an identifier of its own.
    pub(crate) fn named(host_nqn: &str) -> Self {
        let mut host_id = [8; 16];
        for (at, byte) in host_nqn.bytes().enumerate() {
            host_id[at % 15] ^= byte.rotate_left((at / 15) as u32);
        }
        Self { host_nqn: host_nqn.to_owned(), host_id, ..Self::default() }
    }

    /// The Connect command for queue `queue_id`.
    pub(crate) fn connect(&self, queue_id: u16) -> Connect {
        Connect {
            record_format: 0,
            queue_id,
            queue_size: self.entries - 1,
            attributes: if self.flow_control { 0 } else { Connect::DISABLE_FLOW_CONTROL },
            keep_alive_ms: if queue_id == 0 { self.keep_alive_ms } else { 0 },
        }
    }

    /// Data of the Connect command.
    pub(crate) fn data(&self, controller_id: u16) -> ConnectData {
        ConnectData::new(self.host_id, controller_id, &self.subsystem_nqn, &self.host_nqn)
    }
}

/// A host that uses one controller.
pub(crate) struct Host {
    pub(crate) admin: Client,
    pub(crate) controller_id: u16,
    pub(crate) options: Options,
    pub(crate) address: SocketAddr,
}

impl Host {
    /// Connects the usual way.
    pub(crate) fn connect(address: SocketAddr) -> Self {
        Self::connect_with(address, Options::default())
    }

    /// The same, with I/O queue 1.
    pub(crate) fn with_queue(address: SocketAddr) -> (Self, Client) {
        let host = Self::connect(address);
        let queue = host.io(1);
        (host, queue)
    }

    /// Connects an admin queue and enables the controller.
    pub(crate) fn connect_with(address: SocketAddr, options: Options) -> Self {
        let mut host = Self::connect_admin(address, options);
        host.enable();
        host
    }

    /// Connects an admin queue only.
    pub(crate) fn connect_admin(address: SocketAddr, options: Options) -> Self {
        let mut admin = Client::initialized(address, options.digests);
        let entries = options.entries.min(32);
        let connect = Connect { queue_size: entries - 1, ..options.connect(0) };
        let reply = admin.connect(&connect, &options.data(CONTROLLER_ID_ANY));
        assert_eq!(reply.status, Status::SUCCESS, "the admin queue connects");
        let controller_id = reply.result as u16;
        Self { admin, controller_id, options, address }
    }

    pub(crate) fn enable(&mut self) {
        let value = configuration::ENABLE
            | configuration::SUBMISSION_ENTRY_SIZE
            | configuration::COMPLETION_ENTRY_SIZE;
        assert_eq!(self.admin.set_property(property::CONFIGURATION, value.into()).status, Status::SUCCESS);
        let status = self.admin.property(property::STATUS, false).result as u32;
        assert_eq!(status, controller_status::READY, "the controller is ready");
    }

    /// Tries to connect an I/O queue.
    pub(crate) fn try_io(&self, queue_id: u16) -> (Client, Reply) {
        let mut client = Client::initialized(self.address, self.options.digests);
        let reply = client.connect(&self.options.connect(queue_id), &self.options.data(self.controller_id));
        (client, reply)
    }

    /// Connects an I/O queue.
    pub(crate) fn io(&self, queue_id: u16) -> Client {
        let (client, reply) = self.try_io(queue_id);
        assert_eq!(reply.status, Status::SUCCESS, "I/O queue {queue_id} connects");
        client
    }
}

impl Client {
    pub(crate) fn connect(&mut self, connect: &Connect, data: &ConnectData) -> Reply {
        self.run(connect.encode(), Give::Capsule(data.as_bytes()))
    }

    pub(crate) fn property(&mut self, offset: u32, wide: bool) -> Reply {
        self.run(PropertyAccess { offset, wide, value: 0 }.encode_get(), Give::Nothing)
    }

    pub(crate) fn set_property(&mut self, offset: u32, value: u64) -> Reply {
        self.run(PropertyAccess { offset, wide: false, value }.encode_set(), Give::Nothing)
    }

    pub(crate) fn identify(&mut self, nsid: u32, request: IdentifyRequest) -> Reply {
        let mut entry = SubmissionEntry::new(admin_opcode::IDENTIFY, nsid);
        let (cdw10, cdw11, cdw14) = request.encode();
        (entry.cdw10, entry.cdw11, entry.cdw14) = (U32::new(cdw10), U32::new(cdw11), U32::new(cdw14));
        self.run(entry, Give::Room(4096))
    }

    /// The data of an Identify that has to succeed.
    pub(crate) fn identified(&mut self, nsid: u32, cns: Cns) -> Vec<u8> {
        let reply = self.identify(nsid, IdentifyRequest::new(cns));
        assert_eq!(reply.status, Status::SUCCESS, "{cns:?}");
        assert_eq!(reply.data.len(), 4096, "{cns:?}");
        reply.data
    }

    pub(crate) fn identified_controller(&mut self) -> IdentifyController {
        IdentifyController::read_from_bytes(&self.identified(0, Cns::CONTROLLER)).unwrap()
    }

    pub(crate) fn identified_namespace(&mut self, nsid: u32) -> IdentifyNamespace {
        IdentifyNamespace::read_from_bytes(&self.identified(nsid, Cns::NAMESPACE)).unwrap()
    }

    pub(crate) fn smart(&mut self) -> SmartLog {
        SmartLog::read_from_bytes(&self.logged(LogPageId::SMART, 0, 512)).unwrap()
    }

    pub(crate) fn log_page(&mut self, request: &LogPageRequest) -> Reply {
        self.log_page_of(0xffff_ffff, request)
    }

    /// The same of one namespace.
    pub(crate) fn log_page_of(&mut self, nsid: u32, request: &LogPageRequest) -> Reply {
        let mut entry = SubmissionEntry::new(admin_opcode::GET_LOG_PAGE, nsid);
        let [cdw10, cdw11, cdw12, cdw13, cdw14] = request.encode().map(U32::new);
        (entry.cdw10, entry.cdw11, entry.cdw12) = (cdw10, cdw11, cdw12);
        (entry.cdw13, entry.cdw14) = (cdw13, cdw14);
        self.run(entry, Give::Room(request.length_bytes() as u32))
    }

    /// `length` bytes of a log page from `offset` on.
    pub(crate) fn logged(&mut self, id: LogPageId, offset: u64, length: u64) -> Vec<u8> {
        let reply = self.log_page(&LogPageRequest::new(id, offset, length));
        assert_eq!(reply.status, Status::SUCCESS, "{id:?}");
        assert_eq!(reply.data.len() as u64, length, "{id:?}");
        reply.data
    }

    pub(crate) fn get_feature(&mut self, id: FeatureId, select: Select, parameter: u32, room: u32) -> Reply {
        let mut entry = SubmissionEntry::new(admin_opcode::GET_FEATURES, 0);
        let (cdw10, cdw11, cdw14) = GetFeatures { id, select, parameter, uuid_index: 0 }.encode();
        (entry.cdw10, entry.cdw11, entry.cdw14) = (U32::new(cdw10), U32::new(cdw11), U32::new(cdw14));
        self.run(entry, if room == 0 { Give::Nothing } else { Give::Room(room) })
    }

    pub(crate) fn set_feature(&mut self, id: FeatureId, value: u32, save: bool, give: Give<'_>) -> Reply {
        let mut entry = SubmissionEntry::new(admin_opcode::SET_FEATURES, 0);
        let (cdw10, cdw11, cdw14) = SetFeatures { id, save, value, uuid_index: 0 }.encode();
        (entry.cdw10, entry.cdw11, entry.cdw14) = (U32::new(cdw10), U32::new(cdw11), U32::new(cdw14));
        self.run(entry, give)
    }

    pub(crate) fn read(&mut self, space: Space, start: u64, blocks: u32) -> Reply {
        let command = IoCommand::Read { start, blocks, force_unit_access: false };
        self.run(command.encode(space.nsid), Give::Room(blocks * space.block))
    }

    /// Writes, in the capsule when the data fits and `in_capsule` is set.
    pub(crate) fn write(&mut self, space: Space, start: u64, data: &[u8], in_capsule: bool) -> Reply {
        let blocks = data.len() as u32 / space.block;
        let command = IoCommand::Write { start, blocks, force_unit_access: false };
        self.run(command.encode(space.nsid), give(data, in_capsule))
    }
}

/// In the capsule, or on request.
pub(crate) const fn give(data: &[u8], in_capsule: bool) -> Give<'_> {
    if in_capsule { Give::Capsule(data) } else { Give::Asked(data) }
}
