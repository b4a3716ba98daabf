//! Options of a connection by their names in nvme-cli, as text: the namespace, its target's addresses, this host's identity,
//! secrets and keys. Files are read when a volume or queue is opened.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use authentication::Secret;
use engine::address::{HostAddress, InterfaceName, PORT_DEFAULT};
use engine::initiator::{ConnectOptions, HostIdentity, HostSecrets, PathOptions, TlsKeys, VolumeOptions};
use engine::limits::{IO_QUEUES_MAX, PATHS_MAX, QUEUE_ENTRIES_MAX};
use engine::secret_file::{self, SecretKind};
use engine::target::parse_uuid;
use nvme::discovery::Nqn;
use secure_channel::ConfiguredPsk;

use crate::failure::Failure;
use crate::limits::{OPTION_BYTES_MAX, QUEUE_ENTRIES};

/// Options as they were set, each checked by itself.
#[derive(Clone, Debug)]
pub(crate) struct Options {
    addresses: Vec<HostAddress>,
    port: u16,
    subsystem_nqn: Option<String>,
    nsid: u32,
    host_nqn: Option<String>,
    host_id: Option<[u8; 16]>,
    host_iface: Option<String>,
    secret_file: Option<PathBuf>,
    controller_secret_file: Option<PathBuf>,
    tls_key_file: Option<PathBuf>,
    concat: bool,
    io_queues: u16,
    queue_entries: Option<u16>,
    keep_alive_ms: Option<u32>,
    /// `None` where it is not set; `Some(None)` for never.
    controller_loss: Option<Option<Duration>>,
    header_digest: bool,
    data_digest: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            addresses: Vec::new(),
            port: PORT_DEFAULT,
            subsystem_nqn: None,
            nsid: 1,
            host_nqn: None,
            host_id: None,
            host_iface: None,
            secret_file: None,
            controller_secret_file: None,
            tls_key_file: None,
            concat: false,
            io_queues: 1,
            queue_entries: None,
            keep_alive_ms: None,
            controller_loss: None,
            header_digest: false,
            data_digest: false,
        }
    }
}

impl Options {
    /// Sets one option. A name may have `-` for `_`.
    ///
    /// # Errors
    /// When there is no such option, or the value is not one of its.
    pub(crate) fn set(&mut self, name: &str, value: &str) -> Result<(), Failure> {
        let plain = name.replace('-', "_");
        if value.len() > OPTION_BYTES_MAX {
            return Err(Failure::misuse(format!("{plain}: more than {OPTION_BYTES_MAX} bytes")));
        }
        match self.set_plain(&plain, value) {
            Ok(true) => Ok(()),
            Ok(false) => Err(Failure::new(libc::ENOENT, format!("there is no option `{name}`"))),
            Err(reason) => Err(Failure::misuse(format!("{plain}: {reason}"))),
        }
    }

