//! Tasks of one thread: they are polled on it, between its turns of I/O, so that what they await costs no other thread's
//! waking. It knows nothing of volumes.

use std::cell::{Cell, RefCell};
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Wake, Waker};

use super::outcome::Giver;
use crate::ring;

thread_local! {
    /// Address of the `Woken` whose tasks are being polled on this thread.
    static POLLING: Cell<usize> = const { Cell::new(0) };
}

/// Tasks that want to be polled.
#[derive(Debug)]
struct Woken {
    numbers: Mutex<Vec<usize>>,
    /// Ring of their thread, which sleeps while there are none.
    ring: ring::Waker,
}

impl Woken {
    fn push(self: &Arc<Self>, number: usize) {
        self.numbers.lock().unwrap_or_else(PoisonError::into_inner).push(number);
        // Their own thread looks before it sleeps. In a simulation, all threads are one.
        let is_awake = POLLING.get() == Arc::as_ptr(self) as usize && !cfg!(feature = "simulation");
        if !is_awake {
            self.ring.wake();
        }
    }
}

/// Waker of one task.
#[derive(Debug)]
struct TaskWaker {
    number: usize,
    is_woken: AtomicBool,
    woken: Arc<Woken>,
}

impl Wake for TaskWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if !self.is_woken.swap(true, Ordering::AcqRel) {
            self.woken.push(self.number);
        }
    }
}

struct Task {
    future: Pin<Box<dyn Future<Output = ()>>>,
    state: Arc<TaskWaker>,
    waker: Waker,
}

/// The tasks of one thread.
pub(super) struct Tasks {
    woken: Arc<Woken>,
    /// By number; `None` where there is none, or it is being polled.
    tasks: RefCell<Vec<Option<Task>>>,
    free: RefCell<Vec<usize>>,
    /// Tasks that are polled now; kept for its capacity.
    batch: RefCell<Vec<usize>>,
    have_ended: Cell<bool>,
}

impl Tasks {
    /// Of the thread that waits in this ring.
    pub(super) fn new(ring: ring::Waker) -> Self {
        let woken = Arc::new(Woken { numbers: Mutex::default(), ring });
        let (tasks, free, batch) = Default::default();
        Self { woken, tasks, free, batch, have_ended: Cell::new(false) }
    }

    /// Adds a task. One that panics ends alone, and the waiter for its outcome panics with it.
    pub(super) fn spawn<T: 'static>(&self, giver: Giver<T>, future: impl Future<Output = T> + 'static) {
        if self.have_ended.get() {
            return;
        }
        let (mut future, mut giver) = (Box::pin(future), Some(giver));
        let future = Box::pin(std::future::poll_fn(move |context| {
            let polled = catch_unwind(AssertUnwindSafe(|| future.as_mut().poll(context)));
            let returned = match polled {
                Ok(Poll::Pending) => return Poll::Pending,
                Ok(Poll::Ready(value)) => Ok(value),
                Err(panic) => Err(panic),
            };
            if let Some(giver) = giver.take() {
                giver.give(returned);
            }
            Poll::Ready(())
        }));
        let number = self.free.borrow_mut().pop().unwrap_or_else(|| {
            self.tasks.borrow_mut().push(None);
            self.tasks.borrow().len() - 1
        });
        let is_woken = AtomicBool::new(true);
        let state = Arc::new(TaskWaker { number, is_woken, woken: self.woken.clone() });
        let waker = Waker::from(state.clone());
        self.tasks.borrow_mut()[number] = Some(Task { future, state, waker });
        self.woken.push(number);
    }

    /// True if a task wants to be polled.
    pub(super) fn are_woken(&self) -> bool {
        !self.woken.numbers.lock().unwrap_or_else(PoisonError::into_inner).is_empty()
    }

    /// Polls those once that are woken. Those that this wakes come with the next call, so that I/O has its turn in between.
    pub(super) fn poll(&self) {
        let mut batch = self.batch.take();
        std::mem::swap(&mut batch, &mut *self.woken.numbers.lock().unwrap_or_else(PoisonError::into_inner));
        if !batch.is_empty() {
            self.enter(|| batch.drain(..).for_each(|number| self.poll_one(number)));
        }
        self.batch.replace(batch);
    }

    /// Does something on their thread that may wake them.
    pub(super) fn enter<T>(&self, work: impl FnOnce() -> T) -> T {
        let before = POLLING.replace(Arc::as_ptr(&self.woken) as usize);
        let outcome = work();
        POLLING.set(before);
        outcome
    }

    fn poll_one(&self, number: usize) {
        // It is out of its place while it is polled, since it may spawn others.
        let task = self.tasks.borrow_mut().get_mut(number).and_then(Option::take);
        // A task that has ended may still be woken.
        let Some(mut task) = task else { return };
        // Before it is polled: what wakes it from then on wants it polled again.
        task.state.is_woken.store(false, Ordering::Release);
        let polled = task.future.as_mut().poll(&mut Context::from_waker(&task.waker));
        if polled.is_pending() {
            self.tasks.borrow_mut()[number] = Some(task);
        } else {
            self.free.borrow_mut().push(number);
        }
    }

    /// Drops all of them; there will be no others.
    pub(super) fn end(&self) {
        self.have_ended.set(true);
        let tasks = self.tasks.take();
        drop(tasks);
    }
}

