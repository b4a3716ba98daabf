//! The options of a fio job: what each one asks for, which of them mean nothing over NVMe/TCP, and which would change
//! the result and cannot be had. Files, sections and lines are `job_file`'s.

use std::fmt;
use std::time::Duration;

use clap::ValueEnum as _;

use crate::flags::bench::Kind;
use crate::spec::size::Size;

/// What a job asks for; what it leaves open is absent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct JobOptions {
    pub(crate) description: Option<String>,
    /// It begins when all jobs before it have ended.
    pub(crate) stonewall: bool,
    pub(crate) startdelay: Option<Duration>,
    pub(crate) kind: Option<Kind>,
    /// Reads among 100 commands of a mix.
    pub(crate) rwmixread: Option<u8>,
    pub(crate) bs: Option<Size>,
    pub(crate) iodepth: Option<u32>,
    pub(crate) numjobs: Option<u32>,
    pub(crate) size: Option<Size>,
    pub(crate) offset: Option<Size>,
    pub(crate) runtime: Option<Duration>,
    /// It starts over at the end of the range until its time is over.
    pub(crate) time_based: bool,
    pub(crate) ramp_time: Option<Duration>,
    pub(crate) rate_iops: Option<u64>,
    /// Writes between two flushes.
    pub(crate) fsync: Option<u32>,
    pub(crate) randseed: Option<u64>,
    /// Each run shall have another random order.
    pub(crate) another_order: bool,
    pub(crate) verify: bool,
}

/// What became of an option.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Effect {
    /// It is done; the name is the first of those the option has.
    Taken(&'static str),
    /// It is about files, the kernel or what is printed, and has no meaning here.
    Meaningless,
    /// It would change the result, and cannot be had, for this reason.
    Unsupported(String),
}

/// Options that say nothing about what a namespace is asked: which file, how the kernel is told, what is kept in
/// memory, which figures are printed or written beside.
const MEANINGLESS: &[&str] = &[
    "allow_file_create",
    "bwavgtime",
    "buffered",
    "clat_percentiles",
    "clocksource",
    "create_fsync",
    "create_on_open",
    "create_serialize",
    "direct",
    "directory",
    "disable_bw_measurement",
    "disable_clat",
    "disable_lat",
    "disable_slat",
    "disk_util",
    "error_dump",
    "exitall_on_error",
    "fadvise_hint",
    "fallocate",
    "filename",
    "filename_format",
    "file_service_type",
    "fixedbufs",
    "group_reporting",
    "gtod_cpu",
    "gtod_reduce",
    "hipri",
    "invalidate",
    "ioengine",
    "iomem",
    "iomem_align",
    "iopsavgtime",
    "ioscheduler",
    "lat_percentiles",
    "lockfile",
    "log_avg_msec",
    "log_compression",
    "log_hist_msec",
    "log_max_value",
    "log_offset",
    "log_store_compressed",
    "log_unix_epoch",
    "mem",
    "mem_align",
    "new_group",
    "nonvectored",
    "norandommap",
    "openfiles",
    "overwrite",
    "per_job_logs",
    "percentile_list",
    "random_generator",
    "refill_buffers",
    "registerfiles",
    "scramble_buffers",
    "significant_figures",
    "slat_percentiles",
    "softrandommap",
    "sqthread_poll",
    "thread",
    "unit_base",
    "unlink",
    "unlink_each_loop",
    "userspace_reap",
    "verify_dump",
    "verify_fatal",
    "write_bw_log",
    "write_hist_log",
    "write_iops_log",
    "write_lat_log",
];

/// Options that can be had with some values only: those, and why not the others.
const FIXED: &[(&str, &[&str], &str)] = &[
    ("do_verify", &["1", ""], "what was written is always read back"),
    ("end_fsync", &["0"], "fsync=N flushes after every N writes and at the end"),
    ("fsync_on_close", &["0"], "fsync=N flushes after every N writes and at the end"),
    ("kb_base", &["1024"], "k is 1,024 here"),
    ("loops", &["1"], "give it a runtime and time_based"),
    ("nrfiles", &["1"], "there is one namespace"),
    ("offset_increment", &["0", "0%"], "give each job a section with an offset"),
    ("random_distribution", &["random"], "every block comes as often as every other"),
    ("rwmixcycle", &["0"], "reads and writes are drawn one by one"),
    ("sync", &["0", "none"], "use fsync=1 to flush after every write"),
    ("thinktime", &["0"], "use rate_iops to go slower"),
    ("unified_rw_reporting", &["0", "none"], "reads and writes are told apart"),
    ("verify_backlog", &["0"], "what was written is read back at the end"),
    ("zero_buffers", &["0"], "what is written is noise"),
    ("zonemode", &["none"], "there are no zones"),
];

