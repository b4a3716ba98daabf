//! Gateways: several targets that serve the same subsystems from one Ceph cluster, so that hosts have a path when one is
//! gone. What they share lies in the cluster; how a target serves it is the engine's.

mod beat;
mod change;
mod decision;
mod duty;
mod error;
mod format;
mod handed_member;
mod lease;
mod local_fabric;
mod member;
mod membership;
#[cfg(test)]
mod model;
#[cfg(test)]
mod model_tests;
mod narration;
mod negotiation;
mod passed_reset;
mod peer_reset;
mod pruning;
mod removal;
mod secret_turn;
mod seen;
mod serving;
mod spec;
mod state;
mod status;
mod store;
mod succession;
mod visits;

pub use error::{GroupError, MemberError, Reason, Refused};
pub use handed_member::{HandedMember, OfferedMember};
pub use member::Member;
pub use membership::Membership;
pub use serving::Serving;
pub use spec::{GroupSpec, check_name, host_name};
pub use state::{Life, Listener, Phase};
pub use status::{GatewayStatus, GroupStatus, LoadBalancingStatus};
