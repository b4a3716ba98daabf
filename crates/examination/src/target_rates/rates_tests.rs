//! Differences of samples, where everything goes well and where nothing does.

use std::time::Duration;

use super::fixture::{NQN, metrics, sample};
use crate::target_rates::rates::Rates;
use crate::target_rates::sample::{Sample, Stages, Status};

fn load(rates: &Rates) -> (Option<f64>, Option<f64>) {
    let load = &rates.subsystem(NQN).unwrap().load;
    (load.read.iops, load.write.bytes_per_s)
}

#[test]
fn rates_are_differences_over_the_time_between() {
    let rates = Rates::of(&sample(4, 100, 36), Some(&sample(2, 100, 30)));
    assert_eq!(rates.interval_s, Some(2.0));
    assert_eq!(load(&rates), (Some(30_000.0), Some(15_000.0 * 4096.0)));
    assert_eq!(rates.all.total.iops, Some(45_000.0));
    assert_eq!(rates.all.errors_per_s, Some(6.0));
    let stages = &rates.all.total.stages_percent;
    assert_eq!(stages.keys().collect::<Vec<_>>(), ["limits", "storage"]);
    assert!((stages["storage"] - 75.0).abs() < 1e-6, "{stages:?}");
    let sizes = &rates.all.total.sizes_percent;
    assert_eq!(sizes.keys().collect::<Vec<_>>(), ["4k", "larger"]);
    assert_eq!(sizes["larger"].keys().collect::<Vec<_>>(), ["storage"], "limits held back small ones alone");
    assert!((sizes["4k"]["limits"] - 100.0 / 3.0).abs() < 1e-6, "{sizes:?}");
    let latency = rates.all.total.latency.unwrap();
    assert!((latency.mean_ns - 100_000.0).abs() < 1.0, "{latency:?}");
    assert_eq!((latency.p50_ns_max, latency.p99_ns_max), (Some(64_000), Some(256_000)));
    let controller = rates.controllers().find(|controller| controller.cntlid == 1).unwrap();
    assert_eq!(controller.commands_per_s, Some(45_000.0));
    assert_eq!((controller.depth, controller.queues.len()), (16, 3));
    assert_eq!(controller.received_bytes_per_s, Some(90_000_000.0));
    assert_eq!((controller.queues[0].commands_per_s, controller.queues[0].depth), (None, None));
    assert_eq!(controller.queues[1].stages_percent, Stages::from([("storage".to_owned(), 100.0)]));
    let reactors: Vec<_> = rates.reactors.iter().map(|reactor| reactor.busy_percent).collect();
    assert_eq!(reactors, [Some(100.0), Some(100.0)], "three seconds of work in two, which cannot be");
    assert_eq!(rates.reactors[1].commands_per_s, Some(22_500.0));
    assert_eq!(rates.reactors[0].events_per_s, Some(7_500.0));
}

#[test]
fn a_reactor_without_queues_has_a_rate_of_zero() {
    let (mut before, mut now) = (sample(1, 100, 30), sample(2, 100, 31));
    for sample in [&mut before, &mut now] {
        sample.controllers.clear();
    }
    let rates = Rates::of(&now, Some(&before));
    let rate = rates.reactors[0].commands_per_s.unwrap();
    assert_eq!(format!("{rate:.0}"), "0", "and not -0");
}

#[test]
fn a_namespace_without_commands_has_rates_and_no_latency() {
    let rates = Rates::of(&sample(2, 100, 31), Some(&sample(1, 100, 30)));
    let idle = &rates.subsystem(NQN).unwrap().namespaces[1];
    assert_eq!((idle.load.read.iops, idle.load.read.latency), (Some(0.0), None));
    assert_eq!(idle.load.errors_per_s, Some(0.0));
}

/// Every number in `json` under a name that says it is a rate or a time.
fn numbers(json: &serde_json::Value, found: &mut Vec<f64>) {
    match json {
        serde_json::Value::Object(fields) => {
            for (name, value) in fields {
                match value.as_f64() {
                    Some(number) if name != "started_s" => found.push(number),
                    _ => numbers(value, found),
                }
            }
        }
        serde_json::Value::Array(items) => items.iter().for_each(|item| numbers(item, found)),
        _ => {}
    }
}

#[test]
fn a_restarted_target_has_no_rates_until_the_second_sample() {
    // Its counters restart at 0, and may be higher or lower than before.
    for seconds in [1, 29, 31, 1_000_000] {
        let before = sample(1, 100, 30);
        let now = sample(2, 105, seconds);
        let rates = Rates::of(&now, Some(&before));
        assert!(rates.restarted);
        assert_eq!((rates.interval_s, load(&rates)), (None, (None, None)));
        assert!(rates.reactors.iter().all(|reactor| reactor.busy_percent.is_none()));
        assert!(rates.controllers().all(|controller| controller.commands_per_s.is_none()));
        let next = Rates::of(&sample(3, 105, seconds + 1), Some(&now));
        assert!(!next.restarted);
        assert_eq!(load(&next), (Some(10_000.0), Some(5_000.0 * 4096.0)));
    }
}

