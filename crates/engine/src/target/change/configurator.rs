//! The one that puts configurations into effect, one order at a time: for administrators, for hosts that manage namespaces,
//! and for images that change. It keeps the listener, since only a change of the configuration opens or closes a port.

use std::sync::{Arc, Mutex};

use super::order::Order;
use crate::ring::tcp;
use crate::target::TargetError;
use crate::target::config::Change;
use crate::target::fabric::Fabric;
use crate::target::lock::lock;
use crate::target::reactor::Listener;

#[derive(Debug)]
pub(crate) struct Configurator {
    fabric: Arc<Fabric>,
    /// `None` once the target has ended. Its lock makes orders wait for each other.
    listener: Mutex<Option<Listener>>,
}

impl Configurator {
    pub(crate) const fn new(fabric: Arc<Fabric>, listener: Listener) -> Self {
        Self { fabric, listener: Mutex::new(Some(listener)) }
    }

    pub(crate) const fn fabric(&self) -> &Arc<Fabric> {
        &self.fabric
    }

    /// Carries out an order, all of it or nothing, and says what has changed.
    pub(crate) fn carry_out(&self, order: &Order<'_>) -> Result<Vec<Change>, TargetError> {
        let listener = lock(&self.listener);
        let Some(listener) = &*listener else {
            return Err(TargetError::Config("the target has ended".to_owned()));
        };
        self.fabric.apply(order, listener)
    }

    /// Whether orders are refused, since the target has ended.
    #[cfg(not(feature = "simulation"))]
    pub(crate) fn has_ended(&self) -> bool {
        lock(&self.listener).is_none()
    }

    /// Accepts nothing from now on, or what waits.
    pub(crate) fn hold(&self, is_held: bool) {
        if let Some(listener) = &*lock(&self.listener) {
            listener.hold(is_held);
        }
    }

    /// The sockets that listen.
    pub(crate) fn listening(&self) -> std::io::Result<Vec<tcp::Shared>> {
        match &*lock(&self.listener) {
            Some(listener) => listener.sockets(),
            None => Ok(Vec::new()),
        }
    }

    /// Stops listening. Orders that come later are refused.
    pub(crate) fn end(&self) {
        if let Some(listener) = lock(&self.listener).take() {
            listener.stop();
        }
    }
}
