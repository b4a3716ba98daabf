//! What a target costs that serves many images and is asked for nothing.

use std::time::Duration;

use super::target::said;
use super::testbed::Testbed;

const IMAGES: usize = 64;
const MIB: u64 = 16;
/// Time of the watch, after a while in which leftovers of opening come to rest.
const WATCHED: Duration = Duration::from_secs(10);
const SETTLED: Duration = Duration::from_secs(2);

/// Figures, which are printed and not judged: they are the machine's, too.
pub(super) fn images_cost_little(testbed: &mut Testbed) -> Result<(), String> {
    let names: Vec<String> = (0..IMAGES).map(|number| format!("idle-{number}")).collect();
    let specs = names.iter().map(|name| testbed.image(name, MIB)).collect::<Result<Vec<_>, _>>()?;
    let one = testbed.serve(&[&specs[0]])?;
    let alone_kib = one.resident_kib()?;
    one.end()?;
    let all: Vec<&str> = specs.iter().map(String::as_str).collect();
    let target = testbed.serve(&all)?;
    // All of them are there, and a host is connected.
    let namespace = target.namespace(IMAGES as u32)?;
    namespace.write_at(0, &[1; 4096]).map_err(said)?;
    std::thread::sleep(SETTLED);
    let before_s = target.cpu_s();
    std::thread::sleep(WATCHED);
    let percent = 100.0 * (target.cpu_s() - before_s) / WATCHED.as_secs_f64();
    let (resident_kib, threads) = (target.resident_kib()?, target.of_status("Threads")?);
    let each_kib = resident_kib.saturating_sub(alone_kib) / (IMAGES as u64 - 1);
    println!("        {IMAGES} images, open after {} ms: {percent:.1} % of a core", target.start.as_millis());
    println!(
        "        {resident_kib} KiB resident, {each_kib} KiB for each image beyond the first ({alone_kib} KiB); {threads} threads"
    );
    target.end()
}
