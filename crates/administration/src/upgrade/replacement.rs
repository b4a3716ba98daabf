//! Replacement of a process: a command starts the new process and waits until it serves, and that one waits for the death of the
//! old one.

use std::env;
use std::fmt::Display;
use std::io;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use engine::hand_over::{About, Process as _};
use engine::target::hand_over::TargetProtocol;
use rustix::process::Pid;

use super::channel::Channel;
use super::other_process::OtherProcess;
use super::query::ask;
use crate::failure::Failure;

/// Names the socket at which the old process waits.
pub const PLACE_VARIABLE: &str = "SELVEDGE_SUCCEEDS";
/// The old process, by its number.
pub const PROCESS_VARIABLE: &str = "SELVEDGE_SUCCEEDS_PROCESS";
/// Time limit of an upgrade: longer than the new process prepares, and waits then for the end of the
/// old one, before it answers requests.
const PATIENCE: Duration = Duration::from_secs(65);
/// Time after which the target is asked whether it still hands over: it gives the new process less time to prepare.
const PREPARATION: Duration = Duration::from_secs(25);
/// Interval of checks.
const LOOK_AGAIN: Duration = Duration::from_millis(20);
/// Time for the old process to exit where the new one serves without a hand-over.
const END: Duration = Duration::from_secs(30);

/// Path of the program to start, from the root: the new process starts in the folder of the old one, and a bare name would be
/// looked for in PATH.
///
/// # Errors
/// The current folder, or the program of this process, is unknown, or there is no such file.
pub fn program(named: Option<&Path>) -> Result<PathBuf, Failure> {
    if let Some(named) = named {
        let wrong = |what: &dyn Display| Failure::usage(format!("--program {}: {what}", named.display()));
        let metadata = std::fs::metadata(named).map_err(|error| wrong(&error))?;
        if !metadata.is_file() {
            return Err(wrong(&"it is not a file"));
        }
    }
    let program = named.map_or_else(env::current_exe, std::path::absolute);
    program.map_err(Failure::failed)
}

/// Starts the new process of an upgrade, as the old one was started.
pub fn start(program: &Path, about: &About, place: &Path) -> io::Result<Child> {
    let mut new = Command::new(program);
    new.args(&about.arguments).current_dir(&about.directory).stdin(Stdio::null());
    // Its answer would stand before that of this command.
    new.stdout(Stdio::null());
    new.env(PROCESS_VARIABLE, about.process.to_string())
        .env(PLACE_VARIABLE, place)
        .env_remove("WATCHDOG_PID")
        .env_remove("LISTEN_PID")
        .env_remove("LISTEN_FDS");
    new.envs(about.service.iter().map(|(name, value)| (name, value)));
    // What is typed at this terminal is not for it.
    new.process_group(0).spawn()
}

/// Waits for the end of the old process, which ends when the new one serves. `what` it is that serves. A target is asked at
/// its place whether it still hands over. Returns false if the old process does not end, although the new one, by its number,
/// says that it serves: without it, nothing would.
pub fn await_end(
    old: &OtherProcess,
    new: &mut Child,
    (program, place): (&Path, Option<&Path>),
    what: &str,
    serves: impl Fn(u32) -> bool,
) -> Result<bool, Failure> {
    await_end_within(PATIENCE, (old, new), (program, place), what, serves)
}

fn await_end_within(
    patience: Duration,
    (old, new): (&OtherProcess, &mut Child),
    (program, place): (&Path, Option<&Path>),
    what: &str,
    serves: impl Fn(u32) -> bool,
) -> Result<bool, Failure> {
    let begun = Instant::now();
    let mut until = begun + patience;
    let mut asks = place;
    loop {
        let has_ended = old.has_died(LOOK_AGAIN);
        match new.try_wait().map_err(Failure::failed)? {
            Some(status) => {
                let left = if has_ended { "and so has the old process" } else { "which serves as before" };
                return Err(Failure::failed(format!(
                    "{} has ended ({status}) in place of {what}, {left}",
                    program.display()
                )));
            }
            None if has_ended => return Ok(true),
            None if Instant::now() >= until => {
                if serves(new.id()) {
                    return Ok(false);
                }
                let _ = new.kill();
                let _ = new.wait();
                return Err(Failure::failed(format!(
                    "{} does not serve after {} s, and was ended; {what} serves as before",
                    program.display(),
                    begun.elapsed().as_secs()
                )));
            }
            None if begun.elapsed() >= PREPARATION && asks.is_some() => {
                // During the handover it answers no other request; and once the new process serves, that one does.
                let Some(place) = asks.take() else { continue };
                let about = Channel::connect(place)
                    .and_then(|channel| ask::<TargetProtocol>(&channel, LOOK_AGAIN * 50));
                if about.is_ok_and(|about| about.process != new.id()) {
                    until = Instant::now();
                }
            }
            None => {}
        }
    }
}

/// Waits until the old process has died, if it does.
pub fn await_death() {
    let number = env::var(PROCESS_VARIABLE).ok().and_then(|number| number.parse().ok());
    if let Some(Ok(process)) = number.and_then(Pid::from_raw).map(OtherProcess::open) {
        process.has_died(END);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_process_that_serves_stays_where_the_old_one_does_not_end() {
        let sleeper = || Command::new("sleep").arg("600").spawn().unwrap();
        let (mut old, mut new) = (sleeper(), sleeper());
        let (process, number) = (OtherProcess::open(Pid::from_child(&old)).unwrap(), new.id());
        let wait = |new: &mut Child, serves: bool| {
            let serves = |asked: u32| asked == number && serves;
            let of_target = (Path::new("selvedge"), None);
            await_end_within(Duration::ZERO, (&process, new), of_target, "the target", serves)
        };
        assert!(!wait(&mut new, true).unwrap());
        assert!(new.try_wait().unwrap().is_none(), "nothing else serves");
        let failed = wait(&mut new, false).unwrap_err();
        assert!(matches!(&failed, Failure::Failed(reason) if reason.contains("was ended")), "{failed:?}");
        assert!(new.try_wait().unwrap().is_some());
        old.kill().unwrap();
        old.wait().unwrap();
    }

    #[test]
    fn a_program_is_a_file_of_the_folder_in_which_the_command_runs() {
        let here = env::current_dir().unwrap();
        for (named, expected) in [
            ("Cargo.toml", here.join("Cargo.toml")),
            ("src/lib.rs", here.join("src/lib.rs")),
            ("/bin/sh", "/bin/sh".into()),
        ] {
            assert_eq!(program(Some(Path::new(named))).unwrap(), expected);
        }
        assert_eq!(program(None).unwrap(), env::current_exe().unwrap());
        for wrong in ["no-such-program", "src"] {
            assert!(matches!(program(Some(Path::new(wrong))), Err(Failure::Usage(_))), "{wrong}");
        }
    }
}
