//! The flags of `import`, which makes a target.toml of what another target has.

use std::ffi::OsStr;
use std::path::PathBuf;

use clap::builder::{EnumValueParser, PossibleValue, TypedValueParser};
use clap::error::ErrorKind;
use clap::{Arg, Args, Command, Subcommand, ValueEnum};

use super::OutputFormat;

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  selvedge import nvmet /etc/nvmet/config.json --output target.toml
  selvedge import ceph-nvmeof --pool rbd --group g1 --gateway node-a --output target.toml")]
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
        #[command(flatten)]
        result: ImportResultFlags,
    },
    /// A group of Ceph's own NVMe-oF gateways (ceph-nvmeof), as one of them keeps it in the cluster
    #[command(after_help = "What cannot be taken over is named on stderr by its key, and then nothing is
imported unless --partial says that the rest is wanted.

Examples:
  selvedge import ceph-nvmeof --pool rbd --group g1 --gateway node-a --output target.toml
  selvedge import ceph-nvmeof state.txt --gateway node-a --encryption-key encryption.key \\
      --secret-dir /etc/selvedge/secrets --output target.toml")]
    CephNvmeof(CephNvmeofFlags),
}

/// Which group, and what its state does not tell.
#[derive(Debug, Args)]
pub(crate) struct CephNvmeofFlags {
    /// The saved state: what `rados listomapvals` prints, or JSON of its keys and values
    #[arg(required_unless_present = "pool", conflicts_with = "pool")]
    pub(crate) file: Option<PathBuf>,
    /// Read the state from this pool of a cluster
    #[arg(long, value_name = "POOL")]
    pub(crate) pool: Option<String>,
    /// The group [default: the one without a name]
    #[arg(long, value_name = "GROUP", requires = "pool")]
    pub(crate) group: Option<String>,
    /// The cluster's configuration, also for the images [default: /etc/ceph/ceph.conf]
    #[arg(long, value_name = "FILE")]
    pub(crate) ceph_conf: Option<PathBuf>,
    /// The Ceph user, also for the images, without `client.` [default: admin]
    #[arg(long, value_name = "NAME")]
    pub(crate) id: Option<String>,
    /// Take the place of this gateway, by the host name in its listeners
    #[arg(long, value_name = "NAME")]
    pub(crate) gateway: Option<String>,
    /// The gateways' encryption key, where their secrets are encrypted
    #[arg(long, value_name = "FILE")]
    pub(crate) encryption_key: Option<PathBuf>,
    /// Write secrets and TLS keys into files here
    #[arg(long, value_name = "DIR")]
    pub(crate) secret_dir: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) result: ImportResultFlags,
}

/// What becomes of what was read.
#[derive(Debug, Args)]
pub(crate) struct ImportResultFlags {
    /// Take over what can be, and leave the rest
    #[arg(long)]
    pub(crate) partial: bool,
    /// Where to write the target.toml [default: stdout]
    #[arg(long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    /// Replace files that are there already
    #[arg(long, requires = "output")]
    pub(crate) force: bool,
    /// How to print the results
    #[arg(short = 'o', long, value_name = "FORMAT", default_value = "normal", help_heading = "Output")]
    #[arg(value_parser = FormatNotFile)]
    pub(crate) output_format: OutputFormat,
}
