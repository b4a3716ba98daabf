//! fio's options as they were typed on the command line of `bench`: one job's, of which the same becomes as of a section of a
//! job file.

use super::job_options::{Effect, JobOptions, forbids};
use crate::flags::fio_names::PRINTING;
use crate::flags::fio_options::FioOptions;
use crate::spec::fio_numbers::flag;

/// A job of a command line.
#[derive(Clone, Debug, Default)]
pub struct TypedOptions {
    pub name: Option<String>,
    pub options: JobOptions,
    /// Ignored options, with their hyphens.
    pub meaningless: Vec<String>,
    /// Options that would change the result and are not supported, with the reason.
    pub unsupported: Vec<String>,
    /// Set if nothing may be written.
    pub read_only: bool,
}

impl TypedOptions {
    /// Looks at each of them.
    ///
    /// # Errors
    /// One has a value that it has not in fio, or keeps fio from moving any data.
    pub fn read(FioOptions(typed): &FioOptions) -> Result<Self, String> {
        let mut all = Self::default();
        for (name, value) in typed {
            all.take(name, value)
                .map_err(|what| format!("--{name}: {}", what.trim_start_matches(&format!("{name}: "))))?;
        }
        Ok(all)
    }

    fn take(&mut self, name: &'static str, value: &str) -> Result<(), String> {
        if let Some(why) = forbids(name, value)? {
            return Err(why);
        }
        match name {
            "name" if self.name.is_some() => {
                return Err("a second job needs a job file, with a section for each".to_owned());
            }
            "name" => self.name = Some(value.to_owned()).filter(|name| !name.is_empty()),
            "create_only" => {}
            "readonly" => self.read_only = flag(value)?,
            printing if PRINTING.contains(&printing) => self.meaningless.push(format!("--{name}")),
            _ => match self.options.take(name, value)? {
                Effect::Taken(_) => {}
                Effect::Meaningless | Effect::Placement => self.meaningless.push(format!("--{name}")),
                Effect::Unsupported(what) => self.unsupported.push(what),
            },
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn typed(line: &[(&'static str, &str)]) -> Result<TypedOptions, String> {
        let options = line.iter().map(|(name, value)| (*name, (*value).to_owned()));
        TypedOptions::read(&FioOptions(options.collect()))
    }

    #[test]
    fn what_means_nothing_is_passed_over_and_the_rest_is_taken() {
        let line = [
            ("name", "x"),
            ("group_reporting", ""),
            ("direct", "1"),
            ("ioengine", "libaio"),
            ("filename", "/dev/nvme0n1"),
            ("cpus_allowed", "0-3"),
            ("randrepeat", "0"),
            ("fdatasync", "4"),
            ("bsrange", "4k-4k"),
            ("eta-newline", "1"),
            ("iodepth_batch_complete_max", "64"),
            ("readonly", ""),
        ];
        let all = typed(&line).unwrap();
        assert_eq!(all.name.as_deref(), Some("x"));
        assert_eq!((all.options.fsync, all.options.another_order, all.read_only), (Some(4), true, true));
        assert_eq!(all.options.bs.map(|bs| bs.0), Some(4096));
        for name in ["group_reporting", "direct", "ioengine", "filename", "cpus_allowed", "eta-newline"] {
            assert!(all.meaningless.contains(&format!("--{name}")), "{name}");
        }
        assert!(all.unsupported.is_empty());
    }

    #[test]
    fn what_would_change_the_result_is_named() {
        for (line, part) in [
            (("ioengine", "rbd"), "storage of its own"),
            (("loops", "3"), "loops=3"),
            (("bssplit", "4k/50:8k/50"), "one size"),
        ] {
            let all = typed(&[line]).unwrap();
            assert!(
                all.unsupported.len() == 1 && all.unsupported[0].contains(part),
                "{line:?}: {:?}",
                all.unsupported
            );
        }
        for (line, part) in [
            (&[("ioengine", "null")][..], "--ioengine: it reads and writes no data"),
            (&[("filename", "/dev/a:/dev/b")], "2 files"),
            (&[("create_only", "")], "none of the job's reads"),
            (&[("name", "a"), ("name", "b")], "a job file"),
            (&[("fdatasync", "many")], "--fdatasync: `many` is not a number"),
            (&[("readonly", "maybe")], "--readonly: `maybe` is neither 1 nor 0"),
        ] {
            let error = typed(line).unwrap_err();
            assert!(error.contains(part), "{line:?}: {error}");
        }
    }
}
