//! Running other programs: each is shown, bounded by a time-out, and ended by its process group's id
//! when it takes too long or when we die. It keeps out which programs and why.

use std::io::{IsTerminal, Read, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::cleanup::Cleanup;

/// Interval at which a running program is checked.
const LOOK: Duration = Duration::from_millis(20);
/// Interval of lines about the progress, without a terminal.
const PROGRESS: Duration = Duration::from_secs(20);
/// Output that ends this long after its program comes from something the program left behind.
const LEFTOVER: Duration = Duration::from_secs(2);

/// Time for a killed process to disappear.
const KILL_LIMIT: Duration = Duration::from_secs(20);

/// Program that runs to its end.
pub(crate) struct Step {
    program: String,
    args: Vec<String>,
    env: Vec<(&'static str, String)>,
    limit: Duration,
}

/// End of a step.
pub(crate) struct Finished {
    pub(crate) passed: bool,
    /// Set when the step was ended at its limit, so that its output says nothing about success.
    pub(crate) was_cut_off: bool,
    pub(crate) output: String,
    pub(crate) elapsed: Duration,
}

impl Step {
    /// A step that may take five minutes.
    pub(crate) fn new(program: &str, args: &[&str]) -> Step {
        Step {
            program: program.to_owned(),
            args: args.iter().map(|&arg| arg.to_owned()).collect(),
            env: Vec::new(),
            limit: Duration::from_secs(300),
        }
    }

    pub(crate) fn limit_s(mut self, limit_s: u64) -> Step {
        self.limit = Duration::from_secs(limit_s);
        self
    }

    pub(crate) fn env(mut self, name: &'static str, value: &str) -> Step {
        self.env.push((name, value.to_owned()));
        self
    }

    /// Runs it. The whole output is shown when it fails, and one line when it passes.
    pub(crate) fn run(&self) -> Finished {
        println!("$ {}", self.line());
        let finished = self.run_quietly();
        let seconds = finished.elapsed.as_secs_f64();
        if finished.passed {
            println!("  ok, {seconds:.1} s");
        } else {
            println!("{}", finished.output.trim_end());
            println!("  FAILED after {seconds:.1} s: {}", self.line());
        }
        finished
    }

    /// Runs it and shows nothing but progress: for questions, whose failure is an answer too.
    pub(crate) fn run_quietly(&self) -> Finished {
        let started = Instant::now();
        let mut process = match Process::start(self) {
            Ok(process) => process,
            Err(error) => {
                let output = format!("{} does not start: {error}", self.program);
                let elapsed = started.elapsed();
                return Finished { passed: false, was_cut_off: false, output, elapsed };
            }
        };
        let status = process.wait(self.limit, true);
        let mut output = process.output();
        match status {
            Some(status) if status.success() => {}
            Some(status) => output.push_str(&format!("\n{status}")),
            None => output.push_str(&format!("\nended: it took more than {} s", self.limit.as_secs())),
        }
        let passed = status.is_some_and(|status| status.success());
        Finished { passed, was_cut_off: status.is_none(), output, elapsed: started.elapsed() }
    }

    fn line(&self) -> String {
        let env = self.env.iter().map(|(name, value)| format!("{name}={}", quote(value)));
        let args = self.args.iter().map(|arg| quote(arg));
        // Which of the machine's cargos runs us is known to who started it.
        let program = if self.program.ends_with("/cargo") { "cargo" } else { &self.program };
        env.chain([quote(program)]).chain(args).collect::<Vec<_>>().join(" ")
    }
}

/// As a shell would want to read it, so that a line can be pasted.
fn quote(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./=:,+@%".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', "'\\''"))
}

/// A program that runs beside us, with both of its output streams in one text.
pub(crate) struct Process {
    child: Child,
    input: Option<ChildStdin>,
    output: Arc<Mutex<Vec<u8>>>,
    reader: JoinHandle<()>,
    cleanup: Option<Cleanup>,
    status: Option<ExitStatus>,
}

impl Process {
    /// Starts the program in a process group of its own, so that all it starts can be ended with it.
    pub(crate) fn start(step: &Step) -> std::io::Result<Process> {
        let (mut from, into) = std::io::pipe()?;
        let mut command = Command::new(&step.program);
        command.args(&step.args).envs(step.env.iter().map(|(name, value)| (name, value)));
        command.stdin(Stdio::piped()).stdout(into.try_clone()?).stderr(into).process_group(0);
        command.current_dir(crate::workspace::root());
        let mut child = command.spawn()?;
        let cleanup = Cleanup::for_group(child.id())?;
        // The command holds the pipe's writing ends: with them open the output would never end.
        drop(command);
        let output = Arc::new(Mutex::new(Vec::new()));
        let shared = Arc::clone(&output);
        let reader = std::thread::spawn(move || {
            let mut buffer = [0; 16 << 10];
            while let Ok(count @ 1..) = from.read(&mut buffer) {
                shared.lock().unwrap_or_else(PoisonError::into_inner).extend_from_slice(&buffer[..count]);
            }
        });
        let input = child.stdin.take();
        Ok(Process { child, input, output, reader, cleanup: Some(cleanup), status: None })
    }

    /// Output so far.
    pub(crate) fn output(&self) -> String {
        let bytes = self.output.lock().unwrap_or_else(PoisonError::into_inner);
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// Waits for a line that contains `words`, and gives it; an error says why there is none.
    pub(crate) fn wait_for_line(&mut self, words: &str, limit: Duration) -> Result<String, String> {
        let end = Instant::now() + limit;
        loop {
            let ended = self.ended();
            let output = self.output();
            // Only whole lines: the rest of one may still be under way.
            let whole = output.rfind('\n').map_or("", |end| &output[..end]);
            if let Some(line) = whole.lines().find(|line| line.contains(words)) {
                return Ok(line.to_owned());
            }
            if ended {
                return Err(format!("it ended before it said `{words}`"));
            }
            if Instant::now() >= end {
                return Err(format!("it did not say `{words}` within {} s", limit.as_secs()));
            }
            std::thread::sleep(LOOK);
        }
    }

    /// Gives it a line to read.
    pub(crate) fn write_line(&mut self, line: &str) -> std::io::Result<()> {
        match &mut self.input {
            Some(input) => writeln!(input, "{line}"),
            None => Ok(()),
        }
    }

    /// Sends SIGTERM to the program alone, as a service manager would.
    pub(crate) fn terminate(&mut self) {
        if !self.ended() {
            // The shell's own kill needs no package, and the child is not reaped yet: the id is its.
            let kill = format!("kill -TERM {}", self.child.id());
            let _ = Command::new("sh").args(["-c", &kill]).status();
        }
    }

    /// SIGKILL to the program alone, which gets no time for anything, and waits for its end.
    pub(crate) fn kill(&mut self) -> Result<(), String> {
        if self.ended() {
            return Ok(());
        }
        self.child.kill().map_err(|error| format!("a program cannot be killed: {error}"))?;
        match self.wait(KILL_LIMIT, false) {
            Some(_) => Ok(()),
            None => Err("a program does not end although it was killed".to_owned()),
        }
    }

    /// Waits for its end; `None` says that it did not come in time and was forced.
    pub(crate) fn wait(&mut self, limit: Duration, progress: bool) -> Option<ExitStatus> {
        // A program that reads its input to the end has to find one.
        self.input = None;
        let mut meter = Meter::new(progress);
        let started = Instant::now();
        while !self.ended() && started.elapsed() < limit {
            meter.show(|| self.output());
            std::thread::sleep(LOOK);
        }
        let status = self.status;
        if status.is_none() {
            self.force();
        }
        self.drain();
        status
    }

    /// True if it has ended by itself.
    pub(crate) fn has_ended(&mut self) -> bool {
        self.ended()
    }

    fn ended(&mut self) -> bool {
        if self.status.is_none() {
            self.status = self.child.try_wait().ok().flatten();
        }
        self.status.is_some()
    }

    fn force(&mut self) {
        let cleanup = self.cleanup.take();
        // The group exists until its leader is reaped, which only we can do.
        let ending = std::thread::spawn(move || drop(cleanup));
        let _ = self.child.wait();
        let _ = ending.join();
    }

    /// Takes the rest of the output. Whatever the program left behind is ended with its group.
    fn drain(&mut self) {
        let end = Instant::now() + LEFTOVER;
        while !self.reader.is_finished() && Instant::now() < end {
            std::thread::sleep(LOOK);
        }
        if let Some(cleanup) = self.cleanup.take() {
            if self.reader.is_finished() { cleanup.disarm() } else { drop(cleanup) }
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if self.ended() {
            self.drain();
        } else {
            self.force();
        }
    }
}

/// Says that something still runs: on a terminal in one changing line, elsewhere now and then.
struct Meter {
    wanted: bool,
    terminal: bool,
    started: Instant,
    shown: Instant,
    used: bool,
}

impl Meter {
    fn new(wanted: bool) -> Meter {
        let now = Instant::now();
        let terminal = std::io::stderr().is_terminal();
        Meter { wanted, terminal, started: now, shown: now, used: false }
    }

    fn show(&mut self, output: impl Fn() -> String) {
        let pause = if self.terminal { Duration::from_secs(1) } else { PROGRESS };
        if !self.wanted || self.started.elapsed() < Duration::from_secs(2) || self.shown.elapsed() < pause {
            return;
        }
        self.shown = Instant::now();
        let seconds = self.started.elapsed().as_secs();
        let output = output();
        let last: String = output.trim_end().lines().last().unwrap_or("").chars().take(80).collect();
        let last = last.trim();
        if self.terminal {
            self.used = true;
            eprint!("\r\x1b[K  {seconds} s  {last}");
        } else {
            eprintln!("  {seconds} s  {last}");
        }
    }
}

impl Drop for Meter {
    fn drop(&mut self) {
        if self.used {
            eprint!("\r\x1b[K");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As long as tests of other crates wait for something.
    const PATIENCE: Duration = Duration::from_secs(60);

    fn shell(script: &str) -> Step {
        Step::new("sh", &["-c", script])
    }

    #[test]
    fn takes_both_streams_and_the_status() {
        let finished = shell("echo one; echo two >&2; exit 3").run_quietly();
        assert!(!finished.passed);
        assert!(finished.output.starts_with("one\ntwo\n"), "{}", finished.output);
        assert!(finished.output.contains('3'));
    }

    #[test]
    fn ends_what_takes_too_long() {
        let finished = shell("echo begun; sleep 60 & sleep 60").limit_s(1).run_quietly();
        assert!(!finished.passed);
        assert!(finished.output.contains("more than 1 s"));
    }

    #[test]
    fn does_not_wait_for_what_was_left_behind() {
        let finished = shell("tail -f /dev/null & echo $!").run_quietly();
        assert!(finished.passed);
        let left = std::path::Path::new("/proc").join(finished.output.trim());
        assert!(!left.join("cwd").exists(), "it is ended: {}", left.display());
    }

    #[test]
    fn a_program_that_does_not_exist_is_a_failure() {
        assert!(Step::new("selvedge-no-such-program", &[]).run_quietly().output.contains("does not start"));
    }

    #[test]
    fn waits_for_a_line_and_terminates() {
        let mut process =
            Process::start(&shell("trap 'exit 0' TERM; echo ready 7; while :; do sleep 0.1; done"));
        let process = process.as_mut().unwrap();
        assert_eq!(process.wait_for_line("ready", PATIENCE).unwrap(), "ready 7");
        process.terminate();
        assert!(process.wait(PATIENCE, false).unwrap().success());
    }

    #[test]
    fn passes_lines_on() {
        let mut process = Process::start(&shell("read -r word; echo \"<$word>\"")).unwrap();
        process.write_line("stop").unwrap();
        assert!(process.wait(PATIENCE, false).unwrap().success());
        assert_eq!(process.output(), "<stop>\n");
    }

    #[test]
    fn quotes_what_a_shell_would_read_otherwise() {
        assert_eq!(quote("--size=16m"), "--size=16m");
        assert_eq!(quote("it's"), "'it'\\''s'");
    }
}
