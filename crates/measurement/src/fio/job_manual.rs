//! Options of a job file, for its manual page. docs/fio.md has more, with the effect of fio's other
//! options.

/// Options that are done, with what they mean.
pub const OPTIONS: [(&[&str], &str); 21] = [
    (
        &["rw", "readwrite"],
        "What the job does: read, write, randread, randwrite, readwrite, rw or randrw; read without it.",
    ),
    (&["bs", "blocksize"], "Bytes of a command. k, m and g are powers of 1,024, as in all sizes here."),
    (
        &["bsrange", "blocksize_range", "bssplit"],
        "The same, where all of it comes to one size, as in bsrange=4k-4k.",
    ),
    (&["iodepth"], "Commands that each job keeps outstanding."),
    (&["numjobs"], "How many jobs the section is, each with connections of its own."),
    (
        &["size"],
        "The range that a job works on, also as a share of the namespace (50%); the whole namespace without it.",
    ),
    (&["offset"], "Where that range begins, also as a share of the namespace."),
    (
        &["offset_increment"],
        "How much further the range of each of numjobs begins than that of the one before.",
    ),
    (
        &["runtime", "timeout"],
        "How long at most: a number of seconds, or a time with a unit such as 500ms or 2m.",
    ),
    (&["time_based"], "Start over at the end of the range until the runtime is over."),
    (&["ramp_time"], "How long the job works before it is measured."),
    (&["startdelay"], "How long the job waits before it begins."),
    (&["rwmixread", "rwmixwrite"], "Reads, or writes, among 100 commands of a mix."),
    (&["rate_iops"], "Commands each second, for each job."),
    (&["fsync", "fdatasync"], "A Flush after this number of writes."),
    (&["sync"], "With sync or dsync, writes with FUA, each of which is durable when it is acknowledged."),
    (&["randseed"], "The number that random orders follow from."),
    (&["randrepeat", "allrandrepeat"], "With 0, each run has another random order."),
    (
        &["verify"],
        "crc32c: position, write count, writer and checksum in every block, all of which are read back.",
    ),
    (&["stonewall", "wait_for_previous"], "Begin when all sections before it have ended."),
    (&["description"], "Words that reports repeat."),
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
