//! A host of the reservation tests: sends reservation commands over its queues, and tries what it may do. It judges
//! statuses only where a test says what has to come out.

use std::net::SocketAddr;

use nvme::command::admin_opcode;
use nvme::features::{AsyncEvent, FeatureId, GetFeatures, Select, SetFeatures};
use nvme::io::{DatasetRange, IoCommand};
use nvme::log_page::{LogPageId, LogPageRequest, ReservationNotification, ReservationNotificationLog};
use nvme::reservation::{
    AcquireAction, AcquireData, PersistenceChange, RegisterAction, RegisterData, ReleaseAction, ReleaseData,
    ReservationReport, ReservationType,
};
use nvme::{Status, SubmissionEntry};
use zerocopy::little_endian::U32;
use zerocopy::{FromBytes, IntoBytes};

use crate::raw_host::host::give;
use crate::raw_host::{Client, Give, Host, Options, Space, assert_status, pattern};

/// Bytes of a report that has room for some registrants.
pub(crate) const REPORT_LENGTH: u32 = 1024;

/// A host with some I/O queues.
pub(crate) struct Party {
    pub(crate) host: Host,
    pub(crate) queues: Vec<Client>,
    pub(crate) key: u64,
}

impl Party {
    /// The host with this number, which is in its name, its identifier and its key.
    pub(crate) fn connect(address: SocketAddr, number: u8) -> Self {
        let host_nqn = format!("nqn.2014-08.org.example:host-{number}");
        let options = Options { host_nqn, host_id: [number; 16], ..Options::default() };
        let host = Host::connect_with(address, options);
        let queues = vec![host.io(1), host.io(2)];
        Self { host, queues, key: 0x1000 + u64::from(number) }
    }

    pub(crate) fn register_with(
        &mut self,
        nsid: u32,
        action: RegisterAction,
        (current, new): (u64, u64),
        persistence: PersistenceChange,
    ) -> Status {
        let command = IoCommand::ReservationRegister { action, ignore_existing_key: false, persistence };
        let data = RegisterData { current_key: current.into(), new_key: new.into() };
        self.queues[0].run(command.encode(nsid), Give::Capsule(data.as_bytes())).status
    }

    #[track_caller]
    pub(crate) fn register(&mut self, nsid: u32) {
        let keys = (0, self.key);
        let status = self.register_with(nsid, RegisterAction::Register, keys, PersistenceChange::NoChange);
        assert_status(status, Status::SUCCESS, "register");
    }

    pub(crate) fn acquire_with(
        &mut self,
        nsid: u32,
        action: AcquireAction,
        kind: ReservationType,
        (current, preempt): (u64, u64),
    ) -> Status {
        let command = IoCommand::ReservationAcquire { action, ignore_existing_key: false, kind };
        let data = AcquireData { current_key: current.into(), preempt_key: preempt.into() };
        // The other of the two ways in which data comes.
        self.queues[1].run(command.encode(nsid), Give::Asked(data.as_bytes())).status
    }

    #[track_caller]
    pub(crate) fn acquire(&mut self, nsid: u32, kind: ReservationType) {
        let status = self.acquire_with(nsid, AcquireAction::Acquire, kind, (self.key, 0));
        assert_status(status, Status::SUCCESS, "acquire");
    }

    #[track_caller]
    pub(crate) fn preempt(&mut self, nsid: u32, action: AcquireAction, victim: u64) {
        let kind = ReservationType::WriteExclusive;
        let status = self.acquire_with(nsid, action, kind, (self.key, victim));
        assert_status(status, Status::SUCCESS, "preempt");
    }

    pub(crate) fn release_with(
        &mut self,
        nsid: u32,
        action: ReleaseAction,
        kind: ReservationType,
        key: u64,
    ) -> Status {
        let command = IoCommand::ReservationRelease { action, ignore_existing_key: false, kind: Some(kind) };
        let data = ReleaseData { current_key: key.into() };
        self.queues[0].run(command.encode(nsid), Give::Capsule(data.as_bytes())).status
    }

    #[track_caller]
    pub(crate) fn clear(&mut self, nsid: u32) {
        let kind = ReservationType::WriteExclusive;
        assert_status(
            self.release_with(nsid, ReleaseAction::Clear, kind, self.key),
            Status::SUCCESS,
            "clear",
        );
    }

    #[track_caller]
    pub(crate) fn report(&mut self, nsid: u32) -> ReservationReport {
        let command = IoCommand::ReservationReport { dwords: REPORT_LENGTH / 4, extended: true };
        let reply = self.queues[1].run(command.encode(nsid), Give::Room(REPORT_LENGTH));
        assert_status(reply.status, Status::SUCCESS, "report");
        assert_eq!(reply.data.len(), REPORT_LENGTH as usize);
        ReservationReport::parse(&reply.data, true).unwrap()
    }

