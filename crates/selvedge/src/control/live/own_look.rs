//! A target's look at itself: what it would answer to whoever asks for its status, metrics and configuration.

use serde::Serialize;
use serde_json::Value;

use super::super::administration::Administration;
use crate::diagnosis::look::Look;

/// What the target says of itself now.
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

fn value(told: &impl Serialize) -> Value {
    serde_json::to_value(told).unwrap_or_else(|error| {
        tracing::warn!(%error, "what the target says of itself cannot be written");
        Value::Null
    })
}
