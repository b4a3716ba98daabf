//! What `serve` gives up before it serves, so that whoever takes the process over finds little in it: new privileges,
//! capabilities, files and system calls. It decides nothing about what is served; the command says what that needs.

mod capabilities;
mod landlock;
mod seccomp;
mod system_calls;

use std::path::PathBuf;

use serde::Serialize;

use crate::failure::Failure;
pub(crate) use landlock::folder_of;

/// Whether something is given up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wish {
    /// It is kept.
    Off,
    /// It is given up where the kernel lets it be.
    WherePossible,
    /// It is given up, or nothing is served.
    Required,
}

/// What is given up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Wishes {
    pub(crate) capabilities: Wish,
    pub(crate) landlock: Wish,
    pub(crate) seccomp: Wish,
}

impl Wishes {
    /// The same for all.
    pub(crate) const fn all(wish: Wish) -> Self {
        Self { capabilities: wish, landlock: wish, seccomp: wish }
    }
}

/// How far files may be opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Extent {
    #[default]
    Free,
    /// As far as is listed, where the kernel can see to it.
    ListedWherePossible,
    /// As far as is listed, or nothing is served.
    Listed,
}

/// What a target needs, and keeps.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Needs {
    /// Whether anything but what follows is closed. Else all files may be opened.
    pub(crate) extent: Extent,
    /// What may be opened and made later, besides what was configured.
    pub(crate) paths: Vec<PathBuf>,
    /// Folders and devices that are read and written.
    pub(crate) written: Vec<PathBuf>,
    /// Folders in which sockets are made and removed.
    pub(crate) sockets: Vec<PathBuf>,
    /// Folders that are read.
    pub(crate) read: Vec<PathBuf>,
    /// Whether programs are run.
    pub(crate) programs: bool,
    /// Whether settings of the network are changed.
    pub(crate) network_settings: bool,
    /// Whether Ceph's libraries may be loaded.
    pub(crate) ceph: bool,
}

impl Needs {
    /// Whether anything is closed that is not listed.
    pub(crate) fn is_closed(&self) -> bool {
        self.extent != Extent::Free
    }
}

/// What a process has given up.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, schemars::JsonSchema)]
pub(crate) struct Confinement {
    /// Programs that it runs have no more rights than it has.
    no_new_privs: Measure,
    /// It has no privileges of root's but those that it needs.
    capabilities: Measure,
    /// What it cannot do with files, whatever its user may.
    landlock: Measure,
    /// It can call only what it needs of the kernel.
    seccomp: Measure,
    /// Whether it can open nothing but what it was given.
    #[serde(skip)]
    pub(crate) has_paths: bool,
}

/// One thing that is given up.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, schemars::JsonSchema)]
struct Measure {
    state: State,
    /// What is left, or why it is not so.
    detail: String,
}

/// How far something is given up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
enum State {
    On,
    /// The kernel knows only a part of it.
    Partial,
    /// The kernel does not let it be given up.
    Unavailable,
    /// It was switched off.
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
    /// That of a process which has given up nothing.
    pub(crate) fn none() -> Self {
        let off = Measure::off;
        Self { no_new_privs: off(), capabilities: off(), landlock: off(), seccomp: off(), has_paths: false }
    }
}

/// Gives up what is wished and not needed. All of it is the calling thread's, and that of threads which it starts later:
/// it has to be the only one.
pub(crate) fn confine(wishes: Wishes, needs: &Needs) -> Result<Confinement, Failure> {
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
