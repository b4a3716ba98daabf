//! Threads that serve queues, and the one that listens.

mod cache_flush;
mod connect;
mod connection;
mod event_loop;
mod freezing;
mod frozen_queue;
mod greetings;
mod half_open;
mod host_authentication;
mod keep_alives;
mod listener;
mod orphaned_slots;
mod reactor;
mod role;
mod securing;

pub(crate) use listener::{Listener, Listening, PortChange};
pub(crate) use reactor::Reactor;
pub use reactor::{ReactorMetrics, ReactorStatus};
