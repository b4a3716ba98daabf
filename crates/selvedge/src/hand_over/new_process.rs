//! The process that goes on in place of another one: it opens what it is offered, takes the hosts over, and serves as soon as the
//! old one says so, or has died.

use std::env;
use std::ffi::OsString;
use std::io;
use std::net::TcpListener;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use administration::upgrade::{Channel, OtherProcess, PLACE_VARIABLE, WatchedProcess, await_death};
use engine::backend::BackendConfig;
use engine::claims::{self, InheritedMemory};
use engine::hand_over::{NotOffered, Process as _, TakeOverOutcome};
use engine::target::hand_over::{Offer, Word};
use engine::target::{NamespaceConfig, PortConfig, Target, TargetConfig};
use gateway::{Member, OfferedMember};

use super::handed_ceph;
use super::program_state::ProgramState;
use super::take_over::TakeOver;
use crate::failure::Failure;
use crate::mptcp::HandedSettings;

/// Time for the old process to exit once this one serves.
const END: Duration = Duration::from_secs(30);
/// Time for the old process to die where this one cannot take its place.
const DEATH: Duration = Duration::from_secs(3);

/// A process that goes on in place of another one.
pub(crate) struct NewProcess {
    channel: Channel,
    old: WatchedProcess,
    offer: Offer,
    program_state: ProgramState,
    /// Namespaces in memory, kept until this process serves.
    memories: Vec<InheritedMemory>,
    listening: Vec<Arc<TcpListener>>,
    /// Standard output and error of the old process.
    outputs: [OwnedFd; 2],
}

impl NewProcess {
    /// The new process that this one is, if it was started as one.
    pub(crate) fn from_environment() -> Result<Option<Self>, Failure> {
        let Some(place) = env::var_os(PLACE_VARIABLE) else { return Ok(None) };
        match Self::greet(&place) {
            Ok(new_process) => Ok(Some(new_process)),
            // It has died before it has offered anything, so the target is started without it. If
            // it lives after all, it still has the locks that this process needs.
            Err(NotOffered::Silence(error)) => {
                // What it has locked is free when it has died altogether.
                await_death();
                tracing::warn!(%error, "the old process does not answer; starting without a hand-over");
                Ok(None)
            }
            Err(NotOffered::Refused(reason)) => Err(Failure::failed(format!(
                "the target at {} is not replaced: {reason}",
                Path::new(&place).display()
            ))),
        }
    }

    fn greet(place: &OsString) -> Result<Self, NotOffered> {
        let channel = Channel::connect(Path::new(place))?;
        let peer = rustix::net::sockopt::socket_peercred(&channel).map_err(io::Error::from)?;
        let process = OtherProcess::open(peer.pid)?;
        let (offer, mut descriptors) = Offer::ask(&channel, crate::version::NUMBER)?;
        let mut last = || descriptors.pop();
        let (Some(error), Some(output), Some(has_resumed)) = (last(), last(), last()) else {
            return Err(NotOffered::Refused("it offers nothing that is open".to_owned()));
        };
        if descriptors.len() < offer.listening + offer.memories.len() {
            return Err(NotOffered::Refused("it offers less than it says".to_owned()));
        }
        let program_state: ProgramState = handed_ceph::read(&offer.beside).map_err(NotOffered::Refused)?;
        if program_state.settings.as_ref().is_some_and(|settings| !settings.are_sound()) {
            return Err(NotOffered::Refused("it offers settings that are not MPTCP's".to_owned()));
        }
        if let Some(level) = &program_state.log_level
            && let Err(reason) = crate::log::set_level(level)
        {
            tracing::warn!("the log's level is not the old process's: {reason}");
        }
        if let Some(missing) = missing_memory(&offer) {
            return Err(NotOffered::Refused(format!("it offers no blocks of {missing}")));
        }
        let mut others = descriptors.split_off(offer.listening);
        claims::inherit(others.split_off(offer.memories.len()));
        let memories = offer.memories.iter().zip(others);
        let memories = memories.map(|(&(namespace, room), file)| InheritedMemory { namespace, room, file });
        let memories: Vec<InheritedMemory> = memories.collect();
        claims::inherit_memories(copies(&memories)?);
        let listening = descriptors.into_iter().map(|socket| Arc::new(TcpListener::from(socket))).collect();
        let old = WatchedProcess { process, mark: has_resumed };
        Ok(Self { channel, old, offer, program_state, memories, listening, outputs: [output, error] })
    }

    /// Prepares a target with the old process' configuration, to serve on demand.
    pub(crate) fn prepare(&self, config: &mut TargetConfig) {
        config.fabric = self.offer.fabric.clone();
        // Opened beforehand, and taken when the old process lets go of them.
        config.directives.standby.clone_from(&self.program_state.ceph.locked);
        self.hold(config);
    }

