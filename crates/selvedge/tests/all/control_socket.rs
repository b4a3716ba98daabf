//! Default place of a target's control socket: the folder of its service or user, or none, which is
//! reported.

use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::serving::Ended;

/// A user without a folder for sockets.
const UNPRIVILEGED: u32 = 65_534;

/// The program with an empty environment.
fn program(path: &Path) -> Command {
    let mut command = Command::new(path);
    command.env_clear().stdin(Stdio::null());
    command
}

fn selvedge() -> &'static Path {
    Path::new(env!("CARGO_BIN_EXE_selvedge"))
}

/// A target, killed when the test is over.
struct Serving {
    child: Ended,
    /// Output until all that it serves was printed.
    printed: String,
    errors: PathBuf,
}

impl Serving {
    fn start(command: Command, folder: &Path) -> Self {
        Self::start_with(command, folder, &[])
    }

    /// The same with these arguments besides.
    fn start_with(mut command: Command, folder: &Path, more: &[&str]) -> Self {
        let errors = folder.join("errors");
        let log = std::fs::File::create(&errors).expect("the folder takes a file");
        command.args(["serve", "-s", "0", "--reactors", "1", "--namespace", "null:1m"]).args(more);
        let mut child = command.stdout(Stdio::piped()).stderr(log).spawn().expect("the program runs");
        let lines = BufReader::new(child.stdout.take().expect("stdout is a pipe")).lines();
        let mut printed = String::new();
        for line in lines {
            printed += &format!("{}\n", line.expect("it prints"));
            if printed.contains(" null ") {
                break;
            }
        }
        Self { child: Ended(child), printed, errors }
    }

    fn errors(&self) -> String {
        std::fs::read_to_string(&self.errors).expect("it was made")
    }

    fn end(mut self) -> String {
        let _ = self.child.kill();
        let _ = self.child.wait();
        self.errors()
    }
}

/// The program where everybody can run it, as a user without a folder for sockets; our own user may
/// be root, who has one.
fn unprivileged(folder: &Path) -> Command {
    if !rustix::process::geteuid().is_root() {
        return program(selvedge());
    }
    std::fs::set_permissions(folder, std::fs::Permissions::from_mode(0o755)).expect("it is ours");
    let copy = folder.join("selvedge");
    if std::fs::hard_link(selvedge(), &copy).is_err() {
        std::fs::copy(selvedge(), &copy).expect("the folder takes a copy");
    }
    let mut command = program(&copy);
    command.uid(UNPRIVILEGED).gid(UNPRIVILEGED);
    command
}

#[test]
fn a_target_without_a_control_socket_warns() {
    let folder = tempfile::tempdir().expect("a folder");
    let serving = Serving::start(unprivileged(folder.path()), folder.path());
    assert!(!serving.printed.contains("administered at"), "{}", serving.printed);
    let errors = serving.end();
    assert!(
        errors.contains("this target cannot be administered") && errors.contains("--control unix:PATH"),
        "{errors}"
    );
}

#[test]
fn a_service_has_its_socket_in_its_own_folder() {
    let folder = tempfile::tempdir().expect("a folder");
    let runtime = folder.path().join("service");
    std::fs::create_dir(&runtime).expect("makes a folder");
    let mut command = program(selvedge());
    command.env("RUNTIME_DIRECTORY", format!("{}:/other", runtime.display()));
    let serving = Serving::start(command, folder.path());
    let at = format!("administered at unix:{}/", runtime.display());
    assert!(serving.printed.contains(&at), "{}", serving.printed);
    assert!(!serving.errors().contains("administer"), "{}", serving.errors());
    // A command with the same environment finds it, and so does its path without a prefix.
    let path =
        serving.printed.lines().find_map(|line| line.strip_prefix("administered at unix:")).expect("a path");
    for arguments in [&["status"][..], &["status", "--control", path]] {
        let mut ask = program(selvedge());
        let output =
            ask.env("RUNTIME_DIRECTORY", &runtime).args(arguments).output().expect("the program runs");
        let found =
            output.status.success() || String::from_utf8_lossy(&output.stderr).contains("several targets");
        assert!(found, "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    }
}

#[test]
fn what_killed_targets_leave_is_swept_up() {
    let folder = tempfile::tempdir().expect("a folder");
    let start = || {
        let mut command = program(selvedge());
        command.env("RUNTIME_DIRECTORY", folder.path());
        Serving::start(command, folder.path())
    };
    let left = |ending: &str| {
        let entries = std::fs::read_dir(folder.path()).expect("a folder");
        let paths = entries.map(|entry| entry.expect("an entry").path());
        paths.filter(|path| path.to_string_lossy().ends_with(ending)).count()
    };
    let await_both = |ending: &str| {
        prerequisite::wait_until(ending, || left(ending) == 2);
    };
    let living = start();
    drop(start());
    drop(start());
    // The last one is of a target that was killed as well.
    await_both(".sock");
    let last = start();
    assert_eq!(left(".sock"), 2, "two that live");
    // Each of them waits for a new process a moment later.
    await_both(".sock.upgrade");
    drop((living, last));
}

#[test]
fn a_process_of_another_user_may_do_what_the_access_file_gives_it_and_no_more() {
    const NQN: &str = "nqn.2026-01.io.selvedge:target";
    if !rustix::process::geteuid().is_root() {
        return prerequisite::missing("another user, which only root can be");
    }
    let folder = tempfile::tempdir().expect("a folder");
    // Makes a copy of the program that all users can run.
    drop(unprivileged(folder.path()));
    let copy = folder.path().join("selvedge");
    let access = folder.path().join("access.toml");
    let named = UNPRIVILEGED.to_string();
    std::fs::write(&access, format!("[[user]]\nname = \"{named}\"\nrole = \"read\"\n")).expect("a file");
    std::fs::set_permissions(&access, std::fs::Permissions::from_mode(0o600)).expect("it is ours");
    let control = format!("unix:{}", folder.path().join("control.sock").display());
    let access = access.to_str().expect("UTF-8");
    let more = ["-n", NQN, "--control", &control, "--control-access", access];
    let serving = Serving::start_with(program(selvedge()), folder.path(), &more);
    assert!(serving.printed.contains(&control), "{}", serving.printed);
    let ask = |uid: u32, arguments: &[&str]| {
        let mut command = program(&copy);
        command.uid(uid).gid(uid).current_dir("/").args(arguments).args(["--control", &control]);
        let output = command.output().expect("the program runs");
        (output.status.success(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let looks = [&["status"][..], &["config", "dump"], &["subsystem", "show", NQN], &["host", "list", NQN]];
    let changes = [
        &["host", "allow", NQN, "nqn.2026-01.org.example:h"][..],
        &["namespace", "remove", NQN, "1"],
        &["log", "debug"],
    ];
    for arguments in [&looks[..], &changes].concat() {
        let (is_done, error) = ask(UNPRIVILEGED - 1, arguments);
        assert!(!is_done && error.contains("may not use this target"), "{arguments:?}: {error}");
    }
    for arguments in looks {
        let (is_done, error) = ask(UNPRIVILEGED, arguments);
        assert!(is_done, "{arguments:?}: {error}");
    }
    for arguments in changes {
        let (is_done, error) = ask(UNPRIVILEGED, arguments);
        assert!(!is_done && error.contains("and this is read"), "{arguments:?}: {error}");
    }
    let (is_done, error) = ask(0, &["namespace", "show", NQN, "1"]);
    assert!(is_done, "the namespace is there: {error}");
}
