//! fio's JSON, read into the few figures that comparisons need. It takes what fio 2 and 3 print, `json` and `json+`,
//! with lines of warnings around it, and of several documents the last, as `--status-interval` leaves them.

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

use super::engine::Engine;
use crate::spec::fio_numbers::{number, only_size, same_for_all};

/// Lines that begin with a brace and are not a document, before the search is given up.
const FALSE_STARTS_MAX: usize = 64;
/// Name of the sum of all clients' jobs.
const ALL_CLIENTS: &str = "All clients";

/// Result of one run of fio.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FioRun {
    /// Such as `fio-3.33`.
    pub version: String,
    pub jobs: Vec<FioJob>,
}

/// Entry of a run's jobs: one job, or all clones of a job that report together.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FioJob {
    pub name: String,
    /// Type of I/O in the options, `read` by default.
    pub rw: String,
    /// Bytes of a command; absent when the sizes differ.
    pub(crate) bs_bytes: Option<u64>,
    pub iodepth: u32,
    /// Jobs that this entry is about.
    pub numjobs: u32,
    /// The errno it ended with, 0 for none.
    pub error: i64,
    pub read: Option<FioSide>,
    pub write: Option<FioSide>,
}

/// Reads or writes of a job.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct FioSide {
    pub(crate) ios: u64,
    /// Per second.
    pub iops: f64,
    pub(crate) bw_bytes: f64,
    /// From when the command was made until it was completed.
    pub(crate) mean_ns: f64,
    /// Absent if fio's options suppress percentiles.
    pub(crate) p50_ns: Option<f64>,
    pub p99_ns: Option<f64>,
    pub(crate) p99_9_ns: Option<f64>,
}

/// The document as it stands there; all of it may be missing.
#[derive(Deserialize)]
struct Document {
    #[serde(rename = "fio version", default)]
    version: String,
    #[serde(rename = "global options", default)]
    global: GlobalOptions,
    #[serde(alias = "client_stats")]
    jobs: Vec<Entry>,
}

/// Options of all jobs; since fio 3.39, those of each client where there are several.
#[derive(Deserialize)]
#[serde(untagged)]
enum GlobalOptions {
    All(Options),
    OfClients(Vec<Options>),
}

#[derive(Default, Deserialize)]
#[serde(transparent)]
struct Options(BTreeMap<String, Value>);

#[derive(Deserialize)]
struct Entry {
    #[serde(default)]
    jobname: String,
    /// Client that ran the job.
    hostname: Option<String>,
    #[serde(default)]
    groupid: i64,
    #[serde(default)]
    error: i64,
    #[serde(rename = "job options", default)]
    options: Options,
    read: Option<Side>,
    write: Option<Side>,
}

#[derive(Deserialize)]
struct Side {
    #[serde(default)]
    total_ios: u64,
    #[serde(default)]
    iops: f64,
    bw_bytes: Option<f64>,
    /// In units of 1,024 bytes per second.
    #[serde(default)]
    bw: f64,
    lat_ns: Option<Latency>,
    clat_ns: Option<Latency>,
    /// fio 2 has microseconds.
    #[serde(alias = "lat_us")]
    lat: Option<Latency>,
    #[serde(alias = "clat_us")]
    clat: Option<Latency>,
}

#[derive(Default, Deserialize)]
struct Latency {
    #[serde(default)]
    mean: f64,
    #[serde(default, deserialize_with = "percentiles")]
    percentile: BTreeMap<String, f64>,
}

/// The percentiles, without what is not a number: json+ of some versions puts its bins among them.
fn percentiles<'de, D: Deserializer<'de>>(deserializer: D) -> Result<BTreeMap<String, f64>, D::Error> {
    let values = BTreeMap::<String, Value>::deserialize(deserializer)?;
    Ok(values.into_iter().filter_map(|(name, value)| Some((name, value.as_f64()?))).collect())
}

