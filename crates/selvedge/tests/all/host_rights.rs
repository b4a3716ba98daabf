//! Hosts with different rights at one target, over the wire: what one of them may change, and what neither the other nor
//! the operator has to bear from it. Each finding of a host that could do too much is here as it was found.

use std::io::{BufRead as _, BufReader, Read as _};
use std::net::SocketAddr;
use std::process::{Command, Stdio};

use crate::raw_host::{Give, Kind, Space, assert_status};
use crate::reservation_party::Party;
use nvme::Status;
use nvme::features::{FeatureId, Select, capabilities, value};
use nvme::identify::bits::{sharing, write_protection};
use nvme::identify::{Cns, CommandSet, ControllerList, IdentifyNamespace, NSID_ALL, NamespaceList};
use nvme::namespace_management::{NamespaceAttachment, NamespaceManagement};
use nvme::reservation::ReservationType;
use zerocopy::{FromBytes, IntoBytes};

use crate::serving::Ended;

const NQN: &str = crate::raw_host::NQN;
const MIB: u64 = 1 << 20;
const PROTECTION: FeatureId = FeatureId::NAMESPACE_WRITE_PROTECTION;

/// A target of the program, with a state directory; it ends with the test.
struct Serving {
    // Ended before its folder is removed.
    child: Ended,
    folder: tempfile::TempDir,
    /// The subsystem in target.toml.
    subsystem: String,
    address: SocketAddr,
}

impl Serving {
    /// With room for namespaces of hosts, and `more` in the subsystem.
    fn start(storage: &str, more: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("storage")).unwrap();
        let directory = folder.path().join("storage");
        let storage = format!("storage = {{ directory = \"{}\", {storage} }}", directory.display());
        let subsystem = format!("[[subsystem]]\nnqn = \"{NQN}\"\nallow_any_host = true\n{storage}\n{more}");
        let (child, address) = Self::spawn(&folder, &subsystem);
        Self { folder, subsystem, child, address }
    }

    fn spawn(folder: &tempfile::TempDir, subsystem: &str) -> (Ended, SocketAddr) {
        let file = folder.path().join("target.toml");
        std::fs::write(&file, format!("[[port]]\naddress = \"127.0.0.1\"\nservice = 0\n{subsystem}"))
            .unwrap();
        let state = folder.path().join("state");
        let mut command = Command::new(env!("CARGO_BIN_EXE_selvedge"));
        command.args(["serve", "--reactors", "1", "--control", &control(folder)]);
        // What is kept counts from the second start on.
        if state.join("state.json").exists() {
            command.arg("--state-dir").arg(&state);
        } else {
            command.arg("--state-dir").arg(&state).arg("-c").arg(&file);
        }
        let log =
            std::fs::OpenOptions::new().create(true).append(true).open(folder.path().join("log")).unwrap();
        command.env("SELVEDGE_LOG", "info").stdin(Stdio::null()).stderr(log).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
        let address = lines.find_map(|line| line.strip_prefix("listening on ").map(str::to_owned));
        (Ended(child), address.expect("it says where it listens").parse().unwrap())
    }

    /// Ends it, and starts it with what it has kept.
    fn restart(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
        (self.child, self.address) = Self::spawn(&self.folder, &self.subsystem);
    }

    /// Runs a command of the program about it.
    fn administer(&self, words: &[&str]) -> String {
        let mut command = Command::new(env!("CARGO_BIN_EXE_selvedge"));
        let output = command.args(words).args(["--control", &control(&self.folder)]).output().unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{words:?}: {stderr}");
        String::from_utf8(output.stdout).unwrap()
    }

    /// Log of the target.
    fn log(&self) -> String {
        let mut text = String::new();
        let mut file = std::fs::File::open(self.folder.path().join("log")).unwrap();
        file.read_to_string(&mut text).unwrap();
        text
    }

    /// Sees that one line of the log has all of these words.
    #[track_caller]
    fn assert_logged(&self, words: &[&str]) {
        let log = self.log();
        let says = |line: &str| words.iter().all(|word| line.contains(word));
        assert!(log.lines().any(says), "no line with {words:?}:\n{log}");
    }

    fn files(&self) -> usize {
        std::fs::read_dir(self.folder.path().join("storage")).unwrap().count()
    }
}

