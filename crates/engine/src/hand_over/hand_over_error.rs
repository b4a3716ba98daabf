//! Reasons for which something is not handed over to the new process of an upgrade, or not taken
//! over from the old one, and the party at fault for each.

use std::error::Error;
use std::io;
use std::time::Duration;

use uuid::Uuid;

/// Reason for which an image is not handed over: the new process would write beside what a cluster
/// may yet carry out for this one.
pub(crate) const LATE_IMAGE: &str = "commands on its image have taken too long, and may be carried out yet";

/// Party at fault for a failed hand-over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Process that returns the error: state that it cannot give away, or does not have.
    ThisProcess,
    /// Other process of the upgrade: it refuses, has died, or sends what it may not.
    OtherProcess,
    /// Operating system, storage or cluster.
    System,
    /// Work or an answer that takes too long: the next attempt may succeed.
    Time,
}

/// Reason for which a hand-over fails. The old process serves on.
#[derive(Debug, thiserror::Error)]
pub enum HandOverError {
    /// State that this process cannot give away, each with its reason.
    #[error("{}", .0.join("; "))]
    Obstacles(Vec<String>),
    /// Reactor of this process that hangs, or has ended.
    #[error("a reactor does not answer")]
    Reactor,
    /// Namespace of hosts that this process, the new one, could not open.
    #[error("namespace {nsid} of {nqn} is not available to the new process")]
    NotAvailable {
        /// The subsystem.
        nqn: String,
        /// The namespace.
        nsid: u32,
    },
    /// Refusal by the other process, with its reasons.
    #[error("{}", .0.join("; "))]
    Refused(Vec<String>),
    /// First message of another kind.
    #[error("it does not begin with a greeting")]
    NoGreeting,
    /// Message of the new process in place of the expected one.
    #[error("unexpected message of the new process, instead of {0}")]
    Instead(&'static str),
    /// Message of the old process in place of the expected one.
    #[error("it does not say {0}")]
    Unsaid(&'static str),
    /// Extension of the hand-over format that the new process does not know.
    #[error("the new process is of a version that cannot take over {0}")]
    Extension(String),
    /// Sockets that do not fit the queues of the old process.
    #[error("the number of sockets is not that of the queues")]
    Sockets,
    /// State of a namespace that is not configured.
    #[error("the namespace {0} is not served")]
    NotServed(Uuid),
    /// State that an object of the old process cannot have had.
    #[error("{object}: {source}")]
    Impossible {
        /// The namespace, or its reservations.
        object: String,
        /// Contradiction.
        source: Box<dyn Error + Send + Sync>,
    },
    /// Commands of this host or queue that do not end in time.
    #[error("the storage works on commands of {0}")]
    StorageBusy(String),
    /// Commands without a host that do not end in time.
    #[error("commands of a host that is gone are still under way")]
    OrphansBusy,
    /// Image with a command that the cluster may yet carry out.
    #[error("namespace {nsid} of {nqn}: {LATE_IMAGE}")]
    ImageLate {
        /// The subsystem.
        nqn: String,
        /// The namespace.
        nsid: u32,
    },
    /// Image whose lock the cluster does not take back.
    #[error("namespace {nsid} of {nqn} stays locked: {source}")]
    ImageLocked {
        /// The subsystem.
        nqn: String,
        /// The namespace.
        nsid: u32,
        /// Error of the image.
        source: Box<dyn Error + Send + Sync>,
    },
    /// New process that has not opened what it is to serve.
    #[error("the new process has not become ready: {}", silence(source, *time))]
    NotReady {
        /// Error of the channel.
        source: io::Error,
        /// Time waited at most.
        time: Duration,
    },
    /// New process that does not confirm the take-over.
    #[error("the new process does not take over: {}", silence(source, *time))]
    NotTaken {
        /// Error of the channel.
        source: io::Error,
        /// Time waited at most.
        time: Duration,
    },
    /// Channel between the processes, or what comes over it.
    #[error("{0}")]
    Channel(#[from] io::Error),
    /// State that the program hands over along with the target.
    #[error("{source}")]
    Program {
        /// Party at fault, as the program sees it.
        fault: Fault,
        /// Reason of the program.
        source: Box<dyn Error + Send + Sync>,
    },
}

impl HandOverError {
    /// Failure of state that the program hands over along with the target.
    pub fn program(fault: Fault, source: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self::Program { fault, source: source.into() }
    }

    /// Party at fault.
    pub fn fault(&self) -> Fault {
        match self {
            Self::Obstacles(_) | Self::Reactor | Self::NotAvailable { .. } => Fault::ThisProcess,
            Self::Refused(_)
            | Self::NoGreeting
            | Self::Instead(_)
            | Self::Unsaid(_)
            | Self::Extension(_)
            | Self::Sockets
            | Self::NotServed(_)
            | Self::Impossible { .. } => Fault::OtherProcess,
            Self::StorageBusy(_) | Self::OrphansBusy | Self::ImageLate { .. } => Fault::Time,
            Self::ImageLocked { .. } => Fault::System,
            Self::NotReady { source, .. } | Self::NotTaken { source, .. } | Self::Channel(source) => {
                fault_of_channel(source)
            }
            Self::Program { fault, .. } => *fault,
        }
    }
}

fn fault_of_channel(error: &io::Error) -> Fault {
    match error.kind() {
        _ if is_late(error) => Fault::Time,
        io::ErrorKind::InvalidData
        | io::ErrorKind::UnexpectedEof
        | io::ErrorKind::BrokenPipe
        | io::ErrorKind::ConnectionReset => Fault::OtherProcess,
        _ => Fault::System,
    }
}

/// True if no message arrived in time.
pub(super) fn is_late(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut)
}

/// Reason for a missing answer after this time.
fn silence(error: &io::Error, time: Duration) -> String {
    match error.kind() {
        _ if is_late(error) => {
            format!("it does not answer within {} ms (is it stopped?)", time.as_millis())
        }
        io::ErrorKind::UnexpectedEof => "it has ended".to_owned(),
        _ => error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use std::io::ErrorKind;

    use super::*;

    const NQN: &str = "nqn.2026-01.io.selvedge:a";
    const TIME: Duration = Duration::from_secs(2);

    /// Error of another layer.
    #[derive(Debug, PartialEq, Eq, thiserror::Error)]
    #[error("{0}")]
    struct Cause(&'static str);

    fn assert_each(all: impl IntoIterator<Item = (HandOverError, &'static str)>, fault: Fault) {
        for (error, said) in all {
            assert_eq!((error.to_string().as_str(), error.fault()), (said, fault), "{error:?}");
        }
    }

    fn not_ready(kind: ErrorKind) -> HandOverError {
        HandOverError::NotReady { source: kind.into(), time: TIME }
    }

    fn not_taken(kind: ErrorKind) -> HandOverError {
        HandOverError::NotTaken { source: kind.into(), time: TIME }
    }

    #[test]
    fn this_process_is_at_fault_for_what_it_cannot_give_or_lacks() {
        let obstacles = ["a", "b"].map(str::to_owned).to_vec();
        let all = [
            (HandOverError::Obstacles(obstacles), "a; b"),
            (HandOverError::Reactor, "a reactor does not answer"),
            (
                HandOverError::NotAvailable { nqn: NQN.to_owned(), nsid: 3 },
                "namespace 3 of nqn.2026-01.io.selvedge:a is not available to the new process",
            ),
        ];
        assert_each(all, Fault::ThisProcess);
    }

    #[test]
    fn the_other_process_is_at_fault_for_its_words_and_its_end() {
        let namespace = "5f5e1000-0000-0000-0000-000000000001";
        let marked = |object: &str| HandOverError::Impossible {
            object: object.to_owned(),
            source: Cause("too many of its blocks are marked").into(),
        };
        let damaged = io::Error::new(ErrorKind::InvalidData, "the hand-over is damaged");
        let all = [
            (HandOverError::Refused(vec!["a".to_owned(), "b".to_owned()]), "a; b"),
            (HandOverError::NoGreeting, "it does not begin with a greeting"),
            (HandOverError::Instead("Ready"), "unexpected message of the new process, instead of Ready"),
            (HandOverError::Unsaid("how its hosts are"), "it does not say how its hosts are"),
            (
                HandOverError::Extension("memory".to_owned()),
                "the new process is of a version that cannot take over memory",
            ),
            (HandOverError::Sockets, "the number of sockets is not that of the queues"),
            (
                HandOverError::NotServed(namespace.parse().unwrap()),
                "the namespace 5f5e1000-0000-0000-0000-000000000001 is not served",
            ),
            (marked("namespace 1 of x"), "namespace 1 of x: too many of its blocks are marked"),
            (not_ready(ErrorKind::UnexpectedEof), "the new process has not become ready: it has ended"),
            (not_taken(ErrorKind::UnexpectedEof), "the new process does not take over: it has ended"),
            (HandOverError::from(damaged), "the hand-over is damaged"),
            (
                HandOverError::program(Fault::OtherProcess, "settings that are not MPTCP's"),
                "settings that are not MPTCP's",
            ),
        ];
        assert_each(all, Fault::OtherProcess);
    }

    #[test]
    fn time_is_at_fault_for_work_and_answers_that_take_too_long() {
        let all = [
            (
                HandOverError::StorageBusy("host x, queue 1".to_owned()),
                "the storage works on commands of host x, queue 1",
            ),
            (HandOverError::OrphansBusy, "commands of a host that is gone are still under way"),
            (
                HandOverError::ImageLate { nqn: "x".to_owned(), nsid: 1 },
                "namespace 1 of x: commands on its image have taken too long, and may be carried out yet",
            ),
            (
                not_ready(ErrorKind::WouldBlock),
                "the new process has not become ready: it does not answer within 2000 ms (is it stopped?)",
            ),
            (
                not_taken(ErrorKind::TimedOut),
                "the new process does not take over: it does not answer within 2000 ms (is it stopped?)",
            ),
        ];
        assert_each(all, Fault::Time);
    }

    #[test]
    fn the_system_is_at_fault_for_locks_and_other_errors_of_the_channel() {
        let locked = Cause("an image is not available");
        let all = [
            (
                HandOverError::ImageLocked { nqn: "x".to_owned(), nsid: 1, source: Box::new(locked) },
                "namespace 1 of x stays locked: an image is not available",
            ),
            (not_ready(ErrorKind::OutOfMemory), "the new process has not become ready: out of memory"),
            (HandOverError::from(io::Error::from(ErrorKind::OutOfMemory)), "out of memory"),
        ];
        assert_each(all, Fault::System);
    }

    #[test]
    fn causes_are_kept() {
        let ended = not_ready(ErrorKind::UnexpectedEof);
        let cause = ended.source().and_then(|source| source.downcast_ref::<io::Error>());
        assert_eq!(cause.map(io::Error::kind), Some(ErrorKind::UnexpectedEof));
        let program = HandOverError::program(Fault::ThisProcess, Cause("a reason"));
        assert_eq!(program.fault(), Fault::ThisProcess);
        let cause = program.source().and_then(|source| source.downcast_ref::<Cause>());
        assert_eq!(cause, Some(&Cause("a reason")));
        assert!(HandOverError::Reactor.source().is_none());
    }
}
