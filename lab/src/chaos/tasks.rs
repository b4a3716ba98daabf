//! Tasks: disturbances with hosts of their own, and the check of each. Their schedule is elsewhere.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::fs::{FallocateFlags, fallocate};

use super::host::{Deeds, Host, Plan, Site};
use super::target::Control;

/// Time for a host to see that it cannot go on, and to end.
const END_LIMIT: Duration = Duration::from_secs(60);
/// Time until some data of a host is flushed.
const BEGIN_LIMIT: Duration = Duration::from_secs(60);
/// Hosts that cannot come to their end have more time than that, in seconds.
const END_S: u64 = 120;
/// Time for which data of a dead host may arrive, until its controller has ended.
const DEAD_HOST: Duration = Duration::from_secs(7);
/// Time for a failed host's last commands.
const SETTLE: Duration = Duration::from_secs(2);
/// The namespace that comes and goes.
const PASSING_NSID: u32 = 9;
/// Offset in the thin file where nothing is allocated, in MiB, and the amount that is filled up.
const THIN_OFFSET_MB: u64 = 32;
const THIN_SIZE_MB: u64 = 64;
const THIN_AFTER_MB: u64 = 8;
/// Room that is left on the full disk, so that some of what is written is acknowledged.
const LEFT_BYTES: u64 = 512 << 10;
/// A disk that is never full is not the small one.
const FILL_BYTES_MAX: u64 = 1 << 30;

/// Parameters of all tasks.
pub(crate) struct Task {
    pub(crate) site: Site,
    pub(crate) control: Control,
    pub(crate) nqn: &'static str,
    /// A workload on the target in question, to be put where it is wanted.
    pub(crate) plan: Plan,
    pub(crate) log: String,
}

impl Task {
    fn host(&self, plan: Plan, part: &str) -> Result<Host, String> {
        Host::start(&self.site, plan, format!("{}{part}", self.log))
    }

    /// A host works for `runtime_s` in a region, to its good end, and a fresh one checks it.
    fn works(&self, plan: Plan, part: &str, runtime_s: u64) -> Result<Deeds, String> {
        let mut host = self.host(plan.lasting(runtime_s), part)?;
        let mut deeds = host.finish(Instant::now() + Duration::from_secs(runtime_s) + END_LIMIT)?;
        deeds.add(&host.check()?);
        Ok(deeds)
    }

    /// A namespace comes, a host uses it, and it goes meanwhile: the host is notified at once, and
    /// no other host is affected.
    pub(crate) fn namespace_comes_and_goes(&self) -> Result<Deeds, String> {
        let (nqn, nsid) = (self.nqn, PASSING_NSID.to_string());
        self.control.ask(&["namespace", "add", nqn, &format!("memory:8m,nsid={nsid}")])?;
        let plan = self.plan.clone().impatient().lasting(END_S).at(PASSING_NSID, 0, 8);
        let outcome = self.host(plan, "").and_then(|mut host| {
            host.begun(Instant::now() + BEGIN_LIMIT)?;
            self.control.ask(&["namespace", "remove", nqn, &nsid])?;
            host.ended_badly(Instant::now() + END_LIMIT)?;
            let complaint = host.complaint();
            // By a command's status, by what it found when it looked after the event, or because no path is left.
            let expected = ["Invalid Namespace", "there is no namespace", "the run broke off"];
            if expected.iter().any(|words| complaint.contains(words)) {
                Ok(())
            } else {
                Err(format!("a host whose namespace went got another status: {complaint}"))
            }
        });
        if outcome.is_err() {
            // For the next time. If it is already gone, that is not a second failure.
            let _ = self.control.ask(&["namespace", "remove", nqn, &nsid]);
        }
        outcome.map(|()| Deeds::default())
    }

    /// Namespace `nsid` of `size_mb` grows by half, a host works in the new half, and it is as it was.
    pub(crate) fn namespace_grows(&self, nsid: u32, size_mb: u64) -> Result<Deeds, String> {
        let (number, more_mb) = (nsid.to_string(), size_mb / 2);
        let resize = |size_mb: u64, flags: &[&str]| {
            let size = format!("{size_mb}m");
            self.control.ask(&[&["namespace", "resize", self.nqn, &number, &size], flags].concat()).map(drop)
        };
        resize(size_mb + more_mb, &[])?;
        let worked = self.works(self.plan.clone().at(nsid, size_mb, more_mb), "", 2);
        let back = resize(size_mb, &["--shrink"]);
        worked.and_then(|deeds| back.map(|()| deeds))
    }

    /// The disk is full: a host that needs more gets the status Capacity Exceeded, acknowledged
    /// data is there, and all goes on when there is room again.
    pub(crate) fn disk_is_full(&self, nsid: u32, file: &Path, filler: &Path) -> Result<Deeds, String> {
        let full = self.plan.clone().at(nsid, THIN_OFFSET_MB, THIN_SIZE_MB);
        let outcome = (|| {
            let room = Filler::new(filler)?;
            let mut host = self.host(full.clone().lasting(END_S), "-full")?;
            host.ended_badly(Instant::now() + END_LIMIT)?;
            let complaint = host.complaint();
            if !complaint.contains("Capacity Exceeded") {
                return Err(format!("a host on a full disk got another status: {complaint}"));
            }
            std::thread::sleep(SETTLE);
            let mut deeds = host.check()?;
            // With the filler gone there is room again.
            drop(room);
            deeds.add(&self.works(full.at(nsid, THIN_OFFSET_MB, THIN_AFTER_MB), "-after", 2)?);
            Ok(deeds)
        })();
        let open = File::options().write(true).open(file);
        let holes = open.and_then(|file| {
            let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
            Ok(fallocate(file, flags, THIN_OFFSET_MB << 20, THIN_SIZE_MB << 20)?)
        });
        holes.map_err(|error| format!("{}: {error}", file.display()))?;
        outcome
    }

    /// A host is killed in the middle of its work, and a new one finds all that was flushed.
    pub(crate) fn host_is_killed(&self, works: Duration) -> Result<Deeds, String> {
        let mut host = self.host(self.plan.clone().lasting(END_S), "")?;
        host.begun(Instant::now() + BEGIN_LIMIT)?;
        std::thread::sleep(works);
        if host.has_ended() {
            return Err(format!("host {} ended by itself: {}", self.log, host.complaint()));
        }
        host.kill();
        std::thread::sleep(DEAD_HOST);
        host.check()
    }
}

/// A file that takes all the room of its file system, for as long as this lives.
struct Filler(PathBuf);

impl Filler {
    fn new(path: &Path) -> Result<Filler, String> {
        let failed = |error: std::io::Error| format!("{}: {error}", path.display());
        let mut file = File::create(path).map_err(failed)?;
        let filler = Filler(path.to_owned());
        let block = vec![0xff; 64 << 10];
        let mut bytes: u64 = 0;
        while bytes < FILL_BYTES_MAX {
            match file.write(&block) {
                Ok(count) => bytes += count as u64,
                Err(error) if error.kind() == std::io::ErrorKind::StorageFull => {
                    file.set_len(bytes.saturating_sub(LEFT_BYTES)).map_err(failed)?;
                    return Ok(filler);
                }
                Err(error) => return Err(failed(error)),
            }
        }
        Err(format!("{}: the disk is not small", path.display()))
    }
}

impl Drop for Filler {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}
