//! The `commands` suite: nvme-cli's commands in one guest, with a second host in another, while the target is changed
//! from outside as the first guest asks. It keeps out what is checked, which lab/job-commands.sh says.

use std::path::Path;
use std::time::{Duration, Instant};

use crate::command::{Process, Step};
use crate::guest::{OUTSIDE, Scratch, Target, guest, print_checks};
use crate::test::{Options, Outcome};
use crate::{lab, workspace};

const NQN: &str = "nqn.2026-01.io.selvedge:commands";
/// Two emulated machines on two slow cores.
const LIMIT: Duration = Duration::from_secs(900);
const READY_LIMIT: Duration = Duration::from_secs(240);
const WORD_LIMIT: Duration = Duration::from_secs(60);
const LOOK: Duration = Duration::from_millis(10);

/// Runs both guests against one target.
pub(crate) fn run(options: &Options) -> Outcome {
    let prepared = lab::build(&[]).and_then(|()| workspace::program());
    let outcome = prepared.and_then(|program| {
        let scratch = Scratch::new("commands", options.keep)?;
        converse(&program, &scratch.path)
    });
    match outcome {
        Ok(note) => Outcome::Passed(note),
        Err(reason) => Outcome::Failed(reason),
    }
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
         [[subsystem.namespace]]\nnsid = 2\nfile = \"{}\"\nsize = \"64m\"\nblock = 4096\n",
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
    let outcome = ready.and_then(|()| answer_all(program, &control, &mut first, &mut second));
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
    let measured = measurements(&first.output());
    match (outcome, clean) {
        (Ok(()), [true, true]) => stopped.map(|()| measured),
        (Ok(()), _) => Err("checks in a guest failed".to_owned()),
        (Err(reason), _) => Err(reason),
    }
}

/// The longest of what the guest measured, for the table.
fn measurements(output: &str) -> String {
    let times = output.lines().filter_map(|line| line.strip_prefix("measured: "));
    let times: Vec<&str> = times.map(str::trim).collect();
    for time in &times {
        println!("  {time}");
    }
    format!("{} changes seen by the kernel", times.len())
}

/// Something the first guest has asked for.
struct Ask<'a> {
    number: &'a str,
    whom: &'a str,
    words: Vec<&'a str>,
}

impl<'a> Ask<'a> {
    fn read(line: &'a str) -> Option<Ask<'a>> {
        let mut words = line.trim().strip_prefix("ask ")?.split_whitespace();
        Some(Ask { number: words.next()?, whom: words.next()?, words: words.collect() })
    }
}

/// Does what the first guest asks for, until it ends.
fn answer_all(program: &str, control: &str, first: &mut Process, second: &mut Process) -> Result<(), String> {
    let end = Instant::now() + LIMIT;
    let mut answered = 0;
    loop {
        let over = first.has_ended();
        let output = first.output();
        let whole = output.rfind('\n').map_or("", |end| &output[..end]);
        let asks: Vec<Ask<'_>> = whole.lines().filter_map(Ask::read).skip(answered).collect();
        answered += asks.len();
        for ask in &asks {
            let status = match ask.whom {
                "target" => administer(program, control, &ask.words),
                _ => tell_second(second, ask)?,
            };
            println!("  {} {}: {status}", ask.whom, ask.words.join(" "));
            let answer = format!("{} {status}", ask.number);
            first.write_line(&answer).map_err(|error| format!("the guest takes no input: {error}"))?;
        }
        if over {
            return Ok(());
        }
        if Instant::now() >= end {
            return Err(format!("the first guest did not end within {} s", LIMIT.as_secs()));
        }
        std::thread::sleep(LOOK);
    }
}

fn administer(program: &str, control: &str, words: &[&str]) -> u8 {
    let args = [words, &["--control", control]].concat();
    let done = Step::new(program, &args).limit_s(WORD_LIMIT.as_secs()).run_quietly();
    if !done.passed {
        println!("{}", done.output);
    }
    u8::from(!done.passed)
}

fn tell_second(second: &mut Process, ask: &Ask<'_>) -> Result<u8, String> {
    let order = format!("{} {}", ask.number, ask.words.join(" "));
    second.write_line(&order).map_err(|error| format!("the second guest takes no input: {error}"))?;
    let line = second.wait_for_line(&format!("answer {} ", ask.number), WORD_LIMIT)?;
    let status = line.trim().rsplit(' ').next().and_then(|status| status.parse::<u8>().ok());
    status.ok_or(format!("the second guest answers `{line}`"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_is_asked_for() {
        let ask = Ask::read("ask 3 target namespace remove nqn 7").unwrap();
        assert_eq!((ask.number, ask.whom), ("3", "target"));
        assert_eq!(ask.words, ["namespace", "remove", "nqn", "7"]);
        assert!(Ask::read("ok connect").is_none() && Ask::read("ask 3").is_none());
    }
}
