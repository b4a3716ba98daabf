//! The flags of `report` and `compare`.

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

    /// What `fio --output-format=json` printed; the same jobs in several files are several measurements of them
    #[arg(long, value_name = "FILE", num_args = 1.., requires = "output")]
    pub(crate) from_fio: Vec<PathBuf>,

    /// Folder for the report [default: DIR]
    #[arg(long, value_name = "DIR")]
    pub(crate) output: Option<PathBuf>,

    #[command(flatten)]
    pub(crate) output_flags: OutputFlags,
}

#[derive(Debug, Args)]
#[command(
    after_help = "Each of A and B is the folder of a sweep, its report.json, or what fio --output-format=json
printed. Points are the same when they agree in all options that vary in
either. Ratios are B over A; they are said to differ when chance explains them
with less than 5 % (Welch's test).

Examples:
  selvedge compare before after
  selvedge compare old.json after --output compared"
)]
pub(crate) struct CompareFlags {
    /// What to compare with
    #[arg(value_name = "A")]
    pub(crate) first: PathBuf,

    /// What is compared
    #[arg(value_name = "B")]
    pub(crate) second: PathBuf,

    /// Folder for a report with pictures
    #[arg(long, value_name = "DIR")]
    pub(crate) output: Option<PathBuf>,

    #[command(flatten)]
    pub(crate) output_flags: OutputFlags,
}
