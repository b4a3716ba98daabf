//! Command line: commands, flags and their help. `config` checks relations between flags, and turns
//! flags into values that commands use.

pub(crate) mod attach;
pub(crate) mod audit;
pub(crate) mod config;
pub(crate) mod connect;
pub(crate) mod doctor;
pub(crate) mod help;
pub(crate) mod import;
pub(crate) mod key;
pub(crate) mod look;
pub(crate) mod nbd_tls;
pub(crate) mod report;
pub(crate) mod token;
pub(crate) mod top;
pub(crate) mod tune;

pub(crate) use administration::flags::{confinement, image, nsid_list, serve, subsystem};
use clap::{Parser, Subcommand};
pub(crate) use command_line::flags::{
    EngineFlag, OutputFlags, OutputFormat, connection, control, log, number_error,
};
pub(crate) use measurement::flags::{bench, sweep};

/// Userspace NVMe/TCP storage stack: target, initiator and benchmark in one program.
///
/// No kernel module and no root needed. Start with `selvedge demo`.
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
Environment: SELVEDGE_LOG=debug logs more.
Man pages and shell completions: selvedge generate --output DIR."
)]
pub(crate) struct Flags {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run a target, a host and a short measurement in one process
    Demo(look::DemoFlags),
    /// Serve files, block devices, Ceph images or memory to NVMe/TCP hosts
    Serve(Box<serve::ServeFlags>),
    /// Show the discovery log of a target: its subsystems and their addresses
    Discover(look::DiscoverFlags),
    /// Show the Identify data of a controller and its namespaces
    Identify(look::IdentifyFlags),
    /// List the namespaces of one subsystem, or of all subsystems of a target
    List(look::ListFlags),
    /// Attach namespaces as disks: block devices of this machine, NBD exports or disks of virtual
    /// machines
    Attach(Box<attach::AttachFlags>),
    /// Print the NQN by which targets identify this host
    HostNqn(look::HostNqnFlags),
    /// Connect the kernel's initiator to a target; its namespaces become block devices
    Connect(Box<connect::ConnectFlags>),
    /// Disconnect the kernel's initiator
    Disconnect(connect::DisconnectFlags),
    /// Measure a namespace with fio's options, or verify its data
    Bench(Box<bench::BenchFlags>),
    /// Measure combinations of bench's options, and write a report with charts
    Sweep(sweep::SweepFlags),
    /// Rebuild the report of a sweep, or make one from fio's results
    Report(report::ReportFlags),
    /// Compare two sweeps: ratios, and the differences that are statistically significant
    Compare(report::CompareFlags),
    /// Add, change, remove or list subsystems of a running target
    Subsystem(subsystem::SubsystemFlags),
    /// Add, change, remove or list namespaces of a running target
    Namespace(subsystem::NamespaceFlags),
    /// Add, remove or list listening addresses of a running target
    Listener(control::ListenerFlags),
    /// Allow, deny or list hosts of a subsystem, and set their keys
    Host(control::HostFlags),
    /// Generate and check secrets of in-band authentication and TLS keys
    Key(key::KeyFlags),
    /// Manage API tokens and roles
    Token(token::TokenFlags),
    /// Verify the audit log
    Audit(audit::AuditFlags),
    /// Set or list ANA states of a running target
    Ana(control::AnaFlags),
    /// List the controllers of connected hosts, or end one
    Connection(control::ConnectedFlags),
    /// Add, remove or list referrals to other discovery services
    Referral(control::ReferralFlags),
    /// Replace the program of a running target; hosts stay connected
    Upgrade(control::UpgradeFlags),
    /// Show or set the log level of a running target
    Log(control::LogFlags),
    /// Show slow commands of a running target, with the time of each stage
    SlowCommands(control::SlowCommandsFlags),
    /// Show the state of a running target
    Status(control::StatusFlags),
    /// Show the gateway group of a running target; drain, resume or remove a gateway
    Gateways(control::GatewaysFlags),
    /// Watch a running target: subsystems, hosts, queues, reactors
    Top(top::TopFlags),
    /// Show and change the path of NVMe/TCP packets: NIC queue, interrupt, CPU, worker
    Tune(tune::TuneFlags),
    /// Find causes of slow or unreachable storage on this machine, with their remedies
    Doctor(Box<doctor::DoctorFlags>),
    /// Check, compare, apply or print configurations
    Config(config::ConfigFlags),
    /// Convert the configuration of another target to a target.toml
    Import(import::ImportFlags),
    /// Print the OpenAPI document of the control API
    Openapi(control::OpenapiFlags),
    /// Write man pages and shell completions
    #[command(hide = true)]
    Generate(look::GenerateFlags),
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

    #[test]
    fn all_alternatives_of_a_missing_argument_are_named() {
        for (line, alternatives) in [
            ("host allow nqn.a", ["HOST", "--any"]),
            ("host deny nqn.a", ["HOST", "--any"]),
            ("host set-key nqn.a nqn.b", ["--dhchap-secret-file", "--tls-key-file"]),
            ("import ceph-nvmeof", ["FILE", "--pool"]),
        ] {
            let words = std::iter::once("selvedge").chain(line.split(' '));
            let error = Flags::try_parse_from(words).err().unwrap().to_string();
            assert!(alternatives.iter().all(|name| error.contains(name)), "{line}: {error}");
        }
        for line in [
            "host allow nqn.a nqn.b",
            "host deny nqn.a --any",
            "host set-key nqn.a nqn.b --dhchap-secret-file a --tls-key-file b",
        ] {
            let words = std::iter::once("selvedge").chain(line.split(' '));
            assert!(Flags::try_parse_from(words).is_ok(), "{line}");
        }
    }

    #[test]
    fn a_transport_is_read_in_either_case() {
        for line in ["list -t TCP -a 10.0.0.1", "serve -t MPTCP", "listener add 10.0.0.1 -t Tcp"] {
            let words = std::iter::once("selvedge").chain(line.split(' '));
            assert!(Flags::try_parse_from(words).is_ok(), "{line}");
        }
    }

    /// Calls `look` with each runnable command and its full name.
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
