//! A volume for tasks that are polled on its own thread: each request is one command, and the buffer goes with it, so that
//! nothing is copied, allocated, locked or shared per command.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use nvme::SubmissionEntry;
use nvme::io::IoCommand;

use super::outcome::{Outcome, outcome};
use super::route::Reachable;
use super::tasks::Tasks;
use crate::initiator::InitiatorError;
use crate::initiator::queue::{Data, Ended};
use crate::ring::{self, Buffer};

/// A namespace for tasks on a thread of its volume; [`AsyncVolume::spawn`](super::AsyncVolume::spawn) begins one. It is the
/// cheapest way to do I/O with a volume. Requests longer than one command are for the methods of `AsyncVolume`, which such a
/// task may await as well. Those of `Volume` would keep the thread waiting for itself.
#[derive(Clone)]
pub struct LocalVolume(Rc<Local>);

impl fmt::Debug for LocalVolume {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("LocalVolume").field(&self.0.reachable).finish()
    }
}

struct Local {
    reachable: Arc<Reachable>,
    tasks: Tasks,
    /// Commands that the thread has not taken yet, with their slots.
    made: RefCell<VecDeque<(SubmissionEntry, Data, usize)>>,
    slots: RefCell<Slots>,
}

#[derive(Default)]
struct Slots {
    slots: Vec<Slot>,
    free: Vec<usize>,
}

/// A command of a task.
enum Slot {
    Free,
    Waiting(Waker),
    Ended(Ended),
    /// The command's future was dropped.
    GivenUp,
}

impl Slots {
    fn add(&mut self, slot: Slot) -> usize {
        match self.free.pop() {
            Some(number) => {
                self.slots[number] = slot;
                number
            }
            None => {
                self.slots.push(slot);
                self.slots.len() - 1
            }
        }
    }

    fn take(&mut self, number: usize) -> Slot {
        std::mem::replace(&mut self.slots[number], Slot::Free)
    }
}

/// A task on a thread of the volume that has begun it. It goes on when this is dropped.
#[derive(Debug)]
pub struct LocalTask<T> {
    outcome: Outcome<T>,
    reachable: Arc<Reachable>,
}

impl<T> LocalTask<T> {
    pub(super) fn new(outcome: Outcome<T>, reachable: &Arc<Reachable>) -> Self {
        Self { outcome, reachable: reachable.clone() }
    }
}

impl<T> Future for LocalTask<T> {
    /// Value that it has returned; an error if the volume was closed before.
    type Output = Result<T, InitiatorError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let address = self.reachable.address;
        let ended = Pin::new(&mut self.outcome).poll(context);
        ended.map(|returned| returned.ok_or(InitiatorError::Disconnected { address }))
    }
}

impl LocalVolume {
    /// For tasks on the thread that waits in this ring.
    pub(super) fn new(reachable: Arc<Reachable>, ring: ring::Waker) -> Self {
        let (made, slots) = Default::default();
        Self(Rc::new(Local { reachable, tasks: Tasks::new(ring), made, slots }))
    }

    pub(super) fn tasks(&self) -> &Tasks {
        &self.0.tasks
    }

    /// The next command that a task has made, and the slot where its end is awaited.
    pub(super) fn next_command(&self) -> Option<(SubmissionEntry, Data, usize)> {
        self.0.made.borrow_mut().pop_front()
    }

    /// A command has ended.
    pub(super) fn end(&self, slot: usize, ended: Ended) {
        let mut slots = self.0.slots.borrow_mut();
        match slots.take(slot) {
            Slot::Waiting(waker) => {
                slots.slots[slot] = Slot::Ended(ended);
                drop(slots);
                waker.wake();
            }
            Slot::GivenUp => slots.free.push(slot),
            // The driver gives each end once.
            Slot::Free | Slot::Ended(_) => {}
        }
    }