    fn set_plain(&mut self, name: &str, value: &str) -> Result<bool, String> {
        match name {
            "traddr" => self.addresses = addresses(value)?,
            "trsvcid" => self.port = number(value, 1, u16::MAX)?,
            "subnqn" => self.subsystem_nqn = Some(nqn(value)?),
            "nsid" => self.nsid = number(value, 1, u32::MAX - 1)?,
            "hostnqn" => self.host_nqn = Some(nqn(value)?),
            "hostid" => {
                let id = parse_uuid(value).map_err(|error| error.to_string())?;
                self.host_id = Some(id.into_bytes());
            }
            "host_iface" => {
                let name = InterfaceName::new(value).map_err(|error| error.to_string())?;
                self.host_iface = Some(name.as_str().to_owned());
            }
            "dhchap_secret_file" => self.secret_file = Some(value.into()),
            "dhchap_ctrl_secret_file" => self.controller_secret_file = Some(value.into()),
            "tls_key_file" => self.tls_key_file = Some(value.into()),
            "concat" => self.concat = switch(value)?,
            "io_queues" => self.io_queues = number(value, 1, IO_QUEUES_MAX)?,
            "queue_size" => self.queue_entries = Some(number(value, 2, QUEUE_ENTRIES_MAX)?),
            "keep_alive_tmo" => self.keep_alive_ms = Some(number(value, 0, u32::MAX / 1000)? * 1000),
            "ctrl_loss_tmo" => {
                let seconds = number(value, -1, i64::from(u32::MAX))?;
                self.controller_loss = Some(u64::try_from(seconds).ok().map(Duration::from_secs));
            }
            "hdr_digest" => self.header_digest = switch(value)?,
            "data_digest" => self.data_digest = switch(value)?,
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// Options of a volume, whose threads are the I/O queues.
    ///
    /// # Errors
    /// When an option is missing, or a name or file cannot be read.
    pub(crate) fn volume(&self) -> Result<VolumeOptions, Failure> {
        let paths = self.paths(self.queue_entries.unwrap_or(QUEUE_ENTRIES))?;
        Ok(VolumeOptions::from(paths).with_threads(self.io_queues))
    }

    /// Options of the paths of one queue with this number of requests outstanding, which is to fit into its connections.
    ///
    /// # Errors
    /// As `volume`.
    pub(crate) fn queue(&self, depth: u32) -> Result<PathOptions, Failure> {
        // One entry of a queue stays free.
        let share = depth.div_ceil(self.io_queues.into()).saturating_add(1);
        let fitting = share.clamp(QUEUE_ENTRIES.into(), QUEUE_ENTRIES_MAX.into()) as u16;
        self.paths(self.queue_entries.unwrap_or(fitting))
    }

    fn paths(&self, queue_entries: u16) -> Result<PathOptions, Failure> {
        let subsystem = self.subsystem_nqn.as_deref().ok_or_else(|| Failure::misuse("subnqn is not set"))?;
        if self.addresses.is_empty() {
            return Err(Failure::misuse("traddr is not set"));
        }
        if self.controller_secret_file.is_some() && self.secret_file.is_none() {
            return Err(Failure::misuse("dhchap_ctrl_secret_file needs dhchap_secret_file"));
        }
        if self.concat && (self.secret_file.is_none() || self.tls_key_file.is_some()) {
            return Err(Failure::misuse("concat needs dhchap_secret_file, and no tls_key_file"));
        }
        let (secrets, tls) = (self.secrets()?, self.tls_keys()?);
        let mut host =
            self.host_nqn.as_ref().map_or_else(HostIdentity::of_this_machine, HostIdentity::from_nqn);
        host.id = self.host_id.unwrap_or(host.id);
        let mut paths = Vec::with_capacity(self.addresses.len());
        for address in &self.addresses {
            let mut path = ConnectOptions::new(self.look_up(address)?, subsystem);
            path.host = host.clone();
            path.secrets.clone_from(&secrets);
            path.tls.clone_from(&tls);
            path.concat = self.concat;
            path.host_iface.clone_from(&self.host_iface);
            path.io_queues = self.io_queues;
            path.queue_entries = queue_entries;
            path.keep_alive_ms = self.keep_alive_ms.unwrap_or(path.keep_alive_ms);
            path.digests.header = self.header_digest;
            path.digests.data = self.data_digest;
            paths.push(path);
        }
        let mut options = PathOptions::new(paths, self.nsid);
        options.controller_loss = self.controller_loss.unwrap_or(options.controller_loss);
        Ok(options)
    }

    fn look_up(&self, address: &HostAddress) -> Result<SocketAddr, Failure> {
        let interface = self.host_iface.as_deref().map(InterfaceName::new).transpose();
        let interface = interface.map_err(|reason| Failure::misuse(format!("host_iface: {reason}")))?;
        let not_found = |reason: String| Failure::new(libc::EHOSTUNREACH, format!("traddr: {reason}"));
        let found = address.clone().on(interface).remote(self.port);
        let found = found.map_err(|error| not_found(error.to_string()))?;
        found.first().copied().ok_or_else(|| not_found("the name has no address".to_owned()))
    }

    fn secrets(&self) -> Result<Option<Arc<HostSecrets>>, Failure> {
        let Some(file) = &self.secret_file else { return Ok(None) };
        let secret = read_all::<Secret>(file, "dhchap_secret_file")?.swap_remove(0);
        let controller_secret = match &self.controller_secret_file {
            Some(file) => Some(read_all::<Secret>(file, "dhchap_ctrl_secret_file")?.swap_remove(0)),
            None => None,
        };
        Ok(Some(Arc::new(HostSecrets { secret, controller_secret, reauth_interval: None })))
    }

    fn tls_keys(&self) -> Result<Option<Arc<TlsKeys>>, Failure> {
        let Some(file) = &self.tls_key_file else { return Ok(None) };
        let keys = read_all::<ConfiguredPsk>(file, "tls_key_file")?;
        Ok(Some(Arc::new(TlsKeys::new(keys))))
    }
}

/// The secrets of a file, of which there is at least one.
fn read_all<T: SecretKind>(file: &Path, option: &str) -> Result<Vec<T>, Failure> {
    secret_file::read(file).map_err(|error| {
        let errno = if error.is_forbidden() { libc::EACCES } else { libc::EINVAL };
        Failure::new(errno, format!("{option}: {error}"))
    })
}

fn addresses(value: &str) -> Result<Vec<HostAddress>, String> {
    let parse = |one: &str| one.trim().parse::<HostAddress>().map_err(|error| error.to_string());
    let addresses = value.split(',').map(parse);
    let addresses = addresses.collect::<Result<Vec<HostAddress>, String>>()?;
    match addresses.len() {
        count if count > PATHS_MAX => Err(format!("{count} addresses, and {PATHS_MAX} are the most")),
        _ => Ok(addresses),
    }
}

fn nqn(value: &str) -> Result<String, String> {
    Nqn::new(value).map(|_| value.to_owned()).map_err(|error| error.to_string())
}

fn number<T>(value: &str, least: T, most: T) -> Result<T, String>
where
    T: Copy + FromStr + PartialOrd + std::fmt::Display,
{
    let parsed = value.parse().ok().filter(|number| (&least..=&most).contains(&number));
    parsed.ok_or_else(|| format!("`{value}` is not a number from {least} to {most}"))
}

fn switch(value: &str) -> Result<bool, String> {
    match value {
        "1" | "true" | "yes" | "on" => Ok(true),
        "0" | "false" | "no" | "off" => Ok(false),
        _ => Err(format!("`{value}` is neither 1 nor 0")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(set: &[(&str, &str)]) -> Options {
        let mut options = Options::default();
        for (name, value) in set {
            options.set(name, value).unwrap();
        }
        options
    }

    const TARGET: [(&str, &str); 2] =
        [("traddr", "127.0.0.1, 127.0.0.2:4421"), ("subnqn", "nqn.2014-08.org.example:disk")];

    #[test]
    fn each_address_is_a_path_with_the_same_options() {
        let mut options = options(&TARGET);
        for (name, value) in [
            ("trsvcid", "4425"),
            ("nsid", "7"),
            ("hostnqn", "nqn.2014-08.org.example:host"),
            ("io-queues", "2"),
            ("keep_alive_tmo", "3"),
            ("ctrl_loss_tmo", "-1"),
            ("data_digest", "1"),
        ] {
            options.set(name, value).unwrap();
        }
        let paths = options.queue(64).unwrap();
        let addresses: Vec<String> = paths.paths.iter().map(|path| path.address.to_string()).collect();
        assert_eq!(addresses, ["127.0.0.1:4425", "127.0.0.2:4421"]);
        assert_eq!((paths.nsid, paths.controller_loss), (7, None));
        for path in &paths.paths {
            assert_eq!(path.host, HostIdentity::from_nqn("nqn.2014-08.org.example:host"));
            assert_eq!((path.io_queues, path.queue_entries, path.keep_alive_ms), (2, 128, 3000));
            assert_eq!((path.digests.header, path.digests.data), (false, true));
        }
        assert_eq!(options.volume().unwrap().threads, 2);
    }

    #[test]
    fn a_deep_queue_asks_for_entries_that_it_fits_into() {
        let mut options = options(&TARGET);
        let mut entries = |queues: &str, depth| {
            options.set("io_queues", queues).unwrap();
            options.queue(depth).unwrap().paths[0].queue_entries
        };
        assert_eq!(entries("1", 1), 128);
        assert_eq!(entries("1", 128), 129);
        assert_eq!(entries("4", 1000), 251);
        assert_eq!(entries("1", u32::MAX), QUEUE_ENTRIES_MAX);
        options.set("queue_size", "16").unwrap();
        assert_eq!(options.queue(512).unwrap().paths[0].queue_entries, 16);
    }

    #[test]
    fn values_that_are_not_an_options_are_refused() {
        for (name, value) in [
            ("traddr", ""),
            ("traddr", "127.0.0.1,"),
            ("trsvcid", "0"),
            ("trsvcid", "65536"),
            ("subnqn", ""),
            ("nsid", "4294967295"),
            ("hostid", "7"),
            ("io_queues", "0"),
            ("io_queues", "129"),
            ("queue_size", "1"),
            ("keep_alive_tmo", "-1"),
            ("ctrl_loss_tmo", "-2"),
            ("concat", "maybe"),
        ] {
            let failure = Options::default().set(name, value).unwrap_err();
            assert_eq!(failure.errno, libc::EINVAL, "{name}={value}");
            assert!(failure.text.starts_with(&format!("{name}: ")), "{}", failure.text);
        }
        assert_eq!(Options::default().set("tradr", "127.0.0.1").unwrap_err().errno, libc::ENOENT);
        let long = "1,".repeat(OPTION_BYTES_MAX);
        assert!(Options::default().set("traddr", &long).unwrap_err().text.contains("bytes"));
    }

    #[test]
    fn what_is_missing_or_contradicts_is_named() {
        let named = |options: &Options, name: &str| {
            let failure = options.queue(1).unwrap_err();
            assert_eq!(failure.errno, libc::EINVAL);
            assert!(failure.text.contains(name), "{}", failure.text);
        };
        named(&Options::default(), "subnqn");
        named(&options(&TARGET[1..]), "traddr");
        let mut contradicting = options(&TARGET);
        contradicting.set("dhchap_ctrl_secret_file", "/nonexistent").unwrap();
        named(&contradicting, "dhchap_secret_file");
        let mut contradicting = options(&TARGET);
        contradicting.set("concat", "1").unwrap();
        named(&contradicting, "dhchap_secret_file");
        let mut unreadable = options(&TARGET);
        unreadable.set("tls_key_file", "/nonexistent").unwrap();
        named(&unreadable, "/nonexistent");
    }
}
