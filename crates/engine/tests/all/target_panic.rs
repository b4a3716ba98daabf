//! A panic on a thread that a target cannot do without ends its process, and nothing of it goes on as if it lived. Each
//! test starts this program again as the process that ends; the panics come from its log, on the thread that is named.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::Duration;

use crate::raw_host::{Host, TestTarget};
use crate::target_hand_over_decisions::hand_over_with;
use engine::hand_over::HandOverError;
use engine::ring::{Engine, Vital};
use engine::target::hand_over::Releases;
use prerequisite::wait_for_end;
use serde_json::Value;
use tracing::span;

/// Scene for the child process.
const SCENE: &str = "SELVEDGE_TEST_PANIC_SCENE";
/// The signal of `abort`.
const SIGABRT: i32 = 6;
const BEAT: Duration = Duration::from_millis(20);

/// A log that panics when a thread with this name says something other than an error.
struct Saboteur(&'static str);

impl tracing::Subscriber for Saboteur {
    fn enabled(&self, _: &tracing::Metadata<'_>) -> bool {
        true
    }

    fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
        span::Id::from_u64(1)
    }

    fn record(&self, _: &span::Id, _: &span::Record<'_>) {}

    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}

    fn event(&self, event: &tracing::Event<'_>) {
        let is_error = *event.metadata().level() == tracing::Level::ERROR;
        if is_error {
            let mut text = String::new();
            event.record(&mut |field: &tracing::field::Field, value: &dyn std::fmt::Debug| {
                text.push_str(&format!("{field}={value:?} "));
            });
            eprintln!("ERROR {text}");
        } else if event.metadata().level() == &tracing::Level::INFO
            && thread::current().name() == Some(self.0)
        {
            panic!("sabotage");
        }
    }

    fn enter(&self, _: &span::Id) {}

    fn exit(&self, _: &span::Id) {}
}

/// A process of this program that does one of the scenes; it is ended with its value.
struct Scene(Child);

impl Scene {
    fn start(scene: &str, stderr: Stdio) -> Self {
        let mut program = Command::new(std::env::current_exe().unwrap());
        program.args(["--exact", "target_panic::the_child", "--nocapture"]).env(SCENE, scene);
        Self(program.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(stderr).spawn().unwrap())
    }

    /// Result of the process; with a thread less it does not live on.
    fn end(&mut self) -> ExitStatus {
        wait_for_end(&mut self.0)
    }

    fn words(&mut self) -> String {
        let mut words = String::new();
        self.0.stderr.take().unwrap().read_to_string(&mut words).unwrap();
        words
    }
}

impl Drop for Scene {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Not a test of its own: without a scene it does nothing.
#[test]
fn the_child() {
    let Ok(scene) = std::env::var(SCENE) else { return };
    match scene.as_str() {
        "reactor" => serve_until("reactor-0"),
        "quiet" | "silenced" | "nested" => panic_on_a_thread(&scene),
        "introduced" | "hold_still" | "let_go" | "rest" | "leave" => panic_in_a_hand_over(&scene),
        other => panic!("there is no scene {other}"),
    }
}

/// Serves, and beats as a gateway does, until a host's Connect makes the thread `victim` panic.
fn serve_until(victim: &'static str) {
    tracing::subscriber::set_global_default(Saboteur(victim)).unwrap();
    let target = TestTarget::start_with(Engine::Automatic, |config| {
        config.reactors = engine::target::Reactors::Count(1);
    });
    println!("\nserving {}", target.address());
    loop {
        println!("beat");
        thread::sleep(BEAT);
    }
}

fn panic_on_a_thread(scene: &str) {
    match scene {
        "quiet" => {}
        "silenced" => {
            // Another hook in the place of ours.
            drop(Vital::begin());
            std::panic::set_hook(Box::new(|_| {}));
        }
        _ => {}
    }
    let (is_vital, is_nested) = (scene != "quiet", scene == "nested");
    let work = move || {
        let _vital = is_vital.then(Vital::begin);
        if is_nested {
            drop(Vital::begin());
        }
        panic!("sabotage");
    };
    let outcome = thread::Builder::new().name("worker".to_owned()).spawn(work).unwrap().join();
    assert!(outcome.is_err());
    println!("\nlives on");
}

/// State beside a target that is handed over; the step of this name panics.
struct PanicsAt(String);

impl PanicsAt {
    fn step(&self, name: &str) {
        assert_ne!(self.0, name, "sabotage");
    }
}

impl Releases for PanicsAt {
    fn introduced(&mut self, _said: Value) -> Result<(), HandOverError> {
        self.step("introduced");
        Ok(())
    }