fn control(folder: &tempfile::TempDir) -> String {
    format!("unix:{}", folder.path().join("control.sock").display())
}

/// Host A and host B.
fn parties(serving: &Serving) -> (Party, Party) {
    (Party::connect(serving.address, 1), Party::connect(serving.address, 2))
}

fn name(number: u8) -> String {
    format!("nqn.2014-08.org.example:host-{number}")
}

const fn space(nsid: u32) -> Space {
    Space { nsid, kind: Kind::File, block: 4096 }
}

impl Party {
    fn create(&mut self, bytes: u64) -> Result<u32, Status> {
        let mut wanted = IdentifyNamespace::default();
        wanted.size_blocks = (bytes / 4096).into();
        wanted.capacity_blocks = (bytes / 4096).into();
        wanted.formatted_lba_size = 1;
        wanted.sharing = sharing::SHARED;
        let entry = NamespaceManagement::Create { command_set: CommandSet::NVM }.encode(0);
        let reply = self.host.admin.run(entry, Give::Capsule(wanted.as_bytes()));
        if reply.status.is_success() { Ok(reply.result as u32) } else { Err(reply.status.without_flags()) }
    }

    fn attachment(&mut self, action: NamespaceAttachment, nsid: u32, controllers: &[u16]) -> Status {
        let list = ControllerList::starting_at(0, controllers.iter().copied());
        self.host.admin.run(action.encode(nsid), Give::Capsule(list.as_bytes())).status.without_flags()
    }

    fn attach(&mut self, nsid: u32, controllers: &[u16]) -> Status {
        self.attachment(NamespaceAttachment::Attach, nsid, controllers)
    }

    fn detach(&mut self, nsid: u32, controllers: &[u16]) -> Status {
        self.attachment(NamespaceAttachment::Detach, nsid, controllers)
    }

    fn delete(&mut self, nsid: u32) -> Status {
        self.host.admin.run(NamespaceManagement::Delete.encode(nsid), Give::Nothing).status.without_flags()
    }

    fn protect(&mut self, nsid: u32, state: u32) -> Status {
        self.set_feature(PROTECTION, nsid, state).without_flags()
    }

    fn listed(&mut self, cns: Cns) -> Vec<u32> {
        NamespaceList::read_from_bytes(&self.host.admin.identified(0, cns)).unwrap().decode(0).unwrap()
    }

    fn read(&mut self, nsid: u32) -> Status {
        self.queues[0].read(space(nsid), 0, 1).status.without_flags()
    }

    fn write(&mut self, nsid: u32) -> Status {
        self.queues[0].write(space(nsid), 0, &[7; 4096], true).status.without_flags()
    }

    const fn id(&self) -> u16 {
        self.host.controller_id
    }
}

/// Finding 1.
#[test]
fn only_the_operator_shows_a_namespace_that_it_hid() {
    let hidden = format!(
        "[[subsystem.namespace]]\nnsid = 5\nmemory = \"4m\"\nvisible_to = [\"{}\"]\n\
         [[subsystem.namespace]]\nnsid = 6\nmemory = \"4m\"\n",
        name(1)
    );
    let serving = Serving::start("max = \"64m\"", &hidden);
    let (mut a, mut b) = parties(&serving);
    assert_status(a.write(5), Status::SUCCESS, "it is A's to use");
    assert_status(b.read(5), Status::INVALID_NAMESPACE, "B does not see it");
    let own = b.id();
    assert_status(b.attach(5, &[own]), Status::INVALID_NAMESPACE, "B attaches what is hidden from it");
    assert_status(b.read(5), Status::INVALID_NAMESPACE, "B still does not see it");
    assert_status(b.detach(5, &[a.id()]), Status::INVALID_NAMESPACE, "B shuts A out");
    assert_status(b.delete(5), Status::INVALID_NAMESPACE, "B deletes it");
    assert_status(
        b.protect(5, value::WRITE_PROTECTION_PERMANENT),
        Status::INVALID_NAMESPACE,
        "B protects it",
    );
    assert_eq!(b.listed(Cns::ALLOCATED_NAMESPACE_LIST), [6], "it is in no list of B's");
    assert!(b.host.admin.identified(5, Cns::ALLOCATED_NAMESPACE).iter().all(|byte| *byte == 0));
    // What both see is the operator's all the same.
    for party in [&mut a, &mut b] {
        let own = party.id();
        assert_status(party.detach(6, &[own]), Status::OPERATION_DENIED, "detaches from the operator's");
        assert_status(party.attach(6, &[own]), Status::OPERATION_DENIED, "attaches the operator's");
        assert_status(party.delete(6), Status::OPERATION_DENIED, "deletes the operator's");
        assert_status(party.delete(NSID_ALL), Status::SUCCESS, "deletes all that it has: nothing");
    }
    assert_status(a.write(5), Status::SUCCESS, "A notices nothing");
    assert_status(b.write(6), Status::SUCCESS, "the other namespace is as it was");
    serving.assert_logged(&["WARN", &name(2), "127.0.0.1:", NQN, "namespace 5 of", "hidden"]);
    serving.assert_logged(&["WARN", &name(1), "namespace 6 of", "operator"]);
}

