//! What the links are like in each scenario, as values. It keeps out how links become so.

use clap::ValueEnum;
use serde::Serialize;

use crate::emulator::link::{LossUnit, Settings};

/// A kind of network.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Scenario {
    /// Four times 1 Gbit/s, and nothing else: the seed's `loss=0`.
    Lossless,
    /// 5 ms each way and 0.5 % loss on all links: the seed's `loss=1`.
    Lossy,
    /// 5 ms each way, 0.5 % loss on link 1 only.
    LossyOne,
    /// 5 ms each way, link 1 has a quarter of the rate.
    SlowOne,
    /// 5 ms each way, link 1 has 20 ms more.
    FarOne,
    /// 5 ms each way, link 1 is cut for 5 s in the middle.
    CutOne,
}

/// The probability of a loss in the lossy scenarios.
const LOSS: f64 = 0.005;
/// The delay one way of all scenarios but the lossless.
const DELAY_MS: f64 = 5.0;

/// 5 s of it are the cut.
pub(crate) const CUT_RUNTIME_S_MIN: u32 = 12;

impl Scenario {
    /// Properties of a link, counted from 1, with the caller's unit of loss.
    pub(crate) fn link(self, link: usize, mode: LossUnit) -> Settings {
        let mut settings = Settings { mode, delay_ms: DELAY_MS, ..Settings::default() };
        match self {
            Scenario::Lossless => settings.delay_ms = 0.0,
            Scenario::Lossy => settings.loss = LOSS,
            Scenario::LossyOne if link == 1 => settings.loss = LOSS,
            Scenario::SlowOne if link == 1 => settings.rate_mbit = 250.0,
            Scenario::FarOne if link == 1 => settings.delay_ms = DELAY_MS + 20.0,
            Scenario::LossyOne | Scenario::SlowOne | Scenario::FarOne | Scenario::CutOne => {}
        }
        settings
    }

    /// Seconds of a workload for which `runtime_s` were asked: a cut needs time before and after it.
    pub(crate) fn runtime_s(self, runtime_s: u32) -> u32 {
        if self == Scenario::CutOne { runtime_s.max(CUT_RUNTIME_S_MIN) } else { runtime_s }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_link_one_is_worse_where_one_is() {
        let well = Settings { delay_ms: 5.0, ..Settings::default() };
        for scenario in [Scenario::LossyOne, Scenario::SlowOne, Scenario::FarOne] {
            assert_ne!(scenario.link(1, LossUnit::Skb), well);
            assert!((2..=4).all(|link| scenario.link(link, LossUnit::Skb) == well));
        }
    }
}
