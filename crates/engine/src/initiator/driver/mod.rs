//! The one driver of queues: takes commands, gives them to queues, waits for what these bring, and hands back each command's
//! end with what its caller left with it. Volumes, the admin queue, the look at two paths' blocks and the bench stand on it.

mod command_queues;
mod driver;
mod queue_set;

pub use command_queues::CommandQueues;
pub use driver::Driver;
pub(in crate::initiator) use queue_set::QueueSet;
