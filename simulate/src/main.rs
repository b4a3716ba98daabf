//! Plays scenes, one for each seed, and says which of them went wrong, in as few words as it takes to look into it.

mod administration;
mod attach;
mod attach_hand_over;
mod attach_plan;
mod attach_upgrade;
mod block;
mod block_layer;
#[cfg(test)]
mod cluster_tests;
mod controller_files;
mod coverage;
mod disk_node;
mod disk_plan;
mod disk_process;
mod disk_users;
mod fault;
mod gateway;
mod gateway_hand_over;
mod gateway_plan;
mod group_check;
mod guest;
mod guest_monitor;
mod hand_over;
mod history;
mod host;
#[cfg(test)]
mod idle;
mod judge;
mod leaver;
mod links;
mod nbd_client;
mod nbd_wire;
mod plan;
mod policies;
mod reservation;
mod scale;
mod scene;
mod secrets;
mod shrink;
mod sites;
mod storage;
mod takeover_phase;
mod target;
mod tenant;
mod tenants;
mod trace;
mod ublk_driver;
mod upgrade;
mod upgrade_channel;
mod upgrade_plan;
mod virtio_ring;
mod visitor;
mod volumes;
mod write_hold;

use std::cell::RefCell;
use std::process::ExitCode;
use std::rc::Rc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use coverage::Coverage;
use disk_plan::FrontEnd;
use engine::initiator::EwmaKnobs;
use mimalloc::MiMalloc;
use plan::Plan;

/// A scene is mostly small things that come and go: with this one it takes 0.6 to 0.8 of the time.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

const USAGE: &str = "\
simulate --seed N [--keep I,J,...] [--trace]   one scene; --keep plays only these of its mishaps
simulate --seeds A..B [--threads N]            many
simulate --minutes M [--from A] [--threads N]  as many as there is time for
simulate --scale                               takeovers of groups of several sizes, as a table
simulate --policies [--seeds A..B] [--threads N]  path policies beside each other, as a table (seeds 1..6)
  --latency-ewma-shift N      of the policy latency-ewma: a batch counts one part in 2^N (3)
  --latency-batch-timeout MS  its time of a batch (480)
  --disk        only scenes with a disk whose processes are killed
  --attach      only scenes with a disk that the code of attach serves
  --gateways    only scenes with gateways
  --coverage    tables of what was met
  --twice N     every N-th seed is played twice, and has to go the same way
  --brief       a failure in one line
";

/// Arguments of the command line.
struct Arguments {
    seeds: std::ops::Range<u64>,
    minutes: Option<f64>,
    threads: usize,
    is_single: bool,
    keeps: Option<Vec<usize>>,
    traces: bool,
    coverage: bool,
    /// Every n-th seed is played twice, to check that the same happens.
    twice: Option<u64>,
    /// A failure is reported in one line.
    brief: bool,
    /// Only scenes with a disk.
    disk: bool,
    /// Only scenes with a disk that the code of `attach` serves.
    attach: bool,
    /// Only scenes with gateways.
    gateways: bool,
    /// Takeovers of groups of several sizes.
    scale: bool,
    /// Path policies beside each other, with these knobs of the laboratory's.
    policies: bool,
    knobs: EwmaKnobs,
}

impl Arguments {
    /// True if a scene is of the kind that was asked for.
    fn wants(&self, plan: &Plan) -> bool {
        let is_attach = plan.disk.as_ref().is_some_and(|disk| disk.front_end != FrontEnd::BlockLayer);
        (!self.disk || plan.disk.is_some())
            && (!self.attach || is_attach)
            && (!self.gateways || plan.gateways.is_some())
    }
}

fn main() -> ExitCode {
    let code = run();
    secrets::clean_up();
    code
}

fn run() -> ExitCode {
    let arguments = match parse(std::env::args().skip(1).collect()) {
        Ok(arguments) => arguments,
        Err(reason) => {
            eprintln!("{reason}\n{USAGE}");
            return ExitCode::from(2);
        }
    };
    std::panic::set_hook(Box::new(|panic| {
        let text = panic.to_string();
        engine::simulation::say(|| text);
    }));
    if arguments.scale {
        return print_table(scale::table());
    }
    if arguments.policies {
        return print_table(policies::table(arguments.seeds, arguments.threads, arguments.knobs));
    }
    if arguments.is_single { play_one(&arguments) } else { play_many(&arguments) }
}

