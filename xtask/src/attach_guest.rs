//! The part of the suite `attach` with a virtual machine: two namespaces by vhost-user, each with a file system that the guest's
//! kernel makes. What is checked inside, lab/job-vhost-user.sh says.

use std::path::Path;
use std::time::Duration;

use crate::attach::NQN;
use crate::command::{Process, Step};
use crate::conversation::{administer, answer_all, print_measurements};
use crate::guest::{guest, print_checks};
use crate::lab;

const START_LIMIT: Duration = Duration::from_secs(20);
const END_LIMIT: Duration = Duration::from_secs(20);
/// The guest ends by itself before.
const GUEST_LIMIT: Duration = Duration::from_secs(1600);

/// UUIDs of namespaces 1 and 2. The guest finds them by their first digits, with the size of their
/// blocks and their numbers.
pub(crate) const UUIDS: [&str; 2] =
    ["11111111-0000-4000-8000-000000000001", "22222222-0000-4000-8000-000000000002"];
const DISKS: [&str; 2] = ["11111111000040008000:4096:1", "22222222000040008000:512:2"];

/// Serves both, runs the guest, which has the target at `control` change their sizes, and ends the server.
pub(crate) fn run(program: &str, (port, control): (&str, &str), scratch: &Path) -> Result<(), String> {
    lab::build(&[])?;
    let sockets = ["1.vhost", "2.vhost"].map(|name| scratch.join(name).display().to_string());
    // One that was killed leaves its sockets, and the next one takes their place.
    let mut killed = attach(program, port, &sockets)?;
    killed.kill()?;
    let mut attached = attach(program, port, &sockets)?;
    let console = scratch.join("console-vhost-user").display().to_string();
    let [first, second] = &sockets;
    let machine = ["--console", &console, "--vhost-user", first, "--vhost-user", second];
    let job = [&["vhost-user", NQN][..], &DISKS].concat();
    let guest = Process::start(&guest(&machine, &job));
    let mut guest = guest.map_err(|error| format!("the guest does not start: {error}"))?;
    let answered = answer_all(&mut guest, GUEST_LIMIT, |ask| Ok(administer(program, control, &ask.words)));
    let has_passed = answered.is_ok() && guest.wait(END_LIMIT, false).is_some_and(|status| status.success());
    print_checks(&guest.output());
    print_measurements(&guest.output());
    attached.terminate();
    let is_clean = attached.wait(END_LIMIT, false).is_some_and(|status| status.success());
    if !has_passed || !is_clean {
        println!("-- what the guest said:\n{}--", guest.output());
        println!("-- what attach said:\n{}--", attached.output());
    }
    answered?;
    match (has_passed, is_clean, sockets.iter().any(|socket| Path::new(socket).exists())) {
        (true, true, false) => Ok(()),
        (false, ..) => Err("checks in the guest with vhost-user failed".to_owned()),
        (_, false, _) => Err("attach --vhost-user did not end well on SIGTERM".to_owned()),
        (.., true) => Err("attach --vhost-user left a socket".to_owned()),
    }
}

fn attach(program: &str, port: &str, sockets: &[String; 2]) -> Result<Process, String> {
    let [first, second] = sockets;
    let args = [
        "attach",
        "-a",
        "127.0.0.1",
        "-s",
        port,
        "-n",
        NQN,
        "--nsid",
        "1,2",
        "--threads",
        "2",
        "--vhost-user",
        first,
        "--vhost-user",
        second,
    ];
    println!("$ {program} {}", args.join(" "));
    let started = Process::start(&Step::new(program, &args));
    let mut process = started.map_err(|error| format!("{program} does not start: {error}"))?;
    match process.wait_for_line(second, START_LIMIT) {
        Ok(_) => Ok(process),
        Err(reason) => Err(format!("attach --vhost-user: {reason}\n{}", process.output())),
    }
}
