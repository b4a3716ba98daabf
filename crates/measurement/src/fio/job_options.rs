//! Options of a fio job: their meaning, options without effect over NVMe/TCP, and unsupported options that would change
//! the result. Files, sections and lines are `job_file`'s.

use std::fmt;
use std::time::Duration;

use clap::ValueEnum as _;

use super::engine::Engine;

use super::storage;
use crate::flags::bench::{Kind, SyncMode};
use crate::flags::fio_names::{FIXED, MEANINGLESS, PLACEMENT};
use crate::spec::extent::Extent;
use crate::spec::fio_numbers::{extent, flag, number, only_size, same_for_all, time, within};
use crate::spec::size::Size;

/// Options of a job; `None` for those not given.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct JobOptions {
    pub description: Option<String>,
    /// The job starts after all jobs before it have ended.
    pub(crate) stonewall: bool,
    pub startdelay: Option<Duration>,
    pub kind: Option<Kind>,
    /// Reads among 100 commands of a mix.
    pub rwmixread: Option<u8>,
    pub bs: Option<Size>,
    pub iodepth: Option<u32>,
    pub numjobs: Option<u32>,
    pub size: Option<Extent>,
    pub offset: Option<Extent>,
    /// Distance between the starts of consecutive jobs of the section.
    pub offset_increment: Option<Extent>,
    pub runtime: Option<Duration>,
    /// The job starts over at the end of the range until its time is over.
    pub(crate) time_based: bool,
    pub ramp_time: Option<Duration>,
    pub rate_iops: Option<u64>,
    /// Writes between two flushes.
    pub fsync: Option<u32>,
    /// Durability of each write.
    pub sync: Option<SyncMode>,
    pub randseed: Option<u64>,
    /// Each run shall have another random order.
    pub(crate) another_order: bool,
    pub verify: bool,
}

/// Effect of an option.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// The option is applied; the name is the first of its names.
    Taken(&'static str),
    /// The option is about files, the kernel or printed output, and has no meaning here.
    Meaningless,
    /// The option sets place, user or priority of fio's own processes.
    Placement,
    /// The option would change the result and is not supported, for this reason.
    Unsupported(String),
}

/// Returns the reason if an option keeps a job from running at all: fio moves none of its data, or
/// uses several files.
pub(crate) fn forbids(name: &str, value: &str) -> Result<Option<String>, String> {
    Ok(match name {
        "ioengine" => {
            let engine = Engine::of(value);
            engine.refusal().filter(|_| !engine.moves_data())
        }
        "create_only" | "verify_only" => {
            let is_asked = flag(value).map_err(|error| format!("{name}: {error}"))?;
            is_asked.then(|| "fio does none of the job's reads and writes".to_owned())
        }
        "filename" | "directory" => match storage::split(value).len() {
            0 | 1 => None,
            files => Some(format!("a job uses one namespace, and this one has {files} files")),
        },
        _ => None,
    })
}

impl JobOptions {
    /// Takes one option; `value` is empty where there is none.
    ///
    /// # Errors
    /// When the value is none that the option has in fio, or is beyond what this program can do.
    pub fn take(&mut self, name: &str, value: &str) -> Result<Effect, String> {
        let needs_value = !matches!(
            name,
            "stonewall" | "wait_for_previous" | "time_based" | "randrepeat" | "allrandrepeat" | "do_verify"
        );
        if name == "ioengine"
            && let Some(why) = Engine::of(value).refusal()
        {
            return Ok(Effect::Unsupported(format!("ioengine={value}: {why}")));
        }
        if MEANINGLESS.contains(&name) {
            return Ok(Effect::Meaningless);
        }
        if let Some((_, allowed, why)) = FIXED.iter().find(|(fixed, _, _)| *fixed == name) {
            return Ok(match allowed.contains(&value) {
                true => Effect::Meaningless,
                false => Effect::Unsupported(format!("{name}={value} is not supported: {why}")),
            });
        }
        if PLACEMENT.contains(&name) {
            return Ok(Effect::Placement);
        }
        let taken = self.take_known(name, value)?;
        if needs_value && value.is_empty() && matches!(taken, Effect::Taken(_)) {
            return Err(format!("{name} needs a value"));
        }
        Ok(taken)
    }

