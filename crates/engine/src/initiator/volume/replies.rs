//! Replies to a request of the ends of the commands it was split into: each gets exactly one reply,
//! and the waiter is woken, be it a task of some executor or a thread.

use std::collections::VecDeque;
use std::future::Future;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use crate::initiator::InitiatorError;
use crate::initiator::queue::{Completion, Ended};
use crate::ring::EventCount;

/// A thread that waits looks this often although it was not woken; it only bounds what a lost wake would cost.
const LOOK_INTERVAL: Duration = Duration::from_secs(60);

/// End of a command of the request: the offset in the request of its data, and its completion or
/// why there is none.
pub(super) type Reply = (u64, Result<Completion, InitiatorError>);

#[derive(Debug, Default)]
struct State {
    replies: VecDeque<Reply>,
    waker: Option<Waker>,
}

/// The replies to one request.
#[derive(Clone, Debug, Default)]
pub(super) struct Replies(Arc<Mutex<State>>);

impl Replies {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Receiver of the end of the command whose data begins at `offset`.
    pub(super) fn expect(&self, offset: u64, address: SocketAddr) -> ReplyTo {
        ReplyTo { replies: Some(self.clone()), offset, address }
    }

    /// The next reply. It is for requests that expect one.
    pub(super) async fn next(&self) -> Reply {
        std::future::poll_fn(|context| {
            let mut state = self.state();
            if let Some(reply) = state.replies.pop_front() {
                return Poll::Ready(reply);
            }
            match &mut state.waker {
                Some(waker) => waker.clone_from(context.waker()),
                none => *none = Some(context.waker().clone()),
            }
            Poll::Pending
        })
        .await
    }

    fn push(&self, reply: Reply) {
        let waker = {
            let mut state = self.state();
            state.replies.push_back(reply);
            state.waker.take()
        };
        // Whatever a waker does, it does it without our lock.
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

/// The one reply that a command owes. When it is dropped, it is one, too.
#[derive(Debug)]
pub(super) struct ReplyTo {
    replies: Option<Replies>,
    offset: u64,
    address: SocketAddr,
}

impl ReplyTo {
    pub(super) fn send(mut self, ended: Ended) {
        if let Some(replies) = self.replies.take() {
            let outcome = ended.answer().map_err(|lost| InitiatorError::clone(&lost.error));
            replies.push((self.offset, outcome));
        }
    }
}

impl Drop for ReplyTo {
    fn drop(&mut self) {
        if let Some(replies) = self.replies.take() {
            let error = InitiatorError::Disconnected { address: self.address };
            replies.push((self.offset, Err(error)));
        }
    }
}

/// A thread that waits for a future.
#[derive(Default)]
struct WaitingThread(EventCount);

impl Wake for WaitingThread {
    fn wake(self: Arc<Self>) {
        self.0.notify_all();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.0.notify_all();
    }
}

/// Waits on this thread until the future is done.
pub(super) fn block_on<F: Future>(future: F) -> F::Output {
    let thread = Arc::new(WaitingThread::default());
    let waker = Waker::from(thread.clone());
    let mut context = Context::from_waker(&waker);
    let mut future = pin!(future);
    loop {
        let seen = thread.0.count();
        if let Poll::Ready(output) = future.as_mut().poll(&mut context) {
            return output;
        }
        thread.0.wait(seen, LOOK_INTERVAL);
    }
}

#[cfg(test)]
#[cfg(not(feature = "simulation"))]
mod tests {
    use super::*;

    const ADDRESS: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 1);

    #[test]
    fn a_command_that_is_dropped_has_its_reply() {
        let replies = Replies::default();
        let reply_to = replies.expect(7, ADDRESS);
        let dropper = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(20));
            drop(reply_to);
        });
        let (offset, outcome) = block_on(replies.next());
        assert_eq!(offset, 7);
        assert!(matches!(outcome, Err(InitiatorError::Disconnected { .. })));
        dropper.join().unwrap();
    }
}
