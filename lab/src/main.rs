//! Selvedge's measurements beside others, its networks with many links, and a browser: `lab links` emulates links,
//! `lab paths` measures on them, `lab chaos` breaks what is on them, `lab tuning` changes their queues; `lab ceph` is a
//! small Ceph, `lab browser` looks at reports. It dispatches and explains, and keeps out all of them.

mod answer;
mod arguments;
mod baseline;
mod browser;
mod cell;
mod ceph;
mod chaos;
mod cleanup;
mod cuts;
mod emulator;
mod experiment;
mod guard;
mod latency;
mod links;
mod load;
mod namespace;
mod network;
mod outcome;
mod paths;
mod picture;
mod program;
mod remote;
mod scenario;
mod seed;
mod series;
mod table;
mod tuning;

use std::process::ExitCode;

/// The status of a wrong command line.
const USAGE: u8 = 2;

const HELP: &str = "\
lab paths [trtype] [path] [iopolicy] [loss] --program PATH [OPTION]...
    one cell, random reads and then writes of 128 KiB over 4 links of 1 Gbit/s
      trtype    tcp|mptcp (mptcp)
      path      1-4, addresses of the target that the host connects to (1)
      iopolicy  numa|round-robin|queue-depth|latency (numa)
      loss      0|1, with 1: 5 ms each way and 0.5 % loss on every link (0)
