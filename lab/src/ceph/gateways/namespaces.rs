//! `lab ceph namespaces`: cost and times of a group of two gateways with few and with thousands of namespaces. It decides
//! what is measured in which order, and keeps out how hosts see it.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use clap::value_parser;
use engine::limits::NAMESPACES_MAX;
use serde_json::{Value, json};

use super::many_paths::{Change, PathSet};
use super::status::Status;
use super::{control, folder};
use crate::answer::has_failed;
use crate::ceph::config::{POOL, Shape};
use crate::ceph::target::process_status;
use crate::ceph::testbed::Testbed;
use crate::program::Program;
use crate::statistics::median;
use crate::table::{Table, short, whole};

/// Numbers of namespaces that are measured unless others are named.
const COUNTS: [u32; 3] = [64, 1024, 4096];
/// Hosts that connect one after the other, and changes, of which the medians are reported.
const REPEATS: usize = 5;
const LOOK: Duration = Duration::from_millis(20);
/// Bytes of a namespace, and the same as rbd takes it.
const SIZE: u64 = 1 << 20;
const IMAGE_SIZE: &str = "1M";
/// The subsystem and namespace that is removed and added again; the first gateway serves it.
const CHANGED: (u32, u32) = (1, 1);

/// Arguments of the measurement.
#[derive(clap::Args, Clone, Debug, PartialEq, Eq)]
pub(crate) struct Namespaces {
    /// The selvedge to measure
    #[arg(long, value_name = "PATH")]
    program: String,
    /// Folder of its files and the table
    #[arg(long, value_name = "DIR", default_value = "namespaces")]
    output: PathBuf,
    /// Numbers of namespaces, in as few subsystems as have room for them [default: 64,1024,4096]
    #[arg(long, value_name = "N,...", value_delimiter = ',', value_parser = value_parser!(u32).range(1..=16384))]
    counts: Vec<u32>,
    /// Images of 1 MiB instead of namespaces without storage; making them takes most of the time
    #[arg(long)]
    images: bool,
    /// Time for all of it, in minutes
    #[arg(long, value_name = "MINUTES", default_value = "10", value_parser = value_parser!(u64).range(1..=240))]
    minutes: u64,
}

impl Namespaces {
    /// Measures, and prints the table. How many numbers of namespaces could not be measured.
    ///
    /// # Errors
    /// There is no cluster, or no place for the table.
    pub(in crate::ceph) fn run(&self) -> Result<usize, String> {
        let until = Instant::now() + Duration::from_secs(60 * self.minutes);
        let output = folder(&self.output)?;
        let testbed = Testbed::new(&self.program, &output, Shape::SMALL, 0)?;
        let counts = if self.counts.is_empty() { &COUNTS[..] } else { &self.counts };
        let mut table = Table::new(&Figures::HEAD);
        let mut failed = 0;
        for count in counts {
            let measured = if left(until).is_zero() {
                Err("the time is over".to_owned())
            } else {
                self.measure(&testbed, *count, until)
            };
            let outcome = measured.map(|figures| table.row(figures.cells(*count)));
            failed += usize::from(has_failed(&format!("{count} namespaces"), &outcome));
        }
        println!("{}", table.text());
        let file = output.join("table.md");
        std::fs::write(&file, table.markdown()).map_err(|error| format!("{}: {error}", file.display()))?;
        Ok(failed)
    }

