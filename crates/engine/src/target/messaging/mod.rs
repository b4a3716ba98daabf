//! What threads of a target tell each other, and how they wait for each other without a thread that waits.

mod abort;
mod address;
mod allocation_job;
mod arrival;
mod asker;
mod authentication_done;
mod authentication_job;
mod change_rates;
mod claim;
mod cross_reset;
mod fence;
mod hand_over_order;
mod handshake;
mod host_request;
mod mailbox;
mod mailboxes;
mod peer_reset;
mod pulse;
mod refused_host;
mod reservation_job;
mod shares;
mod worker_jobs;

pub(crate) use abort::Abort;
pub(crate) use address::Address;
pub(crate) use allocation_job::AllocationJob;
pub(crate) use arrival::Arrival;
pub(crate) use asker::Asker;
pub use asker::AskingHost;
pub(crate) use authentication_done::AuthenticationDone;
pub(crate) use authentication_job::{AuthenticationJob, Step, Work};
pub(crate) use change_rates::{ChangeRate, ChangeRates};
pub(crate) use claim::Claim;
pub(crate) use cross_reset::CrossReset;
pub(crate) use fence::{Fence, Fenced, Owner, Then};
pub(crate) use hand_over_order::{Adoption, AdoptionError, Freeze, Frozen, FrozenReactor, HandOverOrder};
pub(crate) use handshake::{
    HandshakeDone, HandshakeOutcome, HandshakePermit, HandshakeStep, PendingHandshake,
};
pub use host_request::{HostRequest, HostRequests, PendingRequest, TargetEnded};
pub(crate) use mailbox::{Loss, Mailbox, Message};
pub(crate) use mailboxes::Mailboxes;
pub use peer_reset::{LostController, PeerReset, PeerResets, TakeReset};
pub use pulse::Pulse;
pub(crate) use refused_host::RefusedHostSender;
pub use refused_host::{RefusedHost, RefusedHosts};
pub(crate) use reservation_job::{Job, Task};
pub(crate) use shares::HostShares;
pub(crate) use worker_jobs::WorkerJobs;
