//! Snapshots of several images at one moment, while a host writes to one image after the other: none may have a write that the host
//! began after it had heard of one that another lacks.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use engine::initiator::{ConnectOptions, Controller, Volume};
use serde_json::Value;

use super::target::{NQN, said};
use super::testbed::{Testbed, soon};
use crate::answer::Answer;
use crate::program::Program;

const MIB: u64 = 1;
const BLOCK: usize = 4096;
/// Images of which snapshots are made: more than are made at a time, so that the last one's is made after the first one's.
const IMAGES: u32 = 20;
/// Snapshots that are made while the host writes.
const MOMENTS: usize = 5;
const START_LIMIT: Duration = Duration::from_secs(60);

/// Writes numbers to both, the same to the second as soon as the first has it, until the end is
/// signalled. Returns their count. `written` is the last that both have.
fn write_in_turn(volumes: &[Volume; 2], is_over: &AtomicBool, written: &AtomicU64) -> Result<u64, String> {
    let mut number = 0_u64;
    while !is_over.load(Ordering::Relaxed) {
        number += 1;
        for volume in volumes {
            volume.write_at(0, &number.to_le_bytes().repeat(BLOCK / 8)).map_err(said)?;
        }
        written.store(number, Ordering::Relaxed);
    }
    Ok(number)
}

/// The number in an image.
fn number(testbed: &Testbed, image: &str) -> Result<u64, String> {
    let bytes = testbed.export(image)?;
    let (first, rest) = bytes[..BLOCK].split_at(8);
    if rest.chunks(8).any(|found| found != first) {
        return Err(format!("{image}: a block is half of one number and half of another"));
    }
    Ok(u64::from_le_bytes(first.try_into().map_err(said)?))
}

fn images(kind: &str) -> Vec<String> {
    (1..=IMAGES).map(|number| format!("{kind}-{number}")).collect()
}

/// Has `control` make snapshots while a host writes to the first image and the last, and looks at them.
fn try_moments(
    testbed: &Testbed,
    volumes: &[Volume; 2],
    images: &[String],
    control: &str,
) -> Result<(), String> {
    let (images, is_over) = ([&images[0], &images[images.len() - 1]], AtomicBool::new(false));
    let written = AtomicU64::new(0);
    let command = |words: &[&str]| {
        let words = [
            &[testbed.program.as_str(), "namespace", "snapshot", NQN],
            words,
            &["--control", control, "-o", "json"],
        ];
        Answer::of(&words.concat())
    };
    let held = std::thread::scope(|scope| {
        let writer = scope.spawn(|| write_in_turn(volumes, &is_over, &written));
        let made = (0..MOMENTS).map(|moment| {
            // On a busy machine the host would not come to write in between.
            let before = written.load(Ordering::Relaxed);
            soon("a write between two moments", || match written.load(Ordering::Relaxed) {
                number if number > before => Ok(()),
                number => Err(format!("the host is at {number} yet")),
            })?;
            let made = command(&["all", &format!("moment-{moment}")])?.json()?;
            made["held_ms"].as_u64().ok_or_else(|| format!("no time in {made}"))
        });
        let made: Result<Vec<u64>, String> = made.collect();
        is_over.store(true, Ordering::Relaxed);
        let count = writer.join().map_err(|_| "the writer has panicked")??;
        made.map(|held| (count, held))
    });
    let (count, held_ms) = held?;
    let mut found = Vec::new();
    for moment in 0..MOMENTS {
        let [first, second] = [0, 1].map(|at| number(testbed, &format!("{}@moment-{moment}", images[at])));
        let (first, second) = (first?, second?);
        if first != second && first != second + 1 {
            return Err(format!(
                "moment {moment}: {} has {first}, and {} has {second}",
                images[0], images[1]
            ));
        }
        found.push(first);
    }
    println!("        {count} writes to each; snapshots of {found:?}; held for {held_ms:?} ms");
    if !found.is_sorted() || found[0] == 0 || found[0] == found[MOMENTS - 1] || count == found[0] {
        return Err("nothing was written meanwhile".to_owned());
    }
    // One that is there already is found out before anything is held, and nothing is made.
    testbed.cluster.rbd(&["snap", "create", "--no-progress", &format!("rbd/{}@taken", images[1])])?;
    command(&["all", "taken"])?.fails(1, &["taken", "already exists"])?;
    let listed = command(&["1"])?.json()?;
    let has_taken = |listed: &Value| {
        listed["snapshots"].as_array().is_none_or(|all| all.iter().any(|one| one["name"] == "taken"))
    };
    if has_taken(&listed) { Err(format!("half a moment is left: {listed}")) } else { Ok(()) }
}

