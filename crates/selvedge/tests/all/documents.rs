//! The documents' commands and those of the helps, run as they stand: each in a network of its own that has the documents'
//! addresses, beside a target that serves what the documents speak of. What cannot run so is named here, with the reason;
//! that it is at least a command is for the unit tests.

use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Command, Stdio};

use prerequisite::missing;

#[path = "../../src/flags/document_commands.rs"]
mod document_commands;

use document_commands::{PLACEHOLDERS, commands, is_assignment, pages};

use crate::serving::listed_commands;

const NQN: &str = "nqn.2026-01.org.example:disks";

/// Commands that cannot run here: a part of the command, and the reason.
const NOT_RUN: [(&str, &str); 39] = [
    ("--tclass", "needs a network of IPv6: the engine's tests and the suite paths have one"),
    ("-f eth1,eth2 --tos", "needs interfaces of these names: the engine's tests have some"),
    ("-t mptcp -a fd00", "needs MPTCP over IPv6 with a key: the suite paths has them"),
    ("rbd", "needs a Ceph cluster: the suite ceph has one"),
    ("gateway", "needs a group of gateways: the suite ceph has one"),
    ("namespace snapshot", "is about images of Ceph"),
    ("namespace clone", "is about images of Ceph"),
    ("namespace flatten", "is about images of Ceph"),
    ("namespace reopen", "needs a disk that fails: administration has one"),
    (
        "clear-reservations nqn.2026-01.org.example:disks 1 --host",
        "needs a registered host: the tests of the engine have one",
    ),
    ("connection reset", "needs a host that stays connected: the engine's tests have one"),
    ("--top", "is a live view: bench_top has a terminal"),
    ("serve --state-dir /var/lib/selvedge\n", "goes on from a state: administration has one"),
    ("--verify-only", "needs the state of a run before: command_line has one"),
    ("--resume", "needs a sweep that was interrupted: sweep has one"),
    ("--sweep ", "needs a sweep that was made: sweep has one"),
    ("--concat --rw", "needs a target that makes TLS keys: the engine's tests have one"),
    ("tune plan", "needs connections over a network card: the suite tune has them"),
    ("selvedge top --interval", "is a live view: top has tests of its screen"),
    ("selvedge top\n", "is a live view: top has tests of its screen"),
    ("selvedge demo", "takes a quarter of a minute: the suite demo runs it"),
    ("block:", "needs a block device of its own"),
    ("/dev/", "needs a block device of its own"),
    ("selvedge disconnect ", "needs the kernel's initiator: the suite kernel has one"),
    ("selvedge upgrade", "replaces the target's process: upgrade has tests of it"),
    ("tune apply", "changes the machine: the suite tune has one"),
    ("tune revert", "changes the machine: the suite tune has one"),
    ("--sysroot", "needs a recording: the suite tune has some"),
    ("--from-fio", "needs results of fio: sweep has some"),
    ("selvedge report", "needs a sweep that was made: sweep has one"),
    ("selvedge compare", "needs two sweeps that were made: sweep has them"),
    ("import nvmet", "needs a file of nvmetcli: its own tests have some"),
    ("import ceph-nvmeof", "needs the state of a group: its own tests have one"),
    ("audit verify", "needs a log: host_rights has one"),
    ("--configure-mptcp", "changes the machine's addresses: the suite paths has a network for it"),
    ("--insert", "needs the kernel's module nvme-keyring: tls_keys has a keyring"),
    ("--tls-key-file host-a-tls.key", "needs a target with this host's key: tls_keys has one"),
    ("--before ", "needs an earlier report: doctor has one"),
    ("--match-hw-queues", "needs a network card: match_hw_queues has recordings"),
];

/// Shorter values of options for commands that take long; a sweep is only planned.
const SHORTER: [(&str, &str); 3] = [("--runtime", "1"), ("--ramp_time", "0"), ("--batch", "1")];

/// Commands that have to end with a status other than 0.
const STATUSES: [(&str, i32); 2] = [("discover -a 127.0.0.1 -s 1", 1), ("config diff", 3)];

