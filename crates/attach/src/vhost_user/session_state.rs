//! A front end that is handed over: how nothing of it is under way, what another process needs to go on with it, and how one begins
//! that another process has heard.

use std::io;
use std::sync::Arc;
use std::sync::mpsc::RecvTimeoutError;

use engine::ring::channel::{Receiver, channel};
use engine::ring::{Moment, now};

use super::handed_front_end::{HandedFrontEnd, HandedVring};
use super::inflight::InflightRegion;
use super::machine::{BackendChannel, Event, open_event, share, share_event};
use super::session::{Session, Tables, VringSettings};
use super::vring::Stopped;
use crate::limits::{VRING_ENTRIES_MAX, VRINGS_MAX};
use crate::machine::Descriptor;

/// Virtqueues that are about to stop, by their numbers.
pub(super) struct Stopping(Vec<(usize, Receiver<Stopped>)>);

impl Session {
    /// Takes no more requests of any virtqueue.
    pub(super) fn quiesce(&mut self) -> Stopping {
        let running: Vec<usize> = (0..VRINGS_MAX).filter(|index| self.vrings[*index].is_running).collect();
        let stop = |index: usize| {
            let (asker, answer) = channel();
            self.order_stop(index, asker);
            (index, answer)
        };
        Stopping(running.into_iter().map(stop).collect())
    }

    /// Waits until nothing of the virtqueues is under way, or until the limit. Says whether that is so.
    pub(super) fn await_quiet(&mut self, stopping: &mut Stopping, until: Option<Moment>) -> bool {
        while let Some((index, answer)) = stopping.0.last() {
            let index = *index;
            let stopped = match until {
                None => answer.recv().ok(),
                Some(until) => match answer.recv_timeout(until.since(now())) {
                    Err(RecvTimeoutError::Timeout) => return false,
                    answer => answer.ok(),
                },
            };
            stopping.0.pop();
            self.vrings[index].is_running = false;
            // A thread that has ended has nothing under way either.
            if let Some(stopped) = stopped {
                self.vrings[index].next_avail = stopped.next_avail;
            }
        }
        true
    }

    /// Begins all virtqueues again that were stopped.
    pub(super) fn resume(&mut self) -> vhost::vhost_user::Result<()> {
        (0..self.vrings.len()).try_for_each(|index| self.start(index))
    }

    /// State from which another process can continue it, and the descriptors.
    pub(super) fn state(&self) -> io::Result<(HandedFrontEnd, Vec<Descriptor>)> {
        let mut descriptors = vec![share(&self.connection)?];
        if let Some(channel) = &self.channel {
            descriptors.push(channel.handed()?);
        }
        let (memory, files) = self.memory.handed()?;
        descriptors.extend(files);
        let inflight = self.inflight.as_ref().map(InflightRegion::handed).transpose()?;
        let inflight = inflight.map(|(handed, file)| {
            descriptors.push(file);
            handed
        });
        let mut vrings = Vec::new();
        for (index, vring) in self.vrings.iter().enumerate() {
            let VringSettings { entries, tables, next_avail, kick, call, is_enabled, .. } = vring;
            if *entries == 0 && kick.is_none() && call.is_none() {
                continue;
            }
            for event in [kick, call].into_iter().flatten() {
                descriptors.push(share_event(event)?);
            }
            let tables = tables.map(|Tables { descriptors, available, used }| [descriptors, available, used]);
            let (has_kick, has_call) = (kick.is_some(), call.is_some());
            let (entries, next_avail, is_enabled) = (*entries, *next_avail, *is_enabled);
            vrings.push(HandedVring { index, entries, tables, next_avail, is_enabled, has_kick, has_call });
        }
        let handed = HandedFrontEnd {
            features: self.features,
            protocol_features: self.protocol_features,
            known_bytes: self.known_bytes,
            has_channel: self.channel.is_some(),
            memory,
            inflight,
            vrings,
        };
        Ok((handed, descriptors))
    }

    /// Goes on as another process did. Its virtqueues begin with `resume`.
    pub(super) fn go_on(
        &mut self,
        handed: &HandedFrontEnd,
        mut descriptors: impl Iterator<Item = Descriptor>,
    ) -> io::Result<()> {
        let missing = || io::Error::other("descriptors are missing");
        if self.features != handed.features {
            return Err(io::Error::other("its device had features that the new process does not have"));
        }
        self.known_bytes = handed.known_bytes;
        if handed.has_channel {
            self.channel = Some(BackendChannel::going_on(descriptors.next().ok_or_else(missing)?));
        }
        let files = descriptors.by_ref().take(handed.memory.len()).collect();
        self.memory.go_on(&handed.memory, files)?;
        if let Some(inflight) = handed.inflight {
            let file = descriptors.next().ok_or_else(missing)?;
            self.inflight = Some(InflightRegion::going_on(inflight, file, &self.memory.share)?);
        }
        for vring in &handed.vrings {
            let HandedVring { index, entries, tables, next_avail, is_enabled, has_kick, has_call } = *vring;
            let is_size = entries == 0 || entries.is_power_of_two() && entries <= VRING_ENTRIES_MAX;
            let vring = self.vrings.get_mut(index).filter(|_| is_size);
            let vring = vring.ok_or_else(|| io::Error::other("a virtqueue is not one that there can be"))?;
            let mut event = |has: bool| -> io::Result<Option<Arc<Event>>> {
                let event = has.then(|| descriptors.next().ok_or_else(missing)).transpose()?;
                event.map(|event| open_event(event).map(Arc::new)).transpose()
            };
            let (kick, call) = (event(has_kick)?, event(has_call)?);
            let tables = tables.map(|[descriptors, available, used]| Tables { descriptors, available, used });
            *vring = VringSettings { entries, tables, next_avail, kick, call, is_enabled, is_running: false };
        }
        Ok(())
    }
}