    fn take_known(&mut self, name: &str, value: &str) -> Result<Effect, String> {
        let wrong = |error: String| format!("{name}: {error}");
        let unsupported = |why: &str| Ok(Effect::Unsupported(format!("{name}={value}: {why}")));
        let taken = match name {
            "rw" | "readwrite" => return self.take_kind(value),
            "bs" | "blocksize" => match same_for_all(value) {
                Some(size) => {
                    self.bs = Some(Size(number(size).map_err(wrong)?));
                    "bs"
                }
                None => return unsupported("all commands have one size"),
            },
            "bsrange" | "blocksize_range" | "bssplit" => match only_size(name, value) {
                Some(size) => {
                    self.bs = Some(Size(number(size).map_err(wrong)?));
                    "bs"
                }
                None => return unsupported("all commands have one size"),
            },
            "size" => {
                self.size = Some(extent(value).map_err(wrong)?).filter(|size| !size.is_zero());
                "size"
            }
            "offset" => {
                self.offset = Some(extent(value).map_err(wrong)?);
                "offset"
            }
            "offset_increment" => {
                self.offset_increment = Some(extent(value).map_err(wrong)?).filter(|size| !size.is_zero());
                "offset_increment"
            }
            "startdelay" if value.contains([',', '-', ':']) => return unsupported("one time is understood"),
            "rate_iops" if same_for_all(value).is_none() => return unsupported("one number is understood"),
            "iodepth" => {
                self.iodepth = Some(within(value, 1, 65_536).map_err(wrong)? as u32);
                "iodepth"
            }
            "numjobs" => {
                self.numjobs = Some(within(value, 1, 1024).map_err(wrong)? as u32);
                "numjobs"
            }
            "rate_iops" => {
                let rate = within(same_for_all(value).unwrap_or(value), 0, 1_000_000_000).map_err(wrong)?;
                self.rate_iops = Some(rate).filter(|rate| *rate > 0);
                "rate_iops"
            }
            "fsync" | "fdatasync" => {
                let every = within(value, 0, u64::from(u32::MAX)).map_err(wrong)? as u32;
                self.fsync = Some(every).filter(|every| *every > 0);
                "fsync"
            }
            "sync" => {
                self.sync = Some(sync_mode(value).map_err(wrong)?);
                "sync"
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

    /// True if the job both reads and writes.
    pub(crate) fn is_mixed(&self) -> bool {
        matches!(self.kind, Some(Kind::Readwrite | Kind::Randrw))
    }

    /// Returns the options in fio's syntax, one line each.
    fn lines(&self) -> Vec<String> {
        let kind = self.kind.and_then(|kind| kind.to_possible_value());
        let sync = self.sync.and_then(|sync| sync.to_possible_value());
        let time = |time: Option<Duration>| time.map(|time| format!("{}us", time.as_micros()));
        let part = |extent: Option<Extent>| extent.map(|extent| extent.to_string());
        let yes = |yes: bool| yes.then(|| "1".to_owned());
        let values = [
            ("description", self.description.clone()),
            ("stonewall", yes(self.stonewall)),
            ("startdelay", time(self.startdelay)),
            ("rw", kind.map(|kind| kind.get_name().to_owned())),
            ("rwmixread", self.rwmixread.map(|percent| percent.to_string())),
            ("bs", self.bs.map(|size| size.0.to_string())),
            ("iodepth", self.iodepth.map(|depth| depth.to_string())),
            ("numjobs", self.numjobs.map(|jobs| jobs.to_string())),
            ("size", part(self.size)),
            ("offset", part(self.offset)),
            ("offset_increment", part(self.offset_increment)),
            ("runtime", time(self.runtime)),
            ("time_based", yes(self.time_based)),
            ("ramp_time", time(self.ramp_time)),
            ("rate_iops", self.rate_iops.map(|rate| rate.to_string())),
            ("fsync", self.fsync.map(|every| every.to_string())),
            ("sync", sync.map(|sync| sync.get_name().to_owned())),
            ("randseed", self.randseed.map(|seed| seed.to_string())),
            ("randrepeat", self.another_order.then(|| "0".to_owned())),
            ("verify", self.verify.then(|| "crc32c".to_owned())),
        ];
        let given = values.into_iter().filter_map(|(name, value)| Some((name, value?)));
        given.map(|(name, value)| format!("{name}={value}")).collect()
    }
}

/// Parses a value of `sync`.
fn sync_mode(value: &str) -> Result<SyncMode, String> {
    SyncMode::from_str(value, false).map_err(|_| format!("`{value}` is none of none, sync and dsync"))
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
        assert_eq!(taken("bs", "1Mi").bs, Some(Size(1 << 20)));
        assert_eq!(taken("bs", "4k,4k").bs, Some(Size(4096)));
        assert_eq!(taken("bsrange", "4k-4k").bs, Some(Size(4096)));
        assert_eq!(taken("bssplit", "4k/100").bs, Some(Size(4096)));
        assert_eq!(taken("size", "1G").size, Some(Extent::Bytes(1 << 30)));
        assert_eq!(taken("size", "50%").size, Some(Extent::Percent(50)));
        assert_eq!(taken("size", "0%").size, None);
        assert_eq!(taken("offset", "25%").offset, Some(Extent::Percent(25)));
        assert_eq!(taken("offset_increment", "8m").offset_increment, Some(Extent::Bytes(8 << 20)));
        assert_eq!(taken("offset_increment", "0").offset_increment, None);
        assert_eq!(taken("rate_iops", "100,100").rate_iops, Some(100));
        assert_eq!(taken("size", "0").size, None);
        assert_eq!(taken("runtime", "2m").runtime, Some(Duration::from_secs(120)));
        assert_eq!(taken("timeout", "90").runtime, Some(Duration::from_secs(90)));
        assert_eq!(taken("ramp_time", "200ms").ramp_time, Some(Duration::from_millis(200)));
        assert_eq!(taken("rwmixwrite", "30").rwmixread, Some(70));
        assert_eq!(taken("readwrite", "rw").kind, Some(Kind::Readwrite));
        assert_eq!(taken("numjobs", "1k").numjobs, Some(1024));
        for (value, mode) in [
            ("0", SyncMode::None),
            ("none", SyncMode::None),
            ("1", SyncMode::Sync),
            ("sync", SyncMode::Sync),
            ("dsync", SyncMode::Dsync),
        ] {
            assert_eq!(taken("sync", value).sync, Some(mode), "{value}");
        }
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
            ("rate_iops", "100,200"),
            ("rate", "10m"),
            ("thinktime", "5"),
            ("verify", "md5"),
            ("random_distribution", "zipf:1.2"),
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
            ("size", "101%"),
            ("size", "$SIZE"),
            ("offset_increment", "many"),
            ("sync", ""),
            ("sync", "2"),
        ] {
            assert!(JobOptions::default().take(name, value).is_err(), "{name}={value}");
        }
        let error = JobOptions::default().take("bs", "4KiB").unwrap_err();
        assert!(error.contains("1,000s"), "{error}");
    }

    #[test]
    fn the_lists_are_in_order_and_apart() {
        assert!(FIXED.is_sorted_by_key(|(name, _, _)| *name));
        assert!(FIXED.iter().all(|(name, _, _)| !MEANINGLESS.contains(name) && !PLACEMENT.contains(name)));
        for name in PLACEMENT {
            assert_eq!(JobOptions::default().take(name, "1"), Ok(Effect::Placement));
            assert!(!MEANINGLESS.contains(name), "{name}");
        }
        for name in MEANINGLESS {
            let value = if *name == "ioengine" { "libaio" } else { "1" };
            assert_eq!(JobOptions::default().take(name, value), Ok(Effect::Meaningless));
            assert_eq!(MEANINGLESS.iter().filter(|other| *other == name).count(), 1, "{name}");
        }
    }
}
