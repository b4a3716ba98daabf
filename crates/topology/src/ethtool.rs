//! What ethtool knows of an interface, and what it can change there: queues, receive side scaling, rules for single
//! flows. Which changes are good ones is not known here.

use std::io;

use super::link::LinkSettings;
use super::machine::{EthtoolAnswers, Refusal};
use super::netlink::generic::Ethtool;
use super::{Channels, Ntuple, NtupleRule, Rss, RssFields, ethtool_ioctl};
use crate::limits::NTUPLE_RULES_MAX;

/// Question that only the ioctl answers, which a process may have given up.
pub(super) const DRIVER: &str = "driver";
pub(super) const HASHED_FIELDS: &str = "hashed fields";
pub(super) const RULES: &str = "rules";

/// Fields that may be hashed (`RXH_`): addresses, ports, and that packets are dropped.
const BOTH_ADDRESSES: u64 = 1 << 4 | 1 << 5;
const BOTH_PORTS: u64 = 1 << 6 | 1 << 7;

/// Everything that ethtool reports about an interface. What the driver does not have is left out; questions that could
/// not be asked are in the refusals.
pub(super) fn answers(interface: &str) -> EthtoolAnswers {
    let mut answers = EthtoolAnswers::default();
    let mut refusals = Vec::new();
    answers.driver = kept(DRIVER, ethtool_ioctl::driver(interface), &mut refusals);
    match Ethtool::open() {
        Ok(mut ethtool) => {
            answers.channels = kept("channels", ethtool.channels(interface), &mut refusals);
            let rss = rss(&mut ethtool, interface, &mut refusals);
            answers.rss = kept("rss", rss, &mut refusals).flatten();
            let ntuple = ntuple(&mut ethtool, interface, &mut refusals);
            answers.ntuple = kept("ntuple", ntuple, &mut refusals);
        }
        Err(error) => refusals.push(Refusal::new("netlink", &error)),
    }
    answers.refusals = refusals;
    answers
}

/// Settings that ethtool reports about an interface beside its queues.
pub(super) fn link_settings(interface: &str) -> LinkSettings {
    let mut settings = LinkSettings::default();
    let mut refusals = Vec::new();
    match Ethtool::open() {
        Ok(mut ethtool) => {
            let features = kept("features", ethtool.features(interface), &mut refusals);
            (settings.active, settings.switchable) = features.unwrap_or_default();
            settings.coalescing = kept("coalescing", ethtool.coalescing(interface), &mut refusals);
            settings.modes = kept("link modes", ethtool.modes(interface), &mut refusals);
        }
        Err(error) => refusals.push(Refusal::new("netlink", &error)),
    }
    settings.refusals = refusals;
    settings
}

/// An answer; where there is none, the reason goes to the refusals, but not that the driver does not have it.
fn kept<T>(question: &str, answer: io::Result<T>, refusals: &mut Vec<Refusal>) -> Option<T> {
    match answer {
        Ok(found) => Some(found),
        Err(error) => {
            let refusal = Refusal::new(question, &error);
            if refusal.errno != libc::EOPNOTSUPP {
                refusals.push(refusal);
            }
            None
        }
    }
}

/// Keeps a question among the refusals that anybody may ask, so that it was this process that gave it up.
fn given_up<T>(question: &str, answer: &io::Result<T>, refusals: &mut Vec<Refusal>) {
    if let Err(error) = answer
        && error.raw_os_error() == Some(libc::EPERM)
        && !refusals.iter().any(|refusal| refusal.question == question)
    {
        refusals.push(Refusal::new(question, error));
    }
}

