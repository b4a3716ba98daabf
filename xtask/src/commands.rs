//! The `commands` suite: nvme-cli's commands in one guest, with a second host in another, while the target is changed
//! from outside as the first guest asks. It keeps out what is checked, which lab/job-commands.sh says.

use std::path::Path;
use std::time::Duration;

use crate::command::Process;
use crate::conversation::{Ask, administer, answer_all, print_measurements};
use crate::guest::{OUTSIDE, Scratch, Target, guest, print_checks};
use crate::suite::{Options, Outcome};
use crate::{lab, workspace};

const NQN: &str = "nqn.2026-01.io.selvedge:commands";
/// The name of the second guest's host (lab/job-second-host.sh).
const SECOND_HOST: &str = "nqn.2014-08.org.nvmexpress:uuid:5e17ed9e-0000-4000-8000-000000000002";
/// Two emulated machines on two slow cores.
const LIMIT: Duration = Duration::from_secs(900);
const READY_LIMIT: Duration = Duration::from_secs(240);
const WORD_LIMIT: Duration = Duration::from_secs(60);

/// Runs both guests against one target.
pub(crate) fn run(options: &Options) -> Outcome {
    let prepared = lab::build(&[]).and_then(|()| Ok(workspace::program()?));
    let outcome = prepared.and_then(|program| {
        let scratch = Scratch::new("commands", options.keep)?;
        Ok(converse(&program, &scratch.path)?)
    });
    outcome.into()
}

/// A target whose hosts may create namespaces, and the socket by which it is administered.
fn target(program: &str, scratch: &Path) -> Result<(Target, String), String> {
    let control = format!("unix:{}", scratch.join("control.sock").display());
    let storage = scratch.join("storage");
    std::fs::create_dir_all(&storage).map_err(|error| format!("{}: {error}", storage.display()))?;
    let file = scratch.join("target.toml");
    let text = format!(
        "[[port]]\naddress = \"127.0.0.1\"\nservice = 0\nadvertise = \"{OUTSIDE}\"\n\
         [[subsystem]]\nnqn = \"{NQN}\"\nallow_any_host = true\n\
         storage = {{ directory = \"{}\", max = \"256m\" }}\n\
         [[subsystem.namespace]]\nnsid = 1\nmemory = \"64m\"\nblock = 512\n\
         [[subsystem.namespace]]\nnsid = 2\nfile = \"{}\"\nsize = \"64m\"\nblock = 4096\n\
         host_write_protection = \"until_restart\"\n\
         [[subsystem.namespace]]\nnsid = 3\nmemory = \"16m\"\nhidden_from = [\"{SECOND_HOST}\"]\n",
        storage.display(),
        scratch.join("namespace-2").display(),
    );
    std::fs::write(&file, text).map_err(|error| format!("{}: {error}", file.display()))?;
    let (file, state) = (file.display().to_string(), scratch.join("state").display().to_string());
    let target =
        Target::start_with(program, &["serve", "-c", &file, "--state-dir", &state, "--control", &control])?;
    Ok((target, control))
}

fn converse(program: &str, scratch: &Path) -> Result<String, String> {
    let (mut target, control) = target(program, scratch)?;
    let console = |name: &str| scratch.join(name).display().to_string();
    let start = |job: &str, console: String| {
        let options = ["--memory", "1024", "--console", &console];
        let words = [job, OUTSIDE, &target.port, NQN];
        Process::start(&guest(&options, &words)).map_err(|error| format!("the guest does not start: {error}"))
    };
    let mut second = start("job-second-host.sh", console("console-second"))?;
    let mut first = start("job-commands.sh", console("console-first"))?;
    let ready = second.wait_for_line("second host is ready", READY_LIMIT).map(drop);
    let outcome = ready.and_then(|()| {
        answer_all(&mut first, LIMIT, |ask| match ask.whom {
            "target" => Ok(administer(program, &control, &ask.words)),
            _ => tell_second(&mut second, ask),
        })
    });
    // Both look at what they have left in the end, so that they must be heard in any case.
    let _ = second.write_line("stop");
    let clean = [&mut first, &mut second].map(|guest| {
        let clean = guest.wait(READY_LIMIT, true).is_some_and(|status| status.success());
        print_checks(&guest.output());
        clean
    });
    let stopped = target.stop();
    if outcome.is_err() || clean.contains(&false) || stopped.is_err() {
        println!("-- what the first guest said:\n{}--", first.output());
        println!("-- what the second guest said:\n{}--", second.output());
        println!("-- what the target said:\n{}--", target.process.output());
    }
    let measured = format!("{} changes seen by the kernel", print_measurements(&first.output()));
    match (outcome, clean) {
        (Ok(()), [true, true]) => stopped.map(|()| measured),
        (Ok(()), _) => Err("checks in a guest failed".to_owned()),
        (Err(reason), _) => Err(reason),
    }
}

fn tell_second(second: &mut Process, ask: &Ask<'_>) -> Result<u8, String> {
    let order = format!("{} {}", ask.number, ask.words.join(" "));
    second.write_line(&order).map_err(|error| format!("the second guest takes no input: {error}"))?;
    let line = second.wait_for_line(&format!("answer {} ", ask.number), WORD_LIMIT)?;
    let status = line.trim().rsplit(' ').next().and_then(|status| status.parse::<u8>().ok());
    status.ok_or(format!("the second guest answers `{line}`"))
}
