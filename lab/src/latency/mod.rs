//! `lab latency`: whether the bench's latencies are true. The same commands are timed on the wire by tcpdump and tshark, and
//! fio asks the same target over a bridge. It keeps out how the figures compare.

mod arguments;
mod backend;
mod bridge;
mod capture;
mod exchange;
mod verdict;

use std::net::SocketAddr;
use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::json;

pub(crate) use self::arguments::Arguments;
use self::backend::Backend;
use self::bridge::Bridge;
use self::capture::Capture;
use self::exchange::Exchanges;
use self::verdict::{Bridged, Figures, Wired};
use crate::journal::Journal;
use crate::load::Moment;
use crate::machine::environment;
use crate::peers::{Content, FIO_PERCENTILES, MEMORY, NQN, Reading, of_fio, of_selvedge, serve_file};
use crate::program::Program;

/// Commands outstanding on the one connection.
pub(crate) const DEPTHS: [u32; 3] = [1, 8, 32];
/// MiB that are served.
const NAMESPACE_MIB: u32 = 256;
/// Captures of one run, until one is whole.
const ATTEMPTS: u32 = 4;
/// Time for a program's run.
const RUN_TIMEOUT: Duration = Duration::from_secs(120);

/// Does what the arguments say.
///
/// # Errors
/// What failed.
pub(crate) fn main(arguments: &Arguments) -> Result<(), String> {
    if !arguments.program.is_file() {
        return Err(format!("{}: no such program", arguments.program.display()));
    }
    let environment = environment(&arguments.program);
    println!("{}", serde_json::to_string_pretty(&environment).unwrap_or_default());
    let mut journal = Journal::new(&arguments.output, &environment)?;
    let content = Content::new(Path::new(MEMORY), NAMESPACE_MIB)?;
    let serving = serve_file(&arguments.program, &content.path())?;
    let (mut all_wired, mut all_bridged) = (Vec::new(), Vec::new());
    for round in 1..=arguments.rounds {
        let mut bench = None;
        for depth in DEPTHS {
            let run = wired(arguments, serving.address, serving.id(), round, depth)?;
            println!(
                "round {round}, depth {depth}: bench {:.1} µs, wire {:.1} µs, command to command {:.1} µs, {:.0} % idle",
                run.bench.mean_us, run.wire.mean_us, run.cycle_us, run.idle_percent
            );
            if depth == 1 {
                bench = Some(run.undisturbed);
            }
            journal.keep(&json!({ "wired": run }))?;
            all_wired.push(run);
        }
        let bench = bench.ok_or("the bench was not asked with depth 1")?;
        let run = bridged(arguments, serving.address, round, bench)?;
        println!(
            "round {round}, fio: {:.1} µs by the bridge to the target, {:.1} µs to memory; {:.1} µs inside",
            run.target.mean_us, run.memory.mean_us, run.inside.mean_us
        );
        journal.keep(&json!({ "bridged": run }))?;
        all_bridged.push(run);
    }
    let texts = [false, true].map(|markdown| {
        format!("{}{}", verdict::wired(&all_wired, markdown), verdict::bridged(&all_bridged, markdown))
    });
    println!("\n{}", texts[0]);
    journal.summary(&texts[1])
}

/// Runs a program to its end and gives what it printed.
fn output(words: &[String]) -> Result<String, String> {
    let mut program = Program::start(words)?;
    let name = words.first().cloned().unwrap_or_default();
    match program.finished(Instant::now() + RUN_TIMEOUT)? {
        Some(ended) if ended.status.success() => Ok(program.rest()),
        Some(ended) => Err(format!("{name} failed ({}): {}", ended.status, program.errors())),
        None => Err(format!("{name} does not come to its end: {}", program.errors())),
    }
}

fn split(line: &str) -> Vec<String> {
    line.split_whitespace().map(str::to_owned).collect()
}

