//! For how long after the loss of its host a controller's commands may still take effect (Command Quiesce Time, TP4129), as
//! hosts of one subsystem are told, and the longest that its storage has taken. Only reactors' cold paths write here.

use std::sync::atomic::{AtomicBool, AtomicU16, AtomicU64, Ordering};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::config::{NamespaceConfig, SubsystemConfig};
use crate::backend::TimeBound;
use crate::limits::{COMMAND_QUIESCE_AUTO_MS_MAX, COMMAND_QUIESCE_MARGIN_MS};

/// Where a subsystem's Command Quiesce Time comes from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CommandQuiesce {
    /// It is configured.
    #[default]
    Fixed,
    /// It is measured, from what is usual on.
    Auto,
}

impl CommandQuiesce {
    /// Whether it is configured.
    pub const fn is_fixed(&self) -> bool {
        matches!(self, Self::Fixed)
    }
}

/// The Command Quiesce Time of a subsystem.
#[derive(Debug, Default)]
pub(super) struct QuiesceTime {
    configured_ms: AtomicU64,
    is_measured: AtomicBool,
    longest_ns: AtomicU64,
}

impl QuiesceTime {
    pub(super) fn of(config: &SubsystemConfig) -> Self {
        let time = Self::default();
        time.configure(config);
        time
    }

    /// Takes over another configuration; what was measured stays.
    pub(super) fn configure(&self, config: &SubsystemConfig) {
        self.configured_ms.store(config.command_quiesce_ms().into(), Ordering::Relaxed);
        self.is_measured.store(config.command_quiesce == CommandQuiesce::Auto, Ordering::Relaxed);
    }

    /// What hosts are told when they ask, in milliseconds. Those that have asked before go by what they were told.
    pub(super) fn told_ms(&self) -> u16 {
        let configured_ms = self.configured_ms.load(Ordering::Relaxed);
        let told_ms = if self.is_measured.load(Ordering::Relaxed) {
            configured_ms.max(measured_ms(self.longest()))
        } else {
            configured_ms
        };
        u16::try_from(told_ms).unwrap_or(u16::MAX)
    }

    /// The same.
    pub(super) fn told(&self) -> Duration {
        Duration::from_millis(self.told_ms().into())
    }

    /// Takes note that an operation has been at the storage for so long.
    pub(super) fn note(&self, took: Duration) {
        let took_ns = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        self.longest_ns.fetch_max(took_ns, Ordering::Relaxed);
    }

    /// The longest that an operation has been at the storage since the subsystem is there.
    pub(super) fn longest(&self) -> Duration {
        Duration::from_nanos(self.longest_ns.load(Ordering::Relaxed))
    }
}

/// The Command Quiesce Time by which one controller's host goes: what it was told when it asked last.
#[derive(Debug, Default)]
pub(super) struct ToldTime(AtomicU16);

impl ToldTime {
    /// The host asks.
    pub(super) fn tell(&self, time: &QuiesceTime) -> u16 {
        let told_ms = time.told_ms();
        self.0.store(told_ms, Ordering::Relaxed);
        told_ms
    }

    /// What it goes by; before it has asked, what it would be told.
    pub(super) fn get(&self, time: &QuiesceTime) -> Duration {
        match self.0.load(Ordering::Relaxed) {
            0 => time.told(),
            told_ms => Duration::from_millis(told_ms.into()),
        }
    }
}

/// Checks what needs nothing opened.
///
/// # Errors
/// What is wrong.
pub(super) fn check(config: &SubsystemConfig) -> Result<(), String> {
    let Some(fixed_ms) = config.command_quiesce_ms else { return Ok(()) };
    let longest_ms = config.longest_delay_ms();
    if fixed_ms == 0 {
        return Err("a command quiesce time of 0 promises nothing; leave it out for the usual one".to_owned());
    }
    if !config.command_quiesce.is_fixed() {
        return Err("a command quiesce time that is measured (auto) cannot be fixed, too".to_owned());
    }
    if u32::from(fixed_ms) < longest_ms {
        return Err(format!(
            "a command quiesce time of {fixed_ms} ms cannot be kept while writes are held back on purpose (write_delay); set \
             {longest_ms} ms or more"
        ));
    }
    Ok(())
}

