//! `/v1/slow-commands`: commands that took longer than the threshold, with the time in each stage.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use engine::target::{SlowCommand, SlowCommandLog, Stage};
use serde::{Deserialize, Serialize};

use super::ask::{Answer, Ask};
use super::refusal::Refusal;

const MICROSECOND_NS: f64 = 1e3;
const MILLISECOND_NS: f64 = 1e6;

/// From which time on commands are kept, until the target ends.
#[derive(Debug, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "SlowCommandsThreshold")]
pub(super) struct ThresholdBody {
    /// Milliseconds, with fractions; null keeps none. What was kept goes.
    threshold_ms: Option<f64>,
}

/// Commands that took long, the latest of them.
#[derive(Debug, Serialize, schemars::JsonSchema)]
#[schemars(rename = "SlowCommands")]
pub(super) struct Slow {
    /// From how many milliseconds on a command is kept; null where none are.
    threshold_ms: Option<f64>,
    /// True if more commands were slow within a second than are kept of one, since the threshold
    /// was set.
    has_left_out: bool,
    /// Kept commands, the oldest first.
    commands: Vec<Entry>,
}

/// A command that took long, and went well.
#[derive(Debug, Serialize, schemars::JsonSchema)]
#[schemars(rename = "SlowCommand")]
struct Entry {
    /// Number of the command among all that were kept, from 1.
    number: u64,
    /// Time of the answer, as RFC 3339.
    time: String,
    /// NQN of the host.
    host_nqn: String,
    /// Address of the host's end of the queue.
    address: SocketAddr,
    /// NQN of the subsystem.
    subsystem: String,
    /// Identifier of the controller.
    cntlid: u16,
    /// Identifier of the queue.
    queue: u16,
    /// Identifier of the namespace.
    nsid: u32,
    /// Kind of the command, by the names of metrics.
    operation: &'static str,
    /// First block, if the command names one range.
    #[serde(skip_serializing_if = "Option::is_none")]
    block: Option<u64>,
    /// Number of blocks.
    #[serde(skip_serializing_if = "Option::is_none")]
    blocks: Option<u64>,
    /// Bytes that travelled with it.
    bytes: u32,
    /// Duration, in microseconds.
    took_us: f64,
    /// Time in each stage, in microseconds, by the names of stages in metrics. The parts add up to
    /// the duration.
    stages_us: BTreeMap<&'static str, f64>,
}

impl Slow {
    fn of(log: &SlowCommandLog) -> Self {
        let in_ms = |time: Duration| time.as_nanos() as f64 / MILLISECOND_NS;
        Self {
            threshold_ms: log.threshold.map(in_ms),
            has_left_out: log.has_left_out,
            commands: log.commands.iter().map(Entry::of).collect(),
        }
    }
}

impl Entry {
    fn of(command: &SlowCommand) -> Self {
        let in_us = |ns: u64| ns as f64 / MICROSECOND_NS;
        let time = jiff::Timestamp::try_from(command.at).unwrap_or_default();
        let stages = Stage::ALL.into_iter().zip(command.stages_ns);
        Self {
            number: command.number,
            time: format!("{time:.3}"),
            host_nqn: command.host_nqn.clone(),
            address: command.peer,
            subsystem: command.subsystem.clone(),
            cntlid: command.controller,
            queue: command.queue,
            nsid: command.nsid,
            operation: command.operation.name(),
            block: command.blocks.map(|(block, _)| block),
            blocks: command.blocks.map(|(_, blocks)| blocks),
            bytes: command.bytes,
            took_us: in_us(command.took_ns),
            stages_us: stages.map(|(stage, ns)| (stage.name(), in_us(ns))).collect(),
        }
    }
}

pub(super) fn show(ask: &Ask<'_>) -> Result<Answer, Refusal> {
    Answer::with(&Slow::of(&ask.administration.slow_commands()))
}

pub(super) fn put(ask: &Ask<'_>) -> Result<Answer, Refusal> {
    let wanted: ThresholdBody = ask.body()?;
    let time = |ms: f64| {
        let time = Duration::try_from_secs_f64(ms / 1e3).ok();
        let reason = "threshold_ms has to be a time in milliseconds, of 0 or more";
        time.ok_or_else(|| Refusal::unprocessable(reason).about("threshold_ms"))
    };
    let threshold = wanted.threshold_ms.map(time).transpose()?;
    let _stays = ask.administration.stay()?;
    ask.administration.keep_slow_commands(threshold);
    show(ask)
}
