//! Two tenants: hosts of different rights at one target, with a subsystem of their own. Each requests forbidden objects and
//! has to be refused by the right rule. On shared namespaces they send Copy, Dataset Management, and fused Compare and Write.
//! Commands of both are sequential, so the content of every block is known, on memory and on a file.

use std::rc::Rc;
use std::time::Duration;

use engine::backend::BackendConfig;
use engine::initiator::{Completion, ConnectOptions, Controller, Data, HostIdentity, InitiatorError};
use engine::ring::Buffer;
use engine::simulation::{self, Direction, MachineId, Random, sleep};
use engine::target::{
    AnaGroupConfig, GroupState, NamespaceConfig, SubsystemConfig, Visibility, WriteProtection,
};
use nvme::Status;
use nvme::features::AsyncEvent;
use nvme::io::{CopyFormat, IoCommand, encode_copy_ranges, encode_ranges};
use nvme::log_page::LogPageId;
use nvme::tcp::Digests;
use uuid::Uuid;

use crate::block;
use crate::host::{self, send};
use crate::scene::{Scene, address};
use crate::tenant::{Content, Tenant};

/// The name of their process.
pub(crate) const PROCESS: &str = "tenants";
/// Subsystem of the tenants.
const NQN: &str = "nqn.2026-01.io.selvedge:tenants";
/// Numbers of the hosts they are; the others have smaller ones.
const IDENTITIES: [u128; 2] = [0x300, 0x301];
/// The second of them, which has fewer rights.
const SECOND: usize = 1;
/// Hidden from the second.
const HIDDEN: u32 = 1;
/// Write protected.
const PROTECTED: u32 = 2;
/// Memory that both use.
const MEMORY: u32 = 3;
/// Attached to the second and detached from it again while it looks on.
const FLEETING: u32 = 4;
/// In an ANA group that is inaccessible.
const INACCESSIBLE: u32 = 5;
/// A namespace with a limit of [`SHAPED_IOPS`].
const SHAPED: u32 = 6;
const SHAPED_IOPS: u64 = 200;
/// Time by which a namespace may exceed its limit, from `qos`.
const BURST: Duration = Duration::from_millis(20);
/// A file that both use.
const FILE: u32 = 7;
const FILE_PATH: &str = "/tenants";
/// Blocks of each.
const BLOCKS: u64 = 64;
/// Steps of a session.
const TASKS: usize = 40;
/// Time between two things, in milliseconds.
const PAUSE_MS_MAX: u64 = 60;
/// The longest until a change is seen by a host that is well connected.
const CHANGE_TIME_MAX: Duration = Duration::from_secs(30);

/// Plan of the tenants.
#[derive(Clone, Debug)]
pub(crate) struct TenantPlan {
    pub(crate) target: usize,
    pub(crate) port: usize,
    pub(crate) keep_alive_ms: u32,
}

fn identity(number: usize) -> HostIdentity {
    HostIdentity::from_uuid(Uuid::from_u128(IDENTITIES[number]))
}

/// The subsystem they use.
pub(crate) fn subsystem(block_size: usize, on_files: bool) -> SubsystemConfig {
    let size = BLOCKS * block_size as u64;
    let on = |path: String| BackendConfig::File { path: path.into(), size: Some(size) };
    let memory = |nsid| {
        // What is in a process' memory keeps it from being upgraded.
        let backend =
            if on_files { on(format!("{FILE_PATH}-{nsid}")) } else { BackendConfig::Memory { size } };
        NamespaceConfig::new(nsid, backend, block_size as u32)
    };
    let hidden = || Visibility::AllExcept(vec![identity(SECOND).nqn]);
    let mut all = vec![
        NamespaceConfig { visible: hidden(), ..memory(HIDDEN) },
        NamespaceConfig { write_protection: WriteProtection::On, ..memory(PROTECTED) },
        memory(MEMORY),
        NamespaceConfig { visible: hidden(), ..memory(FLEETING) },
        NamespaceConfig { ana_group: 2, ..memory(INACCESSIBLE) },
        memory(SHAPED),
        NamespaceConfig::new(FILE, on(FILE_PATH.to_owned()), block_size as u32),
    ];
    all[SHAPED as usize - 1].qos.iops = Some(SHAPED_IOPS);
    for namespace in &mut all {
        namespace.uuid = Some(Uuid::from_u128(0x7e_0000 + u128::from(namespace.nsid)));
    }
    let mut subsystem = SubsystemConfig::new(NQN, "TENANTS", "Selvedge").with(all);
    subsystem.ana_groups =
        vec![AnaGroupConfig { id: 2, state: GroupState::Inaccessible, ports: Default::default() }];
    subsystem
}

