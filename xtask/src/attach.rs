//! The `attach` suite: other projects' NBD clients and a virtual machine on namespaces of our
//! target. The crate's own tests cover our clients and guests.

use std::path::Path;
use std::time::Duration;

use crate::command::{Process, Step};
use crate::guest::{Scratch, Target};
use crate::suite::{Options, Outcome};
use crate::{attach_boot, attach_firmware, attach_guest, attach_tls, workspace};

pub(crate) const NQN: &str = "nqn.2026-01.io.selvedge:attach";
const START_LIMIT: Duration = Duration::from_secs(20);
const END_LIMIT: Duration = Duration::from_secs(20);
/// More are tried by hand.
const ENDS: &str = "10";
const ENDS_LIMIT_S: u64 = 600;
/// Each client takes seconds.
const CLIENT_LIMIT_S: u64 = 60;

/// Command that makes `$F/image.raw`: data, a hole, and data at the end.
pub(crate) const IMAGE: &str = "truncate -s 128M $F/image.raw && for at in 0 30 31 96 127; do
    dd if=/dev/urandom of=$F/image.raw bs=1M count=1 seek=$at conv=notrunc status=none; done";

/// Commands of each client, for a shell: `$DISK` and `$SMALL` are the URIs of a disk with blocks of
/// 4096 bytes and of one with blocks of 512, `$F` the folder.
const CLIENTS: [(&str, &str); 9] = [
    (
        "nbdinfo",
        "nbdinfo \"$DISK\" | tee $F/info && grep -q 'block_size_minimum: 4096' $F/info &&
         grep -q 'can_multi_conn: true' $F/info && grep -q 'can_fast_zero: true' $F/info &&
         nbdinfo --size \"$SMALL\" | grep -qx 134217728 && nbdinfo --map \"$DISK\" | grep -q hole &&
         nbdinfo --list \"$DISK\" | grep -c '^export=' | grep -qx 2",
    ),
    (
        "nbdcopy, in",
        "nbdcopy --connections=4 --flush $F/image.raw \"$DISK\" && nbdinfo --map \"$DISK\" | tee $F/map &&
         grep -q data $F/map && grep -q hole $F/map",
    ),
    ("nbdcopy, out", "nbdcopy \"$DISK\" $F/out.raw && cmp $F/image.raw $F/out.raw"),
    (
        "qemu-img, in",
        "qemu-img convert -f raw -O qcow2 $F/image.raw $F/image.qcow2 &&
         qemu-img convert -n -f qcow2 -O raw $F/image.qcow2 \"$SMALL\"",
    ),
    (
        "qemu-img, out",
        "qemu-img compare -f raw -F raw $F/image.raw \"$SMALL\" &&
         qemu-img convert -f raw -O raw \"$SMALL\" $F/out.raw && cmp $F/image.raw $F/out.raw",
    ),
    (
        "qemu-io",
        "qemu-io -f raw -c 'write -P 7 0 1M' -c 'aio_write -P 8 -f 4M 40M' -c aio_flush -c 'write -z 8k 64k' \\
           -c 'write -z -u 4M 4k' -c 'discard 6M 8M' -c flush -c 'read -P 7 0 8k' -c 'read -P 0 8k 64k' \\
           -c 'read -P 7 72k 900k' -c 'read -P 0 4M 4k' -c 'read -P 8 14M 30M' \"$DISK\" | tee $F/io &&
         ! grep -qi 'failed\\|error' $F/io",
    ),
    (
        "nbdsh",
        "nbdsh -u \"$SMALL\" -c '
h.set_strict_mode(0)
buf = bytes(range(256)) * 2
for command in (nbd.CMD_FLAG_FUA, 0):
    h.pwrite(buf, 512, command)
    assert h.pread(512, 512) == buf
for wrong in (lambda: h.pread(512, 1), lambda: h.pread(512, h.get_size()), lambda: h.pwrite(buf, h.get_size())):
    try:
        wrong()
    except nbd.Error:
        pass
    else:
        raise Exception(\"it was not refused\")
h.zero(512, 512)
assert h.pread(512, 512) == bytes(512)
h.trim(1 << 20, 1 << 20)
h.flush()
assert h.get_structured_replies_negotiated()
'",
    ),
    (
        "fio, requests of many sizes",
        "fio --name=verified --ioengine=nbd --uri=\"$DISK\" --rw=randrw --bsrange=4k-64k --iodepth=16 --size=64m \
           --verify=crc32c --verify_state_save=0 --fsync=64",
    ),
    (
        "two connections and a flush",
        "nbdsh -c '
import os
hs = [nbd.NBD(), nbd.NBD()]
for h in hs:
    h.connect_uri(os.environ[\"DISK\"])
cookies = [hs[0].aio_pwrite(nbd.Buffer.from_bytearray(bytearray([5]) * 4096), at * 4096) for at in range(64)]
for cookie in cookies:
    while not hs[0].aio_command_completed(cookie):
        hs[0].poll(-1)
hs[1].flush()
assert hs[1].pread(64 * 4096, 0) == bytes([5]) * 64 * 4096
'",
    ),
];

/// Each has a target of its own.
pub(crate) fn jobs() -> Vec<String> {
    let own = ["clients", "tls", "guest", "ends", "firmware"].map(str::to_owned);
    own.into_iter().chain(attach_boot::jobs()).collect()
}

/// Runs a job.
pub(crate) fn run(options: &Options, job: &str) -> Outcome {
    let prepare = || Ok((workspace::program()?, Scratch::new(&format!("attach-{job}"), options.keep)?));
    let tried = prepare().and_then(|(program, scratch): (String, Scratch)| match job {
        "firmware" => Ok(attach_firmware::run(&program).map(|()| String::new())?),
        "ends" => Ok(random_ends(&program).map(|()| String::new())?),
        "clients" | "tls" | "guest" => Ok(beside_a_target(&program, &scratch.path, job)?),
        boot => attach_boot::run(&program, boot).map(|()| String::new()),
    });
    tried.into()
}

fn beside_a_target(program: &str, scratch: &Path, job: &str) -> Result<String, String> {
    let mut target = target(program, scratch)?;
    let port = target.port.clone();
    let tried = match job {
        "tls" => attach_tls::run(program, &port, scratch).map(|count| format!("{count} clients")),
        "guest" => attach_guest::run(program, (&port, &control(scratch)), scratch)
            .map(|()| "a virtual machine".to_owned()),
        _ => disks_and_clients(program, &port, scratch),
    };
    target.stop()?;
    tried
}

fn disks_and_clients(program: &str, port: &str, scratch: &Path) -> Result<String, String> {
    let socket = scratch.join("disk.nbd");
    // A killed process leaves its socket, and the next one takes its place.
    let mut killed = attach(program, port, &socket)?;
    killed.kill()?;
    if !socket.exists() {
        return Err("the socket of a killed process is gone".to_owned());
    }
    let mut attached = attach(program, port, &socket)?;
    let outcome = clients(&socket, scratch);
    attached.terminate();
    let is_clean = attached.wait(END_LIMIT, false).is_some_and(|status| status.success());
    if outcome.is_err() || !is_clean {
        println!("-- output of attach:\n{}--", attached.output());
    }
    outcome?;
    match (is_clean, socket.exists()) {
        (true, false) => Ok(format!("{} clients", CLIENTS.len())),
        (false, _) => Err("attach did not end well on SIGTERM".to_owned()),
        (true, true) => Err("attach left its socket".to_owned()),
    }
}

/// Ends in all ways at any moment under others' I/O, and looks at what is left.
fn random_ends(program: &str) -> Result<(), String> {
    let script = workspace::root().join("lab/attach-ends.sh").display().to_string();
    let step = Step::new(&script, &[program, ENDS, "guest"]).limit_s(ENDS_LIMIT_S).run();
    if step.passed { Ok(()) } else { Err("attach was ended at random, and something was wrong".to_owned()) }
}

fn target(program: &str, scratch: &Path) -> Result<Target, String> {
    let text = format!(
        "[[port]]\nid = 1\naddress = \"127.0.0.1\"\nservice = 0\n[[subsystem]]\nnqn = \"{NQN}\"\nallow_any_host = true\n\
         [[subsystem.namespace]]\nnsid = 1\nfile = \"{0}/namespace-1\"\nsize = \"128m\"\nblock = 4096\nuuid = \"{1}\"\n\
         [[subsystem.namespace]]\nnsid = 2\nfile = \"{0}/namespace-2\"\nsize = \"128m\"\nblock = 512\nuuid = \"{2}\"\n",
        scratch.display(),
        attach_guest::UUIDS[0],
        attach_guest::UUIDS[1]
    );
    let file = scratch.join("target.toml");
    std::fs::write(&file, text).map_err(|error| format!("{}: {error}", file.display()))?;
    Target::start_with(program, &["serve", "-c", &file.display().to_string(), "--control", &control(scratch)])
}

fn control(scratch: &Path) -> String {
    format!("unix:{}", scratch.join("control.sock").display())
}

fn attach(program: &str, port: &str, socket: &Path) -> Result<Process, String> {
    let place = format!("unix:{}", socket.display());
    let args = ["attach", "-a", "127.0.0.1", "-s", port, "-n", NQN, "--nsid", "1,2", "--nbd", &place];
    println!("$ {program} {}", args.join(" "));
    let started = Process::start(&Step::new(program, &args));
    let mut process = started.map_err(|error| format!("{program} does not start: {error}"))?;
    match process.wait_for_line("nbd+unix:///2", START_LIMIT) {
        Ok(_) => Ok(process),
        Err(reason) => Err(format!("attach: {reason}\n{}", process.output())),
    }
}

fn clients(socket: &Path, scratch: &Path) -> Result<(), String> {
    let uri = |name: &str| format!("nbd+unix:///{name}?socket={}", socket.display());
    let folder = scratch.display().to_string();
    let mut failed = Vec::new();
    for (name, script) in [("an image", IMAGE)].into_iter().chain(CLIENTS) {
        println!("-- {name}");
        // nbdsh takes the first Python that it finds, and has its module in the system's.
        let script = format!("PATH=/usr/bin:$PATH; {script}");
        let step = Step::new("sh", &["-c", &script]).limit_s(CLIENT_LIMIT_S);
        let step = step.env("DISK", &uri("1")).env("SMALL", &uri("2")).env("F", &folder);
        if !step.run().passed {
            failed.push(name);
        }
    }
    if failed.is_empty() { Ok(()) } else { Err(failed.join(", ")) }
}
