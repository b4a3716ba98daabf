//! Commands, one file each. The engine does the work, and the reports format the results.

mod ask;
mod audit;
mod bench;
pub(crate) mod complete;
mod config;
mod connect;
mod demo;
mod disconnect;
mod discover;
mod fabric;
mod gateways;
mod generate;
mod host_nqn;
mod identify;
mod image;
mod import;
mod key;
mod list;
mod log_level;
mod namespace;
mod namespace_states;
mod ports;
mod report;
mod schemas;
mod serve;
mod slow_commands;
mod subsystem;
mod sweep;
mod token;
mod top;
mod upgrade;

use crate::failure::Failure;
use crate::flags::Command;

/// Does what was typed.
pub(crate) fn run(command: &Command) -> Result<(), Failure> {
    match command {
        Command::Demo(flags) => demo::run(flags),
        Command::Serve(flags) => serve::run(flags),
        Command::Discover(flags) => discover::run(flags),
        Command::Identify(flags) => identify::run(flags),
        Command::List(flags) => list::run(flags),
        Command::Attach(flags) => attachment::run(flags),
        Command::Connect(flags) => connect::run(flags),
        Command::Disconnect(flags) => disconnect::run(flags),
        Command::Bench(flags) => bench::run(flags),
        Command::Sweep(flags) => sweep::run(flags),
        Command::Report(flags) => report::run(flags),
        Command::Compare(flags) => report::compare(flags),
        Command::Subsystem(flags) => subsystem::run(&flags.action),
        Command::Namespace(flags) => namespace::run(&flags.action),
        Command::Listener(flags) => ports::listener(&flags.action),
        Command::Host(flags) => fabric::host(&flags.action),
        Command::HostNqn(flags) => host_nqn::run(flags),
        Command::Key(flags) => key::run(&flags.action),
        Command::Token(flags) => token::run(&flags.action),
        Command::Audit(flags) => audit::run(&flags.action),
        Command::Ana(flags) => fabric::ana(&flags.action),
        Command::Connection(flags) => fabric::connection(&flags.action),
        Command::Referral(flags) => ports::referral(&flags.action),
        Command::Upgrade(flags) => upgrade::run(flags),
        Command::Log(flags) => log_level::run(flags),
        Command::SlowCommands(flags) => slow_commands::run(flags),
        Command::Status(flags) => fabric::status(flags),
        Command::Gateways(flags) => gateways::run(flags),
        Command::Top(flags) => top::run(flags),
        Command::Tune(flags) => tuning::commands::tune::run(flags),
        Command::Doctor(flags) => tuning::commands::doctor::run(flags),
        Command::Config(flags) => config::run(&flags.action),
        Command::Import(flags) => import::run(&flags.source),
        Command::Openapi(_) => fabric::openapi(),
        Command::Generate(flags) => generate::run(flags),
    }
}
