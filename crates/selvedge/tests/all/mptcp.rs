//! `serve -t mptcp` in a network of its own: the needed settings of the machine are printed,
//! applied and undone, and a kernel without MPTCP is reported with a remedy.

use prerequisite::missing;
use std::process::{Command, Output, Stdio};

/// Two networks in the namespace, each a pair of interfaces that are connected to each other.
const NETWORK: &str = "
set -e
ip link set lo up
for number in 1 2; do
    ip link add near$number type veth peer name far$number
    ip address add 10.9.$number.1/24 dev near$number
    ip link set far$number up
    ip link set near$number up
done
ip mptcp limits set add_addr_accepted 0 subflows 2
";

/// Functions that start a target, wait for the end of its summary, and show the machine's settings.
const FUNCTIONS: &str = r#"
serve() {
    doors="--control none"
    case "$*" in *--control*) doors= ;; esac
    "$SELVEDGE" serve $doors --reactors 1 --allow-any-host --namespace null:1m "$@" >"$FOLDER/printed" &
    pid=$!
    for _ in $(seq 3000); do
        grep -q '^  *1  *4096' "$FOLDER/printed" && break
        sleep 0.02
    done
    sleep 0.1
    cat "$FOLDER/printed"
}
settings() { ip mptcp endpoint; ip mptcp limits; }
"#;

/// Runs a script as root of a network namespace of its own, which goes with it. `None` where there can be none.
fn in_namespace(script: &str) -> Option<Output> {
    let run = |script: &str| {
        let folder = tempfile::tempdir().expect("a folder");
        Command::new("timeout")
            .args(["300", "unshare", "--map-root-user", "--net", "sh", "-c", script])
            .env("SELVEDGE", env!("CARGO_BIN_EXE_selvedge"))
            .env("FOLDER", folder.path())
            .stdin(Stdio::null())
            .output()
            .expect("timeout is there")
    };
    let able = run(NETWORK);
    if !able.status.success() {
        let reason = String::from_utf8_lossy(&able.stderr);
        missing(format!("no network namespace with MPTCP here: {}", reason.trim()));
        return None;
    }
    Some(run(&[NETWORK, FUNCTIONS, script].concat()))
}

fn stdout(output: &Output) -> String {
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    text
}

#[test]
fn settings_for_mptcp_are_printed_and_left_to_root() {
    let script = "serve -t mptcp -a 0.0.0.0; echo ---; settings; kill $pid; wait $pid";
    let Some(output) = in_namespace(script) else { return };
    let text = stdout(&output);
    let (printed, settings) = text.split_once("---\n").expect("both parts");
    for line in [
        "  ip mptcp limits set add_addr_accepted 8 subflows 8",
        "  ip mptcp endpoint add 10.9.1.1 dev near1 signal",
        "  ip mptcp endpoint add 10.9.2.1 dev near2 signal",
    ] {
        assert!(printed.lines().any(|known| known == line), "{line} is not printed:\n{printed}");
    }
    assert_eq!(settings.trim(), "add_addr_accepted 0 subflows 2", "nothing was set");
}

#[test]
fn what_was_set_is_undone_and_nothing_else() {
    let script = "
        ip mptcp endpoint add 10.9.1.1 dev near1 subflow
        serve -t mptcp -a 10.9.1.1 -a 10.9.2.1 --configure-mptcp
        echo ---; settings; kill $pid; wait $pid; echo ---; settings";
    let Some(output) = in_namespace(script) else { return };
    let text = stdout(&output);
    let parts: Vec<&str> = text.split("---\n").collect();
    assert!(parts[0].contains("undone at the end"), "{text}");
    let during: Vec<&str> = parts[1].lines().map(str::trim).collect();
    let (kept, limits) = ("10.9.1.1 id 1 subflow dev near1", "add_addr_accepted 8 subflows 8");
    assert_eq!(during, [kept, "10.9.2.1 id 2 signal dev near2", limits], "{text}");
    let after: Vec<&str> = parts[2].lines().map(str::trim).collect();
    assert_eq!(after, [kept, "add_addr_accepted 0 subflows 2"], "{text}");
}

#[test]
fn a_killed_target_leaves_its_settings_and_the_next_finds_them() {
    let script = "
        serve -t mptcp -a 10.9.1.1 -a 10.9.2.1 --configure-mptcp; kill -9 $pid; wait $pid || true
        echo ---; serve -t mptcp -a 10.9.1.1 -a 10.9.2.1 --configure-mptcp; kill $pid; wait $pid
        echo ---; settings";
    let Some(output) = in_namespace(script) else { return };
    let text = stdout(&output);
    let parts: Vec<&str> = text.split("---\n").collect();
    assert!(parts[0].contains("endpoint add") && !parts[1].contains("endpoint add"), "{text}");
    assert!(parts[2].contains("10.9.2.1 id 1 signal"), "what another left is not taken away:\n{text}");
}

#[test]
fn the_last_process_of_upgrades_undoes_what_the_first_has_set() {
    let script = r#"
        control="--control unix:$FOLDER/control"
        serve $control -t mptcp -a 10.9.1.1 -a 10.9.2.1 --configure-mptcp >/dev/null; settings
        for _ in 1 2; do
            next=$("$SELVEDGE" upgrade $control -o json | sed -n 's/.*"process": *\([0-9]*\).*/\1/p' | tail -n 1)
            wait $pid || true
            echo ---; settings
        done
        kill $next
        for _ in $(seq 3000); do kill -0 $next 2>/dev/null || break; sleep 0.02; done
        echo ---; settings"#;
    let Some(output) = in_namespace(script) else { return };
    let text = stdout(&output);
    let parts: Vec<&str> = text.split("---\n").collect();
    assert!(parts.len() == 4 && parts[0].contains("10.9.2.1 id 1 signal"), "{text}");
    assert!(parts[1] == parts[0] && parts[2] == parts[0], "they stay:\n{text}");
    assert_eq!(parts[3].trim(), "add_addr_accepted 0 subflows 2", "{text}");
}

#[test]
fn a_kernel_without_mptcp_is_reported_with_a_remedy() {
    let script = "
        echo 0 >/proc/sys/net/mptcp/enabled || { echo cannot; exit 0; }
        \"$SELVEDGE\" serve -t mptcp --control none --namespace null:1m || echo status $?";
    let Some(output) = in_namespace(script) else { return };
    let text = stdout(&output);
    if text.starts_with("cannot") {
        return missing("MPTCP cannot be switched off here");
    }
    let printed = String::from_utf8_lossy(&output.stderr);
    assert_eq!(text, "status 1\n");
    assert!(printed.contains("sysctl net.mptcp.enabled=1") && printed.contains("-t tcp"), "{printed}");
}

#[test]
fn settings_without_mptcp_are_a_mistake() {
    let script = "
        \"$SELVEDGE\" serve --configure-mptcp --control none --namespace null:1m || echo status $?";
    let Some(output) = in_namespace(script) else { return };
    assert_eq!(stdout(&output), "status 2\n");
    assert!(String::from_utf8_lossy(&output.stderr).contains("-t mptcp"));
}