    /// Has a target wait for the order to serve.
    pub(crate) fn hold(&self, config: &mut TargetConfig) {
        config.inherited = self.listening.clone();
        config.is_held = true;
    }

    /// True if the old process has died, so only this one can serve.
    pub(crate) fn is_alone(&self) -> bool {
        self.old.has_died(DEATH)
    }

    /// Takes the place of an old process that has died, with its sockets and its outputs.
    /// Returns the settings of the machine that it had changed, for this process to restore.
    pub(crate) fn replace_dead(self, config: &mut TargetConfig) -> Option<HandedSettings> {
        config.inherited.clone_from(&self.listening);
        config.fabric.ports.clone_from(&self.offer.fabric.ports);
        self.take_outputs();
        self.program_state.settings
    }

    /// The gateway that the old process is, and its ports.
    pub(crate) fn gateway(&self) -> Result<(&OfferedMember, &[PortConfig]), Failure> {
        let member = self.program_state.ceph.member.as_ref();
        let member = member.ok_or_else(|| Failure::failed("the old process is not a gateway of a group"))?;
        Ok((member, &self.offer.fabric.ports))
    }

    /// Settings of the machine that the old process has changed. This process restores them
    /// once it serves.
    pub(crate) fn settings(&self) -> Option<HandedSettings> {
        self.program_state.settings.clone()
    }

    /// Threshold of slow commands: that of the old process, or of the command line where it does
    /// not say.
    pub(crate) fn slow_commands(&self, typed: Option<Duration>) -> Option<Duration> {
        self.program_state.slow_commands.map_or(typed, |kept| kept.threshold_ns.map(Duration::from_nanos))
    }

    /// Takes the hosts over and serves them. False if the target has to be restarted instead. When
    /// this returns, the old process has exited.
    pub(crate) fn take_place(
        self,
        target: &Arc<Target>,
        member: Option<&mut Member>,
    ) -> Result<bool, Failure> {
        let forgotten = claims::forget();
        if !forgotten.is_empty() {
            // Blank ones would be served.
            let reason = format!("namespaces in memory were not taken over: {forgotten:?}");
            let _ = self.channel.say(&Word::Refused(vec![reason.clone()]), &[]);
            return Err(Failure::failed(format!("the old process serves on: {reason}")));
        }
        let mut take_over = TakeOver::new(target, member, &self.program_state.ceph);
        let taken = target.take_place(&self.channel, &self.old, &mut take_over);
        let taken = taken.map_err(|reason| {
            tracing::error!(fault = ?reason.fault(), "the hand-over has failed");
            Failure::failed(format!("the old process serves on: {reason}"))
        })?;
        if let TakeOverOutcome::StartsAnew(reason) = taken {
            tracing::warn!(
                reason = reason.to_string(),
                fault = ?reason.fault(),
                "the old process died during the hand-over; starting without its connections"
            );
            self.take_outputs();
            if !take_over.start_over()? {
                // The blocks are as the old process has left them.
                claims::inherit_memories(self.memories);
                return Ok(false);
            }
            target.go_on();
        }
        self.take_outputs();
        // A word that cannot be said is not needed: the end of the channel says it, too.
        let _ = self.channel.say(&Word::Serving, &[]);
        drop(self.channel);
        if !self.old.has_died(END) {
            tracing::warn!("the old process has not ended yet");
        }
        Ok(true)
    }

    /// Writes where the old process did.
    fn take_outputs(&self) {
        let [output, error] = &self.outputs;
        let _ = rustix::stdio::dup2_stdout(output).and_then(|()| rustix::stdio::dup2_stderr(error));
    }
}

/// The same files once more.
fn copies(memories: &[InheritedMemory]) -> io::Result<Vec<InheritedMemory>> {
    let copy = |memory: &InheritedMemory| {
        let &InheritedMemory { namespace, room, .. } = memory;
        memory.file.try_clone().map(|file| InheritedMemory { namespace, room, file })
    };
    memories.iter().map(copy).collect()
}

/// A namespace in memory whose blocks are not offered.
fn missing_memory(offer: &Offer) -> Option<String> {
    let subsystems = offer.fabric.subsystems.iter();
    let mut namespaces = subsystems.flat_map(|subsystem| {
        subsystem.namespaces.iter().map(|namespace| (subsystem.nqn.as_str(), namespace))
    });
    let is_missing = |namespace: &NamespaceConfig| {
        let is_offered = |uuid| offer.memories.iter().any(|(offered, _)| *offered == uuid);
        matches!(namespace.backend, BackendConfig::Memory { .. }) && !namespace.uuid.is_some_and(is_offered)
    };
    let (nqn, namespace) = namespaces.find(|(_, namespace)| is_missing(namespace))?;
    Some(format!("namespace {} of {nqn}", namespace.nsid))
}
