//! `lab siege`: one kind of hostile host after the other against a running target, with the effect
//! on known hosts, compared to their times alone. It keeps out the hosts' doings.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use clap::{Args, value_parser};

use super::admission::{self, Admission};
use super::attack::{Attack, Kind, Tally};
use super::cost::Entries;
use crate::table::Table;

/// The kinds that hold as much as they can.
const KINDS: [Kind; 5] =
    [Kind::Discovery, Kind::Connections, Kind::Greetings, Kind::Copies, Kind::Controllers];
/// Until the target has settled after the last kind.
const REST: Duration = Duration::from_secs(2);
/// Until all that an attack holds is there.
const ONSET: Duration = Duration::from_secs(1);
const SEED: u64 = 1;

/// The command line.
#[derive(Args, Clone, Debug)]
pub(crate) struct Arguments {
    /// Address of the target
    #[arg(long, value_name = "ADDR:PORT")]
    address: SocketAddr,
    /// NQN of its subsystem
    #[arg(long)]
    nqn: String,
    /// A namespace in memory of 64 MiB or more, whose data may be lost
    #[arg(long, default_value = "1")]
    nsid: u32,
    /// Bytes of its blocks: 512 or 4096
    #[arg(long, value_name = "BYTES", default_value = "4096", value_parser = block_bytes)]
    block: u32,
    /// Seconds for which each attack is watched, and hosts alone before it
    #[arg(long, value_name = "S", default_value = "10", value_parser = value_parser!(u64).range(1..=3600))]
    seconds: u64,
    /// Only this attack, or these: discovery, connections, greetings, copies, controllers
    #[arg(long, value_name = "NAME", value_parser = kind)]
    attack: Vec<Kind>,
}

fn block_bytes(value: &str) -> Result<u32, String> {
    [512, 4096].into_iter().find(|bytes| bytes.to_string() == value).ok_or("512 or 4096".to_owned())
}

fn kind(value: &str) -> Result<Kind, String> {
    let known = KINDS.map(Kind::name).join(", ");
    KINDS.into_iter().find(|kind| kind.name() == value).ok_or(format!("one of {known}"))
}

/// Does what the arguments say.
///
/// # Errors
/// The hosts that the target knows failed.
pub(crate) fn main(arguments: &Arguments) -> Result<(), String> {
    let Arguments { address, nsid, block: block_bytes, .. } = *arguments;
    let admission = Admission { address, nqn: arguments.nqn.clone(), nsid, block_bytes };
    let kinds = if arguments.attack.is_empty() { &KINDS[..] } else { &arguments.attack };
    super::raise_descriptors()?;
    run(&admission, Duration::from_secs(arguments.seconds), kinds)
}

fn run(admission: &Admission, span: Duration, kinds: &[Kind]) -> Result<(), String> {
    println!("known hosts: {}", admission::host_nqns().join(" "));
    let mut table = Table::new(&[
        "attack",
        "held",
        "made",
        "refused",
        "entries",
        "retries",
        "median ms",
        "max",
        "reads",
        "p50 ms",
        "p99",
        "max",
    ]);
    let mut faults = Vec::new();
    for kind in kinds {
        let alone = admission.watch()?;
        std::thread::sleep(span);
        row(&mut table, "alone", [0; 3], &Entries::of(&alone.end()?));
        let (stop, tally) = (AtomicBool::new(false), Tally::default());
        let watched = std::thread::scope(|scope| {
            let attack = Attack {
                kind: *kind,
                address: admission.address,
                nqn: admission.nqn.clone(),
                memory_nsid: admission.nsid,
                file_nsid: admission.nsid,
                block_bytes: admission.block_bytes,
                connections: kind.connections().unwrap_or(1),
            };
            let (stopped, counted) = (&stop, &tally);
            scope.spawn(move || attack.run(stopped, counted, SEED));
            std::thread::sleep(ONSET);
            let seen = admission.watch().and_then(|watch| {
                std::thread::sleep(span);
                watch.end()
            });
            stop.store(true, Ordering::Relaxed);
            seen
        });
        let counts =
            [&tally.held_max, &tally.made, &tally.refused].map(|count| count.load(Ordering::Relaxed));
        let fault = match watched {
            Ok(seen) => {
                row(&mut table, kind.name(), counts, &Entries::of(&seen));
                seen.fault()
            }
            Err(reason) => Some(reason),
        };
        faults.extend(fault.map(|reason| format!("beside `{}`: {reason}", kind.name())));
        std::thread::sleep(REST);
    }
    println!("{}", table.text());
    if faults.is_empty() { Ok(()) } else { Err(faults.join("; ")) }
}

fn row(table: &mut Table, name: &str, counts: [u64; 3], seen: &Entries) {
    let ms = |ms: f64| format!("{ms:.2}");
    let mut cells = vec![name.to_owned()];
    cells.extend(counts.map(|count| count.to_string()));
    cells.extend([seen.entries.to_string(), seen.retries.to_string(), ms(seen.median_ms), ms(seen.max_ms)]);
    cells.extend([seen.reads.to_string(), ms(seen.read_p50_ms), ms(seen.read_p99_ms), ms(seen.read_max_ms)]);
    table.row(cells);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command_line::parsed;

    #[test]
    fn an_address_and_a_name_are_enough() {
        let usual: Arguments = parsed("--address 127.0.0.1:4420 --nqn nqn.a").unwrap();
        assert_eq!((usual.nsid, usual.block, usual.seconds, usual.attack.len()), (1, 4096, 10, 0));
        let line = "--address 127.0.0.1:4420 --nqn nqn.a --attack copies --attack discovery";
        let some: Arguments = parsed(line).unwrap();
        assert_eq!(some.attack, [Kind::Copies, Kind::Discovery]);
    }

    #[test]
    fn refuses_what_makes_no_sense() {
        for line in ["", "--address x --nqn n", "--address 127.0.0.1:1 --nqn n --attack none", "--nqn"] {
            assert!(parsed::<Arguments>(line).is_err(), "{line}");
        }
        assert!(parsed::<Arguments>("--address 127.0.0.1:1 --nqn n --block 0").is_err());
        assert!(parsed::<Arguments>("--address 127.0.0.1:1 --nqn n --seconds 0").is_err());
    }
}