/// Reads what fio printed.
///
/// # Errors
/// When there is no document of fio's in it.
pub fn read(text: &str) -> Result<FioRun, String> {
    let document = last_document(text)?;
    let mut jobs: Vec<FioJob> = Vec::new();
    // Clones that do not report together have an entry each; they are one job, which ran once.
    let mut groups: Vec<(&str, i64)> = Vec::new();
    for entry in document.jobs.iter().filter(|entry| !entry.is_sum_of_clients()) {
        let job = entry.job(document.global.of(entry.hostname.as_deref()));
        let group = (entry.jobname.as_str(), entry.groupid);
        match groups.iter().position(|other| *other == group) {
            Some(at) if jobs[at].is_like(&job) => jobs[at].add(&job),
            _ => {
                groups.push(group);
                jobs.push(job);
            }
        }
    }
    Ok(FioRun { version: document.version.clone(), jobs })
}

impl FioJob {
    /// True if the entry may be another clone of the same job.
    fn is_like(&self, other: &Self) -> bool {
        (&self.rw, self.bs_bytes, self.iodepth, self.numjobs)
            == (&other.rw, other.bs_bytes, other.iodepth, other.numjobs)
    }

    /// Adds a clone that ran at the same time.
    fn add(&mut self, clone: &Self) {
        self.error = if self.error == 0 { clone.error } else { self.error };
        for (own, theirs) in [(&mut self.read, clone.read), (&mut self.write, clone.write)] {
            *own = match (own.take(), theirs) {
                (Some(own), Some(theirs)) => Some(own.with(&theirs)),
                (own, theirs) => own.or(theirs),
            };
        }
    }
}

impl FioSide {
    /// Both together: exact but for percentiles, of which a median between both is taken, and for others the longer.
    fn with(&self, other: &Self) -> Self {
        let ios = self.ios + other.ios;
        let mean =
            |own: f64, theirs: f64| (own * self.ios as f64 + theirs * other.ios as f64) / ios.max(1) as f64;
        let longer = |own: Option<f64>, theirs: Option<f64>| Some(own?.max(theirs?));
        Self {
            ios,
            iops: self.iops + other.iops,
            bw_bytes: self.bw_bytes + other.bw_bytes,
            mean_ns: mean(self.mean_ns, other.mean_ns),
            p50_ns: self.p50_ns.zip(other.p50_ns).map(|(own, theirs)| mean(own, theirs)),
            p99_ns: longer(self.p99_ns, other.p99_ns),
            p99_9_ns: longer(self.p99_9_ns, other.p99_9_ns),
        }
    }
}

fn last_document(text: &str) -> Result<Document, String> {
    let mut last = None;
    let mut wrong = "no line begins with a brace".to_owned();
    let (mut at, mut false_starts) = (0, 0);
    while let Some(start) = next_start(text, at) {
        let mut documents = serde_json::Deserializer::from_str(&text[start..]).into_iter::<Document>();
        match documents.next() {
            Some(Ok(document)) => {
                last = Some(document);
                at = start + documents.byte_offset();
            }
            Some(Err(error)) => {
                wrong = error.to_string();
                false_starts += 1;
                if false_starts >= FALSE_STARTS_MAX {
                    break;
                }
                at = start + 1;
            }
            None => break,
        }
    }
    last.ok_or_else(|| format!("this is not a fio result, which `fio --output-format=json` prints: {wrong}"))
}

/// Returns the position of the next line that begins with a brace, from `at` on.
fn next_start(text: &str, at: usize) -> Option<usize> {
    let rest = text.get(at..)?;
    if rest.starts_with('{') && (at == 0 || text.as_bytes().get(at - 1) == Some(&b'\n')) {
        return Some(at);
    }
    rest.find("\n{").map(|found| at + found + 1)
}

impl Options {
    /// An option's text, whether it was given as one or not.
    fn text(&self, names: [&str; 2]) -> Option<String> {
        let value = names.iter().find_map(|name| self.0.get(*name))?;
        Some(value.as_str().map_or_else(|| value.to_string(), str::to_owned))
    }
}