/// Finding 1, for what hosts have made.
#[test]
fn a_namespace_that_a_host_made_is_managed_by_it_alone() {
    let mut serving = Serving::start("max = \"64m\"", "");
    let (mut a, mut b) = parties(&serving);
    let nsid = a.create(4 * MIB).unwrap();
    let (of_a, of_b) = (a.id(), b.id());
    for (status, what) in
        [(b.attach(nsid, &[of_b]), "attach"), (b.detach(nsid, &[of_a]), "detach"), (b.delete(nsid), "delete")]
    {
        assert_status(status, Status::INVALID_NAMESPACE, &format!("{what} what is nothing to B"));
    }
    assert_eq!(b.listed(Cns::ALLOCATED_NAMESPACE_LIST), [0; 0]);
    assert_status(a.attach(nsid, &[of_a, of_b]), Status::SUCCESS, "A attaches itself and B");
    assert_status(b.write(nsid), Status::SUCCESS, "B is let in");
    let denied = Status::OPERATION_DENIED;
    assert_status(b.detach(nsid, &[of_a]), denied, "B shuts the owner out");
    assert_status(b.detach(nsid, &[of_b]), denied, "B leaves");
    assert_status(b.attach(nsid, &[of_b]), denied, "the answer does not reveal that it is attached");
    assert_status(b.delete(nsid), denied, "B deletes what it may use");
    assert_status(b.delete(NSID_ALL), Status::SUCCESS, "B has none");
    assert_eq!((serving.files(), a.read(nsid)), (1, Status::SUCCESS));
    serving.assert_logged(&["WARN", &name(2), &format!("namespace {nsid} of"), "belongs to", &name(1)]);
    // It is still A's when the target starts again.
    drop((a, b));
    serving.restart();
    let (mut a, mut b) = parties(&serving);
    assert_status(b.delete(nsid), denied, "B deletes it after a restart");
    assert_status(a.detach(nsid, &[b.id()]), Status::SUCCESS, "A detaches B");
    assert_status(b.read(nsid), Status::INVALID_NAMESPACE, "B is out");
    assert_status(a.delete(nsid), Status::SUCCESS, "A deletes it");
    assert_eq!(serving.files(), 0);
}

