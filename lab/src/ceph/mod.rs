//! `lab ceph`: a small Ceph for tests, of the system's own programs, and what is tried on it. It dispatches, and keeps out what
//! the cluster is and what is checked.

mod administration;
mod arguments;
mod bench;
mod cluster;
mod commands;
mod config;
mod content;
mod cuts;
mod daemon;
mod encryption;
mod failures;
mod fencing;
mod gateways;
mod idle;
mod images;
mod imports;
mod lifetimes;
mod moments;
mod ports;
mod refusals;
mod restarts;
mod site;
mod target;
mod testbed;
mod trial;
mod upgrades;

use std::path::Path;

pub(crate) use arguments::Task;
use cluster::Cluster;
use config::{Shape, USER};

/// `lab ceph WORD [OPTION]...`
///
/// # Errors
/// What could not be done, or went wrong.
pub(crate) fn main(task: &Task) -> Result<(), String> {
    match task {
        Task::Up(cluster) => up(&cluster.folder, cluster.shape()),
        Task::Bench(bench) => match bench.run()? {
            0 => Ok(()),
            count => Err(format!("{count} runs failed")),
        },
        Task::Test(trial) => judged(trial.run()?, "checks", trial.seed),
        Task::Gateways(campaign) => judged(campaign.run()?, "rounds", campaign.seed),
        Task::Namespaces(namespaces) => match namespaces.run()? {
            0 => Ok(()),
            count => Err(format!("{count} measurements failed")),
        },
    }
}

fn judged(failed: usize, what: &str, seed: u64) -> Result<(), String> {
    match failed {
        0 => Ok(()),
        count => Err(format!("{count} of the {what} failed, with seed {seed}")),
    }
}

/// Starts a cluster and stays. The signal that ends this process ends the cluster, too: the kernel
/// signals its daemons, and another process removes its folder.
fn up(folder: &Path, shape: Shape) -> Result<(), String> {
    let cluster = Cluster::up(folder, shape)?;
    println!(
        "up: client.admin, and client.{USER} with `profile rbd`, have their keys beside the configuration"
    );
    println!("{}", cluster.conf().display());
    loop {
        std::thread::park();
    }
}