    fn measure(&self, testbed: &Testbed, count: u32, until: Instant) -> Result<Figures, String> {
        let group = format!("{POOL}/of-{count},conf={}", testbed.cluster.conf().display());
        let start = |name: &str, number: u32| {
            let socket = testbed.file(&format!("{count}-{name}.sock"));
            Member::start(&self.program, &socket, &group, (name, number), until)
        };
        let (first, second) = (start("a", 1)?, start("b", 2)?);
        let alone_kib = first.resident_kib()?;
        let subsystems = sizes(count);
        let began = Instant::now();
        for (number, size) in (1..).zip(&subsystems) {
            self.add(testbed, &first, (count, number, *size), until)?;
        }
        let added = began.elapsed();
        let names: Vec<String> = (1..).zip(&subsystems).map(|(number, _)| nqn(count, number)).collect();
        let here = awaited(until, || PathSet::whole(first.address, &names, count))?;
        let there = awaited(until, || PathSet::whole(second.address, &names, count))?;
        let all_kib = first.resident_kib()?;
        let mut figures = Figures {
            added_ms: ms(added),
            resident_kib: all_kib,
            each_kib: all_kib.saturating_sub(alone_kib) as f64 / f64::from(count),
            ..Figures::default()
        };
        for _ in 0..REPEATS {
            figures.visit(first.address, &names)?;
        }
        let changed = self.namespace((count, CHANGED.0), CHANGED.1, testbed);
        for _ in 0..REPEATS {
            let path = format!("/v1/subsystems/{}/namespaces", nqn(count, CHANGED.0));
            for (what, body) in [
                (format!("DELETE {path}/{}", CHANGED.1), String::new()),
                (format!("POST {path}"), changed.to_string()),
            ] {
                let change = || control::send(&first.socket, &what, &body, left(until)).map(drop);
                figures.change(&PathSet::notified([&here, &there], change, until)?);
            }
        }
        there.settle()?;
        let began = Instant::now();
        first.kill();
        figures.noticed_ms = Some(ms(there.await_access_change(began, until)?));
        second.await_group(1, until)?;
        figures.takeover_ms = Some(ms(began.elapsed()));
        figures.after_kib = second.resident_kib()?;
        second.kill();
        Ok(figures)
    }

    /// Adds a subsystem with its namespaces, half of them for each gateway.
    fn add(
        &self,
        testbed: &Testbed,
        member: &Member,
        (count, number, size): (u32, u32, u32),
        until: Instant,
    ) -> Result<(), String> {
        if self.images {
            for nsid in 1..=size {
                let image = format!("{POOL}/{}", image(count, number, nsid));
                testbed.cluster.rbd(&["create", "--size", IMAGE_SIZE, &image])?;
                if left(until).is_zero() {
                    return Err(format!("{nsid} images were made, and the time is over"));
                }
            }
        }
        let namespaces: Vec<Value> =
            (1..=size).map(|nsid| self.namespace((count, number), nsid, testbed)).collect();
        let body = json!({ "nqn": nqn(count, number), "allow_any_host": true, "namespaces": namespaces });
        control::send(&member.socket, "POST /v1/subsystems", &body.to_string(), left(until)).map(drop)
    }

    /// Configuration of a namespace.
    fn namespace(&self, (count, number): (u32, u32), nsid: u32, testbed: &Testbed) -> Value {
        let backend = if self.images {
            let conf = testbed.cluster.conf().display().to_string();
            json!({ "rbd": { "pool": POOL, "image": image(count, number, nsid), "conf": conf } })
        } else {
            json!({ "null": { "size": SIZE } })
        };
        json!({ "nsid": nsid, "backend": backend, "ana_group": (nsid - 1) % 2 + 1 })
    }
}

/// A gateway that listens on the loopback.
struct Member {
    program: Program,
    address: SocketAddr,
    socket: PathBuf,
}

impl Member {
    /// Starts a gateway, and waits until it serves the load-balancing group of its number.
    fn start(
        program: &str,
        socket: &Path,
        group: &str,
        (name, number): (&str, u32),
        until: Instant,
    ) -> Result<Member, String> {
        let control = format!("unix:{}", socket.display());
        let words = ["serve", "-a", "127.0.0.1", "-s", "0", "--reactors", "1", "--control", &control];
        let words = [&[program][..], &words, &["--gateway-group", group, "--gateway-name", name]].concat();
        let mut program = Program::start(&words.into_iter().map(str::to_owned).collect::<Vec<_>>())?;
        let line = program.line(until).unwrap_or_default();
        let address = line.strip_prefix("listening on ").and_then(|address| address.trim().parse().ok());
        let Some(address) = address else {
            return Err(format!("gateway {name} does not listen: {}", program.errors()));
        };
        let member = Member { program, address, socket: socket.to_owned() };
        member.await_group(number, until)?;
        Ok(member)
    }

    fn await_group(&self, number: u32, until: Instant) -> Result<(), String> {
        awaited(until, || {
            let status = Status::ask(&self.socket)?;
            if status.serves(number) { Ok(()) } else { Err(status.line()) }
        })
    }

    fn resident_kib(&self) -> Result<u64, String> {
        process_status(self.program.id(), "VmRSS")
    }

    fn kill(mut self) {
        self.program.kill();
    }
}

