//! A server over a target, both in this process; clients that write NBD by hand, and guests that fill virtqueues so.

mod client;
mod data;
mod guest;
mod hand_over;
mod hostile;
mod life;
mod relay;
mod tls;
mod vhost_user;
mod vhost_user_hostile;
mod world;
