//! What `tune` reports about a machine: the courses of its NVMe/TCP queues' packets, what is wrong with them in words, and
//! the same as text, page and picture. How a machine is seen is the engine's.

pub(crate) mod advice;
mod findings;
mod page;
mod picture;
mod plan_text;
mod sheets;
mod survey;
pub(crate) mod targets;
mod text;

pub(crate) use page::page;
pub(crate) use picture::picture;
pub(crate) use plan_text::{PlanReport, Prediction};
pub(crate) use survey::{Survey, narrowed};
