//! The device by which the kernel is asked for a controller: it is written to, and read for the controller's number. Read before,
//! it lists the options that this kernel knows (since Linux 5.17).

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, ErrorKind, Read as _, Write as _};
use std::path::Path;

use super::fabrics_options::FabricsOptions;
use super::kernel_log::KernelLog;
use crate::failure::Failure;

/// Path of the device file, once the module is loaded.
const PLACE: &str = "/dev/nvme-fabrics";
/// Maximum length of an answer, which is a line; the list of options has some hundreds of bytes.
const ANSWER_BYTES_MAX: u64 = 64 << 10;

/// The device, and what this kernel knows.
#[derive(Debug)]
pub struct FabricsDevice {
    /// Names of options; absent where the kernel does not list them.
    known: Option<BTreeSet<String>>,
}

/// Why there is no new controller.
#[derive(Debug)]
pub enum Refusal {
    /// There is one with these names and addresses.
    AlreadyConnected,
    /// The kernel's answer, and what it logged.
    Refused(io::Error, Vec<String>),
    /// The answer is not a controller number.
    NotUnderstood(String),
}

impl FabricsDevice {
    /// Opens it, and asks what this kernel knows.
    ///
    /// # Errors
    /// When the module is not loaded, or this user may not connect, with what to do.
    pub fn look() -> Result<Self, Failure> {
        Self::look_at(Path::new(PLACE))
    }

    fn look_at(path: &Path) -> Result<Self, Failure> {
        let mut text = String::new();
        // Listing is not there in old kernels, which answer EINVAL.
        let listed =
            open(path).map_err(|error| cannot_open(&error))?.take(ANSWER_BYTES_MAX).read_to_string(&mut text);
        Ok(Self { known: listed.ok().and_then(|_| known_options(&text)) })
    }

    /// Returns the options that this kernel does not know.
    pub fn unknown(&self, options: &FabricsOptions) -> Vec<&'static str> {
        let Some(known) = &self.known else { return Vec::new() };
        options.names().filter(|name| !known.contains(*name)).collect()
    }

    /// True if this kernel is known to have an option.
    pub fn has(&self, option: &str) -> bool {
        self.known.as_ref().is_some_and(|known| known.contains(option))
    }

    /// Creates a controller, and returns its number. Waits until it is connected, or has failed.
    ///
    /// # Errors
    /// Why there is none.
    pub fn connect(&self, options: &FabricsOptions) -> Result<u32, Refusal> {
        let log = KernelLog::from_now_on();
        match ask(options) {
            Ok(answer) => instance(&answer).ok_or(Refusal::NotUnderstood(answer)),
            Err(error) if error.raw_os_error() == Some(libc::EALREADY) => Err(Refusal::AlreadyConnected),
            Err(error) => Err(Refusal::Refused(error, log.problems())),
        }
    }
}

/// Writes the options, and reads the answer, by one opening of the device.
fn ask(options: &FabricsOptions) -> io::Result<String> {
    let mut device = open(Path::new(PLACE))?;
    // The kernel takes all of it in one call, or nothing.
    let text = options.reveal();
    if device.write(text.as_bytes())? != text.len() {
        return Err(io::Error::from(ErrorKind::WriteZero));
    }
    let mut answer = String::new();
    device.take(ANSWER_BYTES_MAX).read_to_string(&mut answer)?;
    Ok(answer)
}

fn open(path: &Path) -> io::Result<File> {
    File::options().read(true).write(true).open(path)
}

fn cannot_open(error: &io::Error) -> Failure {
    let what = match error.kind() {
        ErrorKind::NotFound => format!(
            "the kernel's NVMe/TCP initiator is not loaded: `modprobe nvme-tcp`, as root, loads it (there is no {PLACE})"
        ),
        ErrorKind::PermissionDenied => {
            format!("to connect the kernel's initiator is root's ({PLACE}: {error})")
        }
        _ => format!("{PLACE} cannot be opened: {error}"),
    };
    Failure::failed(what)
}

/// The names of a list such as `instance=-1,cntlid=-1,transport=%s,tls`.
fn known_options(text: &str) -> Option<BTreeSet<String>> {
    let names = text.trim().split(',').map(|option| option.split('=').next().unwrap_or_default().trim());
    let names: BTreeSet<String> = names.filter(|name| !name.is_empty()).map(str::to_owned).collect();
    // A kernel that lists any lists this one.
    names.contains("transport").then_some(names)
}

/// The number in an answer such as `instance=0,cntlid=1`.
fn instance(text: &str) -> Option<u32> {
    text.trim().split(',').find_map(|pair| pair.strip_prefix("instance=")?.parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// List of options of Linux 6.12, shortened.
    const LISTED: &str = "instance=-1,cntlid=-1,transport=%s,traddr=%s,queue_size=%d,duplicate_connect,tls\n";

    #[test]
    fn a_kernel_lists_its_options() {
        let device = FabricsDevice { known: known_options(LISTED) };
        assert!(device.has("tls") && !device.has("concat"));
        let mut options = FabricsOptions::default();
        options.set("transport", Some("tcp")).unwrap();
        options.set("tos", Some(8)).unwrap();
        options.flag("concat", true);
        assert_eq!(device.unknown(&options), ["tos", "concat"]);
        let old = FabricsDevice { known: known_options("") };
        assert!(old.unknown(&options).is_empty() && !old.has("tls"));
    }

    #[test]
    fn an_answer_has_the_number() {
        assert_eq!(instance("instance=12,cntlid=1\n"), Some(12));
        for other in ["", "instance=-1,cntlid=-1,transport=%s", "cntlid=1"] {
            assert_eq!(instance(other), None, "{other}");
        }
    }

    #[test]
    fn a_missing_device_says_what_to_load() {
        let folder = tempfile::tempdir().unwrap();
        let line = FabricsDevice::look_at(&folder.path().join("nvme-fabrics")).unwrap_err().line().unwrap();
        assert!(line.contains("modprobe nvme-tcp"), "{line}");
        let forbidden = cannot_open(&io::Error::from(ErrorKind::PermissionDenied)).line().unwrap();
        assert!(forbidden.contains("root"), "{forbidden}");
    }
}