/// The bench once over its range, on one connection.
fn bench(arguments: &Arguments, address: SocketAddr, depth: u32) -> Result<Reading, String> {
    let (program, mib) = (arguments.program.display().to_string(), arguments.size_mib);
    let options = format!(
        "bench -a {address} -n {NQN} --rw randread --bs 4k --iodepth {depth} --numjobs 1 -i 1 --size {mib}m -o json"
    );
    let said = output(&[vec![program], split(&options)].concat())?;
    of_selvedge(&said, false).ok_or_else(|| format!("selvedge bench says nothing that is understood: {said}"))
}

fn figures(reading: &Reading) -> Result<Figures, String> {
    Figures::of_reading(reading).ok_or_else(|| "a program that measures latency has printed none".to_owned())
}

/// The bench without and then with tcpdump beside it. A machine with much else to do may be too slow for tcpdump, so that
/// there are several attempts.
fn wired(
    arguments: &Arguments,
    address: SocketAddr,
    server: u32,
    round: u32,
    depth: u32,
) -> Result<Wired, String> {
    let undisturbed = figures(&bench(arguments, address, depth)?)?;
    let mut reason = String::new();
    for _ in 0..ATTEMPTS {
        let capture = Capture::start(address.port())?;
        let moment = Moment::now(server);
        let reading = bench(arguments, address, depth)?;
        let idle_percent = moment.until_now(server).idle_percent;
        let (file, dropped_packets) = capture.stop()?;
        let exchanges = Exchanges::of(file, address.port())?;
        let wire_commands = exchanges.latencies_ns.len();
        if dropped_packets > 0 || exchanges.unmatched > 0 {
            reason = format!(
                "{dropped_packets} packets dropped, {wire_commands} commands with their answers and {} without",
                exchanges.unmatched
            );
            println!("round {round}, depth {depth}: the capture is not whole, and made again: {reason}");
            continue;
        }
        let first_ns = exchanges.first_ns.ok_or("tcpdump has seen no commands")?;
        let span_us = exchanges.last_ns.saturating_sub(first_ns) as f64 / 1000.0;
        return Ok(Wired {
            round,
            depth,
            bench: figures(&reading)?,
            bench_commands: reading.requests.unwrap_or_default(),
            wire: Figures::of(exchanges.latencies_ns).ok_or("tcpdump has seen no commands")?,
            wire_commands,
            cycle_us: span_us * f64::from(depth) / wire_commands as f64,
            undisturbed,
            dropped_packets,
            idle_percent,
        });
    }
    Err(format!("{ATTEMPTS} captures were not whole, the last one: {reason}"))
}

/// fio over the bridge, with the target behind it and with memory.
fn bridged(
    arguments: &Arguments,
    address: SocketAddr,
    round: u32,
    bench: Figures,
) -> Result<Bridged, String> {
    let to_target = Bridge::start(Box::new(move || Backend::connect(address, NQN)))?;
    let (target, inside) = fio(arguments, &to_target)?;
    let bytes = NAMESPACE_MIB as usize * (1 << 20);
    // Not zeroes: the pages of those might be one and the same.
    let to_memory = Bridge::start(Box::new(move || Ok(Backend::Memory(vec![0xa5; bytes]))))?;
    let (memory, memory_inside) = fio(arguments, &to_memory)?;
    Ok(Bridged { round, target, inside, memory, memory_inside, bench })
}

/// fio's figures, and the bridge's own of the same commands.
fn fio(arguments: &Arguments, bridge: &Bridge) -> Result<(Figures, Figures), String> {
    let options = format!(
        "fio --name=latency --ioengine=nbd --uri=nbd://{}/ --rw=randread --bs=4k --iodepth=1 --thread \
         {FIO_PERCENTILES} --io_size={}m --output-format=json",
        bridge.address, arguments.size_mib
    );
    let said = output(&split(&options))?;
    if let Some(reason) = bridge.failure() {
        return Err(format!("behind the bridge: {reason}"));
    }
    let reading =
        of_fio(&said, false).ok_or_else(|| format!("fio says nothing that is understood: {said}"))?;
    let times: Vec<u64> = bridge.take_times().iter().map(|time| time.as_nanos() as u64).collect();
    let inside = Figures::of(times).ok_or("the bridge got no request")?;
    Ok((figures(&reading)?, inside))
}
