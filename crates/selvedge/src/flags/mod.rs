//! What can be typed: the commands and their flags, with the help that explains them. Relations between flags are
//! checked in `config`, which turns them into values that commands use.

pub(crate) mod attach;
pub(crate) mod audit;
pub(crate) mod bench;
pub(crate) mod config;
mod confinement;
pub(crate) mod connect;
pub(crate) mod connection;
pub(crate) mod control;
pub(crate) mod doctor;
pub(crate) mod fio_names;
pub(crate) mod fio_options;
pub(crate) mod help;
pub(crate) mod image;
pub(crate) mod import;
pub(crate) mod key;
pub(crate) mod log;
pub(crate) mod look;
pub(crate) mod nbd_tls;
pub(crate) mod nsid_list;
pub(crate) mod report;
pub(crate) mod serve;
pub(crate) mod subsystem;
pub(crate) mod sweep;
mod tls_use;
pub(crate) mod token;
pub(crate) mod top;
pub(crate) mod tune;

use clap::{Args, Parser, Subcommand, ValueEnum};

/// An open NVMe-over-TCP storage stack in userspace: target, initiator and bench in one program.
///
/// It needs no kernel module and no root. Start with `selvedge demo`.
#[derive(Debug, Parser)]
#[command(
    name = "selvedge",
    version,
    long_version = crate::version::long(),
    max_term_width = 100,
    after_help = "Examples:
  selvedge demo
  selvedge serve --namespace memory:1g
  selvedge discover -a 127.0.0.1
  selvedge bench -a 127.0.0.1 --rw randread --iodepth 32 --runtime 10

Exit status: 0 done, 1 failed (with the reason in one line on stderr), 2 wrong usage,
130 ended by Ctrl-C, 143 by SIGTERM.
Set SELVEDGE_LOG=debug to see more of what happens."
)]
pub(crate) struct Flags {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Show the whole story in one process and in under half a minute
    Demo(look::DemoFlags),
    /// Serve files, block devices, images of a Ceph cluster or memory to NVMe/TCP hosts
    Serve(Box<serve::ServeFlags>),
    /// Ask a target which subsystems it has, and where
    Discover(look::DiscoverFlags),
    /// Show what a controller and its namespaces say about themselves
    Identify(look::IdentifyFlags),
    /// List the namespaces of one subsystem, or of all that a target shows
    List(look::ListFlags),
    /// Give namespaces to other programs as disks: block devices of this machine, over NBD, or to virtual machines
    Attach(Box<attach::AttachFlags>),
    /// Print the NQN of this host, as targets have to let it in
    HostNqn(look::HostNqnFlags),
    /// Connect the kernel's own initiator to a target: its namespaces become block devices of this machine
    Connect(Box<connect::ConnectFlags>),
    /// Disconnect the kernel's own initiator
    Disconnect(connect::DisconnectFlags),
    /// Measure a namespace with fio's options, or prove that it keeps its data
    Bench(Box<bench::BenchFlags>),
    /// Measure many combinations of bench's options, and report them with pictures and in words
    Sweep(sweep::SweepFlags),
    /// Make a sweep's report again, or one of what fio measured
    Report(report::ReportFlags),
    /// Compare two sweeps, ratio first, and say which differences are more than chance
    Compare(report::CompareFlags),
    /// Change the subsystems of a running target
    Subsystem(subsystem::SubsystemFlags),
    /// Change the namespaces of a running target
    Namespace(subsystem::NamespaceFlags),
    /// Change where a running target listens
    Listener(control::ListenerFlags),
    /// Change which hosts may use a subsystem of a running target
    Host(control::HostFlags),
    /// Make and check secrets for in-band authentication
    Key(key::KeyFlags),
    /// Say who may administer a target over the network, and what
    Token(token::TokenFlags),
    /// Check the log of who has changed what
    Audit(audit::AuditFlags),
    /// Change the ANA states of a running target
    Ana(control::AnaFlags),
    /// Look at the hosts that are connected to a running target, or end a controller
    Connection(control::ConnectedFlags),
    /// Change which other discovery services a running target tells hosts of
    Referral(control::ReferralFlags),
    /// Put another program in place of a running target, whose hosts stay connected
    Upgrade(control::UpgradeFlags),
    /// Show how much a running target logs, or change it
    Log(control::LogFlags),
    /// Show commands that took long at a running target, and what their time was spent on
    SlowCommands(control::SlowCommandsFlags),
    /// Show how a running target is
    Status(control::StatusFlags),
    /// Show the group of gateways that a running target belongs to, or take one out that is gone
    Gateways(control::GatewaysFlags),
    /// Watch what a running target does: subsystems, hosts, queues, reactors
    Top(top::TopFlags),
    /// See and change where the packets of NVMe/TCP queues go: NIC queue, interrupt, CPU, worker
    Tune(tune::TuneFlags),
    /// Find what makes storage slow or unreachable here, and say what to do about it
    Doctor(Box<doctor::DoctorFlags>),
    /// Check, compare, apply or print whole configurations
    Config(config::ConfigFlags),
    /// Make a target.toml of another target's configuration
    Import(import::ImportFlags),
    /// Print the control API's OpenAPI document
    Openapi(control::OpenapiFlags),
    /// Write man pages and completions, for packages
    #[command(hide = true)]
    Generate(look::GenerateFlags),
}

