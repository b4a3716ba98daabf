//! What was measured as a page: where, how, and the tables. It keeps out what is measured.

use std::fmt::Write as _;
use std::path::Path;

use serde_json::{Value, json};

use super::access::RAMP_S;
use super::run::Run;
use super::{Bench, DISK_MIB, MEMORY_MIB, cost, curve, knobs};
use crate::machine::{machine, version};

/// Machine, programs and options.
pub(super) fn environment(bench: &Bench) -> Value {
    let package = |name: &str| version(&["dpkg-query", "-W", "-f", "${Version}", name]);
    let memory = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let memory = memory.lines().find_map(|line| line.strip_prefix("MemTotal:")).unwrap_or_default();
    let mut environment = machine(Path::new(&bench.program));
    let own = json!({
        "memory": memory.trim(),
        "ceph": version(&["ceph-osd", "--version"]),
        "librbd": package("librbd1"),
        "librados": package("librados2"),
        "fio": version(&["fio", "--version"]),
        "rounds": bench.rounds,
        "seconds": bench.seconds,
        "ramp_seconds": RAMP_S,
        "seed": bench.seed,
    });
    if let (Some(all), Value::Object(own)) = (environment.as_object_mut(), own) {
        all.extend(own);
    }
    environment
}

/// The whole page.
pub(super) fn text(environment: &Value, runs: &[Run], has_picture: bool) -> String {
    let said = |name: &str| match &environment[name] {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    let mut text = format!(
        "# The Ceph gateway beside librbd alone\n\n\
         Made by `cargo xtask bench ceph --rounds {} --seconds {}` with the seed {}. `runs.jsonl` has every run with its \
         commands.\n\n",
        said("rounds"),
        said("seconds"),
        said("seed")
    );
    let machine = ["processor", "processors", "memory", "kernel", "congestion"];
    let programs = ["selvedge", "ceph", "librbd", "librados", "fio"];
    for name in machine.into_iter().chain(programs) {
        // Writing to a string does not fail.
        let _ = writeln!(text, "- {name}: {}", said(name));
    }
    text += "\n";
    text += METHOD;
    for (title, about, body) in [
        ("Cost", about_memory("one image"), cost::tables(runs)),
        ("Knobs", about_memory("one image, or eight, each with a client of its own"), knobs::table(runs)),
        ("Latency by load", about_disk(), curve::table(runs)),
    ] {
        if !body.is_empty() {
            let _ = writeln!(text, "\n## {title}\n\n{about}\n\n{}", body.trim_end());
        }
    }
    if has_picture {
        text += "\n![Latency by load](curve.svg)\n";
    }
    failures(&mut text, runs);
    text
}

const METHOD: &str = "\
Figures are medians over rounds; ratios are medians of the rounds' own ratios. The order within a round is random. \
Clients, gateway and OSDs share the machine's processors, and nothing is pinned. \"CPU\" is the user and system time \
of the whole process that contains librbd, with all its threads: fio, or `selvedge serve`. It is read from outside, \
in the same way for all, in the steady part of a run: startup, connecting, ramp and end are not in it. The gateway's \
client, `selvedge bench` over the loopback, is listed separately. \"fio rbd\" runs without librbd's cache, as the \
gateway does, which must not acknowledge what could be lost with the cache. librados has two threads for the \
cluster's responses, and the gateway sets one; fio with one is listed as well. \"Other work\" is what neither of \
these used of all processors; it should be small.
";

fn about_memory(images: &str) -> String {
    format!(
        "One OSD that keeps all in memory (memstore), one copy; {images}, {MEMORY_MIB} MiB, written from end to end. With two \
         reactors, the commands outstanding on one image come over two connections where there are enough of them."
    )
}

fn about_disk() -> String {
    format!(
        "Three OSDs with BlueStore on one disk, three copies; an image of {DISK_MIB} MiB, written from end to end. Steps are \
         shares of what fio rbd does without a limit. Both send commands in even steps, since the bench knows no other way. \
         Latency is from a command's sending to its end."
    )
}

fn failures(text: &mut String, runs: &[Run]) {
    let failed: Vec<String> = runs
        .iter()
        .filter_map(|run| {
            let reason = run.failure.as_deref()?;
            Some(format!(
                "- {} {}, {}, {}: {reason}\n",
                run.plan.part,
                run.plan.round,
                run.plan.workload.name,
                run.plan.access.name()
            ))
        })
        .collect();
    if !failed.is_empty() {
        let _ = write!(text, "\n## Runs that failed\n\n{}", failed.concat());
    }
}

#[cfg(test)]
mod tests {
    use super::super::access::Access;
    use super::super::run::tests::run;
    use super::*;

    #[test]
    fn the_page_has_what_was_measured() {
        let environment = json!({"rounds": 3, "seconds": 5, "seed": 7, "kernel": "6.18", "ceph": null});
        let lost = Run { outcome: None, failure: Some("why".into()), ..run(1, Access::gateway(1), 1.0, 1.0) };
        let text = text(&environment, &[run(1, Access::ALONE, 1000.0, 30.0), lost], false);
        for part in [
            "--rounds 3 --seconds 5` with the seed 7",
            "- kernel: 6.18\n",
            "## Cost\n\nOne OSD",
            "- cost 1, 4 KiB random read, depth 32, gateway, 1 reactor: why\n",
        ] {
            assert!(text.contains(part), "{part} is not in {text}");
        }
        assert!(!text.contains("## Knobs") && !text.contains("curve.svg"), "{text}");
    }
}
