//! Hand-over of a socket's front end: its thread ends the guest's requests, reports the state, and
//! touches nothing until a command to resume, or to leave the front end to another process.

use std::io;
use std::sync::mpsc::RecvTimeoutError;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use engine::ring::channel::Sender;
use engine::ring::now;

use super::front_end_command::{FrontEndCommand, HandedWithFds, QuiesceEnd};
use super::front_end_thread::{Caller, FrontEndThread, lock};
use super::handed_front_end::{HandedFrontEnd, HandedSocket};
use super::machine::{Handler, close, open};
use super::session::Session;
use crate::hand_over_error::HandOverError;
use crate::handed_client::HandedDisk;
use crate::limits::HAND_OVER_TIMEOUT_MS;
use crate::machine::Descriptor;

/// Interval at which the end of the server is checked while its thread has no commands.
const LOOK_INTERVAL: Duration = Duration::from_millis(100);

impl FrontEndThread {
    /// Quiesces on command while no front end is connected.
    pub(super) fn quiesce_alone(&self) -> Option<QuiesceEnd> {
        let asker = self.freeze_request()?;
        let _ = asker.send(self.state(None));
        Some(self.stay_quiesced(&mut None))
    }

    /// Quiesces on command while this front end is heard.
    pub(super) fn quiesce_with(&self, session: &Mutex<Session>) -> Option<QuiesceEnd> {
        let asker = self.freeze_request()?;
        let mut stopping = lock(session).quiesce();
        let until = now().after(Duration::from_millis(HAND_OVER_TIMEOUT_MS));
        let is_quiet = lock(session).await_quiet(&mut stopping, Some(until));
        let state = match is_quiet {
            true => self.state(Some(&lock(session))),
            false => Err(HandOverError::GuestBusy),
        };
        let _ = asker.send(state);
        let stay_quiesced = self.stay_quiesced(&mut None);
        // What was not quiet in time is, before its virtqueues begin again.
        lock(session).await_quiet(&mut stopping, None);
        match stay_quiesced {
            QuiesceEnd::GoesOn(_) => Some(QuiesceEnd::GoesOn(lock(session).resume())),
            other => Some(other),
        }
    }

    /// Sender for the quiesced state, if a freeze was requested.
    fn freeze_request(&self) -> Option<Sender<Result<HandedWithFds, HandOverError>>> {
        // Commands before it belong to a quiescence that is over.
        self.wake.clear();
        self.commands.try_iter().find_map(|command| match command {
            FrontEndCommand::Freeze(asker) => Some(asker),
            _ => None,
        })
    }

    /// Touches nothing until the command to resume. Meanwhile it may be given the state that another
    /// process has left.
    pub(super) fn stay_quiesced(&self, adopted: &mut Option<Caller>) -> QuiesceEnd {
        loop {
            let command = match self.commands.recv_timeout(LOOK_INTERVAL) {
                Ok(command) => command,
                Err(RecvTimeoutError::Timeout) if !self.is_ending() => continue,
                Err(_) => return QuiesceEnd::Leaves,
            };
            match command {
                FrontEndCommand::Adopt(handed, asker) => {
                    let outcome = self.adopt(*handed);
                    let _ = asker.send(outcome.as_ref().err().map(ToString::to_string));
                    *adopted = outcome.ok().flatten();
                }
                FrontEndCommand::Thaw(false) => return QuiesceEnd::GoesOn(Ok(())),
                FrontEndCommand::Thaw(true) => {
                    if let Some(caller) = adopted.take() {
                        close(&caller.stream);
                    }
                    return QuiesceEnd::Disowned;
                }
                FrontEndCommand::Leave => return QuiesceEnd::Leaves,
                FrontEndCommand::Freeze(asker) => {
                    let _ = asker.send(Err(HandOverError::Quiesced));
                }
            }
        }
    }

    fn state(&self, session: Option<&Session>) -> Result<HandedWithFds, HandOverError> {
        let export = self.disk.export()?;
        let disk = HandedDisk { name: self.disk.name.clone(), block_bytes: export.block_bytes };
        let state = session.map(Session::state).transpose()?;
        let (front_end, descriptors) = state.unzip();
        let descriptors: Vec<Descriptor> = descriptors.unwrap_or_default();
        Ok((HandedSocket { disk, front_end, descriptors: descriptors.len() }, descriptors))
    }

    /// Gets ready for a front end that another process has heard.
    fn adopt(&self, (handed, descriptors): HandedWithFds) -> io::Result<Option<Caller>> {
        let export = self.disk.export().map_err(io::Error::other)?;
        if handed.disk.name != self.disk.name || handed.disk.block_bytes != export.block_bytes {
            return Err(io::Error::other("its disk is another one in the new process, or has other blocks"));
        }
        let Some(front_end) = handed.front_end else { return Ok(None) };
        let stream = descriptors.into_iter();
        self.caller(&front_end, stream).map(Some)
    }

    fn caller(
        &self,
        handed: &HandedFrontEnd,
        mut descriptors: impl Iterator<Item = Descriptor>,
    ) -> io::Result<Caller> {
        let connection = descriptors.next().ok_or_else(|| io::Error::other("its connection is missing"))?;
        let stream = Arc::new(open(connection)?);
        let session = self.session(&stream)?;
        let agreed = (handed.features, handed.protocol_features);
        let handler = Handler::resumed(&stream, agreed, &session)?;
        lock(&session).go_on(handed, descriptors)?;
        Ok(Caller { stream, session, handler })
    }
}