/// The world of one command: the documents' addresses, and a target behind them.
const WORLD: &str = r#"
set -e
# Runs a command that does not end by itself until it or its errors have said this, and then ends it.
runs_until() {
    timeout --signal=TERM --kill-after=10 120 sh -c "$TYPED" >said 2>refused &
    for _ in $(seq 1200); do
        if grep -Eq "$1" said refused; then break; fi
        sleep 0.05
    done
    kill $! && wait $! || true
    grep -Eq "$1" said refused || { cat refused >&2; return 1; }
}
ip link set lo up
for address in 192.168.0.10 192.168.0.11 192.168.0.231 192.168.0.232 10.0.0.1 10.0.0.2 10.0.1.1 10.0.1.2 10.0.2.1 10.0.2.2 10.0.3.1 10.0.4.1; do
    ip address add "$address/32" dev lo
done
mount -t tmpfs tmpfs /run
mkdir -p /run/selvedge
mkdir "$WORLD/etc"
cp /etc/passwd /etc/group /etc/hosts "$WORLD/etc"
echo 0123456789abcdef0123456789abcdef >"$WORLD/etc/machine-id"
mount -t tmpfs tmpfs /etc
cp "$WORLD"/etc/* /etc
mkdir /etc/selvedge
cp "$WORLD/target.toml" /etc/selvedge
umask 077
head -c 32 /dev/urandom | base64 >/etc/selvedge/encryption.key
umask 022
case $TYPED in
*'key generate'*) ;;
*'token create'*) ;;
*token* | *access*)
    selvedge token create prometheus --role metrics >"$WORLD/made"
    selvedge token create ops --role admin --output "$WORLD/ops.token" >"$WORLD/made"
    cp "$WORLD"/target.pem* /etc/selvedge
    ;;
*.key* | *remove-key*)
    for key in host-a host-a-2 target; do selvedge key generate --output "/etc/selvedge/$key.key" >"$WORLD/made"; done
    selvedge key generate --tls --output /etc/selvedge/host-a-tls.key >"$WORLD/made"
    cp /etc/selvedge/host-a.key /etc/selvedge/host-a-tls.key "$WORLD"
    ;;
esac
case $TYPED in
*/etc/nvme/config.json*)
    mkdir /etc/nvme
    host=nqn.2014-08.org.nvmexpress:uuid:1b4e28ba-2fa1-11d2-883f-0016d3ccabcd
    umask 077
    printf '[{"hostnqn":"%s","dhchap_key":"%s"}]' "$host" "$(selvedge key generate)" >/etc/nvme/config.json
    umask 022
    ;;
esac
mount -t tmpfs tmpfs /srv
mount -t tmpfs tmpfs /var/lib
cd "$WORLD"
if [ -z "$SERVES" ]; then
    case $TYPED in
    *--sealed*) more="--encryption-key /etc/selvedge/encryption.key" ;;
    *tls:*) more="--control unix:/run/selvedge/4420.sock --control tls:192.168.0.231:4421 --control-access /etc/selvedge/access.toml
        --control-tls-cert target.pem --control-tls-key target.pem.key" ;;
    esac
    selvedge serve -c served.toml --reactors 1 $more >served.out 2>served.err &
    served=$!
    for _ in $(seq 1200); do
        if grep -q '^administered' served.out; then break; fi
        sleep 0.05
    done
    status=0
    case $TYPED in
    *'selvedge attach recover'* | *'attach detach /dev/ublkb0'* | *'list --udev'*)
        # There is no block device that waits, or no driver.
        sh -c "$TYPED" 2>refused && status=1
        grep -Eq 'modprobe ublk_drv|no block device waits|there is no /dev/ublkb0|is not attached' refused || status=1
        ;;
    *'selvedge attach upgrade'*)
        selvedge attach -a 192.168.0.10 -n nqn.2026-01.org.example:disks --nbd unix:disk.nbd >attached &
        for _ in $(seq 1200); do
            if grep -q '^nbd' attached; then break; fi
            sleep 0.05
        done
        former=$!
        sh -c "$TYPED" || status=1
        # The same program again leaves it as it is.
        case $TYPED in *--if-changed*) ;; *) wait $former || status=1 ;; esac
        selvedge attach detach all || status=1
        ;;
    *'selvedge attach detach disk.nbd'*)
        selvedge attach -a 192.168.0.10 -n nqn.2026-01.org.example:disks --nbd unix:disk.nbd >attached &
        for _ in $(seq 1200); do
            if grep -q '^nbd' attached; then break; fi
            sleep 0.05
        done
        sh -c "$TYPED" && wait $! || status=1
        ;;
    *'selvedge attach list'* | *'selvedge attach detach all'* | *'selvedge attach serve'*--check*) sh -c "$TYPED" || status=1 ;;
    *'selvedge attach'*--ublk*)
        # The kernel may have no driver for block devices, and says so then.
        runs_until '^/dev/ublkb|modprobe ublk_drv' || status=1
        ;;
    *'selvedge attach'*)
        runs_until '^(nbd|vhost-user)' || status=1
        ;;
    *) timeout 120 sh -c "$TYPED" || status=$? ;;
    esac
    kill $served
    wait $served || true
    exit $status
