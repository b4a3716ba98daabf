//! Threads of a simulation, with the standard library's words: fibers of the process that starts them.

use std::any::Any;
use std::fmt;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use super::clock;
use super::scheduler::{self, FiberId};

/// Guard whose panic would end the process on a real machine. Here a panic is the scene's failure,
/// and a killed process unwinds.
#[must_use]
#[derive(Debug)]
pub struct Vital;

impl Vital {
    /// From here on, until it is dropped.
    pub fn begin() -> Self {
        Self
    }
}

impl Drop for Vital {
    fn drop(&mut self) {}
}

/// Parameters of a new thread.
#[derive(Debug, Default)]
pub struct Builder {
    name: String,
}

struct Ending<T> {
    result: Option<T>,
    has_ended: bool,
    waits: Option<FiberId>,
}

/// A thread whose end can be waited for.
pub struct JoinHandle<T>(Arc<Mutex<Ending<T>>>);

impl<T> fmt::Debug for JoinHandle<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JoinHandle")
    }
}

impl Builder {
    /// A thread like any other.
    pub fn new() -> Self {
        Self::default()
    }

    /// Names it.
    #[must_use]
    pub fn name(self, name: String) -> Self {
        Self { name }
    }

    /// Starts it.
    ///
    /// # Errors
    /// When the process gets none.
    pub fn spawn<T: 'static>(self, body: impl FnOnce() -> T + 'static) -> io::Result<JoinHandle<T>> {
        scheduler::with(|world| world.spare())?;
        let ending = Arc::new(Mutex::new(Ending { result: None, has_ended: false, waits: None }));
        let theirs = ending.clone();
        scheduler::spawn(None, self.name, move || {
            // Dropped when the thread ends in whatever way.
            let guard = AtEnd(theirs);
            let result = body();
            guard.0.lock().unwrap_or_else(PoisonError::into_inner).result = Some(result);
        });
        Ok(JoinHandle(ending))
    }
}

struct AtEnd<T>(Arc<Mutex<Ending<T>>>);

impl<T> Drop for AtEnd<T> {
    fn drop(&mut self) {
        let mut ending = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        ending.has_ended = true;
        if let Some(waits) = ending.waits.take() {
            scheduler::unpark(waits);
        }
    }
}

impl<T> JoinHandle<T> {
    /// Waits for its end.
    ///
    /// # Errors
    /// When it ended without a result.
    pub fn join(self) -> Result<T, Box<dyn Any + Send>> {
        loop {
            {
                let mut ending = self.0.lock().unwrap_or_else(PoisonError::into_inner);
                if ending.has_ended {
                    return ending.result.take().ok_or_else(|| Box::new("it ended by a panic") as Box<_>);
                }
                if scheduler::is_ending() {
                    return Err(Box::new("the process has ended"));
                }
                ending.waits = scheduler::current();
            }
            scheduler::park(None);
        }
    }

    /// True if the thread has ended, or this process has.
    pub fn is_finished(&self) -> bool {
        scheduler::is_ending() || self.0.lock().unwrap_or_else(PoisonError::into_inner).has_ended
    }
}

/// Waits for `time`.
pub fn sleep(time: Duration) {
    let until = clock::now().after(time);
    while clock::now() < until && !scheduler::is_ending() {
        scheduler::park(Some(until));
    }
}

/// Does on this thread what several would share: the result is the same, and it takes longer.
pub fn side_by_side(_: usize, work: impl Fn() + Sync) {
    work();
}

/// True if it is this thread.
pub(crate) const fn is_current<T>(_thread: &JoinHandle<T>) -> bool {
    // Nothing in a simulation gives up the last of what a thread serves on that thread.
    false
}
