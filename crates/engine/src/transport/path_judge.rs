//! Choice of the congestion control that suits the path of a live connection, judged by its losses
//! and traffic: the calm one, which slows down where segments are lost, or bbr, which does not. It
//! reads no clock and touches no socket: moments are times since the looking began.

use std::time::Duration;

use super::info::Traffic;

/// Congestion control of the two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Control {
    /// Control that a connection begins with.
    Calm,
    /// BBR.
    Bbr,
}

/// A connection that carried less between two looks than this says nothing of its path.
const SPOKEN_BYTES_MIN: u64 = 256 << 10;
/// Segments of an Ethernet link, of which three have to be lost: one or two are lost on any path.
const SEGMENT_BYTES: u64 = 1448;
const LOST_BYTES_MIN: u64 = 3 * SEGMENT_BYTES;
/// Below this round trip a lost segment costs next to nothing.
const RTT_US_MIN: u32 = 200;
/// After a change the window grows from its start: what is carried meanwhile does not count.
const SETTLING: Duration = Duration::from_millis(400);
/// Time for which a trial is measured after that.
const MEASURED: Duration = Duration::from_secs(1);
/// Without loss for this long, the calm one is tried again.
const LOSSLESS: Duration = Duration::from_secs(20);
/// After a trial that gained nothing, the next comes after this time, and after twice the time when that gains nothing either.
const PAUSE_MIN: Duration = Duration::from_secs(20);
const PAUSE_MAX: Duration = Duration::from_secs(1280);

/// A trial of the other control.
#[derive(Clone, Copy, Debug)]
struct Trial {
    /// Bytes a second before it.
    rate_before: f64,
    /// Time from which the traffic counts.
    counts_from: Duration,
    /// The first look after that.
    began: Option<(Duration, u64)>,
}

/// State of one connection.
#[derive(Debug)]
pub(super) struct PathJudge {
    control: Control,
    last: Option<(Duration, Traffic)>,
    /// Bytes a second that were acknowledged lately while there was something to carry.
    rate: f64,
    lossless_since: Duration,
    trial: Option<Trial>,
    pause: Duration,
    paused_until: Duration,
}

impl PathJudge {
    pub(super) const fn new() -> Self {
        Self {
            control: Control::Calm,
            last: None,
            rate: 0.0,
            lossless_since: Duration::ZERO,
            trial: None,
            pause: PAUSE_MIN,
            paused_until: Duration::ZERO,
        }
    }

    /// True if the connection has carried anything since the last look that was taken into account.
    pub(super) fn has_spoken(&self, traffic: Traffic) -> bool {
        self.last.is_none_or(|(_, before)| traffic.sent_bytes > before.sent_bytes)
    }

    /// Control that the connection is to change to, if any, by what the kernel has counted until
    /// `now`.
    pub(super) fn judge(&mut self, now: Duration, traffic: Traffic) -> Option<Control> {
        let Some((then, before)) = self.last else {
            (self.last, self.lossless_since) = (Some((now, traffic)), now);
            return None;
        };
        let sent = traffic.sent_bytes.saturating_sub(before.sent_bytes);
        if sent < SPOKEN_BYTES_MIN {
            // It may be the beginning of more: the next look counts from the same moment, unless that is long ago.
            if now.saturating_sub(then) > MEASURED {
                self.last = Some((now, traffic));
            }
            return None;
        }
        self.last = Some((now, traffic));
        let lost = traffic.retransmitted_bytes.saturating_sub(before.retransmitted_bytes);
        let acknowledged = traffic.acknowledged_bytes.saturating_sub(before.acknowledged_bytes);
        let rate = acknowledged as f64 / now.saturating_sub(then).as_secs_f64().max(1e-6);
        if lost > 0 {
            self.lossless_since = now;
        }
        if let Some(trial) = self.trial {
            return self.go_on(trial, now, traffic.acknowledged_bytes);
        }
        self.rate = if self.rate == 0.0 { rate } else { self.rate.midpoint(rate) };
        if now < self.paused_until {
            return None;
        }
        let other = match self.control {
            Control::Calm => {
                lost >= LOST_BYTES_MIN
                    && traffic.rtt_us_min >= RTT_US_MIN
                    && is_held_by_loss(rate, lost as f64 / sent as f64, traffic.rtt_us_min)
            }
            Control::Bbr => now.saturating_sub(self.lossless_since) >= LOSSLESS,
        };
        other.then(|| self.try_other(now))
    }

    fn try_other(&mut self, now: Duration) -> Control {
        self.trial = Some(Trial { rate_before: self.rate, counts_from: now + SETTLING, began: None });
        self.change()
    }

    fn change(&mut self) -> Control {
        self.control = match self.control {
            Control::Calm => Control::Bbr,
            Control::Bbr => Control::Calm,
        };
        self.control
    }

