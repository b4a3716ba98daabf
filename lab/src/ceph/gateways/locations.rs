//! Locations of gateways in rounds: while a gateway of a namespace's location lives, no gateway elsewhere executes commands on
//! it. It keeps out what happens to the gateways.

use std::time::Duration;

use engine::target::Measured;

use super::group::{Group, NQN};
use super::outage::Outage;

/// Locations, which gateways have in turn.
const LOCATIONS: [&str; 3] = ["east", "west", "north"];
/// Time for which a gateway that returns is well until it gets its load-balancing group back: longer than without a setting.
pub(super) const FAILBACK: Duration = Duration::from_secs(6);

/// Location of the gateway with this index.
pub(super) const fn location(index: usize) -> &'static str {
    LOCATIONS[index % LOCATIONS.len()]
}

/// Checks that a gateway got its group back no sooner than after the delay. One that only hosts have lost was well all the time.
///
/// # Errors
/// It did.
pub(super) fn is_delayed(outage: Outage, returned: Duration) -> Result<(), String> {
    if outage == Outage::CutFromHosts || returned >= FAILBACK {
        return Ok(());
    }
    Err(format!("the group was given back after {returned:.1?}, and the delay is {FAILBACK:.1?}"))
}

/// Successful commands on a namespace, at gateways of other locations than its own.
#[derive(Clone, Debug)]
struct Abroad {
    nsid: u32,
    /// Indexes of the gateways, and what each has executed.
    counts: Vec<(usize, u64)>,
}

impl Abroad {
    fn count(group: &Group, nsid: u32) -> Result<Abroad, String> {
        let own = location(home(group, nsid));
        let abroad = (0..group.gateways.len()).filter(|index| location(*index) != own);
        let count =
            |index: usize| Ok::<_, String>((index, executed(&group.gateways[index].metrics()?, nsid)));
        Ok(Abroad { nsid, counts: abroad.map(count).collect::<Result<_, _>>()? })
    }

    /// Checks that nothing was executed there since.
    fn is_unused(&self, group: &Group) -> Result<(), String> {
        let now = Abroad::count(group, self.nsid)?;
        for ((index, before), (_, after)) in self.counts.iter().zip(&now.counts) {
            // A gateway that was started again counts from 0.
            let done = after.checked_sub(*before).unwrap_or(*after);
            if done > 0 {
                let (name, own) = (group.gateways[*index].name, location(home(group, self.nsid)));
                return Err(format!(
                    "gateway {name} at {} has executed {done} commands on namespace {} of {own}",
                    location(*index),
                    self.nsid,
                ));
            }
        }
        Ok(())
    }
}

/// The namespaces of a round: of the gateway that will be away, and of one that lives. Without locations it watches nothing.
pub(super) struct LocationWatch {
    nsids: [u32; 2],
    hit: Option<Abroad>,
    beside: Option<Abroad>,
}

impl LocationWatch {
    /// Begins to watch, while all gateways have their own groups.
    ///
    /// # Errors
    /// A gateway does not answer.
    pub(super) fn begin(group: &Group, nsids: [u32; 2]) -> Result<LocationWatch, String> {
        let mut watch = LocationWatch { nsids, hit: None, beside: None };
        if group.members.has_locations {
            watch.hit = Some(Abroad::count(group, nsids[0])?);
            watch.beside = Some(Abroad::count(group, nsids[1])?);
        }
        Ok(watch)
    }

    /// Checks what was executed. From now on gateways elsewhere may serve the namespace of the one that is away, unless another
    /// one of its location lives.
    ///
    /// # Errors
    /// A namespace was used at another location.
    pub(super) fn outage_begins(&mut self, group: &Group) -> Result<(), String> {
        self.check(group)?;
        let home = home(group, self.nsids[0]);
        let is_near = |index: usize| index != home && location(index) == location(home);
        if !(0..group.gateways.len()).any(is_near) {
            self.hit = None;
        }
        Ok(())
    }

    /// Watches both again, once all gateways have their own groups.
    ///
    /// # Errors
    /// A namespace was used at another location while its own had a gateway.
    pub(super) fn outage_is_over(&mut self, group: &Group) -> Result<(), String> {
        self.check(group)?;
        if self.beside.is_some() {
            self.hit = Some(Abroad::count(group, self.nsids[0])?);
        }
        Ok(())
    }

    /// Checks what was executed until now, and that metrics count it where it belongs.
    ///
    /// # Errors
    /// A namespace was used at another location, or not at its own.
    pub(super) fn end(&self, group: &Group) -> Result<(), String> {
        self.check(group)?;
        for nsid in self.nsids.into_iter().filter(|_| self.beside.is_some()) {
            let gateway = &group.gateways[home(group, nsid)];
            if executed(&gateway.metrics()?, nsid) == 0 {
                return Err(format!("gateway {} counts no commands on namespace {nsid}", gateway.name));
            }
        }
        Ok(())
    }

    fn check(&self, group: &Group) -> Result<(), String> {
        self.hit.iter().chain(&self.beside).try_for_each(|abroad| abroad.is_unused(group))
    }
}

/// Index of the gateway whose load-balancing group has a namespace.
fn home(group: &Group, nsid: u32) -> usize {
    let number = (nsid - 1) / group.members.images + 1;
    group.gateways.iter().position(|gateway| gateway.group == number).unwrap_or_default()
}

/// Successful commands on a namespace, by a gateway's metrics.
fn executed(metrics: &str, nsid: u32) -> u64 {
    let is_own = |sample: &Measured<'_>| {
        sample.name == "selvedge_commands_total"
            && sample.label("subsystem") == NQN
            && sample.number("nsid") == Some(nsid)
    };
    Measured::all(metrics).filter(is_own).map(|sample| sample.count()).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_of_one_namespace_count() {
        let line = |nsid: u32, operation: &str, count: u64| {
            format!(
                "selvedge_commands_total{{subsystem=\"{NQN}\",nsid=\"{nsid}\",operation=\"{operation}\"}} {count}\n"
            )
        };
        let text = line(1, "read", 5) + &line(1, "flush", 2) + &line(11, "read", 70) + "# HELP a b\n";
        assert_eq!([1, 11, 2].map(|nsid| executed(&text, nsid)), [7, 70, 0]);
    }

    #[test]
    fn three_gateways_have_three_locations() {
        assert_eq!([0, 1, 2, 3].map(location), ["east", "west", "north", "east"]);
        let early = Duration::from_secs(4);
        assert!(is_delayed(Outage::Killed, early).is_err() && is_delayed(Outage::Killed, FAILBACK).is_ok());
        assert!(is_delayed(Outage::CutFromHosts, early).is_ok());
    }
}
