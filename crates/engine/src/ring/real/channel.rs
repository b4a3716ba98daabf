//! Channels between threads, with the standard library's words and errors.

pub use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