fn rss(ethtool: &mut Ethtool, interface: &str, refusals: &mut Vec<Refusal>) -> io::Result<Option<Rss>> {
    let found = ethtool.scaling(interface)?;
    if found.table.is_empty() && found.key.is_empty() {
        return Ok(None);
    }
    let (tcp4, tcp6) =
        (ethtool_ioctl::hashed_fields(interface, false), ethtool_ioctl::hashed_fields(interface, true));
    given_up(HASHED_FIELDS, &tcp4, refusals);
    Ok(Some(Rss {
        key: found.key,
        table: found.table,
        function: found.function,
        tcp4: fields(&tcp4),
        tcp6: fields(&tcp6),
        is_symmetric: found.is_symmetric,
    }))
}

/// Many drivers have fixed fields and do not tell them.
fn fields(bits: &io::Result<u64>) -> RssFields {
    match *bits {
        Ok(0) => RssFields::Nothing,
        Ok(BOTH_ADDRESSES) => RssFields::Addresses,
        Ok(bits) if bits == BOTH_ADDRESSES | BOTH_PORTS => RssFields::AddressesAndPorts,
        _ => RssFields::Unknown,
    }
}

fn ntuple(ethtool: &mut Ethtool, interface: &str, refusals: &mut Vec<Refusal>) -> io::Result<Ntuple> {
    let switch = ethtool.ntuple(interface)?;
    let mut ntuple = Ntuple {
        is_supported: switch.is_there,
        is_enabled: switch.is_on,
        is_switchable: switch.is_movable,
        places: None,
        rules: Vec::new(),
    };
    if !switch.is_there {
        return Ok(ntuple);
    }
    // Drivers that have the switch and tell no rules are taken at their word: they have none that we could read.
    let counted = ethtool_ioctl::rule_count(interface);
    given_up(RULES, &counted, refusals);
    let Ok((count, places)) = counted else { return Ok(ntuple) };
    ntuple.places = places;
    let (locations, all_places) = ethtool_ioctl::rule_locations(interface, count)?;
    ntuple.places = ntuple.places.or(all_places);
    for location in locations.into_iter().take(NTUPLE_RULES_MAX) {
        match ethtool_ioctl::rule(interface, location) {
            Ok(rule) => ntuple.rules.push(rule),
            // It was taken away since.
            Err(error) if error.raw_os_error() == Some(libc::ENOENT) => {}
            Err(error) => return Err(error),
        }
    }
    ntuple.rules.sort_by_key(|rule| rule.location);
    Ok(ntuple)
}

/// An interface's numbers of queues.
pub(super) fn channels(interface: &str) -> io::Result<Channels> {
    let asked = Ethtool::open().and_then(|mut ethtool| ethtool.channels(interface));
    asked.map_err(|error| said("read the numbers of queues of", interface, &error))
}

/// An interface's receive side scaling, where it has one.
pub(super) fn rss_now(interface: &str) -> io::Result<Option<Rss>> {
    let asked = Ethtool::open().and_then(|mut ethtool| rss(&mut ethtool, interface, &mut Vec::new()));
    asked.map_err(|error| said("read the RSS table of", interface, &error))
}

/// An interface's rules for single flows.
pub(super) fn ntuple_now(interface: &str) -> io::Result<Ntuple> {
    let asked = Ethtool::open().and_then(|mut ethtool| ntuple(&mut ethtool, interface, &mut Vec::new()));
    asked.map_err(|error| said("read the ntuple rules of", interface, &error))
}

/// Sets the numbers of queues (`now`) of an interface; needs root.
///
/// # Errors
/// What the kernel and the driver say; `InvalidInput` when the driver cannot have that number.
pub fn set_channels(interface: &str, channels: Channels) -> io::Result<()> {
    let set = Ethtool::open().and_then(|mut ethtool| ethtool.set_channels(interface, &channels));
    set.map_err(|error| said("set the numbers of queues of", interface, &error))
}