impl Default for GlobalOptions {
    fn default() -> Self {
        Self::All(Options::default())
    }
}

impl GlobalOptions {
    /// Returns the options that jobs of a client have in common.
    fn of(&self, hostname: Option<&str>) -> Option<&Options> {
        match self {
            Self::All(options) => Some(options),
            Self::OfClients(all) => {
                all.iter().find(|options| options.text(["hostname"; 2]).as_deref() == hostname)
            }
        }
    }
}

impl Entry {
    /// True for the sum of several clients, beside which each of their jobs has an entry.
    fn is_sum_of_clients(&self) -> bool {
        self.jobname == ALL_CLIENTS && self.hostname.is_some() && self.options.0.is_empty()
    }

    fn option(&self, global: Option<&Options>, names: [&str; 2]) -> Option<String> {
        self.options.text(names).or_else(|| global?.text(names))
    }

    fn count(&self, global: Option<&Options>, name: &str) -> u32 {
        self.option(global, [name; 2]).and_then(|text| text.parse().ok()).unwrap_or(1)
    }

    /// Bytes of a command, if all have one size. A split comes before a range, and a range before the plain size.
    fn block_bytes(&self, global: Option<&Options>) -> Option<u64> {
        for (name, names) in [("bssplit", ["bssplit"; 2]), ("bsrange", ["bsrange", "blocksize_range"])] {
            if let Some(text) = self.option(global, names) {
                return number(only_size(name, &text)?).ok();
            }
        }
        let text = self.option(global, ["bs", "blocksize"]).unwrap_or_else(|| "4k".to_owned());
        number(same_for_all(&text)?).ok()
    }

    /// Commands that a job keeps outstanding: engines in step have one, whatever number was given.
    fn depth(&self, global: Option<&Options>) -> u32 {
        let is_in_step = |name: String| Engine::of(&name) == Engine::DiskInStep;
        let is_offloaded = self.option(global, ["io_submit_mode"; 2]).is_some_and(|mode| mode == "offload");
        if !is_offloaded && self.option(global, ["ioengine"; 2]).is_some_and(is_in_step) {
            return 1;
        }
        self.count(global, "iodepth")
    }

    /// Returns figures and options of the job.
    fn job(&self, global: Option<&Options>) -> FioJob {
        let some = |side: &Option<Side>| side.as_ref().filter(|side| side.total_ios > 0).map(Side::figures);
        FioJob {
            name: self.jobname.clone(),
            rw: self.option(global, ["rw", "readwrite"]).unwrap_or_else(|| "read".to_owned()),
            bs_bytes: self.block_bytes(global),
            iodepth: self.depth(global),
            numjobs: self.count(global, "numjobs"),
            error: self.error,
            read: some(&self.read),
            write: some(&self.write),
        }
    }
}