fn print_table(table: Result<String, String>) -> ExitCode {
    match table {
        Ok(table) => {
            print!("{table}");
            ExitCode::SUCCESS
        }
        Err(reason) => {
            eprintln!("{reason}");
            ExitCode::FAILURE
        }
    }
}

fn parse(arguments: Vec<String>) -> Result<Arguments, String> {
    let mut parsed = Arguments {
        seeds: 0..0,
        minutes: None,
        threads: std::thread::available_parallelism().map_or(1, usize::from),
        is_single: false,
        keeps: None,
        traces: false,
        coverage: false,
        twice: None,
        brief: false,
        disk: false,
        attach: false,
        gateways: false,
        scale: false,
        policies: false,
        knobs: EwmaKnobs::default(),
    };
    let mut arguments = arguments.into_iter();
    while let Some(name) = arguments.next() {
        let mut value = || arguments.next().ok_or_else(|| format!("{name} takes a value"));
        let number = |text: String| text.parse::<u64>().map_err(|_| format!("`{text}` is not a number"));
        match name.as_str() {
            "--seed" => {
                let seed = number(value()?)?;
                (parsed.seeds, parsed.is_single) = (seed..seed + 1, true);
            }
            "--seeds" => {
                let text = value()?;
                let (from, to) = text.split_once("..").ok_or("--seeds takes A..B")?;
                parsed.seeds = number(from.to_owned())?..number(to.to_owned())?;
            }
            "--minutes" => {
                let text = value()?;
                parsed.minutes = Some(text.parse().map_err(|_| format!("`{text}` is not a number"))?);
                parsed.seeds.end = u64::MAX;
            }
            "--from" => parsed.seeds.start = number(value()?)?,
            "--threads" => parsed.threads = number(value()?)?.clamp(1, 64) as usize,
            "--keep" => {
                let text = value()?;
                let list = text.split(',').filter(|one| !one.is_empty());
                let keeps = list.map(|one| one.parse().map_err(|_| format!("`{one}` is not a number")));
                parsed.keeps = Some(keeps.collect::<Result<_, _>>()?);
            }
            "--trace" => parsed.traces = true,
            "--coverage" => parsed.coverage = true,
            "--twice" => parsed.twice = Some(number(value()?)?.max(1)),
            "--brief" => parsed.brief = true,
            "--disk" => parsed.disk = true,
            "--attach" => parsed.attach = true,
            "--gateways" => parsed.gateways = true,
            "--scale" => parsed.scale = true,
            "--policies" => parsed.policies = true,
            "--latency-ewma-shift" => parsed.knobs.shift = number(value()?)?.min(63) as u8,
            "--latency-batch-timeout" => {
                parsed.knobs.batch_timeout = Duration::from_millis(number(value()?)?.max(1));
            }
            other => return Err(format!("there is no option `{other}`")),
        }
    }
    if parsed.policies && parsed.minutes.is_some() {
        return Err("--policies takes --seeds, not --minutes".to_owned());
    }
    if parsed.policies && parsed.seeds.is_empty() {
        parsed.seeds = policies::SEEDS;
    }
    if parsed.seeds.is_empty() && !parsed.scale { Err("which seeds?".to_owned()) } else { Ok(parsed) }
}

fn play_one(arguments: &Arguments) -> ExitCode {
    let mut plan = Plan::new(arguments.seeds.start);
    if let Some(keeps) = &arguments.keeps {
        plan.keep(keeps);
    }
    println!("seed {}: {}", plan.seed, plan.summary());
    let coverage = Rc::new(RefCell::new(Coverage::default()));
    let outcome = scene::play(&plan, &coverage, arguments.traces);
    outcome.trace.iter().for_each(|line| println!("{line}"));
    println!(
        "{:.3} s of its time, {} turns, fingerprint {:016x}",
        outcome.time.as_secs_f64(),
        outcome.steps,
        outcome.fingerprint
    );
    let busiest = outcome.turns.iter().take(8).map(|(name, turns)| format!("{name} {turns}"));
    println!("turns: {}", busiest.collect::<Vec<_>>().join(", "));
    if arguments.coverage {
        println!("{}", coverage.borrow().tables());
    }
    match outcome.failure {
        Some(failure) => {
            println!("seed {} FAILS: {failure}", plan.seed);
            ExitCode::FAILURE
        }
        None => ExitCode::SUCCESS,
    }
}

