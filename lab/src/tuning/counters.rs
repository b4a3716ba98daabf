//! Two hosts with one worker each, a plan in effect, and the kernel's counters while only one of them works: what it sends
//! goes by its own queue, and what it receives is brought to its processor.

use std::collections::BTreeMap;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use topology::CpuSet;

use super::changes::PLAN;
use super::crash::keep_on;
use super::snapshot::{Snapshot, allowed, mask, read};
use super::testbed::{DEVICE, FAR_DEVICE, QUEUES_MAX, Testbed};
use crate::answer::Answer;
use crate::program::Program;

const PORTS: [u16; 2] = [4421, 4422];
/// Until what was under way has come to its end.
const SETTLES: Duration = Duration::from_millis(400);
const COUNTED: Duration = Duration::from_millis(1000);
/// A worker with four commands outstanding has thousands in that time; a machine that is busy has fewer.
const PACKETS_MIN: u64 = 100;

/// A host with its target, and where the plan wants its worker.
struct Pair {
    target: Program,
    bench: Program,
    cpu: u32,
    queue: u32,
}

/// Counters of the kernel.
struct Counts {
    /// Packets by transmit queue.
    sent: BTreeMap<u32, u64>,
    /// Number of times that each processor was given packets by RPS.
    brought: Vec<u64>,
}

pub(super) fn flows_are_on_their_queues(testbed: &Testbed) -> Result<(), String> {
    if std::thread::available_parallelism().map_or(1, usize::from) < 2 {
        return Err("it takes two processors".to_owned());
    }
    let before = Snapshot::of(&[DEVICE], &[])?;
    let mut started = Vec::new();
    for port in PORTS {
        started.push((testbed.serve(port)?, testbed.bench(port, 1)?));
    }
    testbed.tune(&[&["apply"], &PLAN[..]].concat())?.well()?;
    let mut pairs = Vec::new();
    for (target, bench) in started {
        let (cpu, queue) = cpu_and_queue(testbed, bench.id())?;
        pairs.push(Pair { target, bench, cpu, queue });
    }
    let [one, other] = &pairs[..] else { return Err("there are not two hosts".to_owned()) };
    if one.cpu == other.cpu || one.queue == other.queue {
        return Err(format!(
            "the plan has both on CPU {} and {}, queue {} and {}",
            one.cpu, other.cpu, one.queue, other.queue
        ));
    }
    Answer::of(&["tc", "qdisc", "add", "dev", DEVICE, "root", "mq"])?.well()?;
    let checked = own_queue(testbed, one, other).and_then(|()| own_queue(testbed, other, one));
    for pair in &pairs {
        signal(&pair.bench, Signal::CONT);
    }
    Answer::of(&["tc", "qdisc", "del", "dev", DEVICE, "root"])?.well()?;
    checked?;
    testbed.tune(&["revert"])?.well()?;
    Snapshot::of(&[DEVICE], &[])?.is_as(&before)
}

/// Processor on which the one worker of a process is kept, and the only queue that this processor
/// sends by and is given packets from, all by the system's own files.
fn cpu_and_queue(testbed: &Testbed, process: u32) -> Result<(u32, u32), String> {
    let flows = testbed.flows_of(process)?;
    let thread = flows.first().map(|flow| flow["worker"]["thread"].to_string());
    let list = allowed(process, &thread.ok_or("it has no flow")?)?;
    let cpu: u32 = list.parse().map_err(|_| format!("the worker may run on {list}"))?;
    let mut queues = Vec::new();
    for queue in 0..QUEUES_MAX {
        if mask(&format!("/sys/class/net/{DEVICE}/queues/tx-{queue}/xps_cpus"))?.contains(&cpu) {
            queues.push(queue);
        }
    }
    let [queue] = queues[..] else { return Err(format!("CPU {cpu} sends by queues {queues:?}")) };
    let receives = mask(&format!("/sys/class/net/{DEVICE}/queues/rx-{queue}/rps_cpus"))?;
    if receives.len() != 1 || !receives.contains(&cpu) {
        return Err(format!("CPU {cpu} sends by queue {queue}, whose packets RPS brings to {receives:?}"));
    }
    Ok((cpu, queue))
}