/// How results are printed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum OutputFormat {
    /// For people
    #[default]
    Normal,
    /// For programs: the names in it stay
    Json,
}

/// The flag of every command that prints.
#[derive(Clone, Copy, Debug, Default, Args)]
pub(crate) struct OutputFlags {
    /// How to print the results
    #[arg(short = 'o', long, value_name = "FORMAT", default_value = "normal", help_heading = "Output")]
    pub(crate) output_format: OutputFormat,
}

/// Which machinery of the system carries the I/O.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum EngineFlag {
    /// io_uring where it is allowed, else epoll
    Auto,
    /// io_uring, or fail
    #[value(name = "io_uring")]
    IoUring,
    /// epoll
    Epoll,
}

impl From<EngineFlag> for engine::ring::Engine {
    fn from(flag: EngineFlag) -> Self {
        match flag {
            EngineFlag::Auto => Self::Automatic,
            EngineFlag::IoUring => Self::IoUring,
            EngineFlag::Epoll => Self::Epoll,
        }
    }
}

#[cfg(test)]
mod document_commands;
#[cfg(test)]
mod document_tests;
#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_flags_are_consistent() {
        Flags::command().debug_assert();
    }

    /// Calls `look` with each command that does something by itself, and its whole name.
    fn each_command(look: &mut dyn FnMut(&clap::Command, &str)) {
        fn walk(command: &clap::Command, name: &str, look: &mut dyn FnMut(&clap::Command, &str)) {
            let inner = || command.get_subcommands().filter(|inner| inner.get_name() != "help");
            if inner().next().is_none() || command.is_args_conflicts_with_subcommands_set() {
                look(command, name);
            }
            for inner in inner() {
                walk(inner, &format!("{name} {}", inner.get_name()), look);
            }
        }
        walk(&Flags::command(), "selvedge", look);
    }

    #[test]
    fn every_command_prints_json_when_asked() {
        let mut count = 0;
        each_command(&mut |command, name| {
            // Writes files and prints nothing.
            if command.is_hide_set() {
                return;
            }
            let format = command.get_arguments().find(|argument| argument.get_id() == "output_format");
            let format = format.unwrap_or_else(|| panic!("{name} has no -o"));
            assert_eq!(format.get_short(), Some('o'), "{name}");
            assert_eq!(format.get_long(), Some("output-format"), "{name}");
            let mut values = format.get_value_parser().possible_values().into_iter().flatten();
            assert!(values.any(|value| value.matches("json", false)), "{name}");
            count += 1;
        });
        assert!(count > 40, "only {count} commands were found");
    }

    #[test]
    fn every_command_shows_an_example() {
        fn look(command: &clap::Command, name: &str) {
            let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
            assert!(help.contains(name), "{name} has no example");
            for inner in command.get_subcommands().filter(|inner| inner.get_name() != "help") {
                look(inner, &format!("{name} {}", inner.get_name()));
            }
        }
        look(&Flags::command(), "selvedge");
    }
}