/// Figures for one number of namespaces.
#[derive(Debug, Default)]
struct Figures {
    added_ms: f64,
    /// Resident memory of the first gateway, and what each namespace has of it.
    resident_kib: u64,
    each_kib: f64,
    /// Of a host each: all its admin queues, all Identify commands and ANA logs, the discovery log.
    connect_ms: Vec<f64>,
    identify_ms: Vec<f64>,
    discovery_ms: Vec<f64>,
    /// Of a change each: until it was answered, and until its event came by either gateway.
    change_ms: Vec<f64>,
    event_ms: Vec<f64>,
    other_event_ms: Vec<f64>,
    /// Since the death of a gateway: until a host knew the new states, and until the other one served all.
    noticed_ms: Option<f64>,
    takeover_ms: Option<f64>,
    /// Resident memory of the gateway that has taken over.
    after_kib: u64,
}

impl Figures {
    const HEAD: [&'static str; 13] = [
        "namespaces",
        "added ms",
        "RSS MiB",
        "KiB each",
        "connect ms",
        "identify ms",
        "discovery ms",
        "change ms",
        "event ms",
        "event at the other ms",
        "ANA event ms",
        "takeover ms",
        "RSS after MiB",
    ];

    /// Has a host come and look at everything.
    fn visit(&mut self, address: SocketAddr, names: &[String]) -> Result<(), String> {
        let began = Instant::now();
        let host = PathSet::connect(address, names)?;
        self.connect_ms.push(ms(began.elapsed()));
        let began = Instant::now();
        host.look()?;
        self.identify_ms.push(ms(began.elapsed()));
        let began = Instant::now();
        PathSet::discover(address)?;
        self.discovery_ms.push(ms(began.elapsed()));
        Ok(())
    }

    fn change(&mut self, change: &Change) {
        self.change_ms.push(ms(change.answered));
        self.event_ms.push(ms(change.events[0]));
        self.other_event_ms.push(ms(change.events[1]));
    }

    fn cells(&self, count: u32) -> Vec<String> {
        let mib = |kib: u64| whole(Some(kib as f64 / 1024.0));
        let mut cells = vec![count.to_string(), short(Some(self.added_ms)), mib(self.resident_kib)];
        cells.push(short(Some(self.each_kib)));
        let repeated = [
            &self.connect_ms,
            &self.identify_ms,
            &self.discovery_ms,
            &self.change_ms,
            &self.event_ms,
            &self.other_event_ms,
        ];
        cells.extend(repeated.map(|figures| short(median(figures))));
        cells.extend([short(self.noticed_ms), short(self.takeover_ms), mib(self.after_kib)]);
        cells
    }
}

/// Numbers of namespaces of as few subsystems as have room for all.
fn sizes(count: u32) -> Vec<u32> {
    let subsystems = count.div_ceil(NAMESPACES_MAX);
    (0..subsystems).map(|number| count / subsystems + u32::from(number < count % subsystems)).collect()
}

fn nqn(count: u32, number: u32) -> String {
    format!("nqn.2026-01.io.selvedge:{count}-{number}")
}

fn image(count: u32, number: u32, nsid: u32) -> String {
    format!("{count}-{number}-{nsid}")
}

/// Waits until `look` finds something.
fn awaited<T>(until: Instant, mut look: impl FnMut() -> Result<T, String>) -> Result<T, String> {
    loop {
        match look() {
            Ok(found) => return Ok(found),
            Err(reason) if left(until).is_zero() => return Err(format!("the time is over: {reason}")),
            Err(_) => std::thread::sleep(LOOK),
        }
    }
}

fn left(until: Instant) -> Duration {
    until.saturating_duration_since(Instant::now())
}

fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn subsystems_have_room_for_all_namespaces() {
        assert_eq!(sizes(64), [64]);
        assert_eq!(sizes(NAMESPACES_MAX), [NAMESPACES_MAX]);
        let many = sizes(4 * NAMESPACES_MAX + 1);
        assert_eq!((many.len(), many.iter().sum::<u32>()), (5, 4 * NAMESPACES_MAX + 1));
        assert!(many.iter().all(|size| *size <= NAMESPACES_MAX));
    }

    #[test]
    fn a_row_has_a_cell_for_each_column() {
        assert_eq!(Figures::default().cells(64).len(), Figures::HEAD.len());
    }
}
