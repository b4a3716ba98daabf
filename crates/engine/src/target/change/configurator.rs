//! Component that puts configurations into effect, one request at a time: for administrators, for hosts that manage namespaces,
//! and for images that change. It keeps the listener, since only a change of the configuration opens or closes a port.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError};

use super::change_request::ChangeRequest;
use crate::ring::lock::{Mutex, MutexGuard};
use crate::ring::tcp;
use crate::target::TargetError;
use crate::target::config::Change;
use crate::target::fabric::Fabric;
use crate::target::reactor::Listener;

#[derive(Debug)]
pub(crate) struct Configurator {
    fabric: Arc<Fabric>,
    /// `None` once the target has ended. Its lock makes orders wait for each other.
    listener: Mutex<Option<Listener>>,
    /// Set once another process serves in place of this target.
    has_left: AtomicBool,
}

impl Configurator {
    pub(crate) const fn new(fabric: Arc<Fabric>, listener: Listener) -> Self {
        Self { fabric, listener: Mutex::new(Some(listener)), has_left: AtomicBool::new(false) }
    }

    pub(crate) const fn fabric(&self) -> &Arc<Fabric> {
        &self.fabric
    }

    /// Carries out a request, all of it or nothing, and says what has changed.
    pub(crate) fn carry_out(&self, request: &ChangeRequest<'_>) -> Result<Vec<Change>, TargetError> {
        let listener = self.lock();
        if self.has_left.load(Ordering::Acquire) {
            return Err(TargetError::Config("another process serves this target now".to_owned()));
        }
        let Some(listener) = &*listener else {
            return Err(TargetError::Config("the target has ended".to_owned()));
        };
        self.fabric.apply(request, listener)
    }

    /// True if orders are refused, because the target has ended, or is another process's.
    pub(crate) fn has_ended(&self) -> bool {
        self.has_left.load(Ordering::Acquire) || self.lock().is_none()
    }

    /// Leaves all further orders to another process, which serves in place of this target.
    pub(crate) fn leave(&self) {
        self.has_left.store(true, Ordering::Release);
    }

    /// Accepts nothing from now on, or what waits.
    pub(crate) fn hold(&self, is_held: bool) {
        if let Some(listener) = &*self.lock() {
            listener.hold(is_held);
        }
    }

    /// The sockets that listen.
    pub(crate) fn listening(&self) -> std::io::Result<Vec<tcp::Shared>> {
        match &*self.lock() {
            Some(listener) => listener.sockets(),
            None => Ok(Vec::new()),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Option<Listener>> {
        self.listener.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Stops listening. Orders that come later are refused.
    pub(crate) fn end(&self) {
        if let Some(listener) = self.lock().take() {
            listener.stop();
        }
    }
}
