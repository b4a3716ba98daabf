//! Commands of front ends to the threads that serve their virtqueues.

use std::sync::Arc;

use engine::ring::Waker;
use engine::ring::channel::{Receiver, Sender, channel};

use super::guest_memory::Memory;
use super::machine::Call;
use super::vring::{self, Stopped};
use crate::limits::VRING_ORDERS_PER_TURN;

/// Command to a thread that serves virtqueues, from the thread of their front end. A virtqueue
/// is named by its index: that of its front end times `VRINGS_MAX`, plus its number.
pub(super) enum VringCommand {
    /// A virtqueue begins.
    Start(usize, Box<vring::Plan>),
    /// End a virtqueue, and report its position when nothing of it is under way. If its front end
    /// is gone (`true`), the guest gets no notifications.
    Stop(usize, bool, Sender<Stopped>),
    /// Descriptor by which the guest is notified. Confirms once it is used.
    Call(usize, Option<Call>, Sender<()>),
    /// The memory of a front end has changed. Confirms once the memory before is not used any longer.
    Memory(usize, Arc<Memory>, Sender<()>),
}

/// Handle of a thread, for the threads of front ends.
#[derive(Clone)]
pub(super) struct VringWorkerHandle {
    pub(super) commands: Sender<VringCommand>,
    pub(super) waker: Waker,
}

impl VringWorkerHandle {
    /// Sends a command. A thread that has ended receives none.
    pub(super) fn send(&self, send: VringCommand) {
        let _ = self.commands.send(send);
        self.waker.wake();
    }

    /// Sends a command that confirms to each of these threads, and waits until all have executed it: whatever a front end sends,
    /// a thread has one such command of it, and the channel does not grow.
    pub(super) fn execute<'a>(
        handles: impl IntoIterator<Item = &'a Self>,
        mut command: impl FnMut(Sender<()>) -> VringCommand,
    ) {
        let (done, confirmed) = channel();
        for handle in handles {
            handle.send(command(done.clone()));
        }
        drop(done);
        // A thread that has ended drops its commands.
        while confirmed.recv().is_ok() {}
    }
}

/// Commands that a thread receives, some in each turn.
pub(super) struct VringCommands {
    received: Receiver<VringCommand>,
    /// Commands that may be taken in this turn.
    left: usize,
}

impl VringCommands {
    pub(super) const fn new(received: Receiver<VringCommand>) -> Self {
        Self { received, left: VRING_ORDERS_PER_TURN }
    }

    /// Begins a turn.
    pub(super) const fn begin_turn(&mut self) {
        self.left = VRING_ORDERS_PER_TURN;
    }

    /// The next command of this turn.
    pub(super) fn take(&mut self) -> Option<VringCommand> {
        if self.left == 0 {
            return None;
        }
        let command = self.received.try_recv().ok()?;
        self.left -= 1;
        Some(command)
    }

    /// True if there may be more than this turn took.
    pub(super) const fn may_have_more(&self) -> bool {
        self.left == 0
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use engine::ring::{Ring, RingOptions};

    use super::*;

    #[test]
    fn a_turn_ends_however_many_commands_there_are() {
        let (sender, received) = channel();
        let mut commands = VringCommands::new(received);
        let (done, _confirmed) = channel();
        for vring_index in 0..2 * VRING_ORDERS_PER_TURN + 1 {
            sender.send(VringCommand::Call(vring_index, None, done.clone())).unwrap();
        }
        let mut next = 0;
        for (count, has_more) in [(VRING_ORDERS_PER_TURN, true), (VRING_ORDERS_PER_TURN, true), (1, false)] {
            commands.begin_turn();
            let first = next;
            while let Some(VringCommand::Call(vring_index, ..)) = commands.take() {
                assert_eq!(vring_index, next, "in their order");
                next += 1;
            }
            assert_eq!((next - first, commands.may_have_more()), (count, has_more));
        }
    }

    #[test]
    fn a_front_end_waits_until_its_command_is_executed() {
        let ring = Ring::new(RingOptions::default()).expect("a ring");
        let executed = Arc::new(AtomicUsize::new(0));
        let (handles, threads): (Vec<_>, Vec<_>) = (0..2)
            .map(|_| {
                let (commands, received) = channel();
                let executed = executed.clone();
                let thread = std::thread::spawn(move || {
                    while let Ok(VringCommand::Call(_, _, done)) = received.recv() {
                        executed.fetch_add(1, Ordering::SeqCst);
                        let _ = done.send(());
                    }
                });
                (VringWorkerHandle { commands, waker: ring.waker() }, thread)
            })
            .unzip();
        for round in 1..=500 {
            VringWorkerHandle::execute(&handles, |done| VringCommand::Call(0, None, done));
            assert_eq!(executed.load(Ordering::SeqCst), 2 * round);
        }
        drop(handles);
        threads.into_iter().for_each(|thread| thread.join().expect("a thread"));
    }

    #[test]
    fn a_front_end_does_not_wait_for_a_thread_that_has_ended() {
        let ring = Ring::new(RingOptions::default()).expect("a ring");
        let (commands, received) = channel();
        let handle = VringWorkerHandle { commands, waker: ring.waker() };
        drop(received);
        VringWorkerHandle::execute([&handle], |done| VringCommand::Call(0, None, done));
    }
}