    fn go_on(&mut self, mut trial: Trial, now: Duration, acknowledged: u64) -> Option<Control> {
        if now < trial.counts_from {
            return None;
        }
        let (began, acknowledged_then) = *trial.began.get_or_insert((now, acknowledged));
        self.trial = Some(trial);
        let measured = now.saturating_sub(began);
        if measured < MEASURED {
            return None;
        }
        self.trial = None;
        self.rate = acknowledged.saturating_sub(acknowledged_then) as f64 / measured.as_secs_f64();
        // bbr has to be worth it, since it takes more than its share from others; the calm one need not be worse.
        let share = if self.control == Control::Bbr { 1.05 } else { 0.97 };
        if self.rate >= trial.rate_before * share {
            self.pause = PAUSE_MIN;
            return None;
        }
        self.paused_until = now + self.pause;
        self.pause = (self.pause * 2).min(PAUSE_MAX);
        self.rate = trial.rate_before;
        Some(self.change())
    }
}

/// True if loss limits the rate: if it is near what a window that is halved by each loss allows
/// (Mathis and others, 1997). A connection that carries much less has nothing more to send.
fn is_held_by_loss(rate: f64, loss: f64, rtt_us: u32) -> bool {
    const NEAR: f64 = 0.25;
    let allowed = 1.22 * SEGMENT_BYTES as f64 / (f64::from(rtt_us) * 1e-6 * loss.sqrt());
    rate >= NEAR * allowed
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOOK: Duration = Duration::from_millis(100);

    /// A path, by the bytes a second that it carries under each control and the share that it loses.
    struct Path {
        calm: f64,
        bbr: f64,
        loss: f64,
        rtt_us_min: u32,
    }

    /// Looks at a connection over `path` ten times a second. What it changed to, and when, in milliseconds.
    fn played(
        judge: &mut PathJudge,
        path: &Path,
        seconds: u64,
        traffic: &mut Traffic,
        now: &mut Duration,
    ) -> Vec<(u64, Control)> {
        let mut changes = Vec::new();
        let mut control = judge.control;
        for _ in 0..seconds * 10 {
            *now += LOOK;
            let rate = if control == Control::Calm { path.calm } else { path.bbr };
            let carried = rate * LOOK.as_secs_f64();
            traffic.acknowledged_bytes += carried as u64;
            traffic.sent_bytes += (carried * (1.0 + path.loss)) as u64;
            traffic.retransmitted_bytes += (carried * path.loss) as u64;
            traffic.rtt_us_min = path.rtt_us_min;
            if let Some(other) = judge.judge(*now, *traffic) {
                control = other;
                changes.push((now.as_millis() as u64, other));
            }
        }
        changes
    }

    fn alone(path: &Path, seconds: u64) -> Vec<(u64, Control)> {
        played(&mut PathJudge::new(), path, seconds, &mut Traffic::default(), &mut Duration::default())
    }

    #[test]
    fn a_path_that_loses_nothing_stays_calm() {
        for rtt_us_min in [20, 1_000, 50_000] {
            assert!(alone(&Path { calm: 1e9, bbr: 2e9, loss: 0.0, rtt_us_min }, 600).is_empty());
        }
    }

    #[test]
    fn a_lossy_path_gets_bbr_within_half_a_second_and_keeps_it() {
        let changes = alone(&Path { calm: 10e6, bbr: 110e6, loss: 0.005, rtt_us_min: 10_000 }, 600);
        let [(at_ms, Control::Bbr)] = changes[..] else { panic!("{changes:?}") };
        assert!(at_ms <= 500, "{at_ms} ms");
    }

    #[test]
    fn where_bbr_gains_nothing_it_is_given_up_and_tried_ever_less() {
        // A full queue loses some segments of a window that fills the link anyway.
        let changes = alone(&Path { calm: 118e6, bbr: 118e6, loss: 0.0005, rtt_us_min: 5_000 }, 3600);
        assert!((2..=16).contains(&changes.len()), "{changes:?}");
        assert_eq!(changes.last().unwrap().1, Control::Calm);
    }

    #[test]
    fn a_connection_with_little_to_send_is_left_alone() {
        assert!(alone(&Path { calm: 1e6, bbr: 1e6, loss: 0.005, rtt_us_min: 10_000 }, 600).is_empty());
        assert!(alone(&Path { calm: 20e6, bbr: 20e6, loss: 0.000_02, rtt_us_min: 1_000 }, 600).is_empty());
    }

    #[test]
    fn a_path_that_loses_no_more_becomes_calm_again_where_that_is_no_worse() {
        let (mut judge, mut traffic, mut now) = (PathJudge::new(), Traffic::default(), Duration::ZERO);
        let lossy = Path { calm: 10e6, bbr: 110e6, loss: 0.005, rtt_us_min: 10_000 };
        assert_eq!(played(&mut judge, &lossy, 60, &mut traffic, &mut now).len(), 1);
        let clean = Path { calm: 110e6, loss: 0.0, ..lossy };
        let changes = played(&mut judge, &clean, 60, &mut traffic, &mut now);
        assert!(matches!(changes[..], [(_, Control::Calm)]), "{changes:?}");
        let far = Path { calm: 60e6, loss: 0.005, ..lossy };
        let changes = played(&mut judge, &far, 60, &mut traffic, &mut now);
        assert!(matches!(changes[..], [(_, Control::Bbr)]), "{changes:?}");
        let worse = Path { calm: 60e6, bbr: 110e6, loss: 0.0, rtt_us_min: 10_000 };
        let changes = played(&mut judge, &worse, 60, &mut traffic, &mut now);
        assert!(matches!(changes[..2], [(_, Control::Calm), (_, Control::Bbr)]), "{changes:?}");
    }
}