/// Finding 2.
#[test]
fn deleting_all_deletes_what_is_ones_own_or_nothing() {
    let serving = Serving::start("max = \"64m\"", "[[subsystem.namespace]]\nnsid = 9\nmemory = \"4m\"\n");
    let (mut a, mut b) = parties(&serving);
    let first = a.create(4 * MIB).unwrap();
    let second = a.create(4 * MIB).unwrap();
    let other = b.create(4 * MIB).unwrap();
    let (of_a, of_b) = (a.id(), b.id());
    for nsid in [first, second] {
        assert_status(a.attach(nsid, &[of_a]), Status::SUCCESS, "A attaches itself");
    }
    a.register(first);
    a.acquire(first, ReservationType::ExclusiveAccess);
    assert_status(b.delete(NSID_ALL), Status::SUCCESS, "B deletes all that is B's");
    assert_eq!(a.listed(Cns::ALLOCATED_NAMESPACE_LIST), [first, second, 9]);
    assert_status(a.read(first), Status::SUCCESS, "what is A's stays");
    assert_status(b.delete(other), Status::INVALID_NAMESPACE, "what was B's is gone");
    // One that another host has reserved, or that is write protected, keeps all of them.
    a.clear(first);
    assert_status(a.attach(second, &[of_b]), Status::SUCCESS, "A attaches B");
    b.register(second);
    b.acquire(second, ReservationType::WriteExclusive);
    assert_status(a.delete(second), Status::RESERVATION_CONFLICT, "one that B has reserved");
    assert_status(a.delete(NSID_ALL), Status::RESERVATION_CONFLICT, "all, one of which B has reserved");
    assert_status(a.detach(second, &[of_b]), Status::RESERVATION_CONFLICT, "detach is a write, too");
    assert_eq!(serving.files(), 2, "nothing is half done");
    serving.assert_logged(&["WARN", &name(1), &format!("namespace {second} of"), "reserved"]);
    b.clear(second);
    assert_status(a.protect(first, value::WRITE_PROTECTION_ON), Status::SUCCESS, "A protects its own");
    assert_status(a.delete(NSID_ALL), Status::WRITE_PROTECTED, "all, one of which is protected");
    assert_eq!((serving.files(), a.read(second)), (2, Status::SUCCESS));
    assert_status(a.protect(first, value::WRITE_PROTECTION_NONE), Status::SUCCESS, "A protects it no more");
    assert_status(a.delete(NSID_ALL), Status::SUCCESS, "all of A's");
    assert_eq!((serving.files(), a.listed(Cns::ALLOCATED_NAMESPACE_LIST)), (0, vec![9]));
}

/// Finding 2, its last part: no host has all the room there is.
#[test]
fn a_host_has_its_share_of_the_room_and_no_more() {
    let serving = Serving::start("max = \"64m\"", "");
    let (mut a, mut b) = parties(&serving);
    assert_eq!(b.create(60 * MIB), Err(Status::NAMESPACE_INSUFFICIENT_CAPACITY), "nearly all for B");
    assert_eq!(b.create(32 * MIB), Ok(1));
    assert_eq!(b.create(4096), Err(Status::NAMESPACE_INSUFFICIENT_CAPACITY), "B has half of it");
    assert_eq!(a.create(32 * MIB), Ok(2));
    serving.assert_logged(&["WARN", &name(2), NQN, "33554432"]);
}

/// Finding 4.
#[test]
fn write_protection_is_the_operators_unless_he_says_otherwise() {
    let serving = Serving::start("max = \"64m\"", "[[subsystem.namespace]]\nnsid = 1\nmemory = \"4m\"\n");
    let (mut a, mut b) = parties(&serving);
    let denied = Status::FEATURE_NOT_CHANGEABLE;
    a.register(1);
    a.acquire(1, ReservationType::ExclusiveAccess);
    assert_status(b.protect(1, value::WRITE_PROTECTION_PERMANENT), denied, "B, who may not even write");
    assert_status(a.protect(1, value::WRITE_PROTECTION_ON), denied, "nor A, who may");
    assert_status(a.write(1), Status::SUCCESS, "it can be written");
    a.clear(1);
    serving.administer(&["namespace", "set", NQN, "1", "--write-protect", "on"]);
    assert_status(b.protect(1, value::WRITE_PROTECTION_NONE), denied, "B lifts what the operator set");
    assert_status(b.write(1), Status::WRITE_PROTECTED, "B writes");
    assert_eq!(a.get_feature(PROTECTION, 1, Select::Current), Ok(value::WRITE_PROTECTION_ON));
}

