//! Orders to the thread of a socket while it serves.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};

use rustix::event::{EventfdFlags, eventfd};

use super::handed_front_end::HandedDoor;

/// State that a socket's thread hands over, with the descriptors.
pub(super) type HandedWithFds = (HandedDoor, Vec<OwnedFd>);

/// Order to the thread of a socket.
pub(super) enum DoorOrder {
    /// Hear nothing, end what the guest has asked for, and say how the front end is then.
    Freeze(Sender<Result<HandedWithFds, String>>),
    /// Serve the state that another process has left, after the order to go on. Reports the reason
    /// if that is impossible.
    Adopt(Box<HandedWithFds>, Sender<Option<String>>),
    /// Go on. Where another process may have heard the front end meanwhile (`true`), its connection is closed.
    Thaw(bool),
    /// End without a word to the front end: another process hears it.
    Leave,
}

/// End of a rest.
pub(super) enum Rest {
    /// The thread goes on, or its front end cannot be.
    GoesOn(vhost::vhost_user::Result<()>),
    /// The thread goes on without its front end, which another process may have heard.
    Disowned,
    /// Another process serves.
    Leaves,
}

/// The thread, as others know it.
#[derive(Clone)]
pub(super) struct DoorHand {
    orders: Sender<DoorOrder>,
    wake: Arc<OwnedFd>,
}

impl DoorHand {
    /// Handle, receiver of its orders, and a descriptor that is readable when there are some.
    pub(super) fn new() -> std::io::Result<(Self, Receiver<DoorOrder>, Arc<OwnedFd>)> {
        let (orders, ordered) = channel();
        let wake = Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?);
        Ok((Self { orders, wake: wake.clone() }, ordered, wake))
    }

    /// Gives an order. A thread that is gone takes none.
    pub(super) fn order(&self, order: DoorOrder) {
        let _ = self.orders.send(order);
        let _ = rustix::io::write(&self.wake, &1u64.to_ne_bytes());
    }
}
