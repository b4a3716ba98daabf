//! Log flags of the long-running commands, `serve` and `attach`.

use clap::Args;

use crate::log::LogFormat;

#[derive(Debug, Default, Args)]
pub struct LoggingFlags {
    /// Format of the log [default: journal if stderr is connected to it, else text]
    #[arg(long, value_name = "FORMAT")]
    pub log_format: Option<LogFormat>,

    /// Log level: error, warn, info, debug or trace, or levels of modules as in info,engine=debug
    /// [default: $SELVEDGE_LOG, or warn]
    #[arg(long, value_name = "LEVEL")]
    pub log_level: Option<String>,
}
