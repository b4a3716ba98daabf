//! fio's job files: sections and lines become jobs, and everything that is not done as fio would do it is named with
//! its line. What an option means is `job_options`'; fitting jobs onto a namespace and running them is not done here.

use std::collections::BTreeMap;
use std::fmt;

use super::engine::{ENGINE_DEFAULT, Engine};
use super::job_options::{Effect, JobOptions};
use super::storage::Storage;
use super::variables::{Lookup, replace};
use crate::spec::fio_numbers::flag;

/// Jobs of one file: more than anybody writes by hand.
const JOBS_MAX: usize = 1024;
/// Beginning of the names of global sections: fio looks no further, and takes `[global-write]` for one.
const GLOBAL: &str = "global";

/// A file, understood.
#[derive(Clone, Debug, Default)]
pub struct JobFile {
    pub jobs: Vec<Job>,
    /// Options that would change the result and cannot be had; the jobs are as if they were not there. Sections that
    /// write no data in fio, or use several files at once, are not among the jobs.
    pub unsupported: Vec<Complaint>,
    /// The different files of the jobs, in the order in which they appear; one where none is named.
    pub files: Vec<JobStorage>,
    /// Differences from fio that do not change the result, a sentence each.
    pub notes: Vec<String>,
}

/// Job of one section, with the options of `[global]`.
#[derive(Clone, Debug, Default)]
pub struct Job {
    pub name: String,
    pub options: JobOptions,
    /// Position of each option, by fio's first name for it.
    pub said: BTreeMap<&'static str, Said>,
    /// The line of its section.
    pub line: usize,
    /// Index of its file among those of the job file.
    pub file: usize,
}

/// A file that jobs use, or the folder that has theirs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobStorage {
    pub name: String,
    /// The line that names it first.
    pub line: usize,
}

/// An option as it stands in the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Said {
    pub line: usize,
    pub text: String,
}

/// Something that is wrong with a line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Complaint {
    /// Counted from 1.
    pub line: usize,
    pub what: String,
}

impl fmt::Display for Complaint {
    /// Without the file's name, which belongs before it: `FILE:` and this.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.line, self.what)
    }
}

impl Job {
    /// The line of an option, or of the section that goes without it.
    fn line_of(&self, name: &str) -> usize {
        self.said.get(name).map_or(self.line, |said| said.line)
    }
}

impl fmt::Display for Job {
    /// Writes the job as a section of a file.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // A name that would end the section's line early, or make another section of it, is given as an option.
        if self.name.contains(']') || self.name.starts_with(GLOBAL) {
            writeln!(f, "[job]\nname={}", self.name)?;
        } else {
            writeln!(f, "[{}]", self.name)?;
        }
        write!(f, "{}", self.options)
    }
}

/// A section while its lines are read.
#[derive(Clone, Default)]
struct Section {
    job: Job,
    /// Of a job: a `[global]` has no name.
    is_job: bool,
    engine: Option<Said>,
    storage: Storage,
    /// An option by which fio does none of the job's reads and writes.
    without_io: Option<Said>,
}

impl JobFile {
    /// Reads the text of a file, with the values of variables in the places of their names.
    ///
    /// # Errors
    /// A line that fio would not understand either, or whose value is beyond what this program can do.
    pub fn read(text: &str, variables: Lookup<'_>) -> Result<Self, Complaint> {
        let mut reader = Reader::default();
        for (at, line) in text.lines().enumerate() {
            reader.line(at + 1, line, variables).map_err(|what| Complaint { line: at + 1, what })?;
        }
        reader.end_section();
        let mut file = reader.file;
        if file.jobs.is_empty() && !reader.left_out {
            let what = "there is no job: begin one with its name in brackets, as in [randread]".to_owned();
            return Err(Complaint { line: text.lines().count().max(1), what });
        }
        for (what, names) in [
            ("options without effect over NVMe/TCP", &reader.meaningless),
            ("these place fio's own processes, and are passed over", &reader.placement),
        ] {
            let names: Vec<_> = names.iter().map(|(name, line)| format!("{name} (line {line})")).collect();
            if !names.is_empty() {
                file.notes.push(format!("{what}: {}", names.join(", ")));
            }
        }
        if reader.without_file
            && file.jobs.iter().map(|job| job.options.numjobs.unwrap_or(1)).sum::<u32>() > 1
        {
            file.notes.push(
                "without filename fio gives each job a file of its own; here all use the same namespace"
                    .into(),
            );
        }
        Ok(file)
    }