fi
rm control.sock c.sock
runs_until '^listening on'
"#;

/// Addresses that the target listens on, as port numbers 1, 2 and so on.
const PORTS: [&str; 13] = [
    "127.0.0.1:4420",
    "192.168.0.231:4420",
    "192.168.0.10:4420",
    "10.0.0.1:4420",
    "10.0.0.2:4420",
    "10.0.1.1:4420",
    "10.0.1.2:4420",
    "10.0.2.1:4420",
    "10.0.2.2:4420",
    "10.0.3.1:4420",
    "10.0.4.1:4420",
    "192.168.0.231:8009",
    "127.0.0.1:4421",
];

/// Configuration of the target beside which a command is run.
fn served(command: &str) -> String {
    let mut text = String::new();
    for address in PORTS {
        text += &format!("[[port]]\naddress = \"{address}\"\n");
    }
    // The pages have two names, and a command that gives none means the only one there is.
    let other = "nqn.2026-01.io.selvedge:target";
    let is_other = command.contains(other) || command.contains("subsystem add");
    let nqn = if is_other { other } else { NQN };
    if command.contains("referral remove") {
        text += "[[referral]]\naddress = \"192.168.0.232\"\n";
    }
    text += &format!("[[subsystem]]\nnqn = \"{nqn}\"\nallow_any_host = true\n");
    if command.contains("remove-key") {
        let host = "nqn.2014-08.org.nvmexpress:uuid:1b4e28ba-2fa1-11d2-883f-0016d3ccabcd";
        let file = "/etc/selvedge/host-a.key";
        text += &format!("[[subsystem.host_key]]\nhost = \"{host}\"\ndhchap_secret_file = \"{file}\"\n");
    }
    for nsid in 1..=3 {
        if !(nsid > 1 && command.contains("namespace add")) {
            // Memory has room to grow to a limit; a sparse file may be as large as a disk.
            let backend = match command.contains("namespace resize") {
                true => format!("backend.file = {{ path = \"{nsid}.img\", size = \"256m\" }}"),
                false => "backend.memory = { size = \"256m\" }".to_owned(),
            };
            text += &format!("[[subsystem.namespace]]\nnsid = {nsid}\n{backend}\n");
        }
    }
    text
}

/// A certificate that is its own authority, with its key: `ca.pem` and `target.pem` are the same.
fn furnish_certificate(folder: &Path) {
    let made = rcgen::generate_simple_self_signed(vec!["192.168.0.231".to_owned()]).expect("a certificate");
    for (name, text) in [
        ("ca.pem", made.cert.pem()),
        ("target.pem", made.cert.pem()),
        ("target.pem.key", made.signing_key.serialize_pem()),
        // An NBD client's.
        ("keys.psk", format!("alice:{}\n", "0f".repeat(32))),
    ] {
        std::fs::write(folder.join(name), text).expect("written");
    }
    for name in ["target.pem.key", "keys.psk"] {
        let private = std::os::unix::fs::PermissionsExt::from_mode(0o600);
        std::fs::set_permissions(folder.join(name), private).expect("it is private");
    }
}

/// The file of disks that a page shows.
fn attach_file() -> &'static str {
    let page = include_str!("../../../../docs/attach.md");
    let (_, behind) = page.split_once("```toml\n").expect("it is shown");
    behind.split_once("```").expect("it ends").0
}

const JOBS: &str = "[global]\nbs=4k\nruntime=1\ntime_based\n[reads]\nrw=randread\niodepth=4\n";

