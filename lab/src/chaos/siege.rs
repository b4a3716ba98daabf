//! `lab siege`: one kind of hostile host after the other against a target that somebody has started, with what hosts that it
//! knows notice of it, beside what they see alone. It keeps out the hosts' doings.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::attack::{Attack, Kind, Tally};
use super::cost::Entries;
use super::door::{self, Door};
use crate::Failure;
use crate::table::Table;

/// The kinds that hold as much as they can.
const KINDS: [Kind; 5] =
    [Kind::Discovery, Kind::Connections, Kind::Greetings, Kind::Copies, Kind::Controllers];
/// Until the target has settled after the last kind.
const REST: Duration = Duration::from_secs(2);
/// Until all that an attack holds is there.
const ONSET: Duration = Duration::from_secs(1);
const SECONDS: u64 = 10;
const SECONDS_MAX: u64 = 3600;
const SEED: u64 = 1;

/// Does what the arguments say.
///
/// # Errors
/// A wrong command line; or the hosts that the target knows failed.
pub(crate) fn main(args: &[String]) -> Result<(), Failure> {
    let (door, span, kinds) = parse(args).map_err(Failure::Usage)?;
    super::raise_descriptors().map_err(Failure::Work)?;
    run(&door, span, &kinds).map_err(Failure::Work)
}

fn run(door: &Door, span: Duration, kinds: &[Kind]) -> Result<(), String> {
    println!("known hosts: {}", door::host_nqns().join(" "));
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
        let alone = door.watch()?;
        std::thread::sleep(span);
        row(&mut table, "alone", [0; 3], &Entries::of(&alone.end()?));
        let (stop, tally) = (AtomicBool::new(false), Tally::default());
        let watched = std::thread::scope(|scope| {
            let attack = Attack {
                kind: *kind,
                address: door.address,
                nqn: door.nqn.clone(),
                memory_nsid: door.nsid,
                file_nsid: door.nsid,
                block_bytes: door.block_bytes,
                connections: kind.connections().unwrap_or(1),
            };
            let (stopped, counted) = (&stop, &tally);
            scope.spawn(move || attack.run(stopped, counted, SEED));
            std::thread::sleep(ONSET);
            let seen = door.watch().and_then(|watch| {
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

fn parse(args: &[String]) -> Result<(Door, Duration, Vec<Kind>), String> {
    let mut address: Option<SocketAddr> = None;
    let (mut nqn, mut nsid, mut block_bytes, mut seconds) = (None, 1, 4096, SECONDS);
    let mut kinds = Vec::new();
    let mut words = args.iter();
    while let Some(word) = words.next() {
        let value = words.next().ok_or_else(|| format!("{word} is unknown, or needs a value"))?;
        let wrong = |_| format!("{word} is not `{value}`");
        match word.as_str() {
            "--address" => address = Some(value.parse().map_err(|_| format!("{word} is not `{value}`"))?),
            "--nqn" => nqn = Some(value.clone()),
            "--nsid" => nsid = value.parse().map_err(wrong)?,
            "--block" => block_bytes = value.parse().map_err(wrong)?,
            "--seconds" => seconds = value.parse().map_err(wrong)?,
            "--attack" => {
                let kind = KINDS.into_iter().find(|kind| kind.name() == value.as_str());
                kinds.push(kind.ok_or_else(|| format!("there is no attack `{value}`"))?);
            }
            _ => return Err(format!("there is no option {word}")),
        }
    }
    if ![512, 4096].contains(&block_bytes) || !(1..=SECONDS_MAX).contains(&seconds) {
        return Err(format!("--block is 512 or 4096, and --seconds from 1 to {SECONDS_MAX}"));
    }
    let address = address.ok_or("siege needs --address ADDR:PORT")?;
    let nqn = nqn.ok_or("siege needs --nqn NQN")?;
    let kinds = if kinds.is_empty() { KINDS.to_vec() } else { kinds };
    Ok((Door { address, nqn, nsid, block_bytes }, Duration::from_secs(seconds), kinds))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(line: &str) -> Result<(Door, Duration, Vec<Kind>), String> {
        parse(&line.split_whitespace().map(str::to_owned).collect::<Vec<_>>())
    }

    #[test]
    fn an_address_and_a_name_are_enough() {
        let (door, span, kinds) = parsed("--address 127.0.0.1:4420 --nqn nqn.a").unwrap();
        assert_eq!((door.nsid, span.as_secs(), kinds.len()), (1, SECONDS, KINDS.len()));
        let (.., kinds) = parsed("--address 127.0.0.1:4420 --nqn nqn.a --attack copies").unwrap();
        assert_eq!(kinds, [Kind::Copies]);
    }

    #[test]
    fn refuses_what_makes_no_sense() {
        for line in ["", "--address x --nqn n", "--address 127.0.0.1:1 --nqn n --attack none", "--nqn"] {
            assert!(parsed(line).is_err(), "{line}");
        }
        assert!(parsed("--address 127.0.0.1:1 --nqn n --block 0").is_err());
        assert!(parsed("--address 127.0.0.1:1 --nqn n --seconds 0").is_err());
    }
}
