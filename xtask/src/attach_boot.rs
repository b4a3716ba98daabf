//! The part of the suite `attach` with whole Debians that have their disks from namespaces, one over NBD and one over
//! vhost-user, and one whose udev names block devices. What is checked inside, lab/job-boot.sh and lab/job-udev.sh say.

use std::path::Path;
use std::time::Duration;

use crate::command::{Process, Step};
use crate::guest::{Scratch, Target};
use crate::suite::Fault;
use crate::{packages, workspace};

const NQN: &str = "nqn.2026-01.io.selvedge:boot";
const DEBIAN: &str = "trixie";
const BUILD_LIMIT_S: u64 = 900;
/// Time for a boot on an emulated processor, on a machine with other work.
const GUEST_LIMIT_S: u64 = 600;
const COPY_LIMIT_S: u64 = 300;
const START_LIMIT: Duration = Duration::from_secs(20);
const END_LIMIT: Duration = Duration::from_secs(20);

/// Attachment of a guest's disk.
#[derive(Clone, Copy)]
enum Attachment {
    Nbd,
    VhostUser,
}

pub(crate) fn jobs() -> Vec<String> {
    ["boot-nbd", "boot-vhost-user", "udev"].map(str::to_owned).into()
}

/// Boots a whole Debian with this attachment, and looks at what it leaves.
pub(crate) fn run(program: &str, job: &str) -> Result<(), Fault> {
    packages::ensure(&packages::INSTALL)?;
    script(&["build", DEBIAN], BUILD_LIMIT_S)?;
    // It is some gigabytes, and of no use when this is over.
    let scratch = Scratch::new("boot", false)?;
    let attachment = match job {
        "boot-nbd" => Attachment::Nbd,
        "boot-vhost-user" => Attachment::VhostUser,
        _ => return Ok(udev(program, &scratch.path)?),
    };
    let disk = script(&["disk", DEBIAN], BUILD_LIMIT_S)?.trim().to_owned();
    Ok(boot(program, &disk, &scratch.path.join(job), attachment)?)
}

/// A program with what a debugger needs is larger than what goes beside a job.
fn udev(program: &str, folder: &Path) -> Result<(), String> {
    let packed = folder.join("selvedge.gz").display().to_string();
    let pack = Step::new("sh", &["-c", "gzip -1c \"$1\" >\"$2\"", "sh", program, &packed]);
    if !pack.limit_s(COPY_LIMIT_S).run().passed {
        return Err("the program was not packed".to_owned());
    }
    let rules = workspace::root().join("packaging/udev/59-selvedge-attach.rules").display().to_string();
    script(&["run", DEBIAN, "udev", &packed, &rules], GUEST_LIMIT_S).map(drop)
}

/// Copies the disk into a namespace, boots from there, and looks at its file system.
fn boot(program: &str, disk: &str, folder: &Path, attachment: Attachment) -> Result<(), String> {
    std::fs::create_dir_all(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let in_folder = |name: &str| folder.join(name).display().to_string();
    let bytes = std::fs::metadata(disk).map_err(|error| format!("{disk}: {error}"))?.len();
    let namespace = in_folder("namespace");
    let spec = format!("file:{namespace},size={bytes},block=512");
    let control = format!("unix:{}", in_folder("control.sock"));
    let serve =
        ["serve", "-s", "0", "-n", NQN, "--allow-any-host", "--namespace", &spec, "--control", &control];
    let mut target = Target::start_with(program, &serve)?;
    let port = target.port.clone();
    let (nbd, vhost_user) = (in_folder("disk.nbd"), in_folder("disk.vhost"));
    let uri = format!("nbd+unix:///1?socket={nbd}");
    let mut attached = attach(program, &port, &["--nbd", &format!("unix:{nbd}")], &nbd)?;
    let copied =
        Step::new("qemu-img", &["convert", "-n", "-f", "raw", "-O", "raw", disk, &uri]).limit_s(COPY_LIMIT_S);
    if !copied.run().passed {
        return Err("the disk was not copied into the namespace".to_owned());
    }
    let drive = format!("file={uri},format=raw,discard=unmap");
    let options = match attachment {
        Attachment::Nbd => ["--drive", &drive],
        Attachment::VhostUser => {
            end(&mut attached)?;
            attached = attach(program, &port, &["--vhost-user", &vhost_user], &vhost_user)?;
            ["--vhost-user", &vhost_user]
        }
    };
    let booted = script(&[&["run"], &options[..], &[DEBIAN, "boot"]].concat(), GUEST_LIMIT_S);
    end(&mut attached)?;
    target.stop()?;
    booted?;
    // After a shutdown in order it has nothing to be mended.
    let checked = Step::new("/usr/sbin/e2fsck", &["-fn", &namespace]).limit_s(COPY_LIMIT_S).run();
    if checked.passed { Ok(()) } else { Err("its file system is not whole".to_owned()) }
}

fn attach(program: &str, port: &str, attachment: &[&str], socket: &str) -> Result<Process, String> {
    let args = [&["attach", "-a", "127.0.0.1", "-s", port, "-n", NQN, "--threads", "2"], attachment].concat();
    println!("$ {program} {}", args.join(" "));
    let started = Process::start(&Step::new(program, &args));
    let mut process = started.map_err(|error| format!("{program} does not start: {error}"))?;
    match process.wait_for_line(socket, START_LIMIT) {
        Ok(_) => Ok(process),
        Err(reason) => Err(format!("attach: {reason}\n{}", process.output())),
    }
}

fn end(attached: &mut Process) -> Result<(), String> {
    attached.terminate();
    match attached.wait(END_LIMIT, false) {
        Some(status) if status.success() => Ok(()),
        _ => Err(format!("attach did not end well on SIGTERM:\n{}", attached.output())),
    }
}

/// Output of the guest's script.
fn script(words: &[&str], limit_s: u64) -> Result<String, String> {
    let script = workspace::root().join("lab/installed-guest.sh").display().to_string();
    let step = Step::new(&script, words).limit_s(limit_s).run();
    if step.passed { Ok(step.output) } else { Err(format!("installed-guest.sh {} failed", words[0])) }
}
