//! State of a connection: its role, and what becomes of further commands. All changes go by the
//! events here, and `Kind::next` says which of them can happen in which state.

use std::mem;

use crate::target::admin::Intake;
use crate::target::io::Commands;
use crate::target::reactor::frozen_queue::FrozenQueue;
use crate::target::reactor::role::{Role, Unproved};
use crate::target::reactor::securing::Securing;

/// State of a connection. The authentication of its host is not a part of it, since a live queue
/// may repeat that at any time; nor is the end of its stream, which is the queue's.
pub(super) struct State {
    role: Role,
    phase: Phase,
}

/// Treatment of further commands.
#[derive(Default)]
enum Phase {
    /// Commands are taken, as the role has it.
    #[default]
    Running,
    /// Commands are kept, for this process later or for another one.
    Paused(Box<FrozenQueue>),
    /// Commands are dropped, and those under way still finish.
    Draining {
        /// A Disconnect that is answered when all that was under way has ended.
        disconnect: Option<u16>,
        /// Commands kept until then, if the connection was paused when it began to drain.
        paused: Option<Box<FrozenQueue>>,
    },
}

/// A state without its data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Kind {
    role: RoleKind,
    phase: PhaseKind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RoleKind {
    /// The first bytes, or a TLS handshake.
    Securing,
    /// Connect is awaited or carried out.
    Connecting,
    /// The proof of the host's name is awaited.
    Authenticating,
    /// Admin queue whose host is expected to reconnect with the TLS key that it got.
    Preparing,
    /// Admin or I/O queue.
    Serving,
    /// The end of the host's side is awaited.
    Left,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PhaseKind {
    Running,
    Paused,
    Draining,
    PausedDraining,
}

/// Event that changes the state of a connection.
#[derive(Clone, Copy, Debug)]
enum Event {
    /// TLS is established, or ruled out.
    Secured,
    /// Host refused before its Connect: by its handshake, or since it came in clear.
    Refused,
    /// Connect accepted from a host that has to authenticate.
    Promised,
    /// Host authenticated: its Connect is carried out.
    Proved,
    /// Connect carried out.
    Joined,
    /// Connect carried out for a host that is expected to reconnect.
    Prepared,
    /// Connect carried out for a queue of the old process.
    Adopted,
    /// Order to come to rest, or hand-over of a connection that has received nothing.
    Paused,
    /// End of a pause.
    Resumed,
    /// Order to take no more commands, or the host's authentication failed.
    Drained,
    /// Disconnect of an I/O queue.
    Disconnected,
    /// End of all that was under way.
    Ended,
}

impl Kind {
    /// State that an event leads to; `None` if it cannot happen here.
    const fn next(self, event: Event) -> Option<Self> {
        use Event as E;
        use PhaseKind as P;
        use RoleKind as R;

        let Self { role, phase } = self;
        let (role, phase) = match (event, role, phase) {
            // Nothing is read while it is paused: another process may have it.
            (E::Secured, R::Securing, P::Running | P::Draining) => (R::Connecting, phase),
            (E::Refused, R::Securing, P::Running | P::Draining) => (R::Left, phase),
            // A Connect whose data was on its way is still carried out while the connection drains.
            (E::Promised, R::Connecting, P::Running | P::Draining) => (R::Authenticating, phase),
            (E::Proved, R::Authenticating, P::Running | P::Draining) => (R::Connecting, phase),
            (E::Joined, R::Connecting, P::Running | P::Draining) => (R::Serving, phase),
            (E::Prepared, R::Connecting, P::Running | P::Draining) => (R::Preparing, phase),
            (E::Adopted, R::Securing, P::Running) => (R::Serving, P::Running),
            // Between its first byte and its queue, a connection can be neither kept nor passed on.
            (E::Paused, R::Securing | R::Preparing | R::Serving, P::Running) => (role, P::Paused),
            (E::Resumed, _, P::Paused) => (role, P::Running),
            (E::Resumed, _, P::PausedDraining) => (role, P::Draining),
            (E::Drained, _, P::Running | P::Draining) => (role, P::Draining),
            (E::Drained, _, P::Paused | P::PausedDraining) => (role, P::PausedDraining),
            (E::Disconnected, R::Serving, P::Running) => (role, P::Draining),
            // Only as the second of a fused pair, which goes with its first.
            (E::Disconnected, R::Serving, P::Paused) => (role, P::PausedDraining),
            (E::Ended, _, P::Draining) => (R::Left, P::Running),
            (E::Ended, _, P::PausedDraining) => (R::Left, P::Paused),
            _ => return None,
        };
        Some(Self { role, phase })
    }
}

impl State {
    /// State of a connection that has just been accepted.
    pub(super) fn new() -> Self {
        Self { role: Role::Securing(Box::default()), phase: Phase::Running }
    }

    #[inline]
    pub(super) const fn role(&self) -> &Role {
        &self.role
    }

    /// The role, to work with its data. Only events put another in its place.
    #[inline]
    pub(super) const fn role_mut(&mut self) -> &mut Role {
        &mut self.role
    }

    /// True while commands are taken: neither paused nor draining.
    #[inline]
    pub(super) const fn is_running(&self) -> bool {
        matches!(self.phase, Phase::Running)
    }

    /// True once commands are dropped, until the connection leaves.
    #[inline]
    pub(super) const fn is_draining(&self) -> bool {
        matches!(self.phase, Phase::Draining { .. })
    }

    /// True while a Disconnect is to be answered.
    pub(super) const fn has_disconnect(&self) -> bool {
        matches!(self.phase, Phase::Draining { disconnect: Some(_), .. })
    }

    /// Bytes and commands of a pause.
    #[inline]
    pub(super) fn frozen(&self) -> Option<&FrozenQueue> {
        match &self.phase {
            Phase::Running => None,
            Phase::Paused(frozen) => Some(frozen),
            Phase::Draining { paused, .. } => paused.as_deref(),
        }
    }

    /// The same, to be added to.
    #[inline]
    pub(super) fn frozen_mut(&mut self) -> Option<&mut FrozenQueue> {
        match &mut self.phase {
            Phase::Running => None,
            Phase::Paused(frozen) => Some(frozen),
            Phase::Draining { paused, .. } => paused.as_deref_mut(),
        }
    }

    /// TLS is established or ruled out: Connect is awaited. Returns what has been received.
    pub(super) fn secured(&mut self) -> Option<Box<Securing>> {
        if !matches!(self.role, Role::Securing(_)) {
            return None;
        }
        match self.become_role(Event::Secured, Role::New(Intake::new(1))) {
            Role::Securing(securing) => Some(securing),
            _ => None,
        }
    }

    /// The host is refused before its Connect.
    pub(super) fn refused(&mut self) {
        self.become_role(Event::Refused, Role::Left { was_queue: false });
    }

    /// The host has authenticated. Returns its Connect, which is carried out next.
    pub(super) fn proved(&mut self) -> Option<Box<Unproved>> {
        if !matches!(self.role, Role::Unproved(_)) {
            return None;
        }
        match self.become_role(Event::Proved, Role::New(Intake::new(1))) {
            Role::Unproved(unproved) => Some(unproved),
            _ => None,
        }
    }

    /// Connect has succeeded, with this role.
    pub(super) fn connected(&mut self, role: Role) {
        let event = match &role {
            Role::Unproved(_) => Event::Promised,
            Role::Preparing(_) => Event::Prepared,
            _ => Event::Joined,
        };
        self.become_role(event, role);
    }

    /// Connect of a queue of the old process has succeeded, with this role.
    pub(super) fn adopted(&mut self, role: Role) {
        self.become_role(Event::Adopted, role);
    }

    /// Takes the connection to rest.
    pub(super) fn pause(&mut self, frozen: FrozenQueue) {
        self.change(Event::Paused, |state| state.phase = Phase::Paused(Box::new(frozen)));
    }

    /// Ends a pause, if there is one. Returns what was kept.
    pub(super) fn resume(&mut self) -> Option<Box<FrozenQueue>> {
        self.frozen()?;
        self.change(Event::Resumed, |state| match mem::take(&mut state.phase) {
            Phase::Running => None,
            Phase::Paused(frozen) => Some(frozen),
            Phase::Draining { disconnect, paused } => {
                state.phase = Phase::Draining { disconnect, paused: None };
                paused
            }
        })
    }

    /// Takes no more commands; those under way still finish.
    pub(super) fn drain(&mut self) {
        self.change(Event::Drained, |state| state.begin_to_drain(None));
    }

    /// The same, for a Disconnect that is answered when all else has ended.
    pub(super) fn disconnect(&mut self, command_id: u16) {
        self.change(Event::Disconnected, |state| state.begin_to_drain(Some(command_id)));
    }

    /// Removes and returns the Disconnect that is to be answered.
    pub(super) const fn take_disconnect(&mut self) -> Option<u16> {
        match &mut self.phase {
            Phase::Draining { disconnect, .. } => disconnect.take(),
            Phase::Running | Phase::Paused(_) => None,
        }
    }

    /// Ends a connection that has drained. One that another process may have stays so.
    pub(super) fn leave(&mut self) {
        self.change(Event::Ended, |state| {
            state.role = Role::Left { was_queue: state.role.is_queue() };
            if let Phase::Draining { paused: Some(frozen), .. } = mem::take(&mut state.phase) {
                state.phase = Phase::Paused(frozen);
            }
        });
    }

    /// Removes and returns the commands of an I/O queue whose connection is closed.
    pub(super) fn take_io(&mut self) -> Option<Box<Commands>> {
        if !matches!(self.role, Role::Io(_)) {
            return None;
        }
        match mem::replace(&mut self.role, Role::Left { was_queue: true }) {
            Role::Io(commands) => Some(commands),
            _ => None,
        }
    }

    fn begin_to_drain(&mut self, command_id: Option<u16>) {
        self.phase = match mem::take(&mut self.phase) {
            Phase::Running => Phase::Draining { disconnect: command_id, paused: None },
            Phase::Paused(frozen) => Phase::Draining { disconnect: command_id, paused: Some(frozen) },
            draining @ Phase::Draining { .. } => draining,
        };
    }

    /// Puts a role in the place of another, which is returned.
    fn become_role(&mut self, event: Event, role: Role) -> Role {
        self.change(event, |state| mem::replace(&mut state.role, role))
    }

    /// Carries out the change of an event, which leads where the table says.
    fn change<T>(&mut self, event: Event, change: impl FnOnce(&mut Self) -> T) -> T {
        let before = self.kind();
        let changed = change(self);
        debug_assert_eq!(before.next(event), Some(self.kind()), "{event:?} of {before:?}");
        changed
    }

    const fn kind(&self) -> Kind {
        let role = match &self.role {
            Role::Securing(_) => RoleKind::Securing,
            Role::New(_) => RoleKind::Connecting,
            Role::Unproved(_) => RoleKind::Authenticating,
            Role::Preparing(_) => RoleKind::Preparing,
            Role::Admin(_) | Role::Io(_) => RoleKind::Serving,
            Role::Left { .. } => RoleKind::Left,
        };
        let phase = match &self.phase {
            Phase::Running => PhaseKind::Running,
            Phase::Paused(_) => PhaseKind::Paused,
            Phase::Draining { paused: None, .. } => PhaseKind::Draining,
            Phase::Draining { paused: Some(_), .. } => PhaseKind::PausedDraining,
        };
        Kind { role, phase }
    }
}

#[cfg(test)]
mod tests {
    use std::fmt::Write;

    use nvme::SubmissionEntry;

    use super::*;
    use crate::ring::Moment;

    const EVENTS: [Event; 12] = [
        Event::Secured,
        Event::Refused,
        Event::Promised,
        Event::Proved,
        Event::Joined,
        Event::Prepared,
        Event::Adopted,
        Event::Paused,
        Event::Resumed,
        Event::Drained,
        Event::Disconnected,
        Event::Ended,
    ];

    fn name(Kind { role, phase }: Kind) -> String {
        match phase {
            PhaseKind::Running => format!("{role:?}"),
            _ => format!("{role:?}, {phase:?}"),
        }
    }

    #[test]
    fn all_states_and_the_events_that_they_allow_are_those_of_the_text() {
        let mut states = vec![State::new().kind()];
        let mut table = String::new();
        let mut at = 0;
        while let Some(state) = states.get(at).copied() {
            writeln!(table, "{}", name(state)).unwrap();
            let mut never = String::new();
            for event in EVENTS {
                let Some(next) = state.next(event) else {
                    write!(never, " {event:?}").unwrap();
                    continue;
                };
                writeln!(table, "  {event:?}: {}", name(next)).unwrap();
                if !states.contains(&next) {
                    states.push(next);
                }
            }
            writeln!(table, "  never:{never}").unwrap();
            at += 1;
        }
        assert_eq!(table, include_str!("state_transitions.txt"), "state_transitions.txt should be:\n{table}");
    }

    fn unproved() -> Role {
        let connect = SubmissionEntry::default();
        Role::Unproved(Box::new(Unproved { connect, data: vec![7], promised: None }))
    }

    #[test]
    fn a_host_that_has_proved_its_name_finds_its_connect() {
        let mut state = State::new();
        assert!(state.proved().is_none());
        assert!(state.secured().is_some_and(|securing| securing.is_untouched()));
        assert!(state.secured().is_none());
        state.connected(unproved());
        assert!(!state.role().is_queue());
        assert_eq!(state.proved().map(|unproved| unproved.data), Some(vec![7]));
        assert!(matches!(state.role(), Role::New(_)));
    }

    #[test]
    fn a_pause_outlives_the_end_of_its_connection() {
        let mut state = State::new();
        assert!(state.resume().is_none());
        state.pause(FrozenQueue::handed(vec![7], Moment(0)));
        state.drain();
        assert!(state.is_draining() && state.frozen().is_some_and(|frozen| frozen.is_handed));
        state.leave();
        assert!(!state.is_draining() && matches!(state.role(), Role::Left { was_queue: false }));
        assert!(state.frozen_mut().is_some_and(|frozen| frozen.is_handed));
        assert_eq!(state.resume().map(|frozen| frozen.received), Some(vec![7]));
        assert!(state.is_running() && state.resume().is_none());
    }

    #[test]
    fn a_disconnect_is_answered_once_whatever_else_ends_its_connection() {
        for is_paused in [false, true] {
            let mut state = State::new();
            if is_paused {
                state.pause(FrozenQueue::new(Moment(0)));
            }
            // As `disconnect` does, but for the role: an I/O queue takes a whole target.
            state.begin_to_drain(Some(7));
            state.drain();
            assert_eq!(state.resume().is_some(), is_paused);
            assert!(state.has_disconnect());
            assert_eq!((state.take_disconnect(), state.take_disconnect()), (Some(7), None));
            assert!(state.is_draining() && !state.has_disconnect());
        }
    }
}