/// Fills the folder in which a reader types.
fn furnish(folder: &Path, command: &str) {
    let served = served(command);
    for (name, text) in [
        ("served.toml", &*served),
        ("target.toml", &*served),
        ("attach.toml", attach_file()),
        ("job.fio", JOBS),
        ("ssd.fio", JOBS),
    ] {
        std::fs::write(folder.join(name), text).expect("written");
    }
    furnish_certificate(folder);
    // Where a size is given, the file is made.
    if !command.contains("disk.img,size") {
        let disk = std::fs::File::create(folder.join("disk.img")).expect("a file");
        disk.set_len(64 << 20).expect("it has a size");
    }
    for name in ["control.sock", "c.sock"] {
        symlink("/run/selvedge/4420.sock", folder.join(name)).expect("a link");
    }
    std::fs::create_dir(folder.join("bin")).expect("a folder");
    symlink(env!("CARGO_BIN_EXE_selvedge"), folder.join("bin/selvedge")).expect("a link");
}

/// The command as it is run: with values for what is the reader's own, and for less time.
fn prepared(command: &str, variables: &[String]) -> String {
    let mut text = command.to_owned();
    for (placeholder, value) in PLACEHOLDERS {
        text = text.replace(placeholder, value);
    }
    for (option, value) in SHORTER {
        if let Some((before, after)) = text.split_once(&format!("{option} ")) {
            let rest = after.split_once(' ').map_or("", |(_, rest)| rest);
            text = format!("{before}{option} {value} {rest}");
        }
    }
    if text.starts_with("selvedge sweep") && !text.contains("--dry-run") {
        text += " --dry-run";
    }
    // What the kernel would do is for the suite `kernel`.
    if text.starts_with("selvedge connect ") && !text.contains("--dry-run") {
        text += " --dry-run";
    }
    if text.starts_with("selvedge bench") && text.contains("write") && !text.contains("--destroy-data") {
        text = text.replacen("selvedge bench", "selvedge bench --destroy-data", 1);
    }
    variables.iter().map(|variable| format!("{variable}; ")).collect::<String>() + &text
}

/// Why a command is not run.
fn reason(command: &str) -> Option<&'static str> {
    let command = format!("{command}\n");
    NOT_RUN.iter().find(|(part, _)| command.contains(part)).map(|(_, reason)| *reason)
}

/// Runs a command; returns the failure, if there is one.
fn run(command: &str) -> Option<String> {
    let folder = tempfile::tempdir().expect("a folder");
    furnish(folder.path(), command);
    let path =
        format!("{}:{}", folder.path().join("bin").display(), std::env::var("PATH").unwrap_or_default());
    let mut world = Command::new("unshare");
    world.args(["--user", "--map-root-user", "--net", "--mount", "sh", "-c", WORLD]);
    world.env("WORLD", folder.path()).env("TYPED", command).env("PATH", path).env_remove("XDG_RUNTIME_DIR");
    world.env("SERVES", if command.contains("selvedge serve") { "yes" } else { "" });
    let output = world.stdin(Stdio::null()).output().expect("unshare runs");
    let expected = STATUSES.iter().find(|(part, _)| command.contains(part)).map_or(0, |(_, status)| *status);
    // Nothing is different where the file is what is served.
    let is_right =
        output.status.code() == Some(expected) || command.contains("config diff") && output.status.success();
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    (!is_right).then(|| format!("status {:?}: {}", output.status.code(), text.trim()))
}

/// Runs every command of a text; what goes wrong, with how many were run.
fn run_all(text: &str, is_page: bool, name: &str) -> (Vec<String>, usize) {
    let (mut wrong, mut count) = (Vec::new(), 0);
    let mut variables = Vec::new();
    for (line, command) in commands(text, is_page) {
        if is_assignment(&command) {
            variables.push(command);
        } else if reason(&command).is_none() {
            count += 1;
            let prepared = prepared(&command, &variables);
            wrong.extend(run(&prepared).map(|what| format!("{name}:{line}: `{prepared}`: {what}")));
        }
    }
    (wrong, count)
}

fn can_run() -> bool {
    let made = Command::new("unshare")
        .args(["--user", "--map-root-user", "--net", "--mount", "ip", "link"])
        .output();
    made.is_ok_and(|output| output.status.success())
}