#[cfg(test)]
#[cfg(not(feature = "simulation"))]
mod tests {
    use std::cell::RefCell;
    use std::future::poll_fn;
    use std::rc::Rc;
    use std::sync::mpsc::channel;

    use super::super::outcome::{Outcome, outcome};
    use super::*;

    fn tasks() -> Rc<Tasks> {
        Rc::new(Tasks::new(ring::Waker::new().unwrap()))
    }

    fn value<T>(outcome: &mut Outcome<T>) -> Poll<Option<T>> {
        Pin::new(outcome).poll(&mut Context::from_waker(Waker::noop()))
    }

    fn spawn<T: 'static>(tasks: &Tasks, future: impl Future<Output = T> + 'static) -> Outcome<T> {
        let (giver, outcome) = outcome();
        tasks.spawn(giver, future);
        outcome
    }

    /// Comes after it was polled so often.
    fn turns(count: usize) -> impl Future<Output = usize> {
        let mut left = count;
        poll_fn(move |context| {
            if left == 0 {
                return Poll::Ready(count);
            }
            left -= 1;
            context.waker().wake_by_ref();
            Poll::Pending
        })
    }

    #[test]
    fn each_is_polled_once_a_turn() {
        let tasks = tasks();
        let mut outcomes: Vec<_> = (0..5).map(|count| spawn(&tasks, turns(count))).collect();
        for turn in 0..5 {
            assert!(tasks.are_woken());
            tasks.poll();
            for (count, outcome) in outcomes.iter_mut().enumerate() {
                let expected = if count == turn { Poll::Ready(Some(count)) } else { Poll::Pending };
                if count >= turn {
                    assert_eq!(value(outcome), expected, "task {count}, turn {turn}");
                }
            }
        }
        assert!(!tasks.are_woken());
        // Their numbers are used again.
        outcomes = (0..5).map(|count| spawn(&tasks, turns(count))).collect();
        assert_eq!((outcomes.len(), tasks.tasks.borrow().len()), (5, 5));
    }

    #[test]
    fn a_task_begins_others_and_awaits_them() {
        let tasks = tasks();
        let inner = tasks.clone();
        let mut sum = spawn(&tasks, async move {
            let (first, second) = (spawn(&inner, turns(3)), spawn(&inner, turns(1)));
            second.await.unwrap() + first.await.unwrap()
        });
        let mut rounds = 0;
        while tasks.are_woken() {
            tasks.poll();
            rounds += 1;
            assert!(rounds < 20, "tasks wake each other without end");
        }
        assert_eq!(value(&mut sum), Poll::Ready(Some(4)));
    }

    #[test]
    fn the_waker_of_an_ended_task_does_not_keep_its_thread_awake() {
        let tasks = tasks();
        let kept = Rc::new(RefCell::new(None));
        let theirs = kept.clone();
        let mut first = spawn(
            &tasks,
            poll_fn(move |context| {
                *theirs.borrow_mut() = Some(context.waker().clone());
                Poll::Ready(())
            }),
        );
        tasks.poll();
        assert_eq!(value(&mut first), Poll::Ready(Some(())));
        let mut second = spawn(&tasks, std::future::pending::<()>());
        tasks.poll();
        kept.borrow_mut().take().unwrap().wake();
        assert!(tasks.are_woken(), "the second has its number");
        tasks.poll();
        assert!(!tasks.are_woken());
        assert_eq!(value(&mut second), Poll::Pending);
    }

    #[test]
    fn another_thread_wakes_the_ring_and_their_own_does_not() {
        let tasks = tasks();
        let (sender, receiver) = channel();
        let mut done = spawn(&tasks, {
            let mut sender = Some(sender);
            let mut is_second = false;
            poll_fn(move |context| {
                if std::mem::replace(&mut is_second, true) {
                    return Poll::Ready(());
                }
                sender.take().unwrap().send(context.waker().clone()).unwrap();
                Poll::Pending
            })
        });
        // It was begun on a thread that polls no tasks now.
        assert!(tasks.woken.ring.take_pending());
        tasks.poll();
        let mut own = spawn(&tasks, turns(1));
        assert!(tasks.woken.ring.take_pending());
        tasks.poll();
        assert!(!tasks.woken.ring.take_pending(), "a task that wakes itself does not ring");
        let waker: Waker = receiver.recv().unwrap();
        std::thread::spawn(move || waker.wake()).join().unwrap();
        assert!(tasks.woken.ring.take_pending());
        tasks.poll();
        assert_eq!((value(&mut done), value(&mut own)), (Poll::Ready(Some(())), Poll::Ready(Some(1))));
    }

    #[test]
    fn the_end_drops_all_and_takes_no_more() {
        let tasks = tasks();
        let inner = tasks.clone();
        let mut first = spawn(&tasks, std::future::pending::<()>());
        tasks.poll();
        tasks.end();
        assert_eq!(value(&mut first), Poll::Ready(None));
        let mut late = spawn(&inner, async {});
        assert_eq!(value(&mut late), Poll::Ready(None));
    }
}
