//! The loop round queues: a ring, the queues on it, and what each caller wants back with its command. It neither starts a
//! thread nor knows what a command means.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use nvme::SubmissionEntry;

use super::CommandQueues;
use crate::initiator::queue::{Data, Ended, Lost, Request};
use crate::ring::{Event, Moment, Ring};

/// Drives queues on the thread that owns it. With each command goes a `tag` of the caller's, which comes back with its end.
/// Its owner's loop: `turn`, `pop` until there is nothing, `submit` what comes next, `flush`. Nothing is allocated, locked or
/// shared per command once as many have been outstanding as ever are.
///
/// `close` it before it is dropped, as the queues want it.
pub struct Driver<Q, T> {
    ring: Ring,
    queues: Q,
    scratch: Vec<u8>,
    events: Vec<Event>,
    /// Time since the last turn, if the clock was read.
    clock: Option<Moment>,
    /// Values that the caller left with outstanding commands, by the numbers that the queues know
    /// them by.
    tags: Vec<Option<T>>,
    free: Vec<u32>,
    /// Commands that wait for a slot.
    backlog: VecDeque<(SubmissionEntry, Data, T)>,
    /// Commands that waited for a slot that will not come.
    refused: VecDeque<(T, Lost)>,
}

impl<Q: CommandQueues, T> Driver<Q, T> {
    /// Drives `queues`, which were opened on `ring`, with room of `scratch_length` bytes to receive into.
    pub fn new(ring: Ring, queues: Q, scratch_length: usize) -> Self {
        Self {
            ring,
            queues,
            scratch: vec![0; scratch_length],
            events: Vec::with_capacity(256),
            clock: None,
            tags: Vec::new(),
            free: Vec::new(),
            backlog: VecDeque::new(),
            refused: VecDeque::new(),
        }
    }

    /// Reads the clock: commands that are submitted from now on count from this moment. Who calls this begins to submit at once,
    /// and then flushes and turns: the clock is not read again for that.
    pub fn now(&mut self) -> Moment {
        let now = self.ring.now();
        self.queues.see(now);
        self.clock = Some(now);
        now
    }

    /// The ring.
    pub const fn ring(&self) -> &Ring {
        &self.ring
    }

    /// The queues.
    pub const fn queues(&self) -> &Q {
        &self.queues
    }

    /// The queues with their ring, for what only their owner knows to do.
    pub(in crate::initiator) const fn parts(&mut self) -> (&mut Q, &mut Ring) {
        (&mut self.queues, &mut self.ring)
    }

    /// Commands that are sent at once, before any has to wait for a slot.
    pub fn free_slots(&self) -> usize {
        if self.backlog.is_empty() { self.queues.free_slots() } else { 0 }
    }

    /// Takes a command; `flush` sends it. Without a free slot it waits for one, behind those that wait already.
    pub fn submit(&mut self, entry: SubmissionEntry, data: Data, tag: T) {
        self.submit_beside(entry, data, tag, 0);
    }

    /// The same, where this number of slots stays free for others.
    pub(in crate::initiator) fn submit_beside(
        &mut self,
        entry: SubmissionEntry,
        data: Data,
        tag: T,
        reserve: usize,
    ) {
        if self.backlog.is_empty() && self.queues.free_slots() > reserve {
            self.start(entry, data, tag);
        } else {
            self.backlog.push_back((entry, data, tag));
            if self.queues.free_slots() == 0 {
                self.refuse_backlog();
            }
        }
    }

    /// The same for a command that waits for none: whether there was a slot.
    pub(in crate::initiator) fn submit_first(&mut self, entry: SubmissionEntry, data: Data, tag: T) -> bool {
        if self.queues.free_slots() == 0 {
            return false;
        }
        self.start(entry, data, tag)
    }

    /// The next command that has ended.
    pub fn pop(&mut self) -> Option<(T, Ended)> {
        while let Some(ended) = self.queues.pop() {
            let number = ended.user();
            let tag = self.tags.get_mut(number as usize).and_then(Option::take);
            match tag {
                Some(tag) => {
                    self.free.push(number as u32);
                    return Some((tag, ended));
                }
                // The queues themselves see to it that each command ends once.
                None => tracing::error!(number, "command ended twice; ignoring the second time"),
            }
        }
        self.refused.pop_front().map(|(tag, lost)| (tag, Ended::Lost(lost)))
    }

