//! A program under measurement as a child process: what it prints, how long it may take, how it ends. It keeps out what
//! it is asked to do.

use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, waitid};

use crate::load;

/// Interval at which the end of a program is checked.
const LOOK: Duration = Duration::from_millis(10);

/// Output and status of a program that has ended on its own.
pub(crate) struct Ended {
    pub(crate) status: ExitStatus,
    /// User and system time of the program and of all its processes, in seconds.
    pub(crate) cpu_s: f64,
}

/// A running program. Dropping it ends it.
pub(crate) struct Program {
    process: Child,
    /// Receiver of lines. Each line goes to one reader.
    lines: Mutex<Receiver<String>>,
    errors: Option<JoinHandle<String>>,
}

impl Program {
    /// Takes over a child whose output and error output are pipes.
    pub(crate) fn new(mut process: Child) -> Program {
        let (sender, lines) = channel();
        if let Some(stdout) = process.stdout.take() {
            std::thread::spawn(move || {
                // A receiver that is gone must not stop the program, so the pipe is read to its end.
                BufReader::new(stdout).lines().map_while(Result::ok).for_each(|line| _ = sender.send(line));
            });
        }
        let errors = process.stderr.take().map(|mut stderr| {
            std::thread::spawn(move || {
                let mut bytes = Vec::new();
                let _ = stderr.read_to_end(&mut bytes);
                String::from_utf8_lossy(&bytes).trim().to_owned()
            })
        });
        Program { process, lines: Mutex::new(lines), errors }
    }

    /// Starts `words`, a program and its arguments. It gets SIGKILL when this process ends in
    /// whatever way, so that nothing stays behind after an interrupt.
    ///
    /// # Errors
    /// The program cannot be started.
    pub(crate) fn start(words: &[String]) -> Result<Program, String> {
        let mut command = Command::new("setpriv");
        command.args(["--pdeathsig", "KILL", "--"]).args(words);
        command.env("PATH", path());
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let named = || words.first().map_or("", String::as_str);
        command.spawn().map(Program::new).map_err(|error| format!("cannot start {}: {error}", named()))
    }

    pub(crate) fn id(&self) -> u32 {
        self.process.id()
    }

    /// The next line it prints, unless it ends or `deadline` comes first.
    pub(crate) fn line(&self, deadline: Instant) -> Option<String> {
        self.lines().recv_timeout(deadline.saturating_duration_since(Instant::now())).ok()
    }

    /// Waits until it has ended or `until` comes. None when it still runs.
    pub(crate) fn ended(&mut self, until: Instant) -> Result<Option<ExitStatus>, String> {
        loop {
            match self.process.try_wait() {
                Ok(None) if Instant::now() < until => {
                    std::thread::sleep(LOOK.min(until.saturating_duration_since(Instant::now())));
                }
                Ok(status) => return Ok(status),
                Err(error) => return Err(format!("cannot wait for a program: {error}")),
            }
        }
    }

    /// Waits until it has ended on its own or `until` comes, and looks at its processor time before it is gone. None when
    /// it still runs.
    pub(crate) fn finished(&mut self, until: Instant) -> Result<Option<Ended>, String> {
        let failed = |error: &dyn std::fmt::Display| format!("cannot wait for a program: {error}");
        let id = i32::try_from(self.process.id()).ok().and_then(Pid::from_raw);
        let id = id.ok_or("a program without a process id")?;
        // It is not reaped yet: a process that has been reaped has no times in /proc.
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        while waitid(WaitId::Pid(id), options).map_err(|error| failed(&error))?.is_none() {
            if Instant::now() >= until {
                return Ok(None);
            }
            std::thread::sleep(LOOK.min(until.saturating_duration_since(Instant::now())));
        }
        let cpu_s = load::cpu_s(self.process.id()).unwrap_or_default();
        let status = self.process.wait().map_err(|error| failed(&error))?;
        Ok(Some(Ended { status, cpu_s }))
    }

    fn lines(&self) -> MutexGuard<'_, Receiver<String>> {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Unread output of a program that has ended.
    pub(crate) fn rest(&self) -> String {
        let mut text = String::new();
        let lines = self.lines();
        loop {
            match lines.recv_timeout(Duration::from_secs(5)) {
                Ok(line) => text += &(line + "\n"),
                Err(RecvTimeoutError::Disconnected | RecvTimeoutError::Timeout) => return text,
            }
        }
    }

    /// Error output of a program, which is ended if it still runs.
    pub(crate) fn errors(&mut self) -> String {
        self.end();
        self.errors.take().and_then(|thread| thread.join().ok()).unwrap_or_default()
    }

    /// Sends a signal, unless it has ended: its id may be another's then.
    pub(crate) fn signal(&mut self, signal: Signal) {
        let id = i32::try_from(self.process.id()).ok().and_then(Pid::from_raw);
        if let (Some(id), Ok(None)) = (id, self.process.try_wait()) {
            let _ = kill_process(id, signal);
        }
    }

    /// Ends it at once, for programs that take no hint.
    pub(crate) fn kill(&mut self) {
        // One that has ended already is as good.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }

    /// Ends it: politely, and after three seconds firmly.
    fn end(&mut self) {
        if matches!(self.process.try_wait(), Ok(Some(_))) {
            return;
        }
        let polite = i32::try_from(self.process.id()).ok().and_then(Pid::from_raw);
        if let Some(id) = polite {
            // Not reaped yet, so the id is still its own.
            let _ = kill_process(id, Signal::TERM);
        }
        if !matches!(self.ended(Instant::now() + Duration::from_secs(3)), Ok(Some(_))) {
            let _ = self.process.kill();
            let _ = self.process.wait();
        }
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        self.end();
    }
}

/// Search path for programs: some are the system's, which are not in every user's PATH.
fn path() -> String {
    format!("{}:/usr/sbin:/sbin", std::env::var("PATH").unwrap_or_default())
}

/// True if there is a program of this name.
pub(crate) fn is_installed(name: &str) -> bool {
    path().split(':').any(|folder| Path::new(folder).join(name).is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Program {
        Program::start(&["sh", "-c", script].map(str::to_owned)).unwrap()
    }

    #[test]
    fn tells_what_a_program_cost_with_its_children() {
        let mut program =
            shell("sh -c 'i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done'; echo done; exit 3");
        let ended = program.finished(Instant::now() + Duration::from_secs(60)).unwrap().unwrap();
        assert_eq!(ended.status.code(), Some(3));
        assert!(ended.cpu_s > 0.0, "{}", ended.cpu_s);
        assert_eq!(program.rest(), "done\n");
    }

    #[test]
    fn one_that_goes_on_is_not_finished() {
        let mut program = shell("trap '' TERM; exec sleep 60");
        assert!(program.finished(Instant::now() + Duration::from_millis(50)).unwrap().is_none());
        program.kill();
        assert!(program.ended(Instant::now()).unwrap().is_some());
    }

    #[test]
    fn says_what_cannot_be_started() {
        let mut program = Program::start(&["selvedge-no-such-program".to_owned()]).unwrap();
        let ended = program.finished(Instant::now() + Duration::from_secs(60)).unwrap().unwrap();
        assert!(!ended.status.success());
        assert!(program.errors().contains("selvedge-no-such-program"));
    }
}
