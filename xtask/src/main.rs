//! The project's chores behind one command, `cargo xtask`: it dispatches and explains, and keeps out
//! every chore itself.

mod attach;
mod attach_boot;
mod attach_firmware;
mod attach_guest;
mod attach_tls;
mod bench;
mod book;
mod ceph;
mod chaos;
mod check;
mod cited_tests;
mod cleanup;
mod clock;
mod command;
mod commands;
mod conversation;
mod counted_rule;
mod dashboard;
mod dist;
mod english;
mod first_words;
mod fuzz;
mod fuzz_build;
mod gate;
mod gateways;
mod graph;
mod guest;
mod imports;
mod install;
mod lab;
mod ledger;
mod licences;
mod links;
mod machine;
mod mutant;
mod mutant_edits;
mod mutant_tests;
mod mutant_tree;
mod mutants;
mod packages;
mod pages;
mod paths;
mod pictures;
mod processor_time;
mod proof;
mod proof_record;
mod races;
mod regions;
mod release;
mod releases;
mod run_lock;
mod seam;
mod shared_builds;
mod simulate;
mod source;
mod source_tree;
mod stages;
mod suite;
mod tidy;
mod tune;
mod versions;
mod workers;
mod workspace;

use std::path::Path;
use std::process::ExitCode;

/// The status of a wrong command line, as of every program that follows getopt's habits.
const USAGE: u8 = 2;

const HELP: &str = "\
cargo xtask check                       formatting, lints, tidiness, documentation, licences
cargo xtask tidy                        only the house rules of STYLE.md
cargo xtask tidy --lower                write the lists of counted exceptions again, which may only shrink
cargo xtask tidy --graph [FOLDER]       figures of each crate, of this checkout or the one in FOLDER: files, imports, circles
                                        of imports, imports against the stated order, most methods, public fields
cargo xtask test [PART]... [--list]     the gate, which every change has to pass; without root or packages
cargo xtask prove [SUITE[/JOB]]...      the proof: kernels, Ceph, browsers, broken builds; --left goes on with the jobs
                                        that have not passed on these sources, --keep leaves their files
cargo xtask prove --list                suites and jobs with minutes, prerequisites and last results
cargo xtask lab guest build [--fresh]   build the guest with the Linux kernel in it; --zfs adds OpenZFS
cargo xtask lab guest run JOB [ARG]...  run a job of lab/ in the guest (see lab/run-guest.sh)
cargo xtask lab guest shell             a shell in the guest
cargo xtask lab paths [ARG]...          TCP and MPTCP over many links (see lab/README.md), kept under bench-runs/
cargo xtask lab namespaces [ARG]...     two gateways with 64, 1,024 and 4,096 namespaces, kept under bench-runs/
cargo xtask simulate --seeds A..B       target and hosts in a world that follows from a seed (docs/simulation.md)
cargo xtask simulate --mutants [NAME]   broken builds of the engine, each of which the simulation or a test has to notice
cargo xtask dist [--twice] [ARG]...     deb, rpm, static tarball, container image, bill of materials (docs/install.md)
cargo xtask release --check [--quick]   what is missing before this version can be released (docs/compatibility.md)
cargo xtask book [--output DIR]         the documents as HTML, in target/book without a folder
cargo xtask pictures [--take]           changes of the console since its pictures in docs/ were taken; --take renews them
cargo xtask chaos --minutes M [ARG]...  real processes, killed, cut off and attacked under hosts that check (docs/chaos.md)
cargo xtask miri                        what Miri can run of the unsafe code; it needs a nightly Rust with Miri
cargo xtask fuzz [TARGET]... [ARG]...   fuzzers, for --seconds N or --runs N each; --list tells them (docs/fuzzing.md)
cargo xtask bench roofline [ARG]...     the target against bare sockets, kept under bench-runs/
cargo xtask bench peers [ARG]...        target and host beside SPDK's, tgtd, qemu-nbd and bare sockets (docs/peers.md)
cargo xtask bench latency [ARG]...      the bench's latencies against tcpdump's and fio's (docs/bench.md)
cargo xtask bench ceph [ARG]...         images of a Ceph through the gateway and by fio's rbd engine alone
cargo xtask bench stages [ARG]...       cost of the times by stage, beside the same program without them
cargo xtask bench idle                  processor time of connected queues without I/O
cargo xtask bench overlap               the share of its time in which target and host work";

fn main() -> ExitCode {
    if fuzz_build::is_compiler() {
        return fuzz_build::compile(&std::env::args_os().skip(1).collect::<Vec<_>>());
    }
    let args: Vec<String> = std::env::args().skip(1).collect();
    let Some((chore, rest)) = args.split_first() else {
        return usage_error("no chore given");
    };
    match chore.as_str() {
        "check" if rest.is_empty() => check::run(),
        "tidy" if rest.is_empty() => tidy::run(),
        "tidy" if rest == ["--lower"] => tidy::lower(),
        "tidy" if rest == ["--graph"] => tidy::graph(&workspace::root()),
        "tidy" if rest.len() == 2 && rest[0] == "--graph" => tidy::graph(Path::new(&rest[1])),
        "check" | "tidy" => usage_error(&format!("{chore} does not take these arguments")),
        "test" => gate::run(rest),
        "prove" => proof::run(rest),
        "lab" => lab::run(rest),
        "bench" => bench::run(rest),
        "dist" => dist::run(rest),
        "book" => book::run(rest),
        "pictures" => pictures::run(rest),
        "chaos" => chaos::run(rest),
        "fuzz" => fuzz::run(rest),
        "release" => release::run(rest),
        "simulate" => simulate::run(rest),
        "miri" => races::miri(rest),
        "help" | "-h" | "--help" => {
            println!("{HELP}");
            ExitCode::SUCCESS
        }
        other => usage_error(&format!("there is no chore `{other}`")),
    }
}

/// Says what was wrong with the command line, and what would be right.
pub(crate) fn usage_error(problem: &str) -> ExitCode {
    eprintln!("xtask: {problem}\n\n{HELP}");
    ExitCode::from(USAGE)
}
