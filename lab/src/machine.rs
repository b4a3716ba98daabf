//! What a measurement was made on: the machine, and the versions of the programs. It keeps out what was measured.

use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::program::Program;

/// Machine and programs, as far as they matter.
pub(crate) fn environment(selvedge: &Path) -> Value {
    let mut environment = machine(selvedge);
    environment["tgt"] = json!(version(&["tgtd", "--version"]));
    let libiscsi = version(&["dpkg-query", "-W", "-f", "${Version}", "libiscsi-bin"]);
    environment["libiscsi"] = json!(libiscsi);
    environment["qemu"] = json!(version(&["qemu-nbd", "--version"]));
    environment["fio"] = json!(version(&["fio", "--version"]));
    environment["tcpdump"] = json!(version(&["dpkg-query", "-W", "-f", "${Version}", "tcpdump"]));
    environment
}

/// The machine and our own program.
pub(crate) fn machine(selvedge: &Path) -> Value {
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default().trim().to_owned();
    let processor = read("/proc/cpuinfo");
    let processor = processor.lines().find_map(|line| line.strip_prefix("model name")).unwrap_or_default();
    let selvedge = selvedge.display().to_string();
    json!({
        "processor": processor.trim_start_matches([' ', '\t', ':']),
        "processors": processors(),
        "kernel": read("/proc/sys/kernel/osrelease"),
        "congestion": read("/proc/sys/net/ipv4/tcp_congestion_control"),
        "selvedge": version(&[&selvedge, "--version"]),
    })
}

/// The first line a program says about itself.
pub(crate) fn version(words: &[&str]) -> Option<String> {
    let words: Vec<String> = words.iter().map(|&word| word.to_owned()).collect();
    let mut program = Program::start(&words).ok()?;
    let ended = program.finished(Instant::now() + Duration::from_secs(10)).ok()??;
    let said = program.rest();
    ended.status.success().then(|| said.lines().next().map(str::to_owned))?
}

/// Processors that this process may use.
pub(crate) fn processors() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}
