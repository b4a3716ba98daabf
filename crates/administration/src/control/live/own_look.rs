//! A target's look at itself: its answers to requests for status, metrics and configuration.

use serde::Serialize;
use serde_json::Value;

use super::super::administration::Administration;
use crate::diagnosis::look::Look;

/// Looks at the target: its status, metrics and configuration now.
pub(super) fn own_look(administration: &Administration, at_s: f64) -> Look {
    Look {
        name: String::new(),
        at_s,
        status: value(&administration.status()),
        metrics: administration.metrics().to_prometheus(),
        config: value(&administration.fabric()),
        gateways: administration
            .membership()
            .map(|membership| value(&membership.status()))
            .unwrap_or_default(),
    }
}

fn value(answer: &impl Serialize) -> Value {
    serde_json::to_value(answer).unwrap_or_else(|error| {
        tracing::warn!(%error, "the target's own status cannot be encoded; its rules see none");
        Value::Null
    })
}