/// The life of the tenants: they come, do what they do, and go, for as long as the scene lasts.
pub(crate) fn live(scene: &Rc<Scene>, plan: &TenantPlan, machine: MachineId) {
    let mut random = simulation::fork_random();
    while !scene.ends.get() {
        if let Err(error) = run_session(scene, plan, machine, &mut random) {
            simulation::say(|| format!("the tenants' visit is over: {error}"));
            if !scene.may_lose_connections() {
                simulation::fail(format!("tenants were sent away: {error}"));
            }
            // What was under way may go on for a while.
            let rest = host::rest(scene, plan.keep_alive_ms);
            while simulation::now() < rest && !scene.ends.get() {
                sleep(Duration::from_millis(100));
            }
        }
        sleep(Duration::from_millis(random.between(1, 400)));
    }
    scene.visitors_left.set(scene.visitors_left.get() - 1);
}

fn run_session(
    scene: &Rc<Scene>,
    plan: &TenantPlan,
    machine: MachineId,
    random: &mut Random,
) -> Result<(), InitiatorError> {
    let digests = Digests { header: random.chance(300), data: random.chance(500) };
    let connect = |number| match Tenant::connect(scene, options(plan, identity(number), digests)) {
        Ok(tenant) => Some(tenant),
        // They may have come before the target.
        Err(error) => {
            simulation::say(|| format!("a tenant does not come: {error}"));
            None
        }
    };
    let (Some(first), Some(second)) = (connect(0), connect(1)) else { return Ok(()) };
    let size = BLOCKS as usize * scene.plan.block_size;
    let contents = [MEMORY, FILE].map(|nsid| Content { nsid, bytes: vec![0; size], may_be_zero: Vec::new() });
    let tenants = [first, second];
    let mut session = Session { scene, plan, machine, digests, tenants, contents, last_mark: 0 };
    let outcome = session.run(random);
    for tenant in session.tenants {
        tenant.leave();
    }
    outcome
}

struct Session<'a> {
    scene: &'a Rc<Scene>,
    plan: &'a TenantPlan,
    machine: MachineId,
    digests: Digests,
    tenants: [Tenant; 2],
    contents: [Content; 2],
    last_mark: u64,
}

fn options(plan: &TenantPlan, host: HostIdentity, digests: Digests) -> ConnectOptions {
    ConnectOptions {
        host,
        digests,
        io_queues: 1,
        keep_alive_ms: plan.keep_alive_ms,
        ..ConnectOptions::new(address(plan.target, plan.port), NQN)
    }
}

