//! Which Command Quiesce Times are accepted: those that contradict nothing, and that the storage keeps as far as it says.

use std::time::Duration;

use super::fabric::{NamespaceConfig, SubsystemConfig};
use crate::target::TargetError;
use crate::time_bound::TimeBound;

/// Checks what needs nothing opened.
///
/// # Errors
/// `TargetError::Config`, which says what is wrong.
pub(crate) fn check_quiesce(config: &SubsystemConfig) -> Result<(), TargetError> {
    let Some(fixed_ms) = config.command_quiesce_ms else { return Ok(()) };
    let longest_ms = config.longest_delay_ms();
    if fixed_ms == 0 {
        return wrong(
            "a command quiesce time of 0 promises nothing; leave it out for the usual one".to_owned(),
        );
    }
    if !config.command_quiesce.is_fixed() {
        return wrong("a command quiesce time that is measured (auto) cannot be fixed, too".to_owned());
    }
    if u32::from(fixed_ms) < longest_ms {
        return wrong(format!(
            "a command quiesce time of {fixed_ms} ms cannot be kept while writes are held back on purpose (write_delay); set \
             {longest_ms} ms or more"
        ));
    }
    Ok(())
}

/// Checks that the storage of a namespace keeps the time, as far as its bound is known. A
/// configured time that it does not keep is refused; the default one, which was not chosen by the
/// operator, is only logged.
///
/// # Errors
/// `TargetError::Config`, which says what is wrong.
pub(crate) fn check_quiesce_bound(
    config: &SubsystemConfig,
    namespace: &NamespaceConfig,
    bound: &TimeBound,
    place: &str,
) -> Result<(), TargetError> {
    let quiesce_ms = config.command_quiesce_ms();
    let is_kept = !bound.exceeds(Duration::from_millis(quiesce_ms.into()));
    if is_kept || !config.command_quiesce.is_fixed() {
        return Ok(());
    }
    let (nqn, nsid) = (&config.nqn, namespace.nsid);
    if config.command_quiesce_ms.is_none() {
        tracing::info!(
            "namespace {nsid} of {nqn}: {place}: {bound}, longer than the default command quiesce time of {quiesce_ms} ms; if hosts also \
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
    wrong(format!(
        "subsystem {nqn}: a command quiesce time of {quiesce_ms} ms is not kept by namespace {nsid} on {place}: {bound}; {remedy}, \
         or have it measured (command_quiesce = \"auto\")"
    ))
}

fn wrong(message: String) -> Result<(), TargetError> {
    Err(TargetError::Config(message))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::BackendConfig;
    use crate::target::config::CommandQuiesce;

    fn config(command_quiesce: CommandQuiesce, command_quiesce_ms: Option<u16>) -> SubsystemConfig {
        let config = SubsystemConfig::new("nqn.2026-01.io.selvedge:a", "A", "Selvedge");
        SubsystemConfig { command_quiesce, command_quiesce_ms, ..config }
    }

    #[test]
    fn a_fixed_time_is_refused_where_it_is_not_kept() {
        let namespace = NamespaceConfig::new(3, BackendConfig::Block { path: "/dev/sda".into() }, 4096);
        let known = |seconds| TimeBound::Known(Duration::from_secs(seconds), "/sys/timeout".to_owned());
        let outcome = |config: &SubsystemConfig, bound| {
            check_quiesce_bound(config, &namespace, &bound, "/dev/sda").map_err(|error| error.to_string())
        };
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
        // These were not chosen by the operator.
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
        let checked = |quiesce, ms| {
            check_quiesce(&config(quiesce, ms).with(vec![slow.clone()])).map_err(|error| error.to_string())
        };
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
