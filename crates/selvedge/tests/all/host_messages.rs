//! What the commands of the host's side say when something is wrong at the other end: in one line that names it, with
//! an exit status that says so.

use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::process::{Output, Stdio};
use std::thread::JoinHandle;

use rustix::process::{Pid, Signal, kill_process};

use crate::serving::{NQN, Serving, selvedge, stderr};

const HOST: &str = "nqn.2014-08.org.nvmexpress:uuid:1b4e28ba-2fa1-11d2-883f-0016d3cca427";

/// Checks that the command failed without a result, and that its one line has all of these words.
fn fails_with(output: &Output, words: &[&str]) {
    let line = stderr(output);
    assert_eq!(output.status.code(), Some(1), "{line}");
    assert!(output.stdout.is_empty(), "{}", String::from_utf8_lossy(&output.stdout));
    assert_eq!(line.lines().count(), 1, "{line}");
    for word in words {
        assert!(line.contains(word), "{word} is not in {line}");
    }
}

#[test]
fn a_namespace_that_is_not_there_is_named_beside_those_that_are() {
    let serving = Serving::start_with("memory:1m", &["--namespace", "memory:1m,nsid=5"]);
    let at = ["-a", "127.0.0.1", "-s", &serving.port, "-n", NQN, "--nsid"];
    let said = ["there is no namespace 77 at 127.0.0.1:", "there are 1, 5"];
    fails_with(&selvedge(&[&["identify"], &at[..], &["77"]].concat()), &said);
    fails_with(&selvedge(&[&["bench"], &at[..], &["77", "--rw", "read"]].concat()), &said);
    // A number that no namespace can have there is refused by a status instead.
    let beyond = selvedge(&[&["identify"], &at[..], &["4000000000"]].concat());
    fails_with(&beyond, &["there is no namespace 4000000000 at 127.0.0.1:", "there are 1, 5"]);
    let output = selvedge(&[&["identify"], &at[..], &["5"]].concat());
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
}

#[test]
fn a_host_that_may_not_connect_learns_its_own_name() {
    let serving = Serving::start_with("memory:1m", &["--allow-host", HOST]);
    let list = ["list", "-a", "127.0.0.1", "-s", &serving.port];
    assert_eq!(selvedge(&[&list[..], &["-q", HOST]].concat()).status.code(), Some(0));
    let other = HOST.replace("a427", "a428");
    let said = ["lets this host in", &*other];
    fails_with(&selvedge(&[&list[..], &["-q", &*other]].concat()), &said);
    fails_with(&selvedge(&[&list[..], &["-o", "json", "-q", &*other]].concat()), &said);
}

/// A server that answers the first that it hears with `answer`, and hangs up.
fn other_server(answer: &'static [u8]) -> (String, JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let port = listener.local_addr().expect("it has an address").port().to_string();
    let thread = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().expect("the command connects");
        let _ = stream.read(&mut [0; 256]);
        let _ = stream.write_all(answer);
    });
    (port, thread)
}

#[test]
fn a_port_of_something_else_is_asked_about() {
    for answer in
        [&b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n"[..], b"SSH-2.0-OpenSSH_9.2\r\n", b""]
    {
        let (port, server) = other_server(answer);
        fails_with(&selvedge(&["discover", "-a", "127.0.0.1", "-s", &port]), &["is that an NVMe/TCP port?"]);
        server.join().expect("it answers");
    }
}

#[test]
fn there_is_no_advice_without_a_target() {
    // Nothing listens on port 1 of this machine.
    for format in ["normal", "json"] {
        let advice = selvedge(&["tune", "advise", "-a", "127.0.0.1", "-s", "1", "-o", format]);
        fails_with(&advice, &["no advice for 127.0.0.1:1", "connection refused"]);
    }
}

#[test]
fn a_target_that_dies_during_a_run_is_reported_in_one_line() {
    let mut serving = Serving::start("memory:16m");
    let mut bench = serving.bench(&["--rw", "randread", "--runtime", "60"]);
    let bench = bench.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the program runs");
    let mut bench = bench;
    // The first line of progress is that of the measurement.
    let mut first = [0; 1];
    bench.stderr.as_mut().expect("a pipe").read_exact(&mut first).expect("it says how far it is");
    serving.kill();
    let output = bench.wait_with_output().expect("it ends");
    assert_eq!(output.status.code(), Some(1));
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.contains("1 queue of 128"), "{text}");
    assert!(!text.contains("which is less than"), "{text}");
    let last = stderr(&output).lines().last().map(str::to_owned).unwrap_or_default();
    assert!(last.contains("closed the connection") || last.contains("broke"), "{last}");
}

#[test]
fn a_host_that_was_silent_learns_that_it_was_given_up() {
    let mut serving = Serving::start_with("memory:16m", &[]);
    let mut bench = serving.bench(&["--rw", "randread", "--runtime", "60", "--rate_iops", "50", "-k", "3"]);
    let mut bench = bench.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().expect("the program runs");
    let mut first = [0; 1];
    bench.stderr.as_mut().expect("a pipe").read_exact(&mut first).expect("it says how far it is");
    let pid = Pid::from_child(&bench);
    kill_process(pid, Signal::STOP).expect("it is there");
    assert!(serving.logs("keep alive timer ran out"));
    kill_process(pid, Signal::CONT).expect("it is there");
    let output = bench.wait_with_output().expect("it ends");
    assert_eq!(output.status.code(), Some(1));
    let last = stderr(&output).lines().last().map(str::to_owned).unwrap_or_default();
    assert!(last.contains("the target gave this host up") && last.contains("(time-out 3 s)"), "{last}");
    assert!(!stderr(&output).contains("WARN"), "{}", stderr(&output));
}