/// Sizes and counts as fio has them, `k` for 1,024; with an `i` it means 1,000, which nobody expects.
fn number(text: &str) -> Result<u64, String> {
    let unit = text.trim_start_matches(|letter: char| letter.is_ascii_digit()).to_ascii_lowercase();
    if unit.contains('i') {
        return Err(format!(
            "fio counts `{text}` in 1,000s: write k, m or g for 1,024s, or the number itself"
        ));
    }
    text.parse().map(|Size(number)| number)
}

/// A number from `least` to `most`.
fn within(text: &str, least: u64, most: u64) -> Result<u64, String> {
    let number = number(text).map_err(|error| error.replace("is not a size", "is not a number"))?;
    if (least..=most).contains(&number) {
        Ok(number)
    } else {
        Err(format!("{number} is not from {least} to {most}"))
    }
}

/// A time: seconds, or with a unit.
fn time(text: &str) -> Result<Duration, String> {
    let hint = || format!("`{text}` is not a time: write 10, 10s, 500ms or 2m");
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at(digits);
    let unit_us: u64 = match unit.trim() {
        "us" | "usec" => 1,
        "ms" | "msec" => 1000,
        "" | "s" | "sec" => 1_000_000,
        "m" | "min" => 60_000_000,
        "h" => 3_600_000_000,
        "d" => 86_400_000_000,
        _ => return Err(hint()),
    };
    let number: u64 = number.parse().map_err(|_| hint())?;
    number.checked_mul(unit_us).map(Duration::from_micros).ok_or_else(hint)
}

/// Yes or no; an option without a value says yes.
pub(super) fn flag(text: &str) -> Result<bool, String> {
    match text {
        "" | "1" | "true" => Ok(true),
        "0" | "false" => Ok(false),
        _ => Err(format!("`{text}` is neither 1 nor 0")),
    }
}

impl JobOptions {
    /// Takes one option; `value` is empty where there is none.
    ///
    /// # Errors
    /// When the value is none that the option has in fio, or is beyond what this program can do.
    pub(crate) fn take(&mut self, name: &str, value: &str) -> Result<Effect, String> {
        let needs_value = !matches!(
            name,
            "stonewall" | "wait_for_previous" | "time_based" | "randrepeat" | "allrandrepeat" | "do_verify"
        );
        if MEANINGLESS.contains(&name) {
            return Ok(Effect::Meaningless);
        }
        if let Some((_, allowed, why)) = FIXED.iter().find(|(fixed, _, _)| *fixed == name) {
            return Ok(match allowed.contains(&value) {
                true => Effect::Meaningless,
                false => Effect::Unsupported(format!("{name}={value} cannot be had: {why}")),
            });
        }
        if value.contains('$') && name != "description" {
            return Ok(Effect::Unsupported(format!("variables are not replaced in {name}={value}")));
        }
        let taken = self.take_known(name, value)?;
        if needs_value && value.is_empty() && matches!(taken, Effect::Taken(_)) {
            return Err(format!("{name} needs a value"));
        }
        Ok(taken)
    }

