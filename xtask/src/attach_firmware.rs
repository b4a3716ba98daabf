//! The part of the suite `attach` with machines that have nothing but a namespace: their firmware reads its first block, and
//! starts the program there, which reads another one and prints it. No kernel and no driver but the firmware's is needed.

use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::time::Duration;

use crate::command::{Process, Step};
use crate::guest::{Scratch, Target};

const NQN: &str = "nqn.2026-01.io.selvedge:firmware";
const START_LIMIT: Duration = Duration::from_secs(20);
const END_LIMIT: Duration = Duration::from_secs(20);
/// Time for a boot: a second or two on an emulated processor.
const BOOT_LIMIT_S: u64 = 120;
const BLOCK_BYTES: u64 = 512;
/// Offset of the block with the words, which the program prints.
const WORDS_BLOCK: u64 = 4096;
const WORDS: &[u8] = b"read from block 4096 by a program that the firmware has started\n\0";

/// Program in the first block, which the firmware starts.
const PROGRAM: [u8; 54] = [
    0x31, 0xc0, //             xor ax, ax
    0x8e, 0xd8, //             mov ds, ax
    0x8e, 0xd0, //             mov ss, ax
    0xbc, 0x00, 0x7c, //       mov sp, 0x7c00
    0xbe, 0x26, 0x7c, //       mov si, place
    0xb4, 0x42, //             mov ah, 0x42: read blocks of the disk that it was started from
    0xcd, 0x13, //             int 0x13
    0x72, 0x0f, //             jc end
    0xbe, 0x00, 0x7e, //       mov si, 0x7e00
    0xfc, //                   cld
    0xba, 0xf8, 0x03, //       mov dx, 0x3f8: the serial port
    0xac, //             next: lodsb
    0x84, 0xc0, //             test al, al
    0x74, 0x03, //             jz end
    0xee, //                   out dx, al
    0xeb, 0xf8, //             jmp next
    0xe6, 0xf4, //        end: out 0xf4, al: QEMU ends
    0xf4, //             halt: hlt
    0xeb, 0xfd, //             jmp halt
    0x10, 0x00, //      place: its own bytes
    0x01, 0x00, //             one block
    0x00, 0x7e, 0x00, 0x00, // to 0x7e00
    0x00, 0x10, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, // from block 4096
];

/// Attachment of a machine's disk.
#[derive(Clone, Copy, Debug)]
enum Attachment {
    Nbd,
    VhostUser,
}

/// Boots a machine with each attachment.
pub(crate) fn run(program: &str) -> Result<(), String> {
    let scratch = Scratch::new("firmware", false)?;
    let namespace = scratch.path.join("namespace");
    write_disk(&namespace).map_err(|error| format!("{}: {error}", namespace.display()))?;
    let spec = format!("file:{},block={BLOCK_BYTES}", namespace.display());
    let serve = ["serve", "-a", "127.0.0.1", "-s", "0", "-n", NQN, "--allow-any-host", "--namespace", &spec];
    let control = format!("unix:{}", scratch.path.join("control.sock").display());
    let mut target = Target::start_with(program, &[&serve[..], &["--control", &control]].concat())?;
    let port = target.port.clone();
    let boots = [Attachment::Nbd, Attachment::VhostUser]
        .map(|attachment| boot(program, &port, &scratch.path.join("disk.sock"), attachment));
    target.stop()?;
    boots.into_iter().collect()
}

fn write_disk(path: &Path) -> std::io::Result<()> {
    let disk = std::fs::File::create(path)?;
    disk.set_len(16 << 20)?;
    disk.write_all_at(&PROGRAM, 0)?;
    // By these the firmware knows that there is a program.
    disk.write_all_at(&[0x55, 0xaa], BLOCK_BYTES - 2)?;
    disk.write_all_at(WORDS, WORDS_BLOCK * BLOCK_BYTES)
}

fn boot(program: &str, port: &str, socket: &Path, attachment: Attachment) -> Result<(), String> {
    let path = socket.display().to_string();
    let (flag, address) = match attachment {
        Attachment::Nbd => ("--nbd", format!("unix:{path}")),
        Attachment::VhostUser => ("--vhost-user", path.clone()),
    };
    let args = ["attach", "-a", "127.0.0.1", "-s", port, "-n", NQN, flag, &address];
    println!("$ {program} {}", args.join(" "));
    let started = Process::start(&Step::new(program, &args));
    let mut attached = started.map_err(|error| format!("{program} does not start: {error}"))?;
    attached.wait_for_line(&path, START_LIMIT).map_err(|reason| format!("attach: {reason}"))?;
    let disk = match attachment {
        Attachment::Nbd => [
            "-drive".to_owned(),
            format!("file=nbd+unix:///1?socket={path},format=raw,if=none,id=disk"),
            "-device".to_owned(),
            "virtio-blk-pci,drive=disk".to_owned(),
        ],
        Attachment::VhostUser => [
            "-chardev".to_owned(),
            format!("socket,id=disk,path={path}"),
            "-device".to_owned(),
            "vhost-user-blk-pci,chardev=disk".to_owned(),
        ],
    };
    let machine = "-accel tcg -display none -no-reboot -nodefaults -m 64 \
         -object memory-backend-memfd,id=memory,size=64M,share=on -machine pc,memory-backend=memory \
         -serial stdio -device isa-debug-exit,iobase=0xf4";
    let machine: Vec<&str> = machine.split_whitespace().chain(disk.iter().map(String::as_str)).collect();
    // By its last instruction the program ends QEMU with status 1.
    let script = ["-c", "qemu-system-x86_64 \"$@\"; test $? -eq 1", "sh"];
    let booted = Step::new("sh", &[&script[..], &machine].concat()).limit_s(BOOT_LIMIT_S).run();
    attached.terminate();
    let is_clean = attached.wait(END_LIMIT, false).is_some_and(|status| status.success());
    let words = String::from_utf8_lossy(WORDS);
    let has_booted = booted.passed && booted.output.contains(words.trim_end_matches(['\n', '\0']));
    match (has_booted, is_clean) {
        (true, true) => Ok(()),
        (false, _) => Err(format!("the firmware does not start from {attachment:?}:\n{}", booted.output)),
        (true, false) => Err(format!("attach did not end well on SIGTERM:\n{}", attached.output())),
    }
}
