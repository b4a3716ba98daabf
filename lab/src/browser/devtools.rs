//! A headless Chromium and the DevTools protocol over its pipes: calls with their answers, and events in the order in which
//! they came. It keeps out what is asked.

use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};
use serde_json::{Value, json};

/// On a busy machine a page takes its time; this is when the browser hangs.
const ANSWER_LIMIT: Duration = Duration::from_secs(60);
/// For an orderly end, after which it is killed.
const END_LIMIT: Duration = Duration::from_secs(5);

/// DevTools reads descriptor 3 and writes 4; ours are the standard ones.
const PLUMBING: &str = "exec \"$@\" 3<&0 4>&1 </dev/null >/dev/null";

/// No network of its own, no window, no sandbox: that one cannot be had by root, and the page is ours.
const FLAGS: [&str; 14] = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-default-apps",
    "--disable-extensions",
    "--disable-sync",
    "--no-default-browser-check",
    "--no-first-run",
    "--hide-scrollbars",
    "--remote-debugging-pipe",
];

/// A running browser with one page. Dropping it ends it.
pub(crate) struct Browser {
    process: Child,
    input: Option<ChildStdin>,
    messages: Receiver<Value>,
    events: Vec<Value>,
    calls: u64,
    session: Option<String>,
    profile: PathBuf,
}

impl Browser {
    /// Starts `program` with a profile and a log in `folder`, and opens a page.
    ///
    /// # Errors
    /// When it does not start, or does not answer.
    pub(crate) fn start(program: &str, folder: &Path) -> Result<Browser, String> {
        let profile = folder.join("profile");
        let log = folder.join("chromium.log");
        let log = File::create(&log).map_err(|error| format!("{}: {error}", log.display()))?;
        let mut process = Command::new("sh")
            .args(["-c", PLUMBING, "sh", program])
            .args(FLAGS)
            .arg(format!("--user-data-dir={}", profile.display()))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(log)
            .process_group(0)
            .spawn()
            .map_err(|error| format!("cannot start {program}: {error}"))?;
        let (input, output) = (process.stdin.take(), process.stdout.take());
        let (sender, messages) = channel();
        std::thread::spawn(move || {
            let Some(output) = output else { return };
            for message in BufReader::new(output).split(0).map_while(Result::ok) {
                if let Ok(message) = serde_json::from_slice(&message) {
                    // A receiver that is gone must not stop the browser.
                    let _ = sender.send(message);
                }
            }
        });
        let mut browser =
            Browser { process, input, messages, events: Vec::new(), calls: 0, session: None, profile };
        let target = browser.call("Target.createTarget", &json!({"url": "about:blank"}))?;
        let attach = json!({"targetId": target["targetId"], "flatten": true});
        let session = browser.call("Target.attachToTarget", &attach)?;
        browser.session = session["sessionId"].as_str().map(str::to_owned);
        Ok(browser)
    }

    /// Calls a method of the page, or of the browser as long as there is no page.
    ///
    /// # Errors
    /// The browser's own words, or that none came.
    pub(crate) fn call(&mut self, method: &str, params: &Value) -> Result<Value, String> {
        self.calls += 1;
        let id = self.calls;
        let mut message = json!({"id": id, "method": method, "params": params});
        if let Some(session) = &self.session {
            message["sessionId"] = json!(session);
        }
        let mut bytes = message.to_string().into_bytes();
        bytes.push(0);
        let input = self.input.as_mut().ok_or("the browser has been ended")?;
        input.write_all(&bytes).map_err(|error| format!("{method}: the browser does not listen: {error}"))?;
        let until = Instant::now() + ANSWER_LIMIT;
        loop {
            let answer = self.next(until).map_err(|why| format!("{method}: {why}"))?;
            if answer["id"] != id {
                self.events.push(answer);
            } else if let Some(error) = answer.get("error") {
                return Err(format!("{method}: {error}"));
            } else {
                return Ok(answer["result"].clone());
            }
        }
    }

    /// Waits until an event of this name has come since `from` events ago were counted.
    ///
    /// # Errors
    /// When it does not come.
    pub(crate) fn wait_for(&mut self, method: &str, from: usize) -> Result<Value, String> {
        let until = Instant::now() + ANSWER_LIMIT;
        loop {
            let found = self.events.iter().skip(from).find(|event| event["method"] == method);
            if let Some(event) = found {
                return Ok(event["params"].clone());
            }
            let event = self.next(until).map_err(|why| format!("{method}: {why}"))?;
            self.events.push(event);
        }
    }

    /// All events so far.
    pub(crate) fn events(&self) -> &[Value] {
        &self.events
    }

    fn next(&mut self, until: Instant) -> Result<Value, String> {
        let left = until.saturating_duration_since(Instant::now());
        self.messages
            .recv_timeout(left)
            .map_err(|_| "the browser does not answer (see chromium.log)".to_owned())
    }

    fn end(&mut self) {
        self.session = None;
        let _ = self.call("Browser.close", &json!({}));
        self.input = None;
        let until = Instant::now() + END_LIMIT;
        while Instant::now() < until {
            if !matches!(self.process.try_wait(), Ok(None)) {
                break;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        if matches!(self.process.try_wait(), Ok(None)) {
            // Not reaped yet, so the group's id is still its own.
            if let Some(group) = i32::try_from(self.process.id()).ok().and_then(Pid::from_raw) {
                let _ = kill_process_group(group, Signal::KILL);
            }
            let _ = self.process.wait();
        }
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        self.end();
        // What is left of its profile is of no use and no harm.
        let _ = std::fs::remove_dir_all(&self.profile);
    }
}