    /// The jobs that run at the same time, one group after the other.
    pub fn groups(&self) -> Vec<&[Job]> {
        let mut groups = Vec::new();
        let mut from = 0;
        for at in 1..self.jobs.len() {
            if self.jobs[at].options.stonewall {
                groups.push(&self.jobs[from..at]);
                from = at;
            }
        }
        if from < self.jobs.len() {
            groups.push(&self.jobs[from..]);
        }
        groups
    }
}

impl fmt::Display for JobFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.jobs.iter().try_for_each(|job| writeln!(f, "{job}"))
    }
}

/// State of the parser.
#[derive(Default)]
struct Reader {
    file: JobFile,
    global: Section,
    section: Option<Section>,
    /// Each option that means nothing, and where it stands first.
    meaningless: BTreeMap<String, usize>,
    /// Options for the placement of fio's processes, and the position of each.
    placement: BTreeMap<String, usize>,
    without_file: bool,
    /// A section has been left out.
    left_out: bool,
    /// Set if a skipped section had stonewall; the next section inherits it.
    stonewall_of_left_out: bool,
}

impl Reader {
    fn line(&mut self, number: usize, line: &str, variables: Lookup<'_>) -> Result<(), String> {
        let line = line.trim();
        if line.starts_with('[') {
            return self.begin_section(number, line);
        }
        let line = without_comment(line);
        if line.is_empty() {
            return Ok(());
        }
        if line.starts_with("include ") {
            return Err("other files are not included: put their lines here".into());
        }
        let line = replace(line, variables)?;
        let (name, value) = line.split_once('=').unwrap_or((&line, ""));
        self.option(number, name.trim(), value.trim())
    }

    fn begin_section(&mut self, number: usize, line: &str) -> Result<(), String> {
        let hint = || format!("`{line}` is not a section: write its name in brackets, as in [randread]");
        let (name, rest) = line[1..].split_once(']').ok_or_else(hint)?;
        let name = name.trim();
        if name.is_empty() || !without_comment(rest.trim()).is_empty() {
            return Err(hint());
        }
        self.end_section();
        if self.file.jobs.len() >= JOBS_MAX {
            return Err(format!("there are more than {JOBS_MAX} jobs"));
        }
        let mut section = self.global.clone();
        section.is_job = !name.starts_with(GLOBAL);
        if section.is_job {
            section.job.name = name.to_owned();
            section.job.line = number;
        }
        self.section = Some(section);
        Ok(())
    }

    /// Puts the section that has been read where it belongs: jobs that come have all that
    /// `[global]` says before them.
    fn end_section(&mut self) {
        let Some(section) = self.section.take() else { return };
        if !section.is_job {
            self.global = section;
            return;
        }
        let runs = self.check(&section);
        let has_file = section.storage.filename.is_some();
        let mut job = section.job;
        job.options.stonewall |= std::mem::take(&mut self.stonewall_of_left_out);
        if !runs {
            self.left_out = true;
            self.stonewall_of_left_out = job.options.stonewall;
            return;
        }
        let line = section.storage.line().unwrap_or(job.line);
        let name = section.storage.files().swap_remove(0);
        let known = self.file.files.iter().position(|file| file.name == name);
        job.file = known.unwrap_or(self.file.files.len());
        if known.is_none() {
            self.file.files.push(JobStorage { name, line });
        }
        if job.options.is_mixed() && job.options.rate_iops.take().is_some() {
            let what = "rate_iops of a mix: fio keeps reads and writes to it apart, so that half are reads whatever \
                        rwmixread says";
            self.complain(job.line_of("rate_iops"), what);
        }
        let depth = job.options.iodepth.unwrap_or(1);
        let engine = section.engine.as_ref().map_or(ENGINE_DEFAULT, |said| &said.text);
        if depth > 1 && Engine::of(engine) == Engine::DiskInStep {
            let line = job.line_of("iodepth");
            self.file.notes.push(format!(
                "line {line}: [{}] has {depth} commands outstanding; in fio ioengine={engine} has one",
                job.name
            ));
        }
        self.without_file |= !has_file;
        self.file.jobs.push(job);
    }