impl Session<'_> {
    fn run(&mut self, random: &mut Random) -> Result<(), InitiatorError> {
        for at in 0..self.contents.len() {
            self.write(random, at, 0, BLOCKS)?;
        }
        for _ in 0..TASKS {
            if self.scene.ends.get() {
                break;
            }
            sleep(Duration::from_millis(random.between(1, PAUSE_MS_MAX)));
            match random.below(20) {
                0 => self.ask_for_hidden(random)?,
                1 => self.ask_for_protected(random)?,
                2 => self.ask_for_inaccessible(random)?,
                3 => self.take_others_identity()?,
                4 => self.ask_too_often(random)?,
                5 => self.come_and_go()?,
                6 if self.digests.data => self.damage(random)?,
                _ => self.use_shared(random)?,
            }
        }
        for at in 0..self.contents.len() {
            self.read(random, at, 0, BLOCKS)?;
        }
        Ok(())
    }

    /// Sends one command, and returns its status.
    fn ask(
        &mut self,
        tenant: usize,
        nsid: u32,
        command: IoCommand,
        data: Data,
    ) -> Result<Completion, InitiatorError> {
        let [end] = self.tenants[tenant].execute(self.scene, nsid, [(command, data)])?;
        Ok(end)
    }

    /// Sends one command, which has to be refused with `expected`.
    fn is_refused(
        &mut self,
        tenant: usize,
        nsid: u32,
        (command, data): (IoCommand, Data),
        expected: Status,
    ) -> Result<(), InitiatorError> {
        let status = self.ask(tenant, nsid, command, data)?.status;
        if status.without_flags() != expected {
            simulation::fail(format!(
                "tenant {tenant} asks namespace {nsid} for {command:?}, and is answered {status} instead of {expected}"
            ));
        }
        Ok(())
    }

    fn buffer(&self, blocks: u64) -> Buffer {
        Buffer::zeroed(blocks as usize * self.scene.plan.block_size)
    }

    /// Any command that writes. What a Copy reads and writes does not overlap.
    fn any_write(&self, random: &mut Random) -> (IoCommand, Data) {
        let (start, blocks) = (8 + random.below(BLOCKS - 16), random.between(1, 8) as u32);
        match random.below(4) {
            0 => {
                let mut data = self.buffer(u64::from(blocks));
                data.fill(0x5a);
                (IoCommand::Write { start, blocks, force_unit_access: false }, Data::Send(data))
            }
            1 => {
                let zeroes =
                    IoCommand::WriteZeroes { start, blocks, force_unit_access: false, deallocate: true };
                (zeroes, Data::None)
            }
            2 => {
                let command = IoCommand::DatasetManagement { ranges: 1, deallocate: true };
                (command, send(&encode_ranges(&[(start, blocks)])))
            }
            _ => {
                let format = CopyFormat::Format0;
                let command = IoCommand::Copy { start, ranges: 1, format, force_unit_access: false };
                (command, send(&encode_copy_ranges(format, &[(0, blocks)])))
            }
        }
    }

    fn any_command(&self, random: &mut Random) -> (IoCommand, Data) {
        if random.chance(500) {
            return self.any_write(random);
        }
        let command = IoCommand::Read { start: random.below(BLOCKS), blocks: 1, force_unit_access: false };
        (command, Data::Receive(self.buffer(1)))
    }

    /// Checks that a namespace which is hidden from a host does not exist for it, and exists for
    /// the other.
    fn ask_for_hidden(&mut self, random: &mut Random) -> Result<(), InitiatorError> {
        let command = self.any_command(random);
        self.is_refused(SECOND, HIDDEN, command, Status::INVALID_NAMESPACE)?;
        let command = self.any_command(random);
        self.is_refused(0, HIDDEN, command, Status::SUCCESS)?;
        for (tenant, is_seen) in [(0, true), (SECOND, false)] {
            let list = self.tenants[tenant].controller.namespace_ids()?;
            if list.contains(&HIDDEN) != is_seen {
                simulation::fail(format!("tenant {tenant} gets the namespace list {list:?}"));
            }
        }
        Ok(())
    }

    /// Checks that a write-protected namespace keeps its content.
    fn ask_for_protected(&mut self, random: &mut Random) -> Result<(), InitiatorError> {
        let tenant = random.below(2) as usize;
        let command = self.any_write(random);
        self.is_refused(tenant, PROTECTED, command, Status::WRITE_PROTECTED)?;
        let read = IoCommand::Read { start: 0, blocks: BLOCKS as u32, force_unit_access: false };
        let data = Data::Receive(self.buffer(BLOCKS));
        let end = self.ask(tenant, PROTECTED, read, data)?;
        if !end.status.is_success() || end.data.is_none_or(|data| data.iter().any(|byte| *byte != 0)) {
            simulation::fail("what is write protected was written, or cannot be read");
        }
        Ok(())
    }

    /// An inaccessible group's namespaces are listed, and refuse all commands.
    fn ask_for_inaccessible(&mut self, random: &mut Random) -> Result<(), InitiatorError> {
        let (tenant, command) = (random.below(2) as usize, self.any_command(random));
        self.is_refused(tenant, INACCESSIBLE, command, Status::ANA_INACCESSIBLE)
    }

    /// Checks that the HOSTID of a connected host is refused under another name.
    fn take_others_identity(&mut self) -> Result<(), InitiatorError> {
        let other = HostIdentity { nqn: "nqn.2026-01.io.selvedge:intruder".to_owned(), id: identity(0).id };
        let outcome = Controller::connect(options(self.plan, other, self.digests));
        // Whether its controller was there all the time.
        let is_served = self.tenants[0].controller.namespace_ids();
        match outcome {
            Ok(intruder) => {
                if is_served.is_ok() {
                    simulation::fail("a host was let in with the HOSTID of another one that is there");
                }
                let _ = intruder.disconnect();
            }
            Err(error) => simulation::say(|| format!("the intruder is sent away: {error}")),
        }
        is_served.map(|_| ())
    }

    /// A namespace does not carry out more commands a second than its limit.
    fn ask_too_often(&mut self, random: &mut Random) -> Result<(), InitiatorError> {
        let (commands, began) = (random.between(10, 25), simulation::now());
        let node = &self.scene.targets[self.plan.target];
        let upgraded = node.upgrades();
        for _ in 0..commands {
            let tenant = random.below(2) as usize;
            let command = self.any_command(random);
            self.is_refused(tenant, SHAPED, command, Status::SUCCESS)?;
        }
        let took = simulation::now().since(began);
        let least = Duration::from_secs(1) * (commands as u32 - 1) / SHAPED_IOPS as u32 - BURST;
        // Another process starts with a full burst, and waiting commands are executed at once when
        // the former one is quiesced.
        let least = least.saturating_sub(BURST * 3 * (node.upgrades() - upgraded + node.upgrades() % 2));
        if took + Duration::from_micros(100) < least {
            simulation::fail(format!(
                "{commands} commands took {took:?} at {SHAPED_IOPS} commands a second, less than {least:?}"
            ));
        }
        Ok(())
    }

    /// Attaches a namespace to a host, and detaches it again. The host is notified each time, and
    /// can use it or not.
    fn come_and_go(&mut self) -> Result<(), InitiatorError> {
        for is_seen in [true, false] {
            let (tenant, node) = (&self.tenants[SECOND], &self.scene.targets[self.plan.target]);
            let is_so = node.wanted.borrow().subsystems[1].namespaces[FLEETING as usize - 1]
                .visible
                .includes(&identity(SECOND).nqn);
            if is_so == is_seen {
                // A session has ended before it was detached again.
                continue;
            }
            // Reading the log page clears what was reported before, so that the next change is reported again.
            tenant.controller.log_page(LogPageId::CHANGED_NAMESPACES, 0, 0, 4096)?;
            tenant.controller.events();
            self.scene.change(self.plan.target, |config| {
                let namespace = &mut config.subsystems[1].namespaces[FLEETING as usize - 1];
                namespace.visible = Visibility::AllExcept(Vec::new());
                if !is_seen {
                    namespace.visible.detach(&identity(SECOND).nqn);
                }
            });
            let wanted = node.generation.get();
            let until = simulation::now().after(CHANGE_TIME_MAX);
            let mut is_notified = false;
            let expected = if is_seen { Status::SUCCESS } else { Status::INVALID_NAMESPACE };
            loop {
                let events = self.tenants[SECOND].controller.events();
                is_notified |= events.contains(&AsyncEvent::NAMESPACE_ATTRIBUTE_CHANGED);
                let read = IoCommand::Read { start: 0, blocks: 1, force_unit_access: false };
                let data = Data::Receive(self.buffer(1));
                let status = self.ask(SECOND, FLEETING, read, data)?.status.without_flags();
                if is_notified && status == expected {
                    break;
                }
                // A change takes effect in time, or another target's mishap delays it.
                let is_applied = self.scene.targets[self.plan.target].applied.get() >= wanted;
                if simulation::now() >= until && is_applied {
                    simulation::fail(format!(
                        "a namespace's visibility was changed to {is_seen}: its host was notified: {is_notified}, and is \
                         answered {status}"
                    ));
                    return Ok(());
                }
                sleep(Duration::from_millis(20));
            }
        }
        Ok(())
    }

    /// Anything that changes what they share, or looks at it.
    fn use_shared(&mut self, random: &mut Random) -> Result<(), InitiatorError> {
        let at = random.below(self.contents.len() as u64) as usize;
        let count = random.between(1, 12);
        let start = random.below(BLOCKS - count + 1);
        match random.below(6) {
            0 => self.write(random, at, start, count),
            1 => self.copy(random, at),
            2 => self.deallocate(random, at),
            3 => self.compare_and_write(random, at, start, count.min(4)),
            4 => self.zero(random, at, start, count),
            _ => self.read(random, at, start, count),
        }
    }

    fn range(&self, start: u64, count: u64) -> std::ops::Range<usize> {
        let size = self.scene.plan.block_size;
        start as usize * size..(start + count) as usize * size
    }

    /// Sends one command of either tenant to the shared namespace, which has to succeed.
    fn does(
        &mut self,
        random: &mut Random,
        at: usize,
        (command, data): (IoCommand, Data),
    ) -> Result<Completion, InitiatorError> {
        let (tenant, nsid) = (random.below(2) as usize, self.contents[at].nsid);
        let end = self.ask(tenant, nsid, command, data)?;
        if !end.status.is_success() {
            simulation::fail(format!(
                "tenant {tenant} asks namespace {nsid} for {command:?}, and is answered {}",
                end.status
            ));
        }
        Ok(end)
    }

    /// Data that was never written before.
    fn fresh(&mut self, start: u64, count: u64) -> Buffer {
        let mut data = self.buffer(count);
        self.last_mark += 1;
        block::fill(&mut data, self.scene.plan.block_size, start, self.last_mark);
        data
    }

    /// These blocks hold this now.
    fn holds(&mut self, at: usize, start: u64, bytes: &[u8]) {
        let count = (bytes.len() / self.scene.plan.block_size) as u64;
        let range = self.range(start, count);
        let content = &mut self.contents[at];
        content.bytes[range].copy_from_slice(bytes);
        content.may_be_zero.retain(|block| !(start..start + count).contains(block));
    }

    fn write(
        &mut self,
        random: &mut Random,
        at: usize,
        start: u64,
        count: u64,
    ) -> Result<(), InitiatorError> {
        let data = self.fresh(start, count);
        let bytes = data.to_vec();
        let force_unit_access = random.chance(200);
        let command = IoCommand::Write { start, blocks: count as u32, force_unit_access };
        self.does(random, at, (command, Data::Send(data)))?;
        self.holds(at, start, &bytes);
        Ok(())
    }

    /// A byte is damaged on its way, and the data digest tells: the command fails, at whichever end it is seen.
    fn damage(&mut self, random: &mut Random) -> Result<(), InitiatorError> {
        let at = random.below(self.contents.len() as u64) as usize;
        let (tenant, nsid, count) = (random.below(2) as usize, self.contents[at].nsid, 8);
        let start = random.below(BLOCKS - count + 1);
        let writes = random.chance(500);
        simulation::damage(self.machine, Some(if writes { Direction::There } else { Direction::Back }));
        let blocks = count as u32;
        let (command, data) = if writes {
            let command = IoCommand::Write { start, blocks, force_unit_access: false };
            (command, Data::Send(self.fresh(start, count)))
        } else {
            let command = IoCommand::Read { start, blocks, force_unit_access: false };
            (command, Data::Receive(self.buffer(count)))
        };
        let outcome = self.ask(tenant, nsid, command, data);
        simulation::damage(self.machine, None);
        let status = outcome?.status;
        if status.without_flags() != Status::TRANSIENT_TRANSPORT_ERROR {
            simulation::fail(format!("{command:?} with a damaged byte is answered {status}"));
        }
        // What a write that failed has left there is not known.
        if writes { self.write(random, at, start, count) } else { Ok(()) }
    }

    fn zero(&mut self, random: &mut Random, at: usize, start: u64, count: u64) -> Result<(), InitiatorError> {
        let (deallocate, force_unit_access) = (random.chance(500), random.chance(200));
        let blocks = count as u32;
        let command = IoCommand::WriteZeroes { start, blocks, force_unit_access, deallocate };
        self.does(random, at, (command, Data::None))?;
        let zeroes = self.buffer(count);
        self.holds(at, start, &zeroes);
        Ok(())
    }

    /// Looks at these blocks, and knows them afterwards.
    fn read(&mut self, random: &mut Random, at: usize, start: u64, count: u64) -> Result<(), InitiatorError> {
        let command = IoCommand::Read { start, blocks: count as u32, force_unit_access: false };
        let data = Data::Receive(self.buffer(count));
        let Some(data) = self.does(random, at, (command, data))?.data else { return Ok(()) };
        for number in start..start + count {
            let (found, range) = (self.range(number - start, 1), self.range(number, 1));
            let (found, content) = (&data[found], &self.contents[at]);
            let is_gone = content.may_be_zero.contains(&number) && found.iter().all(|byte| *byte == 0);
            if found != &content.bytes[range] && !is_gone {
                simulation::fail(format!(
                    "block {number} of the tenants' namespace {} does not hold what it should",
                    content.nsid
                ));
                return Ok(());
            }
        }
        self.holds(at, start, &data);
        Ok(())
    }

    /// Copies blocks from one or two places to another one.
    fn copy(&mut self, random: &mut Random, at: usize) -> Result<(), InitiatorError> {
        // From the first half to the second one, so that nothing is copied onto itself.
        let half = BLOCKS / 2;
        let lengths: Vec<u64> = (0..random.between(1, 3)).map(|_| random.between(1, 8)).collect();
        let sources: Vec<(u64, u32)> =
            lengths.iter().map(|count| (random.below(half - count + 1), *count as u32)).collect();
        for (start, count) in &sources {
            // What is copied has to be known.
            self.read(random, at, *start, u64::from(*count))?;
        }
        let sum: u64 = lengths.iter().sum();
        let start = half + random.below(half - sum + 1);
        let format = CopyFormat::Format0;
        let ranges = sources.len() as u16;
        let command = IoCommand::Copy { start, ranges, format, force_unit_access: random.chance(200) };
        self.does(random, at, (command, send(&encode_copy_ranges(format, &sources))))?;
        let copied: Vec<u8> = sources
            .iter()
            .flat_map(|(start, count)| {
                self.contents[at].bytes[self.range(*start, u64::from(*count))].to_vec()
            })
            .collect();
        self.holds(at, start, &copied);
        Ok(())
    }

    fn deallocate(&mut self, random: &mut Random, at: usize) -> Result<(), InitiatorError> {
        let ranges: Vec<(u64, u32)> = (0..random.between(1, 4))
            .map(|_| {
                let count = random.between(1, 10);
                (random.below(BLOCKS - count + 1), count as u32)
            })
            .collect();
        let command = IoCommand::DatasetManagement { ranges: ranges.len() as u16, deallocate: true };
        self.does(random, at, (command, send(&encode_ranges(&ranges))))?;
        for (start, count) in ranges {
            self.contents[at].may_be_zero.extend(start..start + u64::from(count));
        }
        Ok(())
    }

    /// A fused pair: the write happens when the blocks hold what is compared, and else does not.
    fn compare_and_write(
        &mut self,
        random: &mut Random,
        at: usize,
        start: u64,
        count: u64,
    ) -> Result<(), InitiatorError> {
        self.read(random, at, start, count)?;
        let mut expected = self.contents[at].bytes[self.range(start, count)].to_vec();
        let is_equal = random.chance(500);
        if !is_equal {
            let wrong = random.below(expected.len() as u64) as usize;
            expected[wrong] ^= 1 << random.below(8);
        }
        let data = self.fresh(start, count);
        let (bytes, blocks) = (data.to_vec(), count as u32);
        let pair = [
            (IoCommand::Compare { start, blocks }, send(&expected)),
            (IoCommand::Write { start, blocks, force_unit_access: false }, Data::Send(data)),
        ];
        let (tenant, nsid) = (random.below(2) as usize, self.contents[at].nsid);
        let ends = self.tenants[tenant].execute(self.scene, nsid, pair)?;
        let [compared, written] = ends.map(|end| end.status.without_flags());
        let wanted = if is_equal {
            [Status::SUCCESS; 2]
        } else {
            [Status::COMPARE_FAILURE, Status::ABORTED_FAILED_FUSED]
        };
        if [compared, written] != wanted {
            simulation::fail(format!(
                "a Compare and Write on namespace {nsid} ended {compared} and {written}, and should have {wanted:?}"
            ));
        }
        if is_equal {
            self.holds(at, start, &bytes);
        }
        Ok(())
    }
}
