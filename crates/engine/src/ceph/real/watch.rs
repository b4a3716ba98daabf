//! A watch of an object: its owner is woken by others' notifications. It only rings; what has
//! happened is read elsewhere.

use std::ffi::{CString, c_int, c_void};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::SyncSender;

use super::error::answer;
use super::library::{PoolHandle, Rados};
use super::{CephError, Object};

/// A watch, for as long as it lives.
#[derive(Debug)]
pub struct Watch {
    object: Object,
    cookie: u64,
    /// The library has a pointer to it until the watch has ended.
    listener: Box<Listener>,
}

/// Argument of the library's callbacks.
struct Listener {
    rados: &'static Rados,
    pool: PoolHandle,
    name: CString,
    notices: SyncSender<()>,
    lost: AtomicBool,
}

impl std::fmt::Debug for Listener {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Listener").field("lost", &self.lost).finish_non_exhaustive()
    }
}

// SAFETY: the pool's handle may be used from any thread (see `Pool`), and the watch keeps the pool through its object.
#[allow(unsafe_code)]
unsafe impl Send for Listener {}
// SAFETY: as above; the rest is made for it.
#[allow(unsafe_code)]
unsafe impl Sync for Listener {}

impl Watch {
    /// Sends to `notices` from now on at each notification, and when the watch is lost. A notice that was
    /// not received yet is not repeated.
    ///
    /// # Errors
    /// When there is no such object, or the cluster does not answer or refuses.
    pub fn start(object: &Object, notices: SyncSender<()>) -> Result<Self, CephError> {
        let listener = Box::new(Listener {
            rados: object.rados(),
            pool: object.pool().handle(),
            name: object.name().clone(),
            notices,
            lost: AtomicBool::new(false),
        });
        let mut cookie = 0;
        let argument: *const Listener = &raw const *listener;
        // SAFETY: pool and name are good, the call writes the cookie, and the listener lives until the watch has ended.
        #[allow(unsafe_code)]
        let code = unsafe {
            (object.rados().watch2)(
                object.pool().handle(),
                object.name().as_ptr(),
                &raw mut cookie,
                notified,
                lost,
                argument.cast_mut().cast(),
            )
        };
        answer(code).map_err(|error| object.failed("watching", error))?;
        Ok(Self { object: object.clone(), cookie, listener })
    }

    /// True if the cluster has forgotten it: another has to be started.
    pub fn is_lost(&self) -> bool {
        self.listener.lost.load(Ordering::Acquire)
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        let rados = self.object.rados();
        // SAFETY: the cookie is that of this watch. After the flush no call is under way, and after the end of the watch
        // none begins, so that the listener may go.
        #[allow(unsafe_code)]
        unsafe {
            (rados.unwatch2)(self.object.pool().handle(), self.cookie);
            (rados.watch_flush)(self.object.pool().cluster().handle());
        }
    }
}

extern "C" fn notified(
    argument: *mut c_void,
    number: u64,
    cookie: u64,
    _sender: u64,
    _bytes: *mut c_void,
    _length: usize,
) {
    // SAFETY: the argument is the listener that the watch was started with, which outlives it.
    #[allow(unsafe_code)]
    let listener = unsafe { &*argument.cast_const().cast::<Listener>() };
    // The sender waits for this. A failure costs it its wait, and cannot be reported to anyone.
    // SAFETY: pool and name are valid for the life of the watch.
    #[allow(unsafe_code)]
    unsafe {
        (listener.rados.notify_ack)(
            listener.pool,
            listener.name.as_ptr(),
            number,
            cookie,
            std::ptr::null(),
            0,
        );
    }
    let _ = listener.notices.try_send(());
}

extern "C" fn lost(argument: *mut c_void, _cookie: u64, _error: c_int) {
    // SAFETY: the argument is the listener that the watch was started with, which outlives it.
    #[allow(unsafe_code)]
    let listener = unsafe { &*argument.cast_const().cast::<Listener>() };
    listener.lost.store(true, Ordering::Release);
    let _ = listener.notices.try_send(());
}

/// Keeps the compiler to what the library's threads need.
const _: () = {
    const fn shared<T: Send + Sync>() {}
    shared::<Listener>();
};
