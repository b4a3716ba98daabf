//! Hand-over of a socket's front end: its thread ends the guest's requests, reports the state, and
//! touches nothing until it is ordered to go on, or to leave the front end to another process.

use std::io;
use std::net::Shutdown;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::mpsc::{RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use super::door::{Caller, Door, lock};
use super::door_order::{DoorOrder, HandedWithFds, Rest};
use super::front_end_socket::hear_on;
use super::handed_front_end::{HandedDoor, HandedFrontEnd};
use super::session::Session;
use crate::handed_client::HandedDisk;
use crate::limits::HAND_OVER_TIMEOUT_MS;

/// Interval at which the end of the server is checked while its thread has no orders.
const LOOK_INTERVAL: Duration = Duration::from_millis(100);

impl Door {
    /// Rests on order while no front end is connected.
    pub(super) fn rest_alone(&self) -> Option<Rest> {
        let asker = self.freeze_order()?;
        let _ = asker.send(self.state(None));
        Some(self.rest(&mut None))
    }

    /// Rests on order while this front end is heard.
    pub(super) fn rest_with(&self, session: &Mutex<Session>) -> Option<Rest> {
        let asker = self.freeze_order()?;
        let mut stopping = lock(session).quiesce();
        let until = Instant::now() + Duration::from_millis(HAND_OVER_TIMEOUT_MS);
        let is_quiet = lock(session).await_quiet(&mut stopping, Some(until));
        let state = match is_quiet {
            true => self.state(Some(&lock(session))),
            false => Err("what a guest has asked for takes too long to end".to_owned()),
        };
        let _ = asker.send(state);
        let rest = self.rest(&mut None);
        // What was not quiet in time is, before its virtqueues begin again.
        lock(session).await_quiet(&mut stopping, None);
        match rest {
            Rest::GoesOn(_) => Some(Rest::GoesOn(lock(session).resume())),
            other => Some(other),
        }
    }

    /// Receiver of the state at rest, if a freeze was ordered.
    fn freeze_order(&self) -> Option<Sender<Result<HandedWithFds, String>>> {
        // Orders before it are those of a rest that is over.
        let _ = rustix::io::read(&self.wake, &mut [0; 8]);
        self.orders.try_iter().find_map(|order| match order {
            DoorOrder::Freeze(asker) => Some(asker),
            _ => None,
        })
    }

    /// Touches nothing until the order to go on. Meanwhile it may be given the state that another
    /// process has left.
    pub(super) fn rest(&self, adopted: &mut Option<Caller>) -> Rest {
        loop {
            let order = match self.orders.recv_timeout(LOOK_INTERVAL) {
                Ok(order) => order,
                Err(RecvTimeoutError::Timeout) if !self.is_ending() => continue,
                Err(_) => return Rest::Leaves,
            };
            match order {
                DoorOrder::Adopt(handed, asker) => {
                    let outcome = self.adopt(*handed);
                    let _ = asker.send(outcome.as_ref().err().map(ToString::to_string));
                    *adopted = outcome.ok().flatten();
                }
                DoorOrder::Thaw(false) => return Rest::GoesOn(Ok(())),
                DoorOrder::Thaw(true) => {
                    if let Some(caller) = adopted.take() {
                        let _ = caller.stream.shutdown(Shutdown::Both);
                    }
                    return Rest::Disowned;
                }
                DoorOrder::Leave => return Rest::Leaves,
                DoorOrder::Freeze(asker) => {
                    let _ = asker.send(Err("it is at rest already".to_owned()));
                }
            }
        }
    }

    fn state(&self, session: Option<&Session>) -> Result<HandedWithFds, String> {
        let export = self.disk.export().map_err(|error| error.to_string())?;
        let disk = HandedDisk { name: self.disk.name.clone(), block_bytes: export.block_bytes };
        let state = session.map(Session::state).transpose().map_err(|error| error.to_string())?;
        let (front_end, descriptors) = state.unzip();
        let descriptors: Vec<OwnedFd> = descriptors.unwrap_or_default();
        Ok((HandedDoor { disk, front_end, descriptors: descriptors.len() }, descriptors))
    }

    /// Gets ready for a front end that another process has heard.
    fn adopt(&self, (handed, descriptors): HandedWithFds) -> io::Result<Option<Caller>> {
        let export = self.disk.export().map_err(io::Error::other)?;
        if handed.disk.name != self.disk.name || handed.disk.block_bytes != export.block_bytes {
            return Err(io::Error::other("its disk is another one in the next process, or has other blocks"));
        }
        let Some(front_end) = handed.front_end else { return Ok(None) };
        let stream = descriptors.into_iter();
        self.caller(&front_end, stream).map(Some)
    }

    fn caller(
        &self,
        handed: &HandedFrontEnd,
        mut descriptors: impl Iterator<Item = OwnedFd>,
    ) -> io::Result<Caller> {
        let connection = descriptors.next().ok_or_else(|| io::Error::other("its connection is missing"))?;
        let stream = Arc::new(UnixStream::from(connection));
        stream.set_nonblocking(false)?;
        let session = self.session(&stream)?;
        let agreed = (handed.features, handed.protocol_features);
        let handler = hear_on(&*stream, agreed, session.clone())?;
        lock(&session).go_on(handed, descriptors)?;
        Ok(Caller { stream, session, handler })
    }
}