    /// Sends all that is queued.
    pub fn flush(&mut self) {
        self.queues.flush(&mut self.ring);
        if !self.backlog.is_empty() && self.queues.free_slots() == 0 {
            self.refuse_backlog();
        }
    }

    /// Waits for news, for `timeout` at most, and takes it in.
    ///
    /// # Errors
    /// When the ring fails: these queues can only be closed then (`close`).
    pub fn turn(&mut self, timeout: Option<Duration>) -> io::Result<()> {
        self.turn_beside(timeout, 0)
    }

    /// The same, where this number of slots stay free for others than those that wait.
    pub(in crate::initiator) fn turn_beside(
        &mut self,
        timeout: Option<Duration>,
        reserve: usize,
    ) -> io::Result<()> {
        let clock = self.clock.take();
        let can_send = !self.backlog.is_empty() && self.queues.free_slots() > reserve;
        let timeout = if self.queues.has_more() || !self.refused.is_empty() || can_send {
            Some(Duration::ZERO)
        } else {
            // What was submitted since then and sent took no time that a time-out would notice.
            let now = clock.unwrap_or_else(|| self.ring.now());
            let deadline = self.queues.next_deadline().map(|deadline: Moment| deadline.since(now));
            timeout.into_iter().chain(deadline).min()
        };
        self.events.clear();
        self.ring.wait(timeout, &mut self.events)?;
        let now = self.ring.now();
        self.queues.on_events(&mut self.ring, &mut self.scratch, &self.events, now);
        self.queues.turn(&mut self.ring, now);
        self.drain_backlog(reserve);
        Ok(())
    }

    /// Closes the queues. All that is outstanding, or waits for a slot, is lost: `pop` it.
    pub fn close(&mut self) {
        self.queues.close(&mut self.ring);
        self.refuse_backlog();
    }

    fn drain_backlog(&mut self, reserve: usize) {
        while !self.backlog.is_empty() {
            if self.queues.free_slots() > reserve {
                let Some((entry, data, tag)) = self.backlog.pop_front() else { return };
                if !self.start(entry, data, tag) {
                    return;
                }
            } else {
                return self.refuse_backlog();
            }
        }
    }

    /// Ends the commands that wait for a slot, when there will be none.
    fn refuse_backlog(&mut self) {
        let Some(error) = self.queues.error() else { return };
        let error = Arc::new(error.clone());
        for (_, data, tag) in self.backlog.drain(..) {
            let lost = Lost { user: 0, data: data.into_buffer(), error: error.clone() };
            self.refused.push_back((tag, lost));
        }
    }

    /// Gives a command to the queues, which have a free slot. Where they take it no more, it is the first to wait.
    fn start(&mut self, entry: SubmissionEntry, data: Data, tag: T) -> bool {
        let number = self.free.pop().unwrap_or_else(|| {
            self.tags.push(None);
            (self.tags.len() - 1) as u32
        });
        match self.queues.submit(Request { entry, data, user: u64::from(number) }) {
            Ok(()) => {
                self.tags[number as usize] = Some(tag);
                true
            }
            Err(request) => {
                self.free.push(number);
                self.backlog.push_front((request.entry, request.data, tag));
                false
            }
        }
    }
}

#[cfg(test)]
#[cfg(not(feature = "simulation"))]
mod tests {
    use nvme::Status;
    use proptest::prelude::*;

    use super::*;
    use crate::initiator::InitiatorError;
    use crate::initiator::queue::{Completion, Timing};
    use crate::ring::RingOptions;

    /// Queues without a connection: they end what the test tells them to.
    struct FakeQueues {
        slots: usize,
        outstanding: Vec<Request>,
        ended: VecDeque<Ended>,
        error: Option<InitiatorError>,
    }

    impl FakeQueues {
        fn answer(&mut self, at: usize) {
            let Request { data, user, .. } = self.outstanding.swap_remove(at);
            let (status, result, data) = (Status::SUCCESS, 0, data.into_buffer());
            let timing = Timing::default();
            self.ended.push_back(Ended::Answered(Completion { user, status, result, data, timing }));
        }

