//! Options of a job file, for its manual page. docs/fio.md has more, with the effect of fio's other
//! options.

/// Options that are done, with what they mean.
pub const OPTIONS: [(&[&str], &str); 21] = [
    (
        &["rw", "readwrite"],
        "Type of I/O: read, write, randread, randwrite, readwrite, rw or randrw; read by default.",
    ),
    (
        &["bs", "blocksize"],
        "Data size of each command; k, m and g are powers of 1,024, as in all sizes here.",
    ),
    (
        &["bsrange", "blocksize_range", "bssplit"],
        "Data size of each command, if all values are one size, as in bsrange=4k-4k.",
    ),
    (&["iodepth"], "Commands that each job keeps outstanding."),
    (&["numjobs"], "Number of jobs of the section, each with connections of its own."),
    (
        &["size"],
        "Size of the range of a job, also as a share of the namespace (50%); the whole namespace by default.",
    ),
    (&["offset"], "Start of that range, also as a share of the namespace."),
    (&["offset_increment"], "Distance between the starts of consecutive jobs."),
    (
        &["runtime", "timeout"],
        "Maximum duration: a number of seconds, or a time with a unit such as 500ms or 2m.",
    ),
    (&["time_based"], "Start over at the end of the range until the runtime is over."),
    (&["ramp_time"], "Warm-up time before the measurement."),
    (&["startdelay"], "Time before the job begins."),
    (&["rwmixread", "rwmixwrite"], "Share of reads, or of writes, in a mixed workload, in percent."),
    (&["rate_iops"], "Maximum number of commands per second of each job."),
    (&["fsync", "fdatasync"], "Number of writes between Flush commands."),
    (&["sync"], "With sync or dsync, writes with FUA, each of which is durable when it is acknowledged."),
    (&["randseed"], "Seed of the random order."),
    (&["randrepeat", "allrandrepeat"], "0 selects another random order in each run."),
    (
        &["verify"],
        "crc32c: position, write count, writer and checksum in every block, all of which are read back.",
    ),
    (&["stonewall", "wait_for_previous"], "Begin when all sections before it have ended."),
    (&["description"], "Text that reports repeat."),
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fio::job_options::{Effect, JobOptions};

    #[test]
    fn each_option_of_the_manual_is_taken() {
        for name in OPTIONS.iter().flat_map(|(names, _)| *names) {
            let value = match *name {
                "rw" | "readwrite" => "randread",
                "verify" => "crc32c",
                "bsrange" | "blocksize_range" => "4k-4k",
                _ => "1",
            };
            let effect = JobOptions::default().take(name, value);
            assert!(matches!(effect, Ok(Effect::Taken(_))), "{name}: {effect:?}");
        }
    }
}
