//! Privileges that `serve` and `attach` drop before they serve, to leave an attacker who takes the process over
//! with little: new privileges, capabilities, files and system calls. It decides nothing about the
//! service itself; the command names its needs.

mod capabilities;
mod landlock;
#[cfg(test)]
mod ring_tests;
mod seccomp;
mod system_calls;

use std::path::PathBuf;

use serde::Serialize;

use crate::failure::Failure;
pub use landlock::folder_of;

/// Wish to drop a privilege.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wish {
    /// Keep it.
    Off,
    /// Drop it if the kernel can.
    WherePossible,
    /// Drop it, or fail to start.
    Required,
}

/// Wishes for each kind of privilege.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wishes {
    pub capabilities: Wish,
    pub landlock: Wish,
    pub seccomp: Wish,
}

impl Wishes {
    /// The same for all.
    pub const fn all(wish: Wish) -> Self {
        Self { capabilities: wish, landlock: wish, seccomp: wish }
    }
}

/// Restriction of the files that may be opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Extent {
    #[default]
    Free,
    /// Only listed files, if the kernel can enforce it.
    ListedWherePossible,
    /// Only listed files, or the target does not start.
    Listed,
}

/// Resources that a target needs, and keeps.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Needs {
    /// Restriction to the files below.
    pub extent: Extent,
    /// Files and folders that may be opened and created later, besides the configured ones.
    pub paths: Vec<PathBuf>,
    /// Folders and devices that are read and written.
    pub written: Vec<PathBuf>,
    /// Folders in which sockets are made and removed.
    pub sockets: Vec<PathBuf>,
    /// Folders that are read.
    pub read: Vec<PathBuf>,
    /// True if programs are run.
    pub programs: bool,
    /// True if network settings are changed.
    pub network_settings: bool,
    /// True if Ceph's libraries may be loaded.
    pub ceph: bool,
    /// True if namespaces are attached as disks.
    pub attach: bool,
    /// True if some of them are block devices of this machine.
    pub block_devices: bool,
}

impl Needs {
    /// True if files outside the lists are closed.
    pub fn is_closed(&self) -> bool {
        self.extent != Extent::Free
    }
}

/// Privileges that a process has dropped.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, schemars::JsonSchema)]
pub struct Confinement {
    /// Programs that it runs have no more rights than it has.
    no_new_privs: Measure,
    /// Privileges of root: all dropped but those that it needs.
    capabilities: Measure,
    /// Restrictions on files, beyond the user's permissions.
    landlock: Measure,
    /// Restriction to the system calls that it needs.
    seccomp: Measure,
    /// True if the process can open only listed files.
    #[serde(skip)]
    pub(crate) has_paths: bool,
}

/// State of one kind of privilege.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, schemars::JsonSchema)]
struct Measure {
    state: State,
    /// Remainder, or reason why it was not dropped.
    detail: String,
}

/// Degree to which a privilege is dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
enum State {
    On,
    /// The kernel knows only a part of it.
    Partial,
    /// The kernel cannot drop it.
    Unavailable,
    /// Switched off by a flag.
    Off,
}

impl Measure {
    fn on(detail: impl Into<String>) -> Self {
        Self { state: State::On, detail: detail.into() }
    }

    fn off() -> Self {
        Self { state: State::Off, detail: "switched off".to_owned() }
    }
}

impl Confinement {
    /// Logs the measures.
    pub fn log(&self) {
        let Self { no_new_privs, capabilities, landlock, seccomp, .. } = self;
        let named = [
            ("no_new_privs", no_new_privs),
            ("capabilities", capabilities),
            ("landlock", landlock),
            ("seccomp", seccomp),
        ];
        for (measure, Measure { state, detail }) in named {
            tracing::info!(measure, ?state, detail, "confinement of this process");
        }
    }

    /// Confinement of a process that has dropped nothing.
    pub fn none() -> Self {
        let off = Measure::off;
        Self { no_new_privs: off(), capabilities: off(), landlock: off(), seccomp: off(), has_paths: false }
    }
}

/// Gives up what is wished and not needed. All of it is the calling thread's, and that of threads which it starts later:
/// it has to be the only one.
pub fn confine(wishes: Wishes, needs: &Needs) -> Result<Confinement, Failure> {
    let has_paths = needs.is_closed() && wishes.landlock != Wish::Off;
    if needs.extent == Extent::Listed && wishes.landlock == Wish::Off {
        return Err(Failure::usage("--confine-to needs landlock, which --confinement leaves out"));
    }
    if wishes == Wishes::all(Wish::Off) {
        return Ok(Confinement::none());
    }
    // The kernel takes the rest only from a process that can gain nothing by a program that it runs.
    let no_new_privs = take(Wish::WherePossible, "no_new_privs", || {
        rustix::thread::set_no_new_privs(true).map_err(|error| error.to_string())?;
        Ok(Measure::on("no program gains rights"))
    })?;
    // Before capabilities: it looks at the folders that are given, which may need them.
    let landlock = if needs.extent == Extent::Listed { Wish::Required } else { wishes.landlock };
    let landlock = take(landlock, "landlock", || landlock::restrict(needs))?;
    let capabilities = take(wishes.capabilities, "capabilities", || capabilities::reduce(needs))?;
    // Last: the calls that give up the rest are not on its list.
    let seccomp = take(wishes.seccomp, "seccomp", || seccomp::filter(needs))?;
    Ok(Confinement { no_new_privs, capabilities, landlock, seccomp, has_paths })
}

fn take(
    wish: Wish,
    name: &str,
    give_up: impl FnOnce() -> Result<Measure, String>,
) -> Result<Measure, Failure> {
    if wish == Wish::Off {
        return Ok(Measure::off());
    }
    match give_up() {
        Ok(measure) => Ok(measure),
        Err(reason) if wish == Wish::Required => {
            Err(Failure::failed(format!("{name} was asked for and is not available here: {reason}")))
        }
        Err(detail) => Ok(Measure { state: State::Unavailable, detail }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_fails_only_where_it_was_asked_for() {
        let missing = || Err("the kernel has none".to_owned());
        let measure = take(Wish::WherePossible, "landlock", missing).unwrap();
        assert_eq!((measure.state, measure.detail.as_str()), (State::Unavailable, "the kernel has none"));
        let line = take(Wish::Required, "landlock", missing).unwrap_err().line().unwrap();
        assert!(line.contains("landlock") && line.contains("the kernel has none"), "{line}");
        assert_eq!(take(Wish::Off, "landlock", missing), Ok(Measure::off()));
    }

    #[test]
    fn paths_need_landlock() {
        let needs = Needs { extent: Extent::Listed, paths: vec!["/srv".into()], ..Needs::default() };
        let failure = confine(Wishes::all(Wish::Off), &needs).unwrap_err();
        assert!(matches!(&failure, Failure::Usage(what) if what.contains("--confine-to")), "{failure:?}");
    }
}
