//! A watch of an object of the simulated cluster.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::{CephError, Object};
use crate::ring::channel::SyncSender;
use crate::ring::simulated::rados::{self, Answer};

/// A watch, for as long as it lives.
#[derive(Debug)]
pub struct Watch {
    object: Object,
    cookie: u64,
    lost: Arc<AtomicBool>,
}

impl Watch {
    /// Sends to `notices` from now on at each notification, and when the watch is lost.
    ///
    /// # Errors
    /// When there is no such object, or the cluster does not answer or refuses.
    pub fn start(object: &Object, notices: SyncSender<()>) -> Result<Self, CephError> {
        let (client, cookie) = (object.pool().cluster().id(), crate::ring::random());
        let name = object.name().to_owned();
        let outcome = object.call(move |store| {
            let watched = store.objects.get_mut(&name).ok_or(libc::ENOENT)?;
            watched.watchers.insert((client, cookie));
            Ok(Answer::Done)
        });
        object.outcome("watching", outcome)?;
        let lost = Arc::<AtomicBool>::default();
        let (theirs, name) = (lost.clone(), object.name().to_owned());
        // A callback for a connection that no longer watches means that the watch is lost.
        rados::watch(client, cookie, move || {
            theirs.store(!rados::watches(&name, (client, cookie)), Ordering::Release);
            let _ = notices.try_send(());
        });
        Ok(Self { object: object.clone(), cookie, lost })
    }

    /// True if the cluster has forgotten it: another has to be started.
    pub fn is_lost(&self) -> bool {
        self.lost.load(Ordering::Acquire)
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        let (client, cookie) = (self.object.pool().cluster().id(), self.cookie);
        let name = self.object.name().to_owned();
        rados::unwatch(client, cookie);
        rados::instant(client, self.object.name(), move |store, _| {
            if let Some(object) = store.objects.get_mut(&name) {
                object.watchers.remove(&(client, cookie));
            }
            Ok(Answer::Done)
        });
    }
}