/// Runs the commands of those pages whose names this takes.
fn pages_run(is_wanted: impl Fn(&str) -> bool) {
    if !can_run() {
        return missing("no namespaces of its own can be made here, or there is no `ip`".to_owned());
    }
    let (mut all, mut count) = (Vec::new(), 0);
    for page in pages() {
        let name = page.file_name().expect("a name").to_string_lossy().into_owned();
        if is_wanted(&name) {
            let (wrong, run) = run_all(&std::fs::read_to_string(&page).expect("a page"), true, &name);
            all.extend(wrong);
            count += run;
        }
    }
    assert!(all.is_empty(), "{}", all.join("\n"));
    assert!(count > 0, "nothing was run");
}

#[test]
fn what_administrators_read_runs() {
    pages_run(|name| name == "administration.md");
}

#[test]
fn what_who_measures_reads_runs() {
    pages_run(|name| matches!(name, "bench.md" | "fio.md" | "sweep.md" | "performance.md" | "paths.md"));
}

#[test]
fn every_other_page_runs() {
    let elsewhere = ["administration.md", "bench.md", "fio.md", "sweep.md", "performance.md", "paths.md"];
    pages_run(|name| !elsewhere.contains(&name));
}

#[test]
fn the_examples_of_the_helps_run() {
    if !can_run() {
        return missing("no namespaces of its own can be made here, or there is no `ip`".to_owned());
    }
    let mut examples = String::new();
    example_texts(&[], &mut examples);
    let (wrong, count) = run_all(&examples, false, "the helps");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(count > 40, "{count} are few: are they found?");
}

fn example_texts(words: &[&str], texts: &mut String) {
    let output = Command::new(env!("CARGO_BIN_EXE_selvedge")).args(words).arg("--help").output();
    let help = String::from_utf8(output.expect("the program runs").stdout).expect("UTF-8");
    *texts += help.rfind("\nExample").map_or("", |at| &help[at..]);
    for name in listed_commands(&help) {
        example_texts(&words.iter().copied().chain([&*name]).collect::<Vec<_>>(), texts);
    }
}

/// A reason that is left over would hide the next command that it fits.
#[test]
fn every_reason_is_about_a_command() {
    let mut all = Vec::new();
    for page in pages() {
        all.extend(commands(&std::fs::read_to_string(&page).expect("a page"), true));
    }
    let mut examples = String::new();
    example_texts(&[], &mut examples);
    all.extend(commands(&examples, false));
    for (part, reason) in NOT_RUN {
        assert!(all.iter().any(|(_, command)| format!("{command}\n").contains(part)), "{part}: {reason}");
    }
    let left_out = all.iter().filter(|(_, command)| reason(command).is_some()).count();
    assert!(left_out * 3 < all.len() * 2, "{left_out} of {} are not run", all.len());
}

#[test]
fn a_command_that_fails_is_found() {
    if !can_run() {
        return missing("no namespaces of its own can be made here, or there is no `ip`".to_owned());
    }
    let page = format!(
        "```\nselvedge namespace show {NQN} 1\nselvedge namespace show {NQN} 9\nselvedge serve -a 203.0.113.1 --namespace null:1m\n```\n"
    );
    let (wrong, count) = run_all(&page, true, "a.md");
    assert_eq!((wrong.len(), count), (2, 3), "{wrong:?}");
}

#[test]
fn the_file_in_the_help_of_serve_is_valid_and_has_current_names() {
    let selvedge = || Command::new(env!("CARGO_BIN_EXE_selvedge"));
    let output = selvedge().args(["serve", "--help"]).output().expect("the program runs");
    let help = String::from_utf8(output.stdout).expect("UTF-8");
    let (_, example) = help.split_once("A target.toml:\n").expect("an example");
    let (example, _) = example.split_once("\nIdentity:").expect("a section after it");
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("target.toml");
    std::fs::write(&file, example).expect("written");
    let checked = selvedge().args(["config", "check"]).arg(&file).output().expect("the program runs");
    assert_eq!(checked.status.code(), Some(0), "{}", String::from_utf8_lossy(&checked.stderr));
    for former in ["file =", "block =", "block_device", "visible_to", "hidden_from", " max ="] {
        let is_former = example.lines().any(|line| line.trim_start().starts_with(former.trim_start()));
        assert!(!is_former && !example.contains(&format!("{{ {}", former.trim_start())), "{former}");
    }
}
