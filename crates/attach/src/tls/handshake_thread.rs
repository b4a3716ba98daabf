//! The thread that does handshakes, for all threads of a server: one step after the other, in the order in which they were asked
//! for.

use std::io;
use std::sync::Weak;

use engine::ring::Waker;
use engine::ring::channel::{Receiver, Sender, channel};
use engine::ring::thread::{Builder, JoinHandle};

use super::ServerTls;
use super::handshake::{Established, Handshake, HandshakeError};

/// A step that is to be done.
pub(crate) struct Job {
    /// Place and number of the client.
    pub(super) client: (usize, u64),
    /// Dead once that client is gone.
    pub(super) is_awaited: Weak<()>,
    /// None for one that begins.
    pub(super) handshake: Option<Handshake>,
    /// Received bytes.
    pub(super) bytes: Vec<u8>,
    pub(super) answers: Sender<Answer>,
    pub(super) waker: Waker,
}

/// Result of a step.
pub(crate) struct Answer {
    pub(super) client: (usize, u64),
    pub(super) outcome: Outcome,
    /// Bytes for the client.
    pub(super) output: Vec<u8>,
}

pub(super) enum Outcome {
    Continues(Handshake),
    /// The handshake is complete; these bytes came after it.
    Established(Established, Vec<u8>),
    Failed(HandshakeError),
}

/// Sender of steps to do. The thread ends when no sender is left.
pub(crate) type Jobs = Sender<Job>;

/// The thread.
#[derive(Debug)]
pub(crate) struct HandshakeThread(JoinHandle<()>);

impl HandshakeThread {
    /// Starts it.
    pub(crate) fn start(tls: ServerTls) -> io::Result<(Self, Jobs)> {
        let (sender, jobs) = channel();
        let thread = Builder::new().name("nbd-tls".to_owned()).spawn(move || work(&tls, &jobs))?;
        Ok((Self(thread), sender))
    }

    /// Waits for its end.
    pub(crate) fn join(self) {
        let _ = self.0.join();
    }
}

fn work(tls: &ServerTls, jobs: &Receiver<Job>) {
    while let Ok(job) = jobs.recv() {
        // Who has gone meanwhile costs nothing more: so there is never more work than clients.
        if job.is_awaited.strong_count() == 0 {
            continue;
        }
        let (mut output, bytes) = (Vec::new(), job.bytes);
        let outcome = step(tls, job.handshake, &bytes, &mut output).unwrap_or_else(Outcome::Failed);
        // A thread that has ended awaits no answer.
        let _ = job.answers.send(Answer { client: job.client, outcome, output });
        job.waker.wake();
    }
}

fn step(
    tls: &ServerTls,
    handshake: Option<Handshake>,
    mut bytes: &[u8],
    output: &mut Vec<u8>,
) -> Result<Outcome, HandshakeError> {
    let mut handshake = match handshake {
        Some(handshake) => handshake,
        None => Handshake::begin(tls)?,
    };
    Ok(match handshake.step(tls, &mut bytes, output)? {
        None => Outcome::Continues(handshake),
        Some(established) => Outcome::Established(established, bytes.to_vec()),
    })
}