/// Sum over all threads.
#[derive(Default)]
struct Sum {
    coverage: Coverage,
    virtual_time: Duration,
    steps: u64,
    failures: Vec<(u64, String)>,
    /// The scene with the most turns.
    longest: (u64, u64),
}

fn play_many(arguments: &Arguments) -> ExitCode {
    let began = Instant::now();
    let end = arguments.minutes.map(|minutes| began + Duration::from_secs_f64(minutes * 60.0));
    let (next, played) = (AtomicU64::new(arguments.seeds.start), AtomicU64::new(0));
    let (stops, sum) = (AtomicBool::new(false), Mutex::new(Sum::default()));
    std::thread::scope(|scope| {
        for _ in 0..arguments.threads {
            scope.spawn(|| {
                let coverage = Rc::new(RefCell::new(Coverage::default()));
                let mut mine = Sum::default();
                while !stops.load(Ordering::Relaxed) && end.is_none_or(|end| Instant::now() < end) {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= arguments.seeds.end {
                        break;
                    }
                    let plan = Plan::new(seed);
                    if !arguments.wants(&plan) {
                        continue;
                    }
                    let outcome = scene::play(&plan, &coverage, false);
                    mine.virtual_time += outcome.time;
                    mine.steps += outcome.steps;
                    let again = arguments.twice.filter(|every| seed.is_multiple_of(*every));
                    if again.is_some() {
                        let other = scene::play(&Plan::new(seed), &Rc::default(), false);
                        if other.fingerprint != outcome.fingerprint {
                            mine.failures.push((seed, "it went otherwise the second time".to_owned()));
                        }
                    }
                    mine.longest = mine.longest.max((outcome.steps, seed));
                    if let Some(failure) = outcome.failure {
                        mine.failures.push((seed, failure));
                        stops.store(true, Ordering::Relaxed);
                    }
                    let count = played.fetch_add(1, Ordering::Relaxed) + 1;
                    if count.is_multiple_of(1000) {
                        eprintln!("{count} seeds in {:.0} s", began.elapsed().as_secs_f64());
                    }
                }
                let mut sum = sum.lock().expect("no thread has panicked");
                sum.coverage.add(&coverage.borrow());
                sum.virtual_time += mine.virtual_time;
                sum.steps += mine.steps;
                sum.longest = sum.longest.max(mine.longest);
                sum.failures.append(&mut mine.failures);
            });
        }
    });
    let sum = sum.into_inner().expect("no thread has panicked");
    report(arguments, &sum, played.into_inner(), began.elapsed());
    let Some((seed, failure)) = sum.failures.iter().min() else { return ExitCode::SUCCESS };
    println!("seed {seed} FAILS: {failure}");
    if !arguments.brief {
        shrink::shrink(*seed);
    }
    ExitCode::FAILURE
}

fn report(arguments: &Arguments, sum: &Sum, played: u64, time: Duration) {
    let minutes = time.as_secs_f64() / 60.0;
    println!(
        "{played} seeds from {} in {:.1} s: {:.0} seeds and {:.1} virtual hours a minute, {:.0} times real time, {} turns, at most {} (seed {})",
        arguments.seeds.start,
        time.as_secs_f64(),
        played as f64 / minutes,
        sum.virtual_time.as_secs_f64() / 3600.0 / minutes,
        sum.virtual_time.as_secs_f64() / time.as_secs_f64(),
        sum.steps,
        sum.longest.0,
        sum.longest.1
    );
    if arguments.coverage {
        println!("\n{}", sum.coverage.tables());
    }
}