        fn fail(&mut self) {
            let error = InitiatorError::ApiMisuse("broken by the test".to_owned());
            self.error = Some(error.clone());
            let error = Arc::new(error);
            for Request { data, user, .. } in self.outstanding.drain(..) {
                let lost = Lost { user, data: data.into_buffer(), error: error.clone() };
                self.ended.push_back(Ended::Lost(lost));
            }
        }
    }

    impl CommandQueues for FakeQueues {
        fn free_slots(&self) -> usize {
            if self.error.is_some() { 0 } else { self.slots - self.outstanding.len() }
        }

        fn submit(&mut self, request: Request) -> Result<(), Request> {
            if self.free_slots() == 0 {
                return Err(request);
            }
            self.outstanding.push(request);
            Ok(())
        }

        fn pop(&mut self) -> Option<Ended> {
            self.ended.pop_front()
        }

        fn error(&self) -> Option<&InitiatorError> {
            self.error.as_ref()
        }

        fn has_more(&self) -> bool {
            !self.ended.is_empty()
        }

        fn on_events(&mut self, _: &mut Ring, _: &mut [u8], _: &[Event], _: Moment) {}

        fn turn(&mut self, _: &mut Ring, _: Moment) {}

        fn flush(&mut self, _: &mut Ring) {}

        fn next_deadline(&self) -> Option<Moment> {
            None
        }

        fn close(&mut self, _: &mut Ring) {
            self.fail();
        }
    }

    #[derive(Clone, Copy, Debug)]
    enum Step {
        Submit,
        Answer(usize),
        Turn,
        Pop,
        Fail,
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            8 => Just(Step::Submit),
            6 => (0usize..16).prop_map(Step::Answer),
            4 => Just(Step::Turn),
            4 => Just(Step::Pop),
            1 => Just(Step::Fail),
        ]
    }

    proptest! {
        #[test]
        fn each_command_ends_once_whatever_happens(
            slots in 1usize..6,
            steps in proptest::collection::vec(step(), 0..80),
        ) {
            let ring = Ring::new(RingOptions::default()).expect("a ring");
            let queues = FakeQueues { slots, outstanding: Vec::new(), ended: VecDeque::new(), error: None };
            let mut driver = Driver::new(ring, queues, 0);
            let (mut next, mut ends) = (0u64, Vec::new());
            for step in steps {
                match step {
                    Step::Submit => {
                        // The block says which command it is, so that an end with another's tag is seen.
                        let command = nvme::io::IoCommand::Read { start: next, blocks: 1, force_unit_access: false };
                        driver.submit(command.encode(1), Data::None, next);
                        next += 1;
                    }
                    Step::Answer(at) if !driver.queues.outstanding.is_empty() => {
                        let at = at % driver.queues.outstanding.len();
                        let (user, entry) = (driver.queues.outstanding[at].user, driver.queues.outstanding[at].entry);
                        let Ok(nvme::io::IoCommand::Read { start, .. }) = nvme::io::IoCommand::decode(&entry) else {
                            panic!("it was a read")
                        };
                        prop_assert_eq!(driver.tags[user as usize], Some(start));
                        driver.queues.answer(at);
                    }
                    Step::Turn => {
                        // Where a command could be sent, or has ended, this does not wait for the ring.
                        let waits = driver.queues.ended.is_empty()
                            && driver.refused.is_empty()
                            && (driver.backlog.is_empty() || driver.queues.free_slots() == 0);
                        driver.turn(waits.then_some(Duration::ZERO)).expect("a ring");
                        prop_assert!(driver.backlog.is_empty() || driver.queues.free_slots() == 0);
                    }
                    Step::Pop => ends.extend(driver.pop().map(|(tag, ended)| (tag, ended.answer().is_ok()))),
                    Step::Fail => driver.queues.fail(),
                    Step::Answer(_) => {}
                }
            }
            driver.close();
            while let Some((tag, ended)) = driver.pop() {
                ends.push((tag, ended.answer().is_ok()));
            }
            ends.sort_unstable();
            let tags: Vec<u64> = ends.iter().map(|(tag, _)| *tag).collect();
            prop_assert_eq!(tags, (0..next).collect::<Vec<_>>());
        }
    }
}