    /// Begins another task on this thread.
    pub fn spawn<T: 'static>(&self, task: impl Future<Output = T> + 'static) -> LocalTask<T> {
        let (giver, outcome) = outcome();
        self.0.tasks.spawn(giver, task);
        LocalTask::new(outcome, &self.0.reachable)
    }

    /// Bytes of a logical block: offsets and lengths are multiples of it.
    pub fn block_size(&self) -> u32 {
        self.0.reachable.block_size
    }

    /// Size in bytes, which follows the namespace's.
    pub fn size_bytes(&self) -> u64 {
        self.0.reachable.size_bytes()
    }

    /// The most bytes of one request.
    pub fn length_max(&self) -> u64 {
        self.0.reachable.transfer_length_max()
    }

    /// Fills the whole buffer from `offset_bytes` on.
    ///
    /// # Errors
    /// As `AsyncVolume::read_at`, and `ApiMisuse` when it is longer than `length_max`.
    pub async fn read(&self, offset_bytes: u64, buffer: Buffer) -> Result<Buffer, InitiatorError> {
        let (start, blocks) = self.blocks(offset_bytes, &buffer)?;
        let command = IoCommand::Read { start, blocks, force_unit_access: false };
        self.transfer("Read", command, Data::Receive(buffer)).await
    }

    /// Writes the whole buffer from `offset_bytes` on. It is durable after a `flush`.
    ///
    /// # Errors
    /// As `read`; what was written of it is then unknown.
    pub async fn write(&self, offset_bytes: u64, buffer: Buffer) -> Result<Buffer, InitiatorError> {
        let (start, blocks) = self.blocks(offset_bytes, &buffer)?;
        let command = IoCommand::Write { start, blocks, force_unit_access: false };
        self.transfer("Write", command, Data::Send(buffer)).await
    }

    /// Writes the whole buffer from `offset_bytes` on, and is done when it is durable (FUA).
    ///
    /// # Errors
    /// As `write`.
    pub async fn write_durable(&self, offset_bytes: u64, buffer: Buffer) -> Result<Buffer, InitiatorError> {
        let (start, blocks) = self.blocks(offset_bytes, &buffer)?;
        let command = IoCommand::Write { start, blocks, force_unit_access: true };
        self.transfer("Write", command, Data::Send(buffer)).await
    }

    /// Makes all completed writes durable.
    ///
    /// # Errors
    /// As `read`.
    pub async fn flush(&self) -> Result<(), InitiatorError> {
        self.command("Flush", IoCommand::Flush, Data::None).await.map(drop)
    }

    /// The blocks of a request: the first, and how many.
    fn blocks(&self, offset_bytes: u64, buffer: &Buffer) -> Result<(u64, u32), InitiatorError> {
        let (length, length_max) = (buffer.len() as u64, self.length_max());
        self.0.reachable.check(offset_bytes, length)?;
        if length == 0 || length > length_max {
            return Err(InitiatorError::ApiMisuse(format!(
                "a request of one command has 1 to {length_max} bytes, not {length}"
            )));
        }
        let block = u64::from(self.block_size());
        Ok((offset_bytes / block, (length / block) as u32))
    }

    async fn transfer(
        &self,
        what: &'static str,
        command: IoCommand,
        data: Data,
    ) -> Result<Buffer, InitiatorError> {
        let buffer = self.command(what, command, data).await?;
        // Each end brings back the buffer of its command.
        buffer.ok_or(InitiatorError::Disconnected { address: self.0.reachable.address })
    }

    async fn command(
        &self,
        what: &'static str,
        command: IoCommand,
        data: Data,
    ) -> Result<Option<Buffer>, InitiatorError> {
        let request = Some((command.encode(self.0.reachable.nsid), data));
        match (Command { local: &self.0, request, slot: None }).await {
            Ended::Answered(completion) if completion.status.is_success() => Ok(completion.data),
            Ended::Answered(completion) => {
                Err(InitiatorError::CommandFailed { what, status: completion.status })
            }
            Ended::Lost(lost) => Err(InitiatorError::clone(&lost.error)),
        }
    }
}

/// Waits for the end of a command, which the first poll makes.
struct Command<'a> {
    local: &'a Local,
    request: Option<(SubmissionEntry, Data)>,
    slot: Option<usize>,
}

impl Future for Command<'_> {
    type Output = Ended;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Ended> {
        let mut slots = self.local.slots.borrow_mut();
        if let Some((entry, data)) = self.request.take() {
            let number = slots.add(Slot::Waiting(context.waker().clone()));
            self.slot = Some(number);
            self.local.made.borrow_mut().push_back((entry, data, number));
            return Poll::Pending;
        }
        let Some(number) = self.slot else { return Poll::Pending };
        match slots.take(number) {
            Slot::Ended(ended) => {
                slots.free.push(number);
                drop(slots);
                self.slot = None;
                Poll::Ready(ended)
            }
            _ => {
                slots.slots[number] = Slot::Waiting(context.waker().clone());
                Poll::Pending
            }
        }
    }
}

impl Drop for Command<'_> {
    fn drop(&mut self) {
        let Some(number) = self.slot else { return };
        let mut slots = self.local.slots.borrow_mut();
        match slots.take(number) {
            Slot::Waiting(_) => slots.slots[number] = Slot::GivenUp,
            _ => slots.free.push(number),
        }
    }
}