/// Finding 4, where the operator says otherwise.
#[test]
fn hosts_protect_as_far_as_the_operator_lets_them() {
    let serving = Serving::start(
        "max = \"64m\"",
        "[[subsystem.namespace]]\nnsid = 1\nmemory = \"4m\"\nhost_write_protection = \"until-restart\"\n\
         [[subsystem.namespace]]\nnsid = 2\nmemory = \"4m\"\n",
    );
    let (mut a, mut b) = parties(&serving);
    let fixed = Status::FEATURE_NOT_CHANGEABLE;
    let changeable = |party: &mut Party, nsid| {
        let found = party.get_feature(PROTECTION, nsid, Select::Capabilities).unwrap();
        found & capabilities::CHANGEABLE != 0
    };
    assert!(changeable(&mut a, 1) && !changeable(&mut a, 2));
    let nwpc = a.host.admin.identified_controller().write_protection;
    assert_eq!(nwpc, write_protection::WRITE_PROTECT | write_protection::UNTIL_POWER_CYCLE);
    assert_status(a.protect(1, value::WRITE_PROTECTION_PERMANENT), fixed, "forever is more than that");
    a.register(1);
    a.acquire(1, ReservationType::WriteExclusive);
    let conflict = Status::RESERVATION_CONFLICT;
    assert_status(b.protect(1, value::WRITE_PROTECTION_ON), conflict, "B, who may not write");
    assert_status(a.protect(1, value::WRITE_PROTECTION_ON), Status::SUCCESS, "A, who may");
    assert_status(a.write(1), Status::WRITE_PROTECTED, "it is protected");
    assert_status(b.protect(1, value::WRITE_PROTECTION_NONE), conflict, "nor does B lift it");
    a.clear(1);
    assert_status(
        b.protect(1, value::WRITE_PROTECTION_NONE),
        Status::SUCCESS,
        "hosts lift what hosts have set",
    );
    assert_status(a.write(1), Status::SUCCESS, "it is not protected");
    assert_status(a.protect(1, value::WRITE_PROTECTION_ON), Status::SUCCESS, "again");
    serving.administer(&["namespace", "set", NQN, "1", "--write-protect", "on"]);
    assert!(!changeable(&mut a, 1), "the operator has made it their own");
    assert_status(a.protect(1, value::WRITE_PROTECTION_NONE), fixed, "no host lifts that");
    serving.assert_logged(&["WARN", &name(1), "namespace 1 of", "is the operator's"]);
    serving.assert_logged(&["WARN", &name(2), "namespace 1 of", "reserved by another host"]);
    serving.assert_logged(&["WARN", &name(1), "namespace 1 of", "`until_restart` at most"]);
}

#[test]
fn an_owner_protects_its_own_as_far_as_the_operator_can_undo_it() {
    let serving = Serving::start("max = \"64m\"", "");
    let (mut a, mut b) = parties(&serving);
    let fixed = Status::FEATURE_NOT_CHANGEABLE;
    let nwpc = a.host.admin.identified_controller().write_protection;
    assert_eq!(nwpc, write_protection::WRITE_PROTECT | write_protection::UNTIL_POWER_CYCLE);
    let own = a.create(4 * MIB).unwrap();
    assert_status(a.attach(own, &[a.id(), b.id()]), Status::SUCCESS, "A lets B in");
    assert_status(b.protect(own, value::WRITE_PROTECTION_ON), fixed, "B protects what is A's");
    assert_status(a.protect(own, value::WRITE_PROTECTION_PERMANENT), fixed, "A protects it forever");
    assert_status(
        a.protect(own, value::WRITE_PROTECTION_UNTIL_POWER_CYCLE),
        Status::SUCCESS,
        "A protects it",
    );
    assert_status(b.write(own), Status::WRITE_PROTECTED, "B writes");
    assert_status(a.delete(own), Status::WRITE_PROTECTED, "A deletes it");
    assert_eq!(serving.files(), 1);
    // The operator sees whose it is, and takes it back or gives it away.
    let shown = serving.administer(&["namespace", "show", NQN, &own.to_string()]);
    assert!(shown.contains(&name(1)) && shown.contains("set by a host"), "{shown}");
    let owner = format!("{},{}", name(2), "02020202-0202-0202-0202-020202020202");
    serving.administer(&[
        "namespace",
        "set",
        NQN,
        &own.to_string(),
        "--write-protection",
        "none",
        "--owner",
        &owner,
    ]);
    let shown = serving.administer(&["subsystem", "show", NQN]);
    assert!(
        shown.contains("for one host 32 MiB") && shown.contains(&format!("{} has 4 MiB in 1", name(2))),
        "{shown}"
    );
    assert_status(a.delete(own), Status::OPERATION_DENIED, "it is A's no more");
    assert_status(b.delete(own), Status::SUCCESS, "but B's");
}

