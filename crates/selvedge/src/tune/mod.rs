//! Reports of `tune` about a machine: the packet paths of its NVMe/TCP queues as text and as a
//! page, plans, and advice. The crate `topology` reads the machine.

pub(crate) mod advice;
mod page;
mod plan_text;
mod tables;
pub(crate) mod targets;
mod text;

pub(crate) use page::page;
pub(crate) use plan_text::{PlanReport, Prediction};
pub(crate) use text::survey_text;