/// Checks whether the storage of a namespace keeps the time, as far as it says. A fixed time that it does not keep is refused;
/// of the usual one it is only told, since nobody has chosen it.
///
/// # Errors
/// What is wrong.
pub(super) fn check_bound(
    config: &SubsystemConfig,
    namespace: &NamespaceConfig,
    bound: &TimeBound,
    place: &str,
) -> Result<(), String> {
    let told_ms = config.command_quiesce_ms();
    let is_kept = !bound.exceeds(Duration::from_millis(told_ms.into()));
    if is_kept || !config.command_quiesce.is_fixed() {
        return Ok(());
    }
    let (nqn, nsid) = (&config.nqn, namespace.nsid);
    if config.command_quiesce_ms.is_none() {
        tracing::info!(
            "namespace {nsid} of {nqn}: {place}: {bound}, longer than the default command quiesce time of {told_ms} ms; if hosts also \
             reach this storage through another target, set command_quiesce_ms or command_quiesce = \"auto\""
        );
        return Ok(());
    }
    let remedy = match bound {
        TimeBound::Known(time, _) if time.as_millis() <= u16::MAX.into() => {
            format!("set command_quiesce_ms to {} or more, shorten that time", time.as_millis())
        }
        _ => "give it a bound of 65 s at most".to_owned(),
    };
    Err(format!(
        "subsystem {nqn}: a command quiesce time of {told_ms} ms is not kept by namespace {nsid} on {place}: {bound}; {remedy}, \
         or have it measured (command_quiesce = \"auto\")"
    ))
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

    const MS: fn(u64) -> Duration = Duration::from_millis;

    fn config(command_quiesce: CommandQuiesce, command_quiesce_ms: Option<u16>) -> SubsystemConfig {
        let config = SubsystemConfig::new("nqn.2026-01.io.selvedge:a", "A", "Selvedge");
        SubsystemConfig { command_quiesce, command_quiesce_ms, ..config }
    }

    #[test]
    fn a_measured_time_follows_the_slowest_operation_within_bounds() {
        let time = QuiesceTime::of(&config(CommandQuiesce::Auto, None));
        for (took, told_ms) in [
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
            assert_eq!(time.told_ms(), told_ms, "{took:?}");
        }
    }

    #[test]
    fn a_fixed_time_stays_whatever_is_measured() {
        let time = QuiesceTime::of(&config(CommandQuiesce::Fixed, Some(300)));
        time.note(MS(1000));
        assert_eq!((time.told_ms(), time.longest()), (300, MS(1000)));
        // Whoever has it measured from now on has what was seen already.
        time.configure(&config(CommandQuiesce::Auto, None));
        assert_eq!(time.told_ms(), 2500);
        time.configure(&config(CommandQuiesce::Fixed, None));
        assert_eq!(time.told_ms(), COMMAND_QUIESCE_MS);
    }

    #[test]
    fn a_host_goes_by_what_it_was_told() {
        let time = QuiesceTime::of(&config(CommandQuiesce::Auto, None));
        let host = ToldTime::default();
        time.note(MS(1000));
        assert_eq!(host.get(&time), MS(2500));
        assert_eq!(host.tell(&time), 2500);
        time.note(MS(4000));
        assert_eq!((time.told_ms(), host.get(&time)), (8500, MS(2500)));
        host.tell(&time);
        assert_eq!(host.get(&time), MS(8500));
    }

    #[test]
    fn writes_that_are_held_back_count_for_both() {
        let backend = BackendConfig::File { path: "/a".into(), size: None };
        let slow = NamespaceConfig { write_delay_ms: 9000, ..NamespaceConfig::new(1, backend, 4096) };
        for command_quiesce in [CommandQuiesce::Fixed, CommandQuiesce::Auto] {
            let config = config(command_quiesce, None).with(vec![slow.clone()]);
            assert_eq!(QuiesceTime::of(&config).told_ms(), 9500);
        }
    }

    #[test]
    fn a_fixed_time_is_refused_where_it_is_not_kept() {
        let namespace = NamespaceConfig::new(3, BackendConfig::Block { path: "/dev/sda".into() }, 4096);
        let known = |seconds| TimeBound::Known(Duration::from_secs(seconds), "/sys/timeout".to_owned());
        let outcome = |config: &SubsystemConfig, bound| check_bound(config, &namespace, &bound, "/dev/sda");
        let fixed = config(CommandQuiesce::Fixed, Some(5000));
        assert_eq!(outcome(&fixed, known(5)), Ok(()));
        assert_eq!(outcome(&fixed, TimeBound::Unknown), Ok(()));
        let refusal = outcome(&fixed, known(30)).expect_err("a command may take longer");
        for part in ["namespace 3 on /dev/sda", "5000 ms", "30s", "/sys/timeout", "30000 or more", "auto"] {
            assert!(refusal.contains(part), "{part}: {refusal}");
        }
        let refusal = outcome(&fixed, TimeBound::None("it waits")).expect_err("it waits");
        assert!(refusal.contains("it waits; give it a bound of 65 s at most"), "{refusal}");
        assert!(outcome(&fixed, known(70)).expect_err("longer").contains("65 s at most"));
        // Nobody has chosen these.
        for config in [config(CommandQuiesce::Fixed, None), config(CommandQuiesce::Auto, None)] {
            assert_eq!(
                (outcome(&config, known(30)), outcome(&config, TimeBound::None("it waits"))),
                (Ok(()), Ok(()))
            );
        }
    }

    #[test]
    fn a_time_that_contradicts_itself_is_refused() {
        let backend = BackendConfig::File { path: "/a".into(), size: None };
        let slow = NamespaceConfig { write_delay_ms: 3000, ..NamespaceConfig::new(1, backend, 4096) };
        let checked = |quiesce, ms| check(&config(quiesce, ms).with(vec![slow.clone()]));
        for (quiesce, ms, expected) in [
            (CommandQuiesce::Fixed, None, ""),
            (CommandQuiesce::Auto, None, ""),
            (CommandQuiesce::Fixed, Some(3500), ""),
            (CommandQuiesce::Fixed, Some(3499), "set 3500 ms or more"),
            (CommandQuiesce::Auto, Some(9000), "cannot be fixed, too"),
            (CommandQuiesce::Fixed, Some(0), "promises nothing"),
        ] {
            let outcome = checked(quiesce, ms);
            let is_as_expected = outcome
                .as_ref()
                .err()
                .map_or(expected.is_empty(), |what| !expected.is_empty() && what.contains(expected));
            assert!(is_as_expected, "{quiesce:?} {ms:?}: {outcome:?}");
        }
    }
}
