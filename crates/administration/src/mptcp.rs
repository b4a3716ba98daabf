//! Settings that MPTCP needs on this machine to use all addresses: finds the missing `ip mptcp` commands,
//! runs them, and reverts them. Connections and listeners are the engine's.

mod machine;
mod plan;

use std::fmt;
use std::net::SocketAddr;
use std::process::Command;

use serde::{Deserialize, Serialize};

use crate::failure::Failure;
pub use machine::Machine as MptcpMachine;
use plan::Step;

/// Words of an `ip` command line, without the program.
type Words = Vec<String>;

/// The commands that are missing. What is set already is not among them.
#[derive(Debug, PartialEq, Eq)]
pub struct MptcpPlan {
    commands: Vec<Step>,
    /// Addresses that are set, but for something else, which no command here changes.
    remarks: Vec<String>,
}

impl MptcpPlan {
    /// Returns the missing settings by which hosts learn of all these addresses, on which the
    /// target listens with MPTCP. Hosts know the first one already.
    pub fn for_target(machine: &MptcpMachine, addresses: &[SocketAddr]) -> Self {
        plan::for_target(machine, addresses)
    }

    /// Returns the missing settings by which this host's connections use all its addresses, and all
    /// that targets announce.
    pub fn for_host() -> Result<Self, Failure> {
        Ok(plan::for_host(&MptcpMachine::look()?))
    }

    /// True if no setting is missing.
    pub fn is_empty(&self) -> bool {
        self.commands.is_empty()
    }

    /// The commands as a person types them.
    pub fn lines(&self) -> Vec<String> {
        self.commands.iter().map(ToString::to_string).collect()
    }

    /// Obstacles that only an administrator can remove.
    pub fn remarks(&self) -> &[String] {
        &self.remarks
    }

    /// Runs the commands. What was done before one that fails is undone.
    pub fn apply(self) -> Result<Applied, Failure> {
        if !self.is_empty() && !rustix::process::geteuid().is_root() {
            return Err(Failure::failed(format!(
                "only root may configure MPTCP; run as root, or have root run: {}",
                self.lines().join("; ")
            )));
        }
        let mut applied = Applied { done: Vec::new(), undo: Vec::new() };
        for step in self.commands {
            ip(&step.words())?;
            applied.done.push(step.to_string());
            // An endpoint is taken away by the number that the kernel gave it.
            let id = match &step {
                Step::Endpoint { address, .. } => MptcpMachine::look()?.endpoint_id(*address),
                Step::Limits { .. } => None,
            };
            applied.undo.extend(step.undoing(id));
        }
        Ok(applied)
    }
}

impl fmt::Display for MptcpPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for step in &self.commands {
            writeln!(f, "{step}")?;
        }
        for remark in &self.remarks {
            writeln!(f, "# {remark}")?;
        }
        Ok(())
    }
}

/// Settings that were made; dropping this reverts them. A killed process reverts nothing.
#[derive(Debug)]
#[must_use = "it is undone at once"]
pub struct Applied {
    done: Vec<String>,
    undo: Vec<Words>,
}

/// Settings for the new process, which reverts them in the end.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HandedSettings {
    done: Vec<String>,
    undo: Vec<Words>,
}

impl HandedSettings {
    /// Takes over the settings, which this process reverts in the end.
    pub fn go_on(self) -> Applied {
        let Self { done, undo } = self;
        Applied { done, undo }
    }

    /// True if all commands are `ip mptcp` commands: data from another process must not lead to
    /// others.
    pub fn are_sound(&self) -> bool {
        self.undo.iter().all(|words| words.first().is_some_and(|word| word == "mptcp"))
    }
}

impl Applied {
    /// The commands that were run.
    pub fn lines(&self) -> &[String] {
        &self.done
    }

    /// Returns the data by which the new process can revert the settings.
    pub fn handed(&self) -> HandedSettings {
        HandedSettings { done: self.done.clone(), undo: self.undo.clone() }
    }

    /// Leaves the settings to another process.
    pub fn disown(mut self) {
        self.undo.clear();
    }

    /// The old process' settings, and these.
    pub fn behind(mut self, mut former: Self) -> Self {
        former.done.append(&mut self.done);
        former.undo.append(&mut self.undo);
        former
    }
}

impl Drop for Applied {
    fn drop(&mut self) {
        for words in self.undo.iter().rev() {
            match ip(words) {
                Ok(_) => tracing::info!("reverted an MPTCP setting: ip {}", words.join(" ")),
                Err(failure) => tracing::warn!("{}", failure.line().unwrap_or_default()),
            }
        }
    }
}

/// Runs `ip` and gives what it prints.
fn ip(words: &[String]) -> Result<String, Failure> {
    // Not everybody has the administrator's programs in the search path.
    let path = std::env::var("PATH").unwrap_or_default();
    let command = |words: &[String]| format!("`ip {}`", words.join(" "));
    let output = Command::new("ip")
        .args(words)
        .env("PATH", format!("{path}:/usr/sbin:/sbin"))
        .output()
        .map_err(|error| match error.kind() {
            std::io::ErrorKind::NotFound => Failure::failed(
                "the program `ip` is not there, which sets addresses for MPTCP: install iproute2 (5.14 or later)",
            ),
            _ => Failure::failed(format!("{} cannot be run: {error}", command(words))),
        })?;
    if !output.status.success() {
        let reason = String::from_utf8_lossy(&output.stderr);
        return Err(Failure::failed(format!("{}: {}", command(words), reason.trim())));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}
