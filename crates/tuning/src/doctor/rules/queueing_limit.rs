//! A queueing discipline on the way out that holds packets back: a rate that was set, an emulated delay or loss.

use chart::units;
use topology::Queueing;

use crate::diagnosis::finding::{Finding, Severity};
use crate::doctor::case::Case;
use crate::doctor::host::Host;
use crate::doctor::rule::Rule;
use crate::tune::advice::link_mbps;

pub(super) const RULE: Rule = Rule { name: "queueing-limit", judge };

/// Disciplines that share a set rate among classes; their rates are reported with their classes, not here.
const WITH_CLASSES: [&str; 3] = ["htb", "hfsc", "cbq"];

fn judge(case: &Case) -> Vec<Finding> {
    let host = &case.host;
    let mut found = Vec::new();
    for name in host.links.keys() {
        for (before, now) in host.queueings(name) {
            found.extend(finding(host, name, before, now));
        }
    }
    found
}

fn finding(host: &Host, name: &str, before: Option<&Queueing>, now: &Queueing) -> Option<Finding> {
    let grown = |of: fn(&Queueing) -> u32| before.map_or(0, |before| of(now).wrapping_sub(of(before)));
    let (held, dropped) = (grown(|queueing| queueing.overlimits), grown(|queueing| queueing.dropped));
    let holds = held > 0 || dropped > 0 || now.backlog_bytes > 0;
    let has_classes = WITH_CLASSES.contains(&now.kind.as_str());
    let has_limit = now.rate_bytes.is_some() || now.delay_us.is_some() || now.loss_ppm.is_some();
    // A rate of each flow (fq) is what pacing is for, and classes with room do not limit.
    let is_limit = has_limit || has_classes && holds;
    let is_pacing = now.kind == "fq" && held == 0;
    if !is_limit || is_pacing {
        return None;
    }
    let what = [
        now.rate_bytes.map(|rate| format!("lets {} pass", units::bandwidth(rate as f64))),
        now.delay_us.map(|delay| format!("delays packets by {}", units::time_ns(delay as f64 * 1e3))),
        now.loss_ppm.map(|loss| format!("drops {:.2} % of packets", f64::from(loss) / 1e4)),
        (!has_limit).then(|| "shares a rate among classes and holds packets back".to_owned()),
    ];
    let what: Vec<String> = what.into_iter().flatten().collect();
    let severity = match (holds, now.delay_us.or(now.loss_ppm.map(u64::from)).is_some()) {
        (true, _) => Severity::Limits,
        (false, true) => Severity::Slows,
        (false, false) => Severity::MayCost,
    };
    let link_bytes = link_mbps(&host.survey.topology, name).map(|mbps| mbps as f64 * 125_000.0);
    // Without a speed it is not known what it takes.
    let share = now.rate_bytes.zip(link_bytes).map(|(rate, link)| 1.0 - rate as f64 / link.max(1.0));
    let cause = format!("The queueing discipline {} of {name} {}", now.kind, what.join(" and "));
    let sent = before.map_or(0, |before| now.sent_bytes.saturating_sub(before.sent_bytes));
    Some(
        Finding::new(severity, name, cause)
            .costing(share.unwrap_or(0.0))
            .ranked(0.5)
            .seen(format!(
                "in {:.1} s: {} sent, {} held back, {} dropped, {} waiting",
                host.interval_s(),
                units::bytes(sent as f64),
                units::plural(held.into(), "time"),
                units::plural(dropped.into(), "packet"),
                units::bytes(f64::from(now.backlog_bytes))
            ))
            .cure(
                "Take it away, or raise its rate, if storage shall have the link.",
                "Packets leave as fast as the link takes them.",
            )
            .command(format!("tc -s qdisc show dev {name}"))
            .command(format!("tc qdisc replace dev {name} root fq")),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::sample::{healthy, named_first};

    fn with(kind: &str, change: impl Fn(&mut Queueing), held: u32) -> Case {
        let mut case = healthy();
        let mut queueing = Queueing {
            interface: "eth0".to_owned(),
            kind: kind.to_owned(),
            is_root: true,
            ..Queueing::default()
        };
        change(&mut queueing);
        case.host.before.as_mut().unwrap().queueings = vec![queueing.clone()];
        queueing.overlimits += held;
        case.host.now.as_mut().unwrap().queueings = vec![queueing];
        case
    }

    #[test]
    fn a_rate_is_named_and_limits_when_it_holds_back() {
        let found =
            named_first(&with("tbf", |queueing| queueing.rate_bytes = Some(37_500_000), 900), RULE.name);
        assert_eq!((found.severity, found.cost_percent), (Severity::Limits, 99.0));
        assert!(found.cause.contains("tbf of eth0 lets 37.5 MB/s pass"), "{found:?}");
        let found =
            named_first(&with("cake", |queueing| queueing.rate_bytes = Some(12_500_000), 0), RULE.name);
        assert_eq!(found.severity, Severity::MayCost);
    }

    #[test]
    fn emulated_ways_and_classes_are_named() {
        let delay = with("netem", |queueing| queueing.delay_us = Some(5000), 0);
        assert!(named_first(&delay, RULE.name).cause.contains("delays packets by 5.00 ms"));
        let loss = with("netem", |queueing| queueing.loss_ppm = Some(10_000), 0);
        assert!(named_first(&loss, RULE.name).cause.contains("drops 1.00 %"));
        assert!(named_first(&with("htb", |_| {}, 5), RULE.name).cause.contains("among classes"));
    }

    #[test]
    fn look_alikes_are_well() {
        for kind in ["fq", "fq_codel", "mq", "pfifo_fast", "noqueue", "htb"] {
            assert_eq!(RULE.findings(&with(kind, |_| {}, 0)), [], "{kind}");
        }
        let paced = with("fq", |queueing| queueing.rate_bytes = Some(1_000_000_000), 0);
        assert_eq!(RULE.findings(&paced), []);
        let elsewhere = with(
            "tbf",
            |queueing| {
                queueing.interface = "eth7".to_owned();
                queueing.rate_bytes = Some(1000);
            },
            9,
        );
        assert_eq!(RULE.findings(&elsewhere), []);
    }
}
