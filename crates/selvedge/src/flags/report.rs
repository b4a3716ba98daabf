//! Flags of `report` and `compare`.

use std::path::PathBuf;

use clap::Args;

use super::OutputFlags;

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  selvedge report first
  fio --output-format=json --output=old.json job.fio
  selvedge report --from-fio old.json --output old")]
pub(crate) struct ReportFlags {
    /// Folder of a sweep, finished or not; or a report.json, with --output
    #[arg(value_name = "DIR", required_unless_present = "from_fio", conflicts_with = "from_fio")]
    pub(crate) folder: Option<PathBuf>,

    /// Output of `fio --output-format=json`; the same jobs in several files are repeated
    /// measurements
    #[arg(long, value_name = "FILE", num_args = 1.., requires = "output")]
    pub(crate) from_fio: Vec<PathBuf>,

    /// Folder for the report [default: DIR]
    #[arg(long, value_name = "DIR")]
    pub(crate) output: Option<PathBuf>,

    #[command(flatten)]
    pub(crate) output_flags: OutputFlags,
}

#[derive(Debug, Args)]
#[command(after_help = "A and B are each the folder of a sweep, its report.json, or output of fio
--output-format=json. Points are the same if they agree in all options that vary in
either. Ratios are B over A; a difference is significant below a p-value of 5 %
(Welch's test).

Examples:
  selvedge compare before after
  selvedge compare old.json after --output compared")]
pub(crate) struct CompareFlags {
    /// Baseline
    #[arg(value_name = "A")]
    pub(crate) first: PathBuf,

    /// Compared sweep
    #[arg(value_name = "B")]
    pub(crate) second: PathBuf,

    /// Folder for a report with charts
    #[arg(long, value_name = "DIR")]
    pub(crate) output: Option<PathBuf>,

    #[command(flatten)]
    pub(crate) output_flags: OutputFlags,
}