#[test]
fn counters_that_fall_have_no_rates_and_the_others_do() {
    // The same target with lower counters: a subsystem that was removed and created again, queues and
    // connections that were reconnected.
    let rates = Rates::of(&sample(2, 100, 3), Some(&sample(1, 100, 30)));
    let mut found = Vec::new();
    numbers(&serde_json::to_value(&rates).unwrap(), &mut found);
    assert!(found.iter().all(|number| *number >= 0.0 && *number < 1e9), "{found:?}");
    let busy = &rates.subsystem(NQN).unwrap().namespaces[0];
    assert_eq!((busy.load.errors_per_s, &busy.operations["read"].iops), (None, &None));
    assert_eq!(rates.reactors[0].busy_percent, None);
    // One operation alone.
    let (mut before, now) = (sample(1, 100, 30), sample(2, 100, 31));
    let namespace = before.subsystems.get_mut(NQN).unwrap().get_mut(&1).unwrap();
    namespace.operations.get_mut("write").unwrap().commands = u64::MAX;
    let rates = Rates::of(&now, Some(&before));
    assert_eq!(load(&rates), (Some(10_000.0), Some(0.0)));
}

#[test]
fn what_was_not_there_before_has_no_rate_yet() {
    let (mut before, now) = (sample(1, 100, 30), sample(2, 100, 31));
    before.subsystems.get_mut(NQN).unwrap().remove(&1);
    before.controllers.retain(|controller| controller.cntlid != 1);
    before.reactors.remove(&1);
    let rates = Rates::of(&now, Some(&before));
    assert_eq!(rates.subsystem(NQN).unwrap().namespaces[0].load.read.iops, None);
    assert_eq!(
        load(&rates),
        (Some(0.0), Some(0.0)),
        "a million commands since yesterday are not this second's"
    );
    let controller = rates.controllers().find(|controller| controller.cntlid == 1).unwrap();
    assert_eq!((controller.commands_per_s, controller.sent_bytes_per_s), (None, None));
    assert_eq!(rates.reactors[1].busy_percent, None);
    assert!(rates.reactors[0].busy_percent.is_some());
}

#[test]
fn a_new_connection_has_no_bandwidth_yet() {
    let (before, mut now) = (sample(1, 100, 30), sample(2, 100, 31));
    now.controllers[0].queues[1].peer = Some("127.0.0.1:50000".into());
    let rates = Rates::of(&now, Some(&before));
    let queues = &rates.subsystem(NQN).unwrap().controllers[0].queues;
    assert_eq!((queues[1].received_bytes_per_s, queues[1].commands_per_s), (None, Some(7_500.0)));
    assert_eq!(queues[2].received_bytes_per_s, Some(10_000_000.0));
}

#[test]
fn samples_at_one_moment_or_in_the_wrong_order_have_no_rates() {
    for (at, before) in [(2, 2), (1, 2)] {
        let rates = Rates::of(&sample(at, 100, 31), Some(&sample(before, 100, 30)));
        assert_eq!((rates.interval_s, load(&rates)), (None, (None, None)));
    }
    assert_eq!(load(&Rates::of(&sample(1, 100, 30), None)), (None, None));
}

#[test]
fn an_operation_counts_from_its_first_command_on() {
    let (mut before, now) = (sample(1, 100, 30), sample(2, 100, 31));
    before.subsystems.get_mut(NQN).unwrap().get_mut(&1).unwrap().operations.remove("write");
    let rates = Rates::of(&now, Some(&before));
    assert_eq!(rates.subsystem(NQN).unwrap().load.write.iops, Some(155_000.0));
}

#[test]
fn latencies_beyond_the_last_bucket_have_no_end() {
    let mut slow = metrics(100, 31);
    for operation in &mut slow.subsystems[0].namespaces[0].operations {
        let moved = operation.latency.buckets[8];
        operation.latency.buckets[8] = 0;
        operation.latency.buckets[25] = moved;
    }
    let empty =
        || serde_json::from_str::<Status>("{\"ports\":[],\"controllers\":[],\"reactors\":[]}").unwrap();
    let before = metrics(100, 0).to_prometheus();
    let before = Sample::read(Duration::from_secs(1), empty(), &before).unwrap();
    let now = Sample::read(Duration::from_secs(2), empty(), &slow.to_prometheus()).unwrap();
    let latency = Rates::of(&now, Some(&before)).all.total.latency.unwrap();
    assert_eq!((latency.p50_ns_max, latency.p99_ns_max), (Some(64_000), None));
}

#[test]
fn namespaces_without_durations_have_rates_and_no_latency() {
    let sample = |second: u64| {
        let status = "{\"ports\":[],\"controllers\":[],\"reactors\":[]}";
        let text = metrics(100, second).to_prometheus();
        let lines = text.lines().filter(|line| !line.contains("_duration_seconds"));
        let text: String = lines.map(|line| format!("{line}\n")).collect();
        let none = "selvedge_omitted{kind=\"namespace_detail\"} 0\n";
        assert!(text.contains(none), "{text}");
        let text = text.replace(none, "selvedge_omitted{kind=\"namespace_detail\"} 2\n");
        Sample::read(Duration::from_secs(second), serde_json::from_str(status).unwrap(), &text).unwrap()
    };
    let rates = Rates::of(&sample(2), Some(&sample(1)));
    let total = &rates.all.total;
    assert_eq!((total.iops, total.latency.is_none(), rates.omitted), (Some(15_000.0), true, 0));
}

#[test]
fn what_is_no_targets_metrics_is_refused() {
    let empty =
        || serde_json::from_str::<Status>("{\"ports\":[],\"controllers\":[],\"reactors\":[]}").unwrap();
    assert!(Sample::read(Duration::ZERO, empty(), "").is_err());
    assert!(Sample::read(Duration::ZERO, empty(), "go_goroutines 7\n").is_err());
}