/// Finding 12.
#[test]
fn a_hosts_identifier_belongs_to_no_other_host() {
    let serving = Serving::start("max = \"64m\"", "[[subsystem.namespace]]\nnsid = 1\nmemory = \"4m\"\n");
    let (mut a, b) = parties(&serving);
    a.register(1);
    a.acquire(1, ReservationType::ExclusiveAccess);
    let mut options = b.host.options;
    options.host_id = a.host.options.host_id;
    let mut client = crate::raw_host::Client::initialized(serving.address, options.digests);
    let mut connect = options.connect(0);
    connect.queue_size = 31;
    let reply = client.connect(&connect, &options.data(nvme::fabrics::CONTROLLER_ID_ANY));
    assert_eq!(reply.status, Status::CONNECT_INVALID_PARAMETERS.do_not_retry(), "A's identifier, B's name");
    assert_eq!(reply.result, u64::from(nvme::fabrics::InvalidParameter::HOST_ID.encode()));
    serving.assert_logged(&["WARN", &name(1), &name(2), "127.0.0.1:"]);
}

#[test]
fn what_hosts_change_and_who_does_not_prove_itself_is_recorded() {
    let keys = tempfile::tempdir().unwrap();
    let key = |name: &str| {
        let path = keys.path().join(name);
        let mut command = Command::new(env!("CARGO_BIN_EXE_selvedge"));
        assert!(command.args(["key", "generate", "--output"]).arg(&path).status().unwrap().success());
        path.display().to_string()
    };
    let (right, wrong) = (key("right"), key("wrong"));
    let entry = format!("[[subsystem.host_key]]\nhost = \"nqn.proves\"\ndhchap_secret_file = \"{right}\"\n");
    let mut serving = Serving::start("bytes_max = \"8m\"", &entry);
    let (mut a, mut b) = parties(&serving);
    let nsid = a.create(MIB).unwrap();
    let both = [a.id(), b.id()];
    assert_status(a.attach(nsid, &both), Status::SUCCESS, "A shows it to B");
    assert_ne!(b.delete(nsid), Status::SUCCESS);
    let identify = |serving: &Serving, nqn: &str, key: &str| {
        let port = serving.address.port().to_string();
        let mut command = Command::new(env!("CARGO_BIN_EXE_selvedge"));
        command.args(["identify", "-a", "127.0.0.1", "-s", &port, "-n", nqn, "-q", "nqn.proves", "-S", key]);
        command.output().unwrap().status.success()
    };
    assert!(!identify(&serving, NQN, &wrong) && identify(&serving, NQN, &right));
    assert!(!identify(&serving, "nqn.none", &right));
    serving.administer(&["namespace", "set", NQN, &nsid.to_string(), "--iops", "500"]);
    let file = serving.folder.path().join("state/audit.jsonl");
    let records = || -> Vec<serde_json::Value> {
        let text = std::fs::read_to_string(&file).unwrap();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    };
    // Who failed is recorded by a thread that looks now and then.
    let has = |event: &str| records().iter().any(|record| record["event"] == event);
    let is_there = || has("failed_login") && has("refused_connect");
    prerequisite::wait_until("both are recorded", is_there);
    let after = records();
    let find = |event: &str, who: &str, words: &str| {
        let is_it = |record: &&serde_json::Value| {
            record["event"] == event
                && record["who"].to_string().contains(who)
                && record.to_string().contains(words)
        };
        assert!(after.iter().any(|record| is_it(&record)), "{event} {who} {words}: {after:#?}");
    };
    find("start", "null", "done");
    find("change", &name(1), "namespace_added");
    find("refused", &name(2), "belongs to");
    find("failed_login", "nqn.proves", "secret");
    find("refused_connect", "nqn.proves", "connect to nqn.none");
    find("refused_connect", "nqn.proves", "there is no such subsystem");
    find("change", "\"uid\":", "qos.iops");
    serving.restart();
    let state = serving.folder.path().join("state");
    let mut command = Command::new(env!("CARGO_BIN_EXE_selvedge"));
    let verified = command.args(["audit", "verify", "--state-dir"]).arg(&state).output().unwrap();
    let text = String::from_utf8_lossy(&verified.stdout).into_owned();
    assert!(verified.status.success() && text.contains("the last is the last that was written"), "{text}");
    assert!(!std::fs::read_to_string(&file).unwrap().contains("DHHC-1"), "a secret is in the log");
}