/// With the other one stopped, all that is sent goes by the queue of this one, and RPS brings its packets.
///
/// Checks a target that works on the other's processor, so that every packet has to be passed to
/// it. The receive queue of the device that a packet counts for depends on the kernel: since 5.17
/// veth leaves the number of the sender's queue in a field that is read as one more than the
/// receiver's, and before they were the same. So both are tried.
fn own_queue(testbed: &Testbed, own: &Pair, other: &Pair) -> Result<(), String> {
    keep_on(own.target.id(), other.cpu as usize)?;
    signal(&other.bench, Signal::STOP);
    signal(&own.bench, Signal::CONT);
    let mut brought = Vec::new();
    for far_queue in [own.queue + 1, own.queue] {
        send_by(testbed, far_queue)?;
        std::thread::sleep(SETTLES);
        let first = Counts::now()?;
        std::thread::sleep(COUNTED);
        let last = Counts::now()?;
        let sent: BTreeMap<u32, u64> = last
            .sent
            .iter()
            .map(|(queue, count)| (*queue, count - first.sent.get(queue).unwrap_or(&0)))
            .collect();
        let all: u64 = sent.values().sum();
        let by_own = sent.get(&own.queue).copied().unwrap_or(0);
        // Some acknowledgements are sent by the processor that took the packet, before it was brought over.
        if by_own < PACKETS_MIN || by_own * 10 < all * 9 {
            return Err(format!(
                "CPU {} sends by queue {}, and the counters tell {sent:?}",
                own.cpu, own.queue
            ));
        }
        let given = |cpu: u32| {
            let of = |counts: &Counts| counts.brought.get(cpu as usize).copied().unwrap_or(0);
            of(&last).saturating_sub(of(&first))
        };
        brought.push(given(own.cpu));
        if given(own.cpu) >= PACKETS_MIN {
            println!(
                "        CPU {}: {by_own} of {all} packets by tx-{}, packets brought {} times",
                own.cpu,
                own.queue,
                given(own.cpu)
            );
            return Ok(());
        }
    }
    Err(format!("CPU {} was given packets of queue {} by RPS {brought:?} times", own.cpu, own.queue))
}

/// Makes the far end send everything by one queue.
fn send_by(testbed: &Testbed, queue: u32) -> Result<(), String> {
    let online: CpuSet =
        read("/sys/devices/system/cpu/online")?.trim().parse().map_err(|_| "no CPUs are online")?;
    let mask = online.mask();
    let script = format!(
        "cd /sys/class/net/{FAR_DEVICE}/queues && for queue in tx-*; do echo 0 >$queue/xps_cpus; done && \
         echo {mask} >tx-{queue}/xps_cpus"
    );
    testbed.at_target(&script).map(drop)
}

impl Counts {
    fn now() -> Result<Counts, String> {
        let queues = Answer::of(&["tc", "-s", "-j", "qdisc", "show", "dev", DEVICE])?.json()?;
        Ok(Counts { sent: sent(&queues), brought: brought(&read("/proc/net/softnet_stat")?) })
    }
}

/// Packets of each class of `mq`, which are the transmit queues counted from 1, in hexadecimal.
fn sent(queues: &Value) -> BTreeMap<u32, u64> {
    let class = |one: &Value| {
        let number = one["parent"].as_str()?.split_once(':')?.1;
        Some((u32::from_str_radix(number, 16).ok()?.checked_sub(1)?, one["packets"].as_u64()?))
    };
    queues.as_array().into_iter().flatten().filter_map(class).collect()
}

/// The tenth column: how often a processor was woken for packets that another one took.
fn brought(text: &str) -> Vec<u64> {
    let column = |line: &str| line.split_whitespace().nth(9).map(|word| u64::from_str_radix(word, 16));
    text.lines().filter_map(column).map(Result::unwrap_or_default).collect()
}

fn signal(program: &Program, signal: Signal) {
    if let Some(id) = i32::try_from(program.id()).ok().and_then(Pid::from_raw) {
        // One that has ended is found out by its counters.
        let _ = kill_process(id, signal);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_are_read() {
        let queues = serde_json::json!([
            { "kind": "mq", "root": true, "packets": 9 },
            { "kind": "pfifo_fast", "parent": "8001:b", "packets": 7 },
            { "kind": "pfifo_fast", "parent": "8001:1", "packets": 2 },
        ]);
        assert_eq!(sent(&queues), BTreeMap::from([(0, 2), (10, 7)]));
        let text = "1 2 3 4 5 6 7 8 9 000000ff 0\n1 2 3 4 5 6 7 8 9 00000001 0\n";
        assert_eq!(brought(text), [255, 1]);
    }
}
