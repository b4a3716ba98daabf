//! Interface of the queues that a driver drives, be they those of one controller or of all paths to
//! a namespace.

use crate::initiator::InitiatorError;
use crate::initiator::queue::{Ended, Request};
use crate::ring::{Event, Moment, Ring};

/// Queues of one thread that take commands and bring their ends. None of these calls waits.
pub trait CommandQueues {
    /// Commands that `submit` takes now.
    fn free_slots(&self) -> usize;

    /// The clock was read: commands that are taken from now on count from this moment.
    fn see(&mut self, now: Moment) {
        let _ = now;
    }

    /// Takes a command; `flush` sends it.
    ///
    /// # Errors
    /// Gives the request back when there is no free slot.
    fn submit(&mut self, request: Request) -> Result<(), Request>;

    /// The next command that has ended.
    fn pop(&mut self) -> Option<Ended>;

    /// Why commands that have no slot will get none; `None` while they may.
    fn error(&self) -> Option<&InitiatorError>;

    /// True if there is something to take in that no event of the ring will report: more in a
    /// socket, or what ended while it was being sent.
    fn has_more(&self) -> bool;

    /// Takes in what the ring has seen, and what sockets have more of.
    fn on_events(&mut self, ring: &mut Ring, scratch: &mut [u8], events: &[Event], now: Moment);

    /// Minds time-outs and whatever else has changed meanwhile.
    fn turn(&mut self, ring: &mut Ring, now: Moment);

    /// Sends all that is queued.
    fn flush(&mut self, ring: &mut Ring);

    /// Latest time of the next call of `turn`.
    fn next_deadline(&self) -> Option<Moment>;

    /// Closes all connections. What is outstanding is lost.
    fn close(&mut self, ring: &mut Ring);
}
