//! Reports of `tune` about a machine: the packet paths of its NVMe/TCP queues as text and as a
//! page, plans, and advice. The crate `topology` reads the machine.

pub mod advice;
mod page;
mod plan_text;
mod tables;
pub(crate) mod targets;
mod text;

pub(crate) use page::page;
pub use plan_text::PlanReport;
pub(crate) use plan_text::Prediction;
pub(crate) use text::survey_text;
