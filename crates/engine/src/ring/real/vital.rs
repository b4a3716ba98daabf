//! Work whose panic ends the process. A process that has lost a reactor, or the thread that holds
//! its lease, looks alive to hosts and to other gateways, and does not serve: one that has ended is
//! replaced.

use std::cell::Cell;
use std::marker::PhantomData;
use std::panic::{self, PanicHookInfo};
use std::process::abort;
use std::sync::Once;
use std::thread;
use std::time::Duration;

/// Longest time that a panic's last words may take. A log without a reader must not keep the
/// process.
const LAST_WORDS_TIME_MAX: Duration = Duration::from_secs(1);

static HOOK: Once = Once::new();

thread_local! {
    /// Nesting of vital work on this thread.
    static DEPTH: Cell<usize> = const { Cell::new(0) };
}

/// As long as a thread has one, its panic ends the process. Nothing is unwound: what a queue's buffers are dropped for
/// may still be written by the kernel, and a lock that is let go shows others what was half done.
///
/// This holds for a program that starts a target in its own process, too: no target goes on with a reactor less.
#[must_use]
#[derive(Debug)]
pub struct Vital {
    // It belongs to its thread.
    _not_send: PhantomData<*const ()>,
}

impl Vital {
    /// From here on, until it is dropped.
    pub fn begin() -> Self {
        HOOK.call_once(|| {
            let usual = panic::take_hook();
            panic::set_hook(Box::new(move |info| {
                let is_vital = DEPTH.try_with(Cell::get).is_ok_and(|depth| depth > 0);
                if is_vital {
                    end_soon();
                    // First: what comes behind it looks up names, and may take all of the time.
                    tell(info);
                }
                usual(info);
                if is_vital {
                    abort();
                }
            }));
        });
        DEPTH.set(DEPTH.get() + 1);
        Self { _not_send: PhantomData }
    }
}

impl Drop for Vital {
    fn drop(&mut self) {
        if thread::panicking() {
            // Another hook has replaced ours.
            abort();
        }
        DEPTH.set(DEPTH.get() - 1);
    }
}

/// Ends the process when the log takes its time.
fn end_soon() {
    let end = || {
        thread::sleep(LAST_WORDS_TIME_MAX);
        abort();
    };
    if thread::Builder::new().name("abort".to_owned()).spawn(end).is_err() {
        // Without that thread, a process that waits for its log would never end.
        abort();
    }
}

fn tell(info: &PanicHookInfo<'_>) {
    let thread = thread::current();
    let place = info.location().map(ToString::to_string).unwrap_or_default();
    let payload = info.payload();
    let reason = payload.downcast_ref::<&str>().copied();
    let reason = reason.or_else(|| payload.downcast_ref::<String>().map(String::as_str));
    tracing::error!(
        thread = thread.name().unwrap_or("unnamed"),
        place,
        reason = reason.unwrap_or("no message"),
        "a thread panicked that the target cannot do without; aborting the process. Start it again, and report this"
    );
}