    fn take_known(&mut self, name: &str, value: &str) -> Result<Effect, String> {
        let wrong = |error: String| format!("{name}: {error}");
        let one_of_many = value.contains([',', '-', ':']);
        let taken = match name {
            "rw" | "readwrite" => return self.take_kind(value),
            "bs" | "blocksize" if one_of_many => {
                return Ok(Effect::Unsupported(format!("{name}={value}: all commands have one size")));
            }
            "size" | "offset" if value.ends_with('%') => {
                return Ok(Effect::Unsupported(format!("{name}={value}: give it in bytes")));
            }
            "rate_iops" | "startdelay" if one_of_many => {
                return Ok(Effect::Unsupported(format!("{name}={value}: one number is understood")));
            }
            "bs" | "blocksize" => {
                self.bs = Some(Size(number(value).map_err(wrong)?));
                "bs"
            }
            "size" => {
                self.size = Some(Size(number(value).map_err(wrong)?)).filter(|size| size.0 > 0);
                "size"
            }
            "offset" => {
                self.offset = Some(Size(number(value).map_err(wrong)?));
                "offset"
            }
            "iodepth" => {
                self.iodepth = Some(within(value, 1, 65_536).map_err(wrong)? as u32);
                "iodepth"
            }
            "numjobs" => {
                self.numjobs = Some(within(value, 1, 1024).map_err(wrong)? as u32);
                "numjobs"
            }
            "rate_iops" => {
                self.rate_iops =
                    Some(within(value, 0, 1_000_000_000).map_err(wrong)?).filter(|rate| *rate > 0);
                "rate_iops"
            }
            "fsync" | "fdatasync" => {
                let every = within(value, 0, u64::from(u32::MAX)).map_err(wrong)? as u32;
                self.fsync = Some(every).filter(|every| *every > 0);
                "fsync"
            }
            "rwmixread" => {
                self.rwmixread = Some(within(value, 0, 100).map_err(wrong)? as u8);
                "rwmixread"
            }
            "rwmixwrite" => {
                self.rwmixread = Some(100 - within(value, 0, 100).map_err(wrong)? as u8);
                "rwmixread"
            }
            _ => return self.take_time_or_order(name, value),
        };
        Ok(Effect::Taken(taken))
    }

    fn take_time_or_order(&mut self, name: &str, value: &str) -> Result<Effect, String> {
        let wrong = |error: String| format!("{name}: {error}");
        let some_time = |time: Duration| Some(time).filter(|time| !time.is_zero());
        let taken = match name {
            "runtime" | "timeout" => {
                self.runtime = some_time(time(value).map_err(wrong)?);
                "runtime"
            }
            "ramp_time" => {
                self.ramp_time = some_time(time(value).map_err(wrong)?);
                "ramp_time"
            }
            "startdelay" => {
                self.startdelay = some_time(time(value).map_err(wrong)?);
                "startdelay"
            }
            "time_based" => {
                self.time_based = flag(value).map_err(wrong)?;
                "time_based"
            }
            "stonewall" | "wait_for_previous" => {
                self.stonewall = flag(value).map_err(wrong)?;
                "stonewall"
            }
            "randseed" => {
                self.randseed = Some(number(value).map_err(wrong)?);
                "randseed"
            }
            "randrepeat" | "allrandrepeat" => {
                self.another_order = !flag(value).map_err(wrong)?;
                "randrepeat"
            }
            "verify" => match value {
                "crc32c" | "crc32c-intel" => {
                    self.verify = true;
                    "verify"
                }
                "0" => {
                    self.verify = false;
                    "verify"
                }
                _ => return Ok(Effect::Unsupported(format!("verify={value}: there is crc32c"))),
            },
            "description" => {
                self.description = Some(value.to_owned());
                "description"
            }
            _ => return Ok(Effect::Unsupported(format!("{name} is not supported"))),
        };
        Ok(Effect::Taken(taken))
    }

    fn take_kind(&mut self, value: &str) -> Result<Effect, String> {
        if value.contains(':') || value.contains("trim") {
            return Ok(Effect::Unsupported(format!(
                "rw={value}: there are read, write, randread, randwrite, readwrite and randrw"
            )));
        }
        let kind = Kind::from_str(value, false);
        self.kind = Some(kind.map_err(|_| {
            format!("rw: `{value}` is none of read, write, randread, randwrite, readwrite, rw and randrw")
        })?);
        Ok(Effect::Taken("rw"))
    }

    /// Whether it both reads and writes.
    pub(crate) fn is_mixed(&self) -> bool {
        matches!(self.kind, Some(Kind::Readwrite | Kind::Randrw))
    }

