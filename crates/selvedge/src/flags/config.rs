//! The flags of `config` and `import`, which deal with whole configurations.

use std::ffi::OsStr;
use std::path::PathBuf;

use clap::builder::{EnumValueParser, PossibleValue, TypedValueParser};
use clap::error::ErrorKind;
use clap::{Arg, Args, Command, Subcommand, ValueEnum};

use super::control::ControlFlags;
use super::{OutputFlags, OutputFormat};

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  selvedge config check target.toml
  selvedge config diff target.toml
  selvedge config dump > target.toml")]
pub(crate) struct ConfigFlags {
    #[command(subcommand)]
    pub(crate) action: ConfigAction,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ConfigAction {
    /// Check a target.toml without serving it
    #[command(after_help = "Example:
  selvedge config check target.toml")]
    Check {
        /// The file
        file: PathBuf,
        #[command(flatten)]
        output: OutputFlags,
    },
    /// Say what a running target would change to serve a target.toml
    #[command(after_help = "Exit status: 0 if nothing is different, 3 if something is.

Example:
  selvedge config diff target.toml")]
    Diff {
        /// The file
        file: PathBuf,
        /// Let namespaces become smaller
        #[arg(long)]
        shrink: bool,
        #[command(flatten)]
        control: ControlFlags,
    },
    /// Let a running target serve a target.toml and nothing else
    #[command(after_help = "Hosts whose subsystem and port are still there stay connected.

Example:
  selvedge config apply target.toml")]
    Apply {
        /// The file
        file: PathBuf,
        /// Let namespaces become smaller; what is beyond their new end is lost
        #[arg(long)]
        shrink: bool,
        #[command(flatten)]
        control: ControlFlags,
    },
    /// Print what a running target serves
    #[command(after_help = "Example:
  selvedge config dump --format toml > target.toml")]
    Dump {
        /// The format
        #[arg(long, value_name = "FORMAT", default_value = "toml")]
        format: DumpFormat,
        #[command(flatten)]
        control: ControlFlags,
    },
}

/// How a configuration is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum DumpFormat {
    /// As `selvedge serve -c` reads it
    Toml,
    /// As the control API has it
    Json,
}

#[derive(Debug, Args)]
#[command(after_help = "Example:
  selvedge import nvmet /etc/nvmet/config.json --output target.toml")]
pub(crate) struct ImportFlags {
    #[command(subcommand)]
    pub(crate) source: ImportSource,
}

/// The format. In earlier versions `-o` named the file, and whoever still writes that learns what to write.
#[derive(Clone, Copy, Debug)]
struct FormatNotFile;

impl TypedValueParser for FormatNotFile {
    type Value = OutputFormat;

    fn parse_ref(
        &self,
        command: &Command,
        argument: Option<&Arg>,
        value: &OsStr,
    ) -> Result<OutputFormat, clap::Error> {
        let format = EnumValueParser::<OutputFormat>::new().parse_ref(command, argument, value);
        format.map_err(|_| {
            let value = value.to_string_lossy();
            let text = format!("-o takes normal or json; to name a file, write --output {value}\n");
            clap::Error::raw(ErrorKind::InvalidValue, text).with_cmd(command)
        })
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        Some(Box::new(OutputFormat::value_variants().iter().filter_map(ValueEnum::to_possible_value)))
    }
}

#[derive(Debug, Subcommand)]
pub(crate) enum ImportSource {
    /// The Linux kernel's target, as nvmetcli saves it
    #[command(after_help = "What cannot be taken over is named on stderr, and then nothing is imported
unless --partial says that the rest is wanted.

Example:
  selvedge import nvmet /etc/nvmet/config.json --output target.toml")]
    Nvmet {
        /// The saved file
        file: PathBuf,
        /// Take over what can be, and leave the rest
        #[arg(long)]
        partial: bool,
        /// Where to write the target.toml [default: stdout]
        #[arg(long, value_name = "FILE")]
        output: Option<PathBuf>,
        /// Replace the target.toml if it is there already
        #[arg(long, requires = "output")]
        force: bool,
        /// How to print the results
        #[arg(short = 'o', long, value_name = "FORMAT", default_value = "normal", help_heading = "Output")]
        #[arg(value_parser = FormatNotFile)]
        output_format: OutputFormat,
    },
}