pub(super) fn of_one_target(testbed: &mut Testbed) -> Result<(), String> {
    let images = images("together");
    let specs = images.iter().map(|image| testbed.image(image, MIB)).collect::<Result<Vec<_>, _>>()?;
    let control = format!("unix:{}", testbed.file("moments.sock").display());
    let specs: Vec<&str> = specs.iter().map(String::as_str).collect();
    let target = testbed.serve_with(&specs, &["--control", &control])?;
    try_moments(testbed, &[target.namespace(1)?, target.namespace(IMAGES)?], &images, &control)
}

/// A gateway, and how it is administered.
struct Gateway {
    _program: Program,
    control: String,
    address: SocketAddr,
}

impl Gateway {
    fn start(testbed: &Testbed, name: &str) -> Result<Gateway, String> {
        let socket = testbed.file(&format!("moments-{name}.sock")).display().to_string();
        let folder = format!("RUNTIME_DIRECTORY={}", testbed.file("").display());
        let (control, group) =
            (format!("unix:{socket}"), format!("rbd/moments,conf={}", testbed.cluster.conf().display()));
        let flags = [
            "-a",
            "127.0.0.1",
            "-s",
            "0",
            "--gateway-group",
            &group,
            "--gateway-name",
            name,
            "--control",
            &control,
        ];
        let words = [&["env", &folder, &testbed.program, "serve"][..], &flags].concat();
        let mut program = Program::start(&words.into_iter().map(str::to_owned).collect::<Vec<_>>())?;
        let line = program.line(Instant::now() + START_LIMIT).unwrap_or_default();
        let address = line.strip_prefix("listening on ").and_then(|address| address.trim().parse().ok());
        let address =
            address.ok_or_else(|| format!("gateway {name} does not listen: {}", program.errors()))?;
        Ok(Gateway { _program: program, control, address })
    }

    fn does(&self, testbed: &Testbed, words: &[&str]) -> Result<(), String> {
        let words = [&[testbed.program.as_str()], words, &["--control", &self.control]].concat();
        Answer::of(&words)?.well().map(drop)
    }

    /// A namespace, once it is served here.
    fn namespace(&self, nsid: u32) -> Result<Volume, String> {
        let (volume, _) = soon("a namespace of a gateway", || {
            let options = ConnectOptions { io_queues: 2, ..ConnectOptions::new(self.address, NQN) };
            let controller = Controller::connect(options).map_err(said)?;
            let volume = Volume::on_controller(&controller, nsid).map_err(said)?;
            volume.write_at(0, &[0; BLOCK]).map_err(said)?;
            Ok(volume)
        })?;
        Ok(volume)
    }
}

/// Each of two gateways serves half of the images.
pub(super) fn of_two_gateways(testbed: &mut Testbed) -> Result<(), String> {
    let gateways = [Gateway::start(testbed, "a")?, Gateway::start(testbed, "b")?];
    gateways[0].does(testbed, &["subsystem", "add", NQN, "--allow-any-host"])?;
    let images = images("apart");
    for (image, group) in images.iter().zip(["1", "2"].into_iter().cycle()) {
        let spec = testbed.image(image, MIB)?;
        gateways[0].does(testbed, &["namespace", "add", NQN, &spec, "--load-balancing-group", group])?;
    }
    let volumes = [gateways[0].namespace(1)?, gateways[1].namespace(IMAGES)?];
    try_moments(testbed, &volumes, &images, &gateways[1].control)
}
