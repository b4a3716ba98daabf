//! Flags of `import`, which converts another target's configuration to a target.toml.

use std::ffi::OsStr;
use std::path::PathBuf;

use clap::builder::{EnumValueParser, PossibleValue, TypedValueParser};
use clap::error::ErrorKind;
use clap::{Arg, ArgGroup, Args, Command, Subcommand, ValueEnum};

use super::OutputFormat;

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  selvedge import nvmet /etc/nvmet/config.json --output target.toml
  selvedge import ceph-nvmeof --pool rbd --group g1 --gateway node-a --output target.toml")]
pub(crate) struct ImportFlags {
    #[command(subcommand)]
    pub(crate) source: ImportSource,
}

/// Parser of the output format. In earlier versions, `-o` named the file; its error tells how to
/// write that now.
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
    /// Convert the configuration of the Linux kernel's target, as nvmetcli saves it
    #[command(after_help = "Unsupported settings are listed on stderr, and nothing is imported unless
--partial is given.

Example:
  selvedge import nvmet /etc/nvmet/config.json --output target.toml")]
    Nvmet {
        /// File that nvmetcli saved
        file: PathBuf,
        #[command(flatten)]
        result: ImportResultFlags,
    },
    /// Convert the state of a group of Ceph's NVMe-oF gateways (ceph-nvmeof), as stored in the
    /// cluster
    #[command(after_help = "Unsupported settings are listed on stderr by their keys, and nothing is
imported unless --partial is given.

Examples:
  selvedge import ceph-nvmeof --pool rbd --group g1 --gateway node-a --output target.toml
  selvedge import ceph-nvmeof state.txt --gateway node-a --encryption-key encryption.key \\
      --secret-dir /etc/selvedge/secrets --output target.toml")]
    CephNvmeof(CephNvmeofFlags),
}

/// Group of gateways, and data that its state does not have.
#[derive(Debug, Args)]
#[command(group = ArgGroup::new("source").required(true).args(["file", "pool"]))]
pub(crate) struct CephNvmeofFlags {
    /// File with the state: output of `rados listomapvals`, or JSON of keys and values
    pub(crate) file: Option<PathBuf>,
    /// Pool of a cluster to read the state from
    #[arg(long, value_name = "POOL")]
    pub(crate) pool: Option<String>,
    /// Name of the group [default: the one without a name]
    #[arg(long, value_name = "GROUP", requires = "pool")]
    pub(crate) group: Option<String>,
    /// Configuration file of the cluster, also for the images [default: /etc/ceph/ceph.conf]
    #[arg(long, value_name = "FILE")]
    pub(crate) ceph_conf: Option<PathBuf>,
    /// User of the cluster, also for the images, without `client.` [default: admin]
    #[arg(long, value_name = "NAME")]
    pub(crate) id: Option<String>,
    /// Host name of the gateway to replace, as in its listeners
    #[arg(long, value_name = "NAME")]
    pub(crate) gateway: Option<String>,
    /// File with the gateways' encryption key, for encrypted secrets
    #[arg(long, value_name = "FILE")]
    pub(crate) encryption_key: Option<PathBuf>,
    /// Directory for files with secrets and TLS keys
    #[arg(long, value_name = "DIR")]
    pub(crate) secret_dir: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) result: ImportResultFlags,
}

/// Output of an import.
#[derive(Debug, Args)]
pub(crate) struct ImportResultFlags {
    /// Import supported settings, and skip the others
    #[arg(long)]
    pub(crate) partial: bool,
    /// File for the target.toml [default: stdout]
    #[arg(long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    /// Overwrite existing files
    #[arg(long, requires = "output")]
    pub(crate) force: bool,
    /// Format of the results
    #[arg(short = 'o', long, value_name = "FORMAT", default_value = "normal", help_heading = "Output")]
    #[arg(value_parser = FormatNotFile)]
    pub(crate) output_format: OutputFormat,
}