/// Switches rules for single flows on or off; needs root.
///
/// # Errors
/// What the kernel and the driver say.
pub fn set_ntuple(interface: &str, is_on: bool) -> io::Result<()> {
    let set = Ethtool::open().and_then(|mut ethtool| {
        ethtool.set_ntuple(interface, is_on)?;
        // A feature that cannot be changed is left as it is, without an error.
        if ethtool.ntuple(interface)?.is_on == is_on {
            return Ok(());
        }
        Err(io::Error::new(io::ErrorKind::Unsupported, "the driver leaves it as it is"))
    });
    let what = if is_on { "switch on ntuple rules of" } else { "switch off ntuple rules of" };
    set.map_err(|error| said(what, interface, &error))
}

/// Sets a rule at its place, in place of any that is there; needs root.
///
/// # Errors
/// What the kernel and the driver say; `InvalidInput` for a rule without a flow and a queue.
pub fn insert_rule(interface: &str, rule: &NtupleRule) -> io::Result<()> {
    let what = format!("set ntuple rule {} of", rule.location);
    ethtool_ioctl::insert_rule(interface, rule).map_err(|error| said(&what, interface, &error))
}

/// Takes the rule at a place away; needs root.
///
/// # Errors
/// What the kernel and the driver say; most drivers say that there is none.
pub fn delete_rule(interface: &str, location: u32) -> io::Result<()> {
    let what = format!("delete ntuple rule {location} of");
    ethtool_ioctl::delete_rule(interface, location).map_err(|error| said(&what, interface, &error))
}

/// Sets the table of receive side scaling, with as many entries as it has; needs root.
///
/// # Errors
/// What the kernel and the driver say; `InvalidInput` when the number of entries is another.
pub fn set_rss_table(interface: &str, table: &[u32]) -> io::Result<()> {
    ethtool_ioctl::set_table(interface, table)
        .map_err(|error| said("set the RSS table of", interface, &error))
}

fn said(what: &str, interface: &str, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("cannot {what} {interface}: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_loopback_answers_what_it_has() {
        let found = answers("lo");
        // It has neither queues to set nor a table; that does not count as a refusal.
        assert!(found.channels.is_none() && found.rss.is_none(), "{found:?}");
        assert!(found.refusals.is_empty(), "{found:?}");
        assert!(!found.ntuple.unwrap().is_supported);
    }

    #[test]
    fn the_loopback_has_offloads() {
        let found = link_settings("lo");
        assert!(found.active.contains("rx-gro") && !found.switchable.is_empty(), "{found:?}");
        assert!(found.refusals.is_empty(), "{found:?}");
        assert_eq!(link_settings("no-such-nic0").refusals.len(), 3);
    }

    #[test]
    fn an_interface_that_is_not_there_refuses_everything() {
        let found = answers("no-such-nic0");
        let errors: Vec<i32> = found.refusals.iter().map(|refusal| refusal.errno).collect();
        assert_eq!(errors, vec![libc::ENODEV; 4], "{found:?}");
    }

    #[test]
    fn changes_that_fail_say_what_and_where() {
        let error = set_channels("no-such-nic0", Channels::default()).unwrap_err();
        assert!(
            error.to_string().starts_with("cannot set the numbers of queues of no-such-nic0: "),
            "{error}"
        );
        let rule = NtupleRule { location: 5, flow: None, queue: None, scope: crate::RuleScope::Unknown };
        let error = insert_rule("lo", &rule).unwrap_err();
        assert!(error.to_string().contains("ntuple rule 5 of lo: Invalid argument"), "{error}");
        assert!(delete_rule("no-such-nic0", 1).is_err() && set_rss_table("no-such-nic0", &[0]).is_err());
        assert!(set_ntuple("no-such-nic0", true).is_err());
    }

    #[test]
    fn hashed_fields_are_distinguished() {
        assert_eq!(fields(&Ok(0xf0)), RssFields::AddressesAndPorts);
        assert_eq!(fields(&Ok(0x30)), RssFields::Addresses);
        assert_eq!(fields(&Ok(0)), RssFields::Nothing);
        assert_eq!(fields(&Ok(0x50)), RssFields::Unknown);
        assert_eq!(fields(&Err(io::ErrorKind::Unsupported.into())), RssFields::Unknown);
    }
}