    fn hold_still(&mut self) -> Result<(), HandOverError> {
        self.step("hold_still");
        Ok(())
    }

    fn let_go(&mut self) -> Result<Value, HandOverError> {
        self.step("let_go");
        Ok(Value::Null)
    }

    fn rest(&mut self) {
        self.step("rest");
    }

    fn leave(&mut self) {
        self.step("leave");
    }
}

fn panic_in_a_hand_over(step: &str) {
    let mut beside = PanicsAt(step.to_owned());
    let work = move || hand_over_with(&mut beside);
    let outcome = thread::Builder::new().name("upgrade".to_owned()).spawn(work).unwrap().join();
    assert!(outcome.is_err());
    println!("\nlives on");
}

#[test]
fn a_reactors_panic_ends_the_process_and_its_beats() {
    let mut scene = Scene::start("reactor", Stdio::piped());
    let mut lines = BufReader::new(scene.0.stdout.take().unwrap()).lines().map(Result::unwrap);
    let address = lines.find_map(|line| line.strip_prefix("serving ").map(str::to_owned)).unwrap();
    assert_eq!(lines.next().as_deref(), Some("beat"));
    let address: std::net::SocketAddr = address.parse().unwrap();
    // It never gets its answer.
    let host = thread::spawn(move || drop(Host::connect(address)));
    let status = scene.end();
    assert_eq!(status.signal(), Some(SIGABRT), "{status}");
    assert!(host.join().is_err(), "no host was connected");
    // All that it ever said: after its end there is no other beat.
    assert!(lines.all(|line| line == "beat"));
    let words = scene.words();
    assert!(words.contains("thread=\"reactor-0\"") && words.contains("reason=\"sabotage\""), "{words}");
    assert!(words.contains("aborting the process") && words.contains("target_panic.rs"), "{words}");
}

#[test]
fn only_vital_threads_end_the_process() {
    let mut quiet = Scene::start("quiet", Stdio::piped());
    assert!(quiet.end().success(), "a panic of another thread is its own");
    for scene in ["nested", "silenced"] {
        let mut vital = Scene::start(scene, Stdio::piped());
        assert_eq!(vital.end().signal(), Some(SIGABRT), "{scene}");
    }
}

#[test]
fn a_panic_in_a_hand_over_ends_the_old_process_once_it_quiesces() {
    let mut before = Scene::start("introduced", Stdio::piped());
    assert!(before.end().success(), "it serves on, and the new process ends");
    for step in ["hold_still", "let_go", "rest", "leave"] {
        let mut quiesced = Scene::start(step, Stdio::piped());
        assert_eq!(quiesced.end().signal(), Some(SIGABRT), "{step}");
    }
}

#[test]
fn a_log_without_a_reader_does_not_keep_the_process() {
    let (reader, mut writer) = std::io::pipe().unwrap();
    let full = writer.try_clone().unwrap();
    rustix::fs::fcntl_setfl(&writer, rustix::fs::OFlags::NONBLOCK).unwrap();
    while writer.write(&[b'.'; 512]).is_ok() {}
    rustix::fs::fcntl_setfl(&writer, rustix::fs::OFlags::empty()).unwrap();
    let mut vital = Scene::start("nested", Stdio::from(full));
    drop(writer);
    assert_eq!(vital.end().signal(), Some(SIGABRT));
    drop(reader);
}
