//! Selvedge's measurements beside others, its networks with many links, and a browser: `lab links` emulates links,
//! `lab paths` measures on them, `lab chaos` breaks what is on them, `lab tuning` changes their queues; `lab ceph` is a
//! small Ceph, `lab browser` looks at reports.

mod answer;
mod arguments;
mod browser;
mod cell;
mod ceph;
mod chaos;
mod cleanup;
mod command_line;
mod contest;
mod cuts;
mod emulator;
mod experiment;
mod guard;
mod journal;
mod latency;
mod links;
mod load;
mod machine;
mod matrix;
mod namespace;
mod network;
mod outcome;
mod paths;
mod peers;
mod program;
mod remote;
mod scenario;
mod seed;
mod series;
mod shuffle;
mod statistics;
mod subflows;
mod table;
mod tls_files;
mod tuning;

use std::process::ExitCode;

use clap::Parser as _;

fn main() -> ExitCode {
    command_line::Lab::parse().run()
}
