//! Handle of a running server of front ends, for their hand-over to another process, or from one.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use engine::ring::channel::{Receiver, channel};
use engine::ring::{Moment, now};

use super::front_end_command::{FrontEndCommand, FrontEndThreadHandle};
use super::handed_front_end::HandedVhostServer;
use crate::hand_over_error::HandOverError;
use crate::limits::{HAND_OVER_STALL_MS, HAND_OVER_TIMEOUT_MS};
use crate::machine::Descriptor;

/// Time for a thread to take over the state of another process.
const ADOPTION: Duration = Duration::from_secs(5);

/// A server that may be handed over.
#[derive(Clone)]
pub struct VhostHolder {
    sockets: Arc<[FrontEndThreadHandle]>,
    is_left: Arc<AtomicBool>,
}

impl VhostHolder {
    pub(super) fn new(sockets: &[FrontEndThreadHandle], is_left: Arc<AtomicBool>) -> Self {
        Self { sockets: sockets.into(), is_left }
    }

    /// Brings the server to rest: what guests have asked for ends, and nothing else begins. What another process needs to go on,
    /// and the descriptors.
    ///
    /// # Errors
    /// When what is under way takes too long. The server serves on then.
    pub fn freeze(&self) -> Result<(HandedVhostServer, Vec<Descriptor>), HandOverError> {
        let frozen = self.try_freeze();
        if frozen.is_err() {
            self.thaw(false);
        }
        frozen
    }

    fn try_freeze(&self) -> Result<(HandedVhostServer, Vec<Descriptor>), HandOverError> {
        let ask = |handle: &FrontEndThreadHandle| {
            let (asker, answer) = channel();
            handle.send(FrontEndCommand::Freeze(asker));
            answer
        };
        let answers: Vec<_> = self.sockets.iter().map(ask).collect();
        let until = now().after(Duration::from_millis(HAND_OVER_TIMEOUT_MS + HAND_OVER_STALL_MS));
        let (mut handed, mut descriptors) = (HandedVhostServer::default(), Vec::new());
        for answered in &answers {
            let (handle, own) = answer(answered, until)??;
            handed.sockets.push(handle);
            descriptors.extend(own);
        }
        Ok((handed, descriptors))
    }

    /// Serves on. Where another process may have heard the front ends meanwhile (`is_disowned`), their connections are closed.
    pub fn thaw(&self, is_disowned: bool) {
        self.sockets.iter().for_each(|handle| handle.send(FrontEndCommand::Thaw(is_disowned)));
    }

    /// Ends without a word to any front end: another process serves them.
    pub fn leave(&self) {
        self.is_left.store(true, Ordering::Release);
        self.sockets.iter().for_each(|handle| handle.send(FrontEndCommand::Leave));
    }

    /// Takes over what another process has brought to rest. This server serves when `thaw` is called. Those that cannot be taken
    /// are named with the reason; their connections are closed.
    ///
    /// # Errors
    /// When it is not what a server hands over.
    pub fn adopt(
        &self,
        handed: HandedVhostServer,
        descriptors: Vec<Descriptor>,
    ) -> Result<Vec<(String, String)>, HandOverError> {
        let count = handed.sockets.iter().fold(0_usize, |sum, handle| sum.saturating_add(handle.descriptors));
        if handed.sockets.len() != self.sockets.len() || count != descriptors.len() {
            return Err(HandOverError::OtherSockets);
        }
        let mut descriptors = descriptors.into_iter();
        let mut answers = Vec::new();
        for (handle, handed) in self.sockets.iter().zip(handed.sockets) {
            let own = descriptors.by_ref().take(handed.descriptors).collect();
            let (asker, answer) = channel();
            let name = handed.disk.name.clone();
            handle.send(FrontEndCommand::Adopt(Box::new((handed, own)), asker));
            answers.push((name, answer));
        }
        let until = now().after(ADOPTION);
        let mut failed = Vec::new();
        for (name, adopted) in answers {
            let reason = answer(&adopted, until)?;
            failed.extend(reason.map(|reason| (format!("of disk {name}"), reason)));
        }
        Ok(failed)
    }
}

fn answer<T>(answers: &Receiver<T>, until: Moment) -> Result<T, HandOverError> {
    let answered = answers.recv_timeout(until.since(now()));
    answered.map_err(|_| HandOverError::GuestsBusy)
}
