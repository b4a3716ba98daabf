//! Command Quiesce Time (TP4129): time after the loss of its host during which a controller's
//! commands may still take effect. Reported to the hosts of a subsystem, and compared with the
//! longest time at its storage. Written by reactors' cold paths only.

use std::sync::atomic::{AtomicBool, AtomicU16, AtomicU64, Ordering};
use std::time::Duration;

use crate::limits::{COMMAND_QUIESCE_AUTO_MS_MAX, COMMAND_QUIESCE_MARGIN_MS};
use crate::target::config::{CommandQuiesce, SubsystemConfig};

/// The Command Quiesce Time of a subsystem.
#[derive(Debug, Default)]
pub(crate) struct QuiesceTime {
    configured_ms: AtomicU64,
    is_measured: AtomicBool,
    longest_ns: AtomicU64,
}

impl QuiesceTime {
    pub(crate) fn of(config: &SubsystemConfig) -> Self {
        let time = Self::default();
        time.configure(config);
        time
    }

    /// Takes over another configuration; what was measured stays.
    pub(crate) fn configure(&self, config: &SubsystemConfig) {
        self.configured_ms.store(config.command_quiesce_ms().into(), Ordering::Relaxed);
        self.is_measured.store(config.command_quiesce == CommandQuiesce::Auto, Ordering::Relaxed);
    }

    /// Time reported to hosts that ask, in milliseconds. Hosts that have asked before rely on the
    /// value reported then.
    pub(crate) fn reported_ms(&self) -> u16 {
        let configured_ms = self.configured_ms.load(Ordering::Relaxed);
        let reported_ms = if self.is_measured.load(Ordering::Relaxed) {
            configured_ms.max(measured_ms(self.longest()))
        } else {
            configured_ms
        };
        u16::try_from(reported_ms).unwrap_or(u16::MAX)
    }

    /// Time reported to hosts that ask.
    pub(crate) fn reported(&self) -> Duration {
        Duration::from_millis(self.reported_ms().into())
    }

    /// Records that an operation has been at the storage for this time.
    pub(crate) fn note(&self, took: Duration) {
        let took_ns = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        self.longest_ns.fetch_max(took_ns, Ordering::Relaxed);
    }

    /// The longest that an operation has been at the storage since the subsystem is there.
    pub(crate) fn longest(&self) -> Duration {
        Duration::from_nanos(self.longest_ns.load(Ordering::Relaxed))
    }
}

/// Command Quiesce Time of one controller: the value last reported to its host, in milliseconds; 0
/// if it has not asked.
#[derive(Debug, Default)]
pub(crate) struct ReportedTime(AtomicU16);

impl ReportedTime {
    /// Reports the current time to the host.
    pub(crate) fn tell(&self, time: &QuiesceTime) -> u16 {
        let reported_ms = time.reported_ms();
        self.0.store(reported_ms, Ordering::Relaxed);
        reported_ms
    }

    /// Value last reported to the host in milliseconds; 0 if it has not asked.
    pub(crate) fn reported_ms(&self) -> u16 {
        self.0.load(Ordering::Relaxed)
    }

    /// Restores the value that the old process has reported.
    pub(crate) fn go_on(&self, reported_ms: u16) {
        self.0.store(reported_ms, Ordering::Relaxed);
    }

    /// Value that the host relies on; before it has asked, the value it would get.
    pub(crate) fn get(&self, time: &QuiesceTime) -> Duration {
        match self.0.load(Ordering::Relaxed) {
            0 => time.reported(),
            reported_ms => Duration::from_millis(reported_ms.into()),
        }
    }
}

/// The time for a storage of which an operation has taken this long: what was seen is not the longest there will be.
fn measured_ms(longest: Duration) -> u64 {
    let longest_ms = u64::try_from(longest.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX);
    let measured_ms = longest_ms.saturating_mul(2).saturating_add(COMMAND_QUIESCE_MARGIN_MS.into());
    measured_ms.min(COMMAND_QUIESCE_AUTO_MS_MAX.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::BackendConfig;
    use crate::limits::COMMAND_QUIESCE_MS;
    use crate::target::config::NamespaceConfig;

    const MS: fn(u64) -> Duration = Duration::from_millis;

    fn config(command_quiesce: CommandQuiesce, command_quiesce_ms: Option<u16>) -> SubsystemConfig {
        let config = SubsystemConfig::new("nqn.2026-01.io.selvedge:a", "A", "Selvedge");
        SubsystemConfig { command_quiesce, command_quiesce_ms, ..config }
    }

    #[test]
    fn a_measured_time_follows_the_slowest_operation_within_bounds() {
        let time = QuiesceTime::of(&config(CommandQuiesce::Auto, None));
        for (took, reported_ms) in [
            (MS(0), COMMAND_QUIESCE_MS),
            (MS(700), COMMAND_QUIESCE_MS),
            (MS(800), 2100),
            (Duration::from_micros(1_200_001), 2902),
            // A faster one changes nothing.
            (MS(1), 2902),
            (MS(10_000), 20_500),
            (MS(40_000), COMMAND_QUIESCE_AUTO_MS_MAX),
            (Duration::MAX, COMMAND_QUIESCE_AUTO_MS_MAX),
        ] {
            time.note(took);
            assert_eq!(time.reported_ms(), reported_ms, "{took:?}");
        }
    }

    #[test]
    fn a_fixed_time_stays_whatever_is_measured() {
        let time = QuiesceTime::of(&config(CommandQuiesce::Fixed, Some(300)));
        time.note(MS(1000));
        assert_eq!((time.reported_ms(), time.longest()), (300, MS(1000)));
        // A measured time includes what was seen before the setting.
        time.configure(&config(CommandQuiesce::Auto, None));
        assert_eq!(time.reported_ms(), 2500);
        time.configure(&config(CommandQuiesce::Fixed, None));
        assert_eq!(time.reported_ms(), COMMAND_QUIESCE_MS);
    }

    #[test]
    fn a_host_relies_on_the_last_reported_time() {
        let time = QuiesceTime::of(&config(CommandQuiesce::Auto, None));
        let host = ReportedTime::default();
        time.note(MS(1000));
        assert_eq!(host.get(&time), MS(2500));
        assert_eq!(host.tell(&time), 2500);
        time.note(MS(4000));
        assert_eq!((time.reported_ms(), host.get(&time)), (8500, MS(2500)));
        host.tell(&time);
        assert_eq!(host.get(&time), MS(8500));
    }

    #[test]
    fn writes_that_are_held_back_count_for_both() {
        let backend = BackendConfig::File { path: "/a".into(), size: None };
        let slow = NamespaceConfig { write_delay_ms: 9000, ..NamespaceConfig::new(1, backend, 4096) };
        for command_quiesce in [CommandQuiesce::Fixed, CommandQuiesce::Auto] {
            let config = config(command_quiesce, None).with(vec![slow.clone()]);
            assert_eq!(QuiesceTime::of(&config).reported_ms(), 9500);
        }
    }
}