    /// Checks what it may do on each of its queues.
    #[track_caller]
    pub(crate) fn check_access(&mut self, space: Space, reads: bool, writes: bool, what: &str) {
        for queue in &mut self.queues {
            check_access(queue, space, self.key, (reads, writes), what);
        }
    }

    pub(crate) fn set_feature(&mut self, id: FeatureId, nsid: u32, value: u32) -> Status {
        let mut entry = SubmissionEntry::new(admin_opcode::SET_FEATURES, nsid);
        let (cdw10, cdw11, cdw14) = SetFeatures { id, save: false, value, uuid_index: 0 }.encode();
        (entry.cdw10, entry.cdw11, entry.cdw14) = (U32::new(cdw10), U32::new(cdw11), U32::new(cdw14));
        self.host.admin.run(entry, Give::Nothing).status
    }

    pub(crate) fn get_feature(&mut self, id: FeatureId, nsid: u32, select: Select) -> Result<u32, Status> {
        let mut entry = SubmissionEntry::new(admin_opcode::GET_FEATURES, nsid);
        let (cdw10, cdw11, cdw14) = GetFeatures { id, select, parameter: 0, uuid_index: 0 }.encode();
        (entry.cdw10, entry.cdw11, entry.cdw14) = (U32::new(cdw10), U32::new(cdw11), U32::new(cdw14));
        let reply = self.host.admin.run(entry, Give::Nothing);
        if reply.status.is_success() { Ok(reply.result as u32) } else { Err(reply.status.without_flags()) }
    }

    pub(crate) fn await_event(&mut self) {
        let entry = SubmissionEntry::new(admin_opcode::ASYNC_EVENT_REQUEST, 0);
        self.host.admin.submit(entry, Give::Nothing);
    }

    #[track_caller]
    pub(crate) fn expect_event(&mut self) {
        let reply = self.host.admin.wait();
        assert_status(reply.status, Status::SUCCESS, "an event");
        assert_eq!(AsyncEvent::decode(reply.result as u32), AsyncEvent::RESERVATION_LOG_AVAILABLE);
    }

    /// A page of the notification log: its count, what it says, the pages behind it, and the namespace.
    pub(crate) fn page(&mut self, retain_event: bool) -> (u64, ReservationNotification, u8, u32) {
        let length = size_of::<ReservationNotificationLog>() as u64;
        let request = LogPageRequest::new(LogPageId::RESERVATION_NOTIFICATION, 0, length);
        let reply = self.host.admin.log_page(&LogPageRequest { retain_event, ..request });
        assert_status(reply.status, Status::SUCCESS, "a log page");
        let page = ReservationNotificationLog::read_from_bytes(&reply.data).unwrap();
        (page.page_count.get(), page.kind().unwrap(), page.available_pages, page.nsid.get())
    }
}

/// Tries commands of both groups on the first block of `space`, writing bytes that belong to `seed`.
#[track_caller]
fn check_access(client: &mut Client, space: Space, seed: u64, (reads, writes): (bool, bool), what: &str) {
    let expected = |allowed| if allowed { Status::SUCCESS } else { Status::RESERVATION_CONFLICT };
    let own = pattern(space.block as usize, seed);
    let zeroes = IoCommand::WriteZeroes { start: 1, blocks: 1, force_unit_access: false, deallocate: false };
    let deallocate = IoCommand::DatasetManagement { ranges: 1, deallocate: true };
    let range = DatasetRange { blocks: U32::new(1), start: 1.into(), ..DatasetRange::default() };
    for in_capsule in [true, false] {
        let reply = client.write(space, 0, &own, in_capsule);
        assert_status(reply.status, expected(writes), &format!("{what}, write"));
        assert_eq!(reply.asked, usize::from(writes && !in_capsule), "{what}, R2T");
    }
    for (command, given, name) in [
        (zeroes, Give::Nothing, "write zeroes"),
        (IoCommand::Flush, Give::Nothing, "flush"),
        (deallocate, give(range.as_bytes(), true), "deallocate"),
    ] {
        let status = client.run(command.encode(space.nsid), given).status;
        assert_status(status, expected(writes), &format!("{what}, {name}"));
    }
    let reply = client.read(space, 0, 1);
    assert_status(reply.status, expected(reads), &format!("{what}, read"));
    let compare = IoCommand::Compare { start: 0, blocks: 1 }.encode(space.nsid);
    // What cannot be read cannot be compared either; the bytes are another host's where it did not write.
    let compared = if reads && !writes { Status::COMPARE_FAILURE } else { expected(reads) };
    assert_status(client.run(compare, Give::Capsule(&own)).status, compared, &format!("{what}, compare"));
    if writes {
        assert!(reply.data == own, "{what}: what was written is read");
    }
}
