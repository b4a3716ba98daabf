//! Admin and Fabrics commands: what the specification says about controllers, and nothing about blocks.

mod answer;
mod commands;
mod cross_reset;
mod discovery;
mod features;
mod identify;
mod intake;
mod lba_status;
mod log_page;
mod namespace_admin;
mod namespace_features;
mod property;

pub(crate) use commands::{AdminCommands, AdminContext};
pub(crate) use cross_reset::answer_peer;
pub(crate) use intake::{Intake, Taken, check_capsule};
pub(crate) use lba_status::list as lba_status_list;
