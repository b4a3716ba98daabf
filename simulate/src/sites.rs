//! Scenes whose gateways are at several sites, which are their locations. Their rule: a load-balancing group does not stay at
//! another site while a gateway of its own one lives, has hosts and is not drained.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

use engine::simulation::{self, Random, sleep};

use crate::administration::is_there;
use crate::fault::Fault;
use crate::gateway_plan::{GatewayPlan, GroupChange, as_planned};
use crate::group_check::{self, EPOCH};
use crate::plan::Plan;
use crate::scene::Scene;

/// Interval of looks, and those in a row in which a group may be at another site: a return takes 4 s, a fence 10 s.
const LOOK_INTERVAL: Duration = Duration::from_millis(250);
const LOOKS_MAX: u32 = 80;
/// Milliseconds without one gateway of a site, so that another one there has to stand in for it.
const OUTAGE_MS: u64 = 45_000;

thread_local! {
    /// Mishaps under way that can keep every gateway from its work.
    static TROUBLES: Cell<usize> = const { Cell::new(0) };
}

impl GatewayPlan {
    /// Location of a gateway, if gateways have one. The first and the last of them are at the same.
    pub(crate) fn site(&self, number: usize) -> Option<String> {
        (self.sites > 0).then(|| format!("site{}", number % self.sites))
    }
}

impl Plan {
    /// Gateways are at several sites in some scenes, and in some of these one site loses both its gateways, of which one returns
    /// soon.
    pub(crate) fn vary_sites(&mut self) {
        let mut random = Random::new(self.seed.wrapping_mul(0x510e_527f).wrapping_add(43));
        let last = self.targets - 1;
        let Some(gateways) = self.gateways.as_mut().filter(|_| last > 1 && random.chance(500)) else {
            return;
        };
        gateways.sites = last;
        if !random.chance(200) {
            return;
        }
        let at_us = random.between(1_000_000, 3_000_000);
        let soon_us = at_us + random.between(0, 4_000_000);
        let soon_ms = random.between(4_000, 8_000);
        self.mishaps = vec![
            as_planned(at_us, OUTAGE_MS, Fault::KillTarget { target: 0 }),
            as_planned(soon_us, soon_ms, Fault::KillTarget { target: last }),
        ];
    }
}

/// Has a mishap take place, as a trouble of all gateways unless it is one of a single gateway alone.
pub(crate) fn amid(fault: Fault, befall: impl FnOnce()) {
    let is_of_one = matches!(
        fault,
        Fault::KillTarget { .. }
            | Fault::StopTarget { .. }
            | Fault::PowerOffTarget { .. }
            | Fault::Group(GroupChange::Drain { .. } | GroupChange::Move { .. } | GroupChange::Spare)
    );
    let count = usize::from(!is_of_one);
    TROUBLES.set(TROUBLES.get() + count);
    befall();
    TROUBLES.set(TROUBLES.get().saturating_sub(count));
}

/// Looks from now on whether groups are at their sites.
pub(crate) fn watch(scene: &Rc<Scene>) {
    TROUBLES.set(0);
    let scene = scene.clone();
    simulation::start_thread("sites", move || {
        let mut before: BTreeMap<String, (String, u32)> = BTreeMap::new();
        while !scene.ends.get() {
            sleep(LOOK_INTERVAL);
            let strays = if TROUBLES.get() == 0 { strays(&scene) } else { BTreeMap::new() };
            let counted = strays.into_iter().map(|(group, owner)| {
                let former = before.get(&group).filter(|(former, _)| *former == owner);
                let looks = former.map_or(0, |(_, looks)| looks + 1);
                (group, (owner, looks))
            });
            before = counted.collect();
            if let Some((group, (owner, _))) = before.iter().find(|(_, (_, looks))| *looks > LOOKS_MAX) {
                return simulation::fail(format!(
                    "load-balancing group {group} stays with {owner} although a gateway of its site may serve it"
                ));
            }
        }
    });
}

/// The load-balancing groups that a gateway of another site serves, by its name, while one of theirs could.
fn strays(scene: &Scene) -> BTreeMap<String, String> {
    let (gateways, groups) = (group_check::records_of("gateway."), group_check::records_of("ana."));
    let (beats, drained) = (group_check::beats(), group_check::drained());
    let site = |name: &str| gateways.get(name).and_then(|gateway| gateway["location"].as_str());
    let is_up = |name: &str| {
        let number = group_check::number_of(name);
        gateways[name]["life"] == "alive" && number.is_some_and(|number| is_there(scene, number))
    };
    let has_hosts = |name: &str| {
        let beat = beats.get(name).filter(|beat| beat[EPOCH] == gateways[name][EPOCH]);
        beat.is_some_and(|beat| beat["is_deserted"].as_bool() == Some(false))
    };
    let is_drained =
        |name: &str| group_check::number_of(name).is_some_and(|number| drained.contains(&number));
    let stray = |(number, group): (&String, &serde_json::Value)| {
        let owner = group["owner"]["gateway"].as_str().filter(|owner| gateways.contains_key(*owner))?;
        let own = site(group["preferred"].as_str()?)?;
        let is_fit =
            |name: &str| site(name) == Some(own) && is_up(name) && has_hosts(name) && !is_drained(name);
        let is_stray = group["state"] == "serving"
            && site(owner) != Some(own)
            && is_up(owner)
            && gateways.keys().any(|name| is_fit(name));
        is_stray.then(|| (number.clone(), owner.to_owned()))
    };
    groups.iter().filter_map(stray).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn some_scenes_have_three_sites_and_an_outage_of_one() {
        let plans: Vec<Plan> = (0..2_000).map(Plan::new).collect();
        let sites = |plan: &Plan| plan.gateways.as_ref().map_or(0, |gateways| gateways.sites);
        let all: BTreeSet<usize> = plans.iter().map(sites).collect();
        assert_eq!(all, BTreeSet::from([0, 2, 3]));
        let of_three = plans.iter().find(|plan| sites(plan) == 3).expect("three sites");
        let gateways = of_three.gateways.as_ref().expect("gateways");
        assert_eq!(gateways.site(0), gateways.site(of_three.targets - 1));
        let is_outage =
            |plan: &Plan| sites(plan) > 0 && plan.mishaps.iter().any(|mishap| mishap.for_ms == OUTAGE_MS);
        assert!(plans.iter().any(is_outage));
    }
}
