//! Flags of more than one command, and their help.

pub mod connection;
pub mod control;
pub mod interval;
pub mod log;
pub mod number_error;
pub mod tls_use;

use clap::{Args, ValueEnum};

/// Format of printed results.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum OutputFormat {
    /// Text
    #[default]
    Normal,
    /// JSON; names in it are stable
    Json,
}

/// Output option of every command that prints.
#[derive(Clone, Copy, Debug, Default, Args)]
pub struct OutputFlags {
    /// Format of the results
    #[arg(short = 'o', long, value_name = "FORMAT", default_value = "normal", help_heading = "Output")]
    pub output_format: OutputFormat,
}

/// System interface that carries the I/O.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum EngineFlag {
    /// io_uring where it is available, else epoll
    Auto,
    /// io_uring; fail where it is not available
    #[value(name = "io_uring")]
    IoUring,
    /// epoll
    Epoll,
}

impl From<EngineFlag> for engine::ring::Engine {
    fn from(flag: EngineFlag) -> Self {
        match flag {
            EngineFlag::Auto => Self::Automatic,
            EngineFlag::IoUring => Self::IoUring,
            EngineFlag::Epoll => Self::Epoll,
        }
    }
}
