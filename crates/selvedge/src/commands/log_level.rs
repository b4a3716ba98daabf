//! `selvedge log`: how much a running target logs.

use hyper::Method;
use serde_json::{Value, json};

use super::ask::{cell, client, done};
use crate::failure::Failure;
use crate::flags::control::LogFlags;

/// Shows the level, or changes it.
pub(super) fn run(flags: &LogFlags) -> Result<(), Failure> {
    let client = client(&flags.control)?;
    let json: Value = match &flags.level {
        None => client.get("/v1/log")?,
        Some(level) => client.change(Method::PUT, "/v1/log", &json!({ "level": level }))?,
    };
    done(&flags.control, format_args!("the target logs at level {}", cell(&json, "level")), &json)
}
