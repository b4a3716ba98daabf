//! Channels between threads, with the standard library's words and errors.

#[cfg(feature = "simulation")]
pub(crate) use crate::simulation::channel::{Receiver, Sender, SyncSender, channel, sync_channel};
#[cfg(not(feature = "simulation"))]
pub(crate) use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
