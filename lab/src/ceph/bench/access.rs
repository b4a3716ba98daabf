//! Accesses to images that are compared, with the settings of each program.

use serde::Serialize;

use super::super::cluster::OWN_ENVIRONMENT;
use super::super::config::POOL;
use super::workload::{MIX_READ_PERCENT, Workload};
use crate::peers::FIO_PERCENTILES;

/// Seconds before measuring begins.
pub(super) const RAMP_S: u32 = 1;

/// Program that uses librbd.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Access {
    /// fio's rbd engine.
    Fio { librbd: Librbd },
    /// `selvedge bench` over the loopback and `selvedge serve`. Without a number of images for each connection to the
    /// cluster, it is the program's choice.
    Gateway { reactors: u32, bdevs_per_cluster: Option<u32> },
}

/// Settings of librbd in its configuration file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Librbd {
    /// To have no cache, as with the gateway: an acknowledged write may not be lost with the gateway.
    Uncached,
    /// Defaults, with a cache.
    Cached,
    /// To have no cache, and one thread for what the cluster answers, which the gateway asks for by itself.
    OneThread,
}

impl Librbd {
    pub(super) const ALL: [Librbd; 3] = [Librbd::Uncached, Librbd::Cached, Librbd::OneThread];

    /// The name of its file, and what stands there for clients.
    pub(super) const fn file(self) -> (&'static str, &'static str) {
        match self {
            Librbd::Uncached => ("uncached.conf", "rbd_cache = false\n"),
            Librbd::Cached => ("cached.conf", ""),
            Librbd::OneThread => ("one-thread.conf", "rbd_cache = false\nlibrados_thread_count = 1\n"),
        }
    }
}

impl Access {
    /// librbd alone, doing the same as the gateway's.
    pub(super) const ALONE: Access = Access::Fio { librbd: Librbd::Uncached };

    /// A gateway with default settings except for its reactors.
    pub(super) const fn gateway(reactors: u32) -> Access {
        Access::Gateway { reactors, bdevs_per_cluster: None }
    }

    /// A name for people.
    pub(super) fn name(self) -> String {
        match self {
            Access::Fio { librbd: Librbd::Uncached } => "fio rbd".to_owned(),
            Access::Fio { librbd: Librbd::Cached } => "fio rbd with rbd_cache".to_owned(),
            Access::Fio { librbd: Librbd::OneThread } => "fio rbd with one librados thread".to_owned(),
            Access::Gateway { reactors, bdevs_per_cluster } => {
                let plural = if reactors == 1 { "" } else { "s" };
                let images =
                    bdevs_per_cluster.map_or_else(String::new, |count| format!(", {count} a cluster"));
                format!("gateway, {reactors} reactor{plural}{images}")
            }
        }
    }
}

/// The name of an image by its number.
pub(super) fn image(number: u32) -> String {
    format!("bench-{number}")
}

/// fio's command line, with a job for each of the first `images` images. `conf` is Ceph's configuration file.
pub(super) fn fio(conf: &str, workload: &Workload, images: u32, seconds: u32) -> Vec<String> {
    let Workload { rw, block_bytes, depth, .. } = workload;
    let timed = format!(
        "--rw={rw} --bs={block_bytes} --iodepth={depth} --norandommap --randrepeat=0 {FIO_PERCENTILES} \
         --unified_rw_reporting=both --time_based --ramp_time={RAMP_S} --runtime={seconds}"
    );
    let mut words = fio_of(conf, &timed);
    if workload.is_mix() {
        words.push(format!("--rwmixread={MIX_READ_PERCENT}"));
    }
    if let Some((reads, writes)) = workload.rates() {
        // One after the other in even steps, which is what the bench does.
        words.extend([format!("--rate_iops={reads},{writes}"), "--rate_process=linear".to_owned()]);
    }
    with_jobs(words, images)
}

/// fio's command line that writes the first `images` images from end to end.
pub(super) fn fill(conf: &str, images: u32) -> Vec<String> {
    with_jobs(fio_of(conf, "--rw=write --bs=1m --iodepth=8 --end_fsync=1"), images)
}

fn fio_of(conf: &str, options: &str) -> Vec<String> {
    let mut words: Vec<String> = OWN_ENVIRONMENT.iter().map(|&word| word.to_owned()).collect();
    words.push(format!("CEPH_CONF={conf}"));
    // Threads of one process, so that one process's time is all of it.
    let fixed = format!(
        "fio --name=global --ioengine=rbd --clientname=admin --pool={POOL} --thread --group_reporting \
         --output-format=json {options}"
    );
    words.extend(fixed.split_whitespace().map(str::to_owned));
    words
}

fn with_jobs(mut words: Vec<String>, images: u32) -> Vec<String> {
    for number in 0..images {
        let name = image(number);
        words.extend([format!("--name={name}"), format!("--rbdname={name}")]);
    }
    words
}

/// Options of the bench beside the namespace's address, over as many connections as `reactors`
/// need.
pub(super) fn bench(workload: &Workload, reactors: u32, seconds: u32) -> Vec<String> {
    let connections = workload.connections(reactors);
    let (rw, bs, depth) = (workload.rw, workload.block_bytes, workload.depth / connections);
    let mut text = format!(
        "--rw {rw} --bs {bs} --iodepth {depth} --numjobs {connections} -i {connections} --ramp_time {RAMP_S} \
         --runtime {seconds}"
    );
    if workload.is_mix() {
        text += &format!(" --rwmixread {MIX_READ_PERCENT}");
    }
    if let Some(rate) = workload.rate_iops {
        text += &format!(" --rate_iops {}", rate / connections);
    }
    text.split_whitespace().map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIX: Workload = Workload::new("mix", "randrw", 16384, 64);

    #[test]
    fn both_are_asked_the_same() {
        let workload = MIX.at(50, 4000.0);
        let fio = fio("c", &workload, 1, 3).join(" ");
        assert!(fio.contains("CEPH_CONF=c fio --name=global --ioengine=rbd"), "{fio}");
        for part in ["--rw=randrw --bs=16384 --iodepth=64", "--runtime=3 --rwmixread=70 --rate_iops=1400,600"]
        {
            assert!(fio.contains(part), "{fio}");
        }
        assert!(fio.ends_with("--name=bench-0 --rbdname=bench-0"), "{fio}");
        assert_eq!(
            bench(&workload, 2, 3).join(" "),
            "--rw randrw --bs 16384 --iodepth 32 --numjobs 2 -i 2 --ramp_time 1 --runtime 3 --rwmixread 70 \
             --rate_iops 1000"
        );
    }

    #[test]
    fn every_image_has_its_job() {
        let read = Workload::new("read", "randread", 4096, 32);
        let words = fio("c", &read, 8, 3);
        assert_eq!(words.iter().filter(|word| word.starts_with("--rbdname=bench-")).count(), 8);
        assert!(!words.iter().any(|word| word.contains("rate") && !word.contains("randrepeat")));
        assert!(fill("c", 2).join(" ").contains("--rw=write"));
    }

    #[test]
    fn names_tell_apart() {
        let knobs = Access::Gateway { reactors: 1, bdevs_per_cluster: Some(8) };
        assert_eq!(knobs.name(), "gateway, 1 reactor, 8 a cluster");
        assert_eq!(
            (Access::gateway(2).name(), Access::ALONE.name()),
            ("gateway, 2 reactors".into(), "fio rbd".into())
        );
    }
}
