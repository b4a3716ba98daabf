//! The `paths` suite: hosts with several paths to one namespace of our target. It keeps out what is checked inside the
//! guest, which lab/job-paths.sh says.

use std::path::Path;
use std::time::Duration;

use crate::command::{Process, Step};
use crate::conversation::{administer, answer_all, print_measurements};
use crate::guest::{OUTSIDE, Scratch, Target, guest, listening_ports, print_checks};
use crate::suite::{Options, Outcome};
use crate::{lab, workspace};

const NQN: &str = "nqn.2026-01.io.selvedge:paths";
/// An emulated machine on two slow cores, which other work may have too.
const GUEST_LIMIT: Duration = Duration::from_secs(900);
const START_LIMIT: Duration = Duration::from_secs(20);
const END_LIMIT: Duration = Duration::from_secs(60);

/// Each host has a target of its own.
pub(crate) fn jobs() -> Vec<String> {
    ["kernel-host", "own-host"].map(str::to_owned).into()
}

/// Runs the job of this host.
pub(crate) fn run(options: &Options, job: &str) -> Outcome {
    let prepared = lab::build(&[])
        .and_then(|()| Ok(workspace::program()?))
        .and_then(|program| Ok((program, Scratch::new("paths", options.keep)?)));
    let tried = prepared.and_then(|(program, scratch)| match job {
        "kernel-host" => Ok(kernel(&program, &scratch.path)?),
        _ => Ok(ours(&program, &scratch.path)?),
    });
    tried.into()
}

/// A target with ports 1 and 2 and a third one that stays when both are closed, and the socket by which it is
/// administered.
fn target(program: &str, scratch: &Path) -> Result<(Target, String), String> {
    let control = format!("unix:{}", scratch.join("control.sock").display());
    let file = scratch.join("target.toml");
    let port = |id| {
        format!("[[port]]\nid = {id}\naddress = \"127.0.0.1\"\nservice = 0\nadvertise = \"{OUTSIDE}\"\n")
    };
    let text = format!(
        "{}{}{}[[subsystem]]\nnqn = \"{NQN}\"\nallow_any_host = true\n\
         [[subsystem.namespace]]\nnsid = 1\nfile = \"{}\"\nsize = \"64m\"\nblock = 4096\n",
        port(1),
        port(2),
        port(3),
        scratch.join("namespace-1").display(),
    );
    std::fs::write(&file, text).map_err(|error| format!("{}: {error}", file.display()))?;
    let (file, state) = (file.display().to_string(), scratch.join("state").display().to_string());
    let target =
        Target::start_with(program, &["serve", "-c", &file, "--state-dir", &state, "--control", &control])?;
    Ok((target, control))
}

/// The Linux kernel's host in the guest, with each of its policies, while paths change and go as it asks.
fn kernel(program: &str, scratch: &Path) -> Result<String, String> {
    let (mut target, control) = target(program, scratch)?;
    target.process.wait_for_line("administered at", START_LIMIT)?;
    let ports = listening_ports(&target.process.output());
    let [first, second, _] = &ports[..] else {
        return Err(format!("the target listens on {} ports, and not on three", ports.len()));
    };
    let console = scratch.join("console-paths").display().to_string();
    let job = ["job-paths.sh", OUTSIDE, first, second, NQN];
    println!("$ lab/run-guest.sh {}", job.join(" "));
    let started = Process::start(&guest(&["--memory", "1024", "--console", &console], &job));
    let mut guest = started.map_err(|error| format!("the guest does not start: {error}"))?;
    let answered = answer_all(&mut guest, GUEST_LIMIT, |ask| match ask.whom {
        "target" => Ok(administer(program, &control, &ask.words)),
        other => Err(format!("the guest asks `{other}`, who is not here")),
    });
    let clean = guest.wait(END_LIMIT, false).is_some_and(|status| status.success());
    let output = guest.output();
    print_checks(&output);
    let stopped = target.stop();
    if answered.is_err() || !clean || stopped.is_err() {
        println!("-- what the guest said:\n{output}--");
        println!("-- what the target said:\n{}--", target.process.output());
    }
    let count = print_measurements(&output);
    match (answered, clean) {
        (Ok(()), true) => stopped.map(|()| format!("{count} measurements")),
        (Ok(()), false) => Err("checks in the guest failed".to_owned()),
        (Err(reason), _) => Err(reason),
    }
}

/// Runs of the lab with our own host: links are cut at random while every write is checked, over TCP, over MPTCP, and over
/// TLS on MPTCP with IPv6, which kernels cannot do.
const RUNS: [(&str, &[&str]); 3] = [
    ("tcp", &["tcp", "4", "latency", "0", "--cuts", "6", "--seed", "11"]),
    ("mptcp", &["mptcp", "2", "round-robin", "0", "--cuts", "3", "--seed", "12"]),
    (
        "mptcp-tls",
        &["mptcp", "2", "latency", "0", "--cuts", "3", "--seed", "13", "--family", "ipv6", "--tls", "on"],
    ),
];
const RUN_LIMIT_S: u64 = 300;

/// Our own initiator over four links between network namespaces.
fn ours(program: &str, scratch: &Path) -> Result<String, String> {
    let lab = lab::build_links()?.display().to_string();
    for (name, words) in RUNS {
        let output = scratch.join(format!("lab-{name}")).display().to_string();
        let args = [&["paths"], words, &["--program", program, "--output", &output]].concat();
        let run = Step::new(&lab, &args).limit_s(RUN_LIMIT_S).run();
        if !run.passed {
            return Err(format!("{name} over links that are cut: see above"));
        }
    }
    Ok("12 cuts, nothing lost".to_owned())
}
