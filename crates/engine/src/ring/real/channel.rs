//! Channels between threads, with the standard library's words and errors.

pub(crate) use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