lab paths --all                    the seed's table, cell by cell, beside its figures
lab paths --compare                the product as it comes against all other ways, in every scenario
lab paths [the four] --cut         link 2 is cut for 5 s in the middle
lab paths [the four] --cuts N      N cuts of links by chance, while every write is checked
    --program PATH     the selvedge to measure
    --output DIR       where results go (paths)
    --scenario NAME    lossless|lossy|lossy-one|slow-one|far-one, in place of loss
    --congestion NAME  cubic|bbr|default, at both ends (default; cubic with --all)
    --queues N         I/O queues of each path (the program's choice; 4 with --all and --compare)
    --runtime S        of each workload (10; 24 with --cut)
    --repeat N         runs of each cell, taken in turns, of which the median counts (1)
    --mode skb|mtu     loses whole packets of the kernel, as netem does, or packets of the wire (skb)
    --seed N           of losses and cuts (by chance, and printed)

lab chaos --minutes M --program PATH [OPTION]...
    hosts that check every block, against targets that are killed, stopped, cut off, filled and attacked meanwhile
    --output DIR       where logs go (chaos)
    --seed N           of everything that chance decides (by chance, and printed)
    --attackers N      hostile connections at a time (64)
    --output-format normal|json

lab siege --address ADDR:PORT --nqn NQN [OPTION]...
    ten thousand connections, two thousand discovery controllers, 1,600 Copy commands, one after the other, against a target that
    runs: how long a host that it knows takes to get in meanwhile, and another one's reads
    --nsid N           a namespace in memory of 64 MiB or more, whose data may be lost (1)
    --block BYTES      512|4096, of its blocks (4096)
    --seconds S        that each is watched, and as long before it (10)
    --attack NAME      only discovery|connections|greetings|copies|controllers

lab browser [OPTION]...
    a report's page and pictures in a headless Chromium: what they show, their keys, their names, on paper, without script
    --program PATH     Selvedge's program, which makes the reports; else the folder has one
    --output DIR       where its files and the log go (pages)
    --chromium PROGRAM (chromium)
    --screenshots      pictures of the page even if nothing failed

lab tuning --program PATH [OPTION]...
    plans, applies and reverts on interfaces with 4 queues: files byte for byte, counters, kill -9 before each write, an
    interface that goes away, without root, recordings
    --output DIR       where its files go (tuning)

lab ceph up --dir DIR [OPTION]...
    a small Ceph on the loopback with a pool `rbd`, until Ctrl-C or SIGTERM; its last line is the configuration file's path
    --dir DIR          where all its files are; empty or not there, and removed in the end
    --osds N           (1) with more, as many copies, at most 3, and a manager
    --store memstore|bluestore         (memstore)
    --auth none|cephx  with cephx there are keys for client.admin, and for client.selvedge with `profile rbd` (none)
lab ceph test --program PATH [OPTION]...
    images of such clusters as namespaces: contents, commands, snapshots, sizes, keys, refusals, lost OSDs, idle ones
    --output DIR       where its files and the logs go (ceph)
    --only TEXT        only checks with this in their names
    --seed N           of all contents (by chance, and printed)
lab ceph gateways --program PATH [OPTION]...
    two gateways of one group: by chance one is killed, stopped or cut off while hosts write and check every block
    --output DIR       where its files and the logs go (gateways)
    --rounds N         (50)
    --seed N           of everything that chance decides (by chance, and printed)

lab ceph bench --program PATH [OPTION]...
    what the gateway costs beside fio's rbd engine, what its knobs do, and latency by load on three copies
    --output DIR       where runs.jsonl, README.md and curve.svg go (ceph)
    --rounds N         of which the medians count (5)
    --seconds S        of each run, after one second of ramp (5)
    --only cost|knobs|curve
    --seed N           of the order of runs (by chance, and kept)

lab links --target NAMESPACE --host NAMESPACE [OPTION]...
    links between two network namespaces: tt1, tt2... in the one, th1, th2... in the other
    --links N  --rate MBIT  --delay MS  --loss PROBABILITY  --mode skb|mtu  --queue KB  --seed N
    says `ready`, then takes orders on its standard input, a line each, and answers `ok` or `error REASON`:
      set LINK|all rate|delay|loss|mode|queue VALUE, cut LINK|all [to-host|to-target],
      restore LINK|all, counters, quit

lab iscsi --program PATH [OPTION]...
    one file over NVMe/TCP, iSCSI (tgtd) and NBD (qemu-nbd) on the loopback, asked by clients in userspace, in turns
    --output DIR       where runs.jsonl and summary.md go (iscsi)
    --store WHERE      memory|disk|both: where the file is (both)
    --directory DIR    where on the disk (.)
    --seconds S        of each run (4)
    --rounds N         of which the medians count (3)
    --size MIB         of the file, a power of two (1024)

lab latency --program PATH [OPTION]...
    the bench's latencies beside tcpdump's of the same commands, and beside fio's over an NBD bridge to the same target
    --output DIR       where runs.jsonl and summary.md go (latency)
    --rounds N         (5)
    --size MIB         of data that each run reads (128)

links, paths, chaos, tuning and ceph's gateways make devices and namespaces, iscsi and latency start tgtd and tcpdump: that takes root.";

/// Why a command did not do its work.
pub(crate) enum Failure {
    /// The command line is wrong, and this is why.
    Usage(String),
    /// Something failed, in one line.
    Work(String),
}

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let Some((command, rest)) = args.split_first() else {
        return told(Err(Failure::Usage("no command given".into())));
    };
    told(match command.as_str() {
        "browser" => browser::main(rest),
        "ceph" => ceph::main(rest),
        "iscsi" => baseline::main(rest),
        "latency" => latency::main(rest),
        "links" => links::main(rest),
        "chaos" => chaos::main(rest),
        "siege" => chaos::siege::main(rest),
        "paths" => paths::main(rest),
        "tuning" => tuning::main(rest),
        "help" | "-h" | "--help" => {
            println!("{HELP}");
            Ok(())
        }
        other => Err(Failure::Usage(format!("there is no command `{other}`"))),
    })
}

fn told(outcome: Result<(), Failure>) -> ExitCode {
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(Failure::Work(reason)) => {
            eprintln!("lab: {reason}");
            ExitCode::FAILURE
        }
        Err(Failure::Usage(problem)) => {
            eprintln!("lab: {problem}\n\n{HELP}");
            ExitCode::from(USAGE)
        }
    }
}
