//! `selvedge serve`: a target in the foreground, until a signal ends it.

use std::fmt;

use engine::target::Target;
use serde::Serialize;

use crate::config::namespace;
use crate::config::target::{Access, ServeConfig};
use crate::failure::Failure;
use crate::flags::OutputFormat;
use crate::flags::serve::ServeFlags;
use crate::report;
use crate::report::table::{Side, Table};
use crate::stop::Stop;

/// Serves until SIGINT or SIGTERM.
pub(super) fn run(flags: &ServeFlags) -> Result<(), Failure> {
    let config = ServeConfig::new(flags)?;
    let engine = config.to_engine()?;
    // Before the target: a signal that comes while it opens its namespaces is not lost.
    let mut stop = Stop::on_signals()?;
    let target = Target::start(&engine).map_err(Failure::failed)?;
    let summary = Summary::new(&config, &target);
    let told = match flags.output.output_format {
        OutputFormat::Normal => report::print(&summary),
        OutputFormat::Json => report::print_json(&summary),
    };
    match told {
        // A target serves whether or not somebody reads what it prints.
        Ok(()) | Err(Failure::NobodyListens) => {}
        Err(failure) => return Err(failure),
    }
    stop.wait();
    target.shutdown();
    Ok(())
}

#[derive(Serialize)]
struct Summary {
    listening: Vec<String>,
    subsystems: Vec<SubsystemSummary>,
}

#[derive(Serialize)]
struct SubsystemSummary {
    nqn: String,
    serial: String,
    allow_any_host: bool,
    hosts: Vec<String>,
    namespaces: Vec<NamespaceSummary>,
}

#[derive(Serialize)]
struct NamespaceSummary {
    nsid: u32,
    block_size: u32,
    backend: String,
}

impl Summary {
    fn new(config: &ServeConfig, target: &Target) -> Self {
        let subsystems = config.subsystems.iter().map(|subsystem| SubsystemSummary {
            nqn: subsystem.nqn.to_string(),
            serial: subsystem.serial.clone(),
            allow_any_host: subsystem.access == Access::AnyHost,
            hosts: match &subsystem.access {
                Access::AnyHost => Vec::new(),
                Access::Hosts(hosts) => hosts.iter().map(ToString::to_string).collect(),
            },
            namespaces: namespace::number(&subsystem.namespaces)
                .unwrap_or_default()
                .into_iter()
                .map(|(nsid, spec)| NamespaceSummary {
                    nsid,
                    block_size: spec.block_size,
                    backend: spec.describe(),
                })
                .collect(),
        });
        Self {
            listening: target.ports().iter().map(ToString::to_string).collect(),
            subsystems: subsystems.collect(),
        }
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for address in &self.listening {
            writeln!(f, "listening on {address}")?;
        }
        for subsystem in &self.subsystems {
            let hosts = match subsystem.hosts.as_slice() {
                [] => "any host".to_owned(),
                [host] => format!("host {host}"),
                hosts => format!("{} hosts", hosts.len()),
            };
            writeln!(f, "{}  serial {}, {hosts}", subsystem.nqn, subsystem.serial)?;
            let columns = [("nsid", Side::Right), ("block", Side::Right), ("backend", Side::Left)];
            let mut table = Table::new(&columns).indented(2);
            for namespace in &subsystem.namespaces {
                let NamespaceSummary { nsid, block_size, backend } = namespace;
                table.row(vec![nsid.to_string(), block_size.to_string(), backend.clone()]);
            }
            write!(f, "{table}")?;
        }
        Ok(())
    }
}