    /// Its options as fio reads them, one line each.
    fn lines(&self) -> Vec<String> {
        let kind = self.kind.and_then(|kind| kind.to_possible_value());
        let time = |time: Option<Duration>| time.map(|time| format!("{}us", time.as_micros()));
        let bytes = |size: Option<Size>| size.map(|size| size.0.to_string());
        let yes = |yes: bool| yes.then(|| "1".to_owned());
        let values = [
            ("description", self.description.clone()),
            ("stonewall", yes(self.stonewall)),
            ("startdelay", time(self.startdelay)),
            ("rw", kind.map(|kind| kind.get_name().to_owned())),
            ("rwmixread", self.rwmixread.map(|percent| percent.to_string())),
            ("bs", bytes(self.bs)),
            ("iodepth", self.iodepth.map(|depth| depth.to_string())),
            ("numjobs", self.numjobs.map(|jobs| jobs.to_string())),
            ("size", bytes(self.size)),
            ("offset", bytes(self.offset)),
            ("runtime", time(self.runtime)),
            ("time_based", yes(self.time_based)),
            ("ramp_time", time(self.ramp_time)),
            ("rate_iops", self.rate_iops.map(|rate| rate.to_string())),
            ("fsync", self.fsync.map(|every| every.to_string())),
            ("randseed", self.randseed.map(|seed| seed.to_string())),
            ("randrepeat", self.another_order.then(|| "0".to_owned())),
            ("verify", self.verify.then(|| "crc32c".to_owned())),
        ];
        let given = values.into_iter().filter_map(|(name, value)| Some((name, value?)));
        given.map(|(name, value)| format!("{name}={value}")).collect()
    }
}

impl fmt::Display for JobOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.lines().iter().try_for_each(|line| writeln!(f, "{line}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taken(name: &str, value: &str) -> JobOptions {
        let mut options = JobOptions::default();
        assert!(matches!(options.take(name, value), Ok(Effect::Taken(_))), "{name}={value}");
        options
    }

    #[test]
    fn values_mean_what_they_mean_in_fio() {
        assert_eq!(taken("bs", "4k").bs, Some(Size(4096)));
        assert_eq!(taken("size", "1G").size, Some(Size(1 << 30)));
        assert_eq!(taken("size", "0").size, None);
        assert_eq!(taken("runtime", "2m").runtime, Some(Duration::from_secs(120)));
        assert_eq!(taken("timeout", "90").runtime, Some(Duration::from_secs(90)));
        assert_eq!(taken("ramp_time", "200ms").ramp_time, Some(Duration::from_millis(200)));
        assert_eq!(taken("rwmixwrite", "30").rwmixread, Some(70));
        assert_eq!(taken("readwrite", "rw").kind, Some(Kind::Readwrite));
        assert_eq!(taken("numjobs", "1k").numjobs, Some(1024));
        assert!(taken("time_based", "").time_based);
        assert!(!taken("stonewall", "0").stonewall);
        assert!(taken("randrepeat", "0").another_order);
    }

    #[test]
    fn what_would_change_the_result_is_not_passed_over() {
        for (name, value) in [
            ("rw", "randread:8"),
            ("rw", "randtrim"),
            ("bs", "4k,64k"),
            ("bssplit", "4k/50:64k/50"),
            ("bsrange", "4k-64k"),
            ("size", "50%"),
            ("rate_iops", "100,200"),
            ("rate", "10m"),
            ("thinktime", "5"),
            ("verify", "md5"),
            ("random_distribution", "zipf:1.2"),
            ("size", "${SIZE}"),
            ("kb_base", "1000"),
            ("no_such_option", "1"),
        ] {
            let mut options = JobOptions::default();
            let effect = options.take(name, value);
            assert!(matches!(effect, Ok(Effect::Unsupported(_))), "{name}={value}: {effect:?}");
            assert_eq!(options, JobOptions::default());
        }
    }

    #[test]
    fn what_is_no_value_is_refused() {
        for (name, value) in [
            ("bs", ""),
            ("bs", "4kib"),
            ("bs", "four"),
            ("iodepth", "0"),
            ("iodepth", "70000"),
            ("numjobs", "2000"),
            ("rwmixread", "101"),
            ("runtime", "1.5"),
            ("runtime", "99999999999999999999"),
            ("runtime", "9999999999999999d"),
            ("rw", "reed"),
            ("description", ""),
            ("time_based", "maybe"),
        ] {
            assert!(JobOptions::default().take(name, value).is_err(), "{name}={value}");
        }
        let error = JobOptions::default().take("bs", "4KiB").unwrap_err();
        assert!(error.contains("1,000s"), "{error}");
    }

    #[test]
    fn the_lists_are_in_order_and_apart() {
        assert!(FIXED.is_sorted_by_key(|(name, _, _)| *name));
        assert!(FIXED.iter().all(|(name, _, _)| !MEANINGLESS.contains(name)));
        for name in MEANINGLESS {
            assert_eq!(JobOptions::default().take(name, "1"), Ok(Effect::Meaningless));
            assert_eq!(MEANINGLESS.iter().filter(|other| *other == name).count(), 1, "{name}");
        }
    }
}