    /// Names what keeps a section from being run, and says whether anything of it may run.
    fn check(&mut self, section: &Section) -> bool {
        let mut runs = true;
        if let Some(Said { line, text }) = &section.engine {
            let engine = Engine::of(text);
            if let Some(why) = engine.refusal() {
                self.complain(*line, format!("ioengine={text}: {why}"));
            }
            runs &= engine.moves_data();
        }
        if let Some(Said { line, text }) = &section.without_io {
            self.complain(*line, format!("{text}: fio does none of the section's reads and writes"));
            runs = false;
        }
        let files = section.storage.files().len();
        if files > 1 {
            let line = section.storage.line().unwrap_or(section.job.line);
            self.complain(
                line,
                format!(
                    "a section uses one namespace, and this one has {files} files: write a section for each"
                ),
            );
            runs = false;
        }
        runs
    }

    fn complain(&mut self, line: usize, what: impl Into<String>) {
        let complaint = Complaint { line, what: what.into() };
        // What stands in [global] is there once for all sections after it.
        if !self.file.unsupported.contains(&complaint) {
            self.file.unsupported.push(complaint);
        }
    }

    fn option(&mut self, number: usize, name: &str, value: &str) -> Result<(), String> {
        let Some(section) = &mut self.section else {
            return Err(format!(
                "`{name}` stands before the first section: begin with [global] or a job's name"
            ));
        };
        let said = |value: &str| (!value.is_empty()).then(|| Said { line: number, text: value.to_owned() });
        match name {
            "" => return Err("an option has a name before the =".into()),
            "name" if value.is_empty() => return Err("name needs a value".into()),
            "name" => {
                // A [global] has no job to name.
                if section.is_job {
                    value.clone_into(&mut section.job.name);
                }
                return Ok(());
            }
            "ioengine" => {
                // A later section may have another one: the last that a job has is looked at.
                section.engine = said(value);
                self.meaningless.entry(name.to_owned()).or_insert(number);
                return Ok(());
            }
            "filename" => section.storage.filename = said(value),
            "directory" => section.storage.directory = said(value),
            "create_only" | "verify_only" => {
                let is_asked = flag(value).map_err(|error| format!("{name}: {error}"))?;
                section.without_io = is_asked.then(|| Said { line: number, text: format!("{name}=1") });
                return Ok(());
            }
            _ => {}
        }
        match section.job.options.take(name, value)? {
            Effect::Taken(first_name) => {
                let text = if value.is_empty() { name.to_owned() } else { format!("{name}={value}") };
                section.job.said.insert(first_name, Said { line: number, text });
            }
            Effect::Meaningless => {
                self.meaningless.entry(name.to_owned()).or_insert(number);
            }
            Effect::Placement => {
                self.placement.entry(name.to_owned()).or_insert(number);
            }
            Effect::Unsupported(what) => self.file.unsupported.push(Complaint { line: number, what }),
        }
        Ok(())
    }
}

/// A line without what stands behind `;` or `#`.
fn without_comment(line: &str) -> &str {
    line.split([';', '#']).next().unwrap_or_default().trim()
}

#[cfg(test)]
#[path = "job_file_tests.rs"]
mod tests;