impl Side {
    fn figures(&self) -> FioSide {
        let in_ns = [self.lat_ns.as_ref(), self.clat_ns.as_ref()];
        let in_us = [self.lat.as_ref(), self.clat.as_ref()];
        let (latencies, unit_ns) = match in_ns {
            [None, None] => (in_us, 1e3),
            _ => (in_ns, 1.0),
        };
        let latencies = latencies.into_iter().flatten();
        let percentile = |percent: f64| {
            // The percentiles are of the whole time only where fio was asked for that.
            let named = latencies.clone().flat_map(|latency| &latency.percentile);
            let is_it = |name: &str| name.parse().is_ok_and(|named: f64| (named - percent).abs() < 1e-9);
            named.filter(|(name, _)| is_it(name)).map(|(_, value)| value * unit_ns).next()
        };
        FioSide {
            ios: self.total_ios,
            iops: self.iops,
            bw_bytes: self.bw_bytes.unwrap_or(self.bw * 1024.0),
            mean_ns: latencies.clone().next().map_or(0.0, |latency| latency.mean * unit_ns),
            p50_ns: percentile(50.0),
            p99_ns: percentile(99.0),
            p99_9_ns: percentile(99.9),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::fio::PRINTED_BY_FIO;

    #[test]
    fn what_fio_prints_is_read() {
        let run = read(PRINTED_BY_FIO).unwrap();
        assert_eq!(run.version, "fio-3.33");
        let [mixed, flushed] = &run.jobs[..] else { panic!("two jobs: {:?}", run.jobs) };
        assert_eq!((mixed.name.as_str(), mixed.rw.as_str()), ("mixed", "randrw"));
        assert_eq!((mixed.bs_bytes, mixed.iodepth, mixed.numjobs, mixed.error), (Some(4096), 8, 2, 0));
        let read = mixed.read.unwrap();
        assert_eq!((read.ios, read.iops), (MIXED_READS.0, MIXED_READS.1));
        assert_eq!(read.bw_bytes, MIXED_READS.2);
        assert_eq!(read.mean_ns, MIXED_READS.3);
        assert_eq!([read.p50_ns, read.p99_ns, read.p99_9_ns].map(Option::unwrap), MIXED_READS.4);
        assert_eq!(mixed.write.unwrap().ios, 7309);
        assert_eq!((flushed.bs_bytes, flushed.numjobs), (Some(16 << 10), 1));
        assert_eq!(flushed.write.unwrap().ios, 512);
    }

    /// Of the fixture's first job: commands, IOPS, bytes per second, mean and percentiles of latency.
    const MIXED_READS: (u64, f64, f64, f64, [f64; 3]) =
        (7515, 3_409.709619, 13_977_321.0, 737_499.967287, [102_912.0, 7_766_016.0, 64_225_280.0]);

    #[test]
    fn warnings_around_it_and_documents_before_it_do_not_matter() {
        let two = format!("fio: {{ a warning }}\n{PRINTED_BY_FIO}\nmore\n{{\"jobs\": []}}\n");
        assert_eq!(read(&two).unwrap().jobs, []);
        let same = format!("{{\"jobs\": []}}\n{{ not this\n{PRINTED_BY_FIO}\nfio: done\n");
        assert_eq!(read(&same), read(PRINTED_BY_FIO));
    }

    #[test]
    fn other_versions_are_read_too() {
        let old = r#"{"fio version": "fio-2.2", "jobs": [{"jobname": "a", "read": {"total_ios": 5, "iops": 2.5,
            "bw": 10, "lat": {"mean": 7.5}, "clat": {"percentile": {"50.000000": 6, "0.00": 0}}}}]}"#;
        let side = read(old).unwrap().jobs[0].read.unwrap();
        assert_eq!(
            (side.bw_bytes, side.mean_ns, side.p50_ns, side.p99_ns),
            (10_240.0, 7500.0, Some(6000.0), None)
        );
        let plus = r#"{"jobs": [{"jobname": "a", "job options": {"rw": "write", "bs": "4k,8k", "iodepth": 4},
            "write": {"total_ios": 1, "clat_ns": {"percentile": {"99.000000": 9, "bins": {"9": 1}}}}}]}"#;
        let job = &read(plus).unwrap().jobs[0];
        assert_eq!((job.bs_bytes, job.iodepth, job.read), (None, 4, None));
        assert_eq!(job.write.unwrap().p99_ns, Some(9.0));
    }

    /// Output of fio for four clones of a job without group_reporting: each does a fourth of it.
    #[test]
    fn clones_are_one_job() {
        let clone = |ios: u64, mean: u64| {
            format!(
                r#"{{"jobname": "a", "job options": {{"numjobs": "2"}}, "read": {{"total_ios": {ios}, "iops": {ios}.0,
                "bw_bytes": 4096, "lat_ns": {{"mean": {mean}.0}}, "clat_ns": {{"percentile": {{"50.000000": {mean},
                "99.000000": {}}}}}}}}}"#,
                10 * mean
            )
        };
        let other = r#"{"jobname": "b", "error": 5}"#;
        let text = format!(r#"{{"jobs": [{}, {}, {other}]}}"#, clone(100, 1000), clone(300, 2000));
        let run = read(&text).unwrap();
        let [both, failed] = run.jobs.as_slice() else { panic!("{run:?}") };
        let side = both.read.unwrap();
        assert_eq!((both.numjobs, side.ios, side.iops, side.bw_bytes), (2, 400, 400.0, 8192.0));
        assert_eq!((side.mean_ns, side.p50_ns, side.p99_ns), (1750.0, Some(1750.0), Some(20_000.0)));
        assert_eq!((failed.error, failed.read), (5, None));
        // Jobs of two groups ran one after the other.
        let groups = text.replacen(r#""jobname": "a""#, r#""jobname": "a", "groupid": 1"#, 1);
        assert_eq!(read(&groups).unwrap().jobs.len(), 3);
    }

    #[test]
    fn options_mean_what_they_mean_in_fio() {
        let job = |options: &str| {
            let text = format!(r#"{{"jobs": [{{"jobname": "a", "job options": {{{options}}}}}]}}"#);
            read(&text).unwrap().jobs.remove(0)
        };
        for (options, bytes) in [
            ("", Some(4096)),
            (r#""bs": "8k,8k""#, Some(8192)),
            (r#""bs": "8k", "bssplit": "4k/50:64k/50""#, None),
            (r#""bssplit": "16k/100""#, Some(16_384)),
            (r#""bsrange": "4k-64k""#, None),
            (r#""blocksize_range": "64k-64k""#, Some(65_536)),
        ] {
            assert_eq!(job(options).bs_bytes, bytes, "{options}");
        }
        for (options, depth) in [
            (r#""iodepth": "32""#, 32),
            (r#""iodepth": "32", "ioengine": "io_uring""#, 32),
            (r#""iodepth": "32", "ioengine": "psync""#, 1),
            (r#""iodepth": "32", "ioengine": "psync", "io_submit_mode": "offload""#, 32),
        ] {
            assert_eq!(job(options).iodepth, depth, "{options}");
        }
    }

    /// Output of `fio --client`, of fio 3.39 and before.
    #[test]
    fn the_sum_of_clients_is_no_job() {
        let entry = |name: &str, host: &str, options: &str, ios: u64| {
            format!(
                r#"{{"jobname": "{name}", "hostname": "{host}", "port": 8765, {options}
                "read": {{"total_ios": {ios}, "iops": {ios}.0}}}}"#
            )
        };
        let options = r#""job options": {"iodepth": "8"},"#;
        let all = [
            entry("x", "a", options, 100),
            entry("x", "b", options, 300),
            entry("All clients", "b", "", 400),
        ];
        let own = |host: &str| format!(r#"{{"hostname": "{host}", "port": 8765, "rw": "randread"}}"#);
        for global in [format!("[{}, {}]", own("a"), own("b")), own("a")] {
            let text = format!(r#"{{"global options": {global}, "client_stats": [{}]}}"#, all.join(", "));
            let run = read(&text).unwrap();
            let [both] = run.jobs.as_slice() else { panic!("{run:?}") };
            let ios = both.read.map(|side| side.ios);
            assert_eq!((both.rw.as_str(), both.iodepth, ios), ("randread", 8, Some(400)), "{global}");
        }
    }

    #[test]
    fn what_is_not_fios_is_refused() {
        for text in ["", "hello", "{", "{}", "[]", "{\"jobs\": 5}", "{\"jobs\": [{\"read\": []}]}"] {
            let error = read(text).unwrap_err();
            assert!(error.starts_with("this is not a fio result"), "{text}: {error}");
        }
        assert!(read(&"{\n".repeat(100_000)).is_err());
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(
            text in "(?s).{0,200}",
            cut in 0..PRINTED_BY_FIO.len(),
            put in "[{}\",:0-9a-z\\-]{0,4}",
        ) {
            let _ = read(&text);
            // The fixture is ASCII, so that any place is one between characters.
            let mut changed = PRINTED_BY_FIO.to_owned();
            changed.insert_str(cut, &put);
            let _ = read(&changed);
        }
    }
}
