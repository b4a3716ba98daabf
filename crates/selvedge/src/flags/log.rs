//! The flags of the log of what runs for long: `serve` and `attach`.

use clap::Args;

use crate::log::LogFormat;

#[derive(Debug, Default, Args)]
pub(crate) struct LoggingFlags {
    /// How the log is written [default: journal where stderr leads there, else text]
    #[arg(long, value_name = "FORMAT")]
    pub(crate) log_format: Option<LogFormat>,

    /// error, warn, info, debug or trace, or levels of modules as in info,engine=debug [default: $SELVEDGE_LOG, or warn]
    #[arg(long, value_name = "LEVEL")]
    pub(crate) log_level: Option<String>,
}
