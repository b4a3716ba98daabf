//! What all pairings are made with: the programs, the processors of both ends, the file that some targets serve. It keeps
//! out what is started with them.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use super::content::Content;
use super::spdk::Spdk;
use crate::program::{Program, is_installed};

/// Size of the namespace, in MiB.
pub(crate) const NAMESPACE_MIB: u32 = 256;
/// Programs that pairings are made of, with the Debian packages that have them.
const PROGRAMS: [(&str, &str); 6] = [
    ("taskset", "util-linux"),
    ("qemu-nbd", "qemu-utils"),
    ("fio", "fio"),
    ("tgtd", "tgt"),
    ("iscsi-perf", "libiscsi-bin"),
    ("qemu-img", "qemu-utils"),
];

/// The means of a measurement.
pub(crate) struct Means {
    pub(crate) selvedge: PathBuf,
    /// Congestion control of our ends, where it is not the system's.
    pub(crate) congestion: Option<String>,
    pub(crate) spdk: Option<Spdk>,
    pub(crate) bare: Option<PathBuf>,
    pub(crate) content: Option<Content>,
    pub(crate) target_cpu: usize,
    pub(crate) host_cpu: usize,
}

impl Means {
    /// Words that run `words` on one processor.
    pub(crate) fn on(cpu: usize, words: &[String]) -> Vec<String> {
        let mut all: Vec<String> = ["taskset", "-c"].map(str::to_owned).to_vec();
        all.push(cpu.to_string());
        all.extend_from_slice(words);
        all
    }

    /// A command as it is kept: where programs and files are is this machine's own matter.
    pub(crate) fn named(&self, words: &[String]) -> Vec<String> {
        let mut places: Vec<(String, &str)> = vec![(self.selvedge.display().to_string(), "selvedge")];
        places.extend(self.spdk.as_ref().map(|spdk| (spdk.directory().display().to_string(), "SPDK")));
        places.extend(self.spdk.as_ref().map(|spdk| (spdk.scratch().display().to_string(), "SCRATCH")));
        places.extend(self.bare.as_ref().map(|path| (path.display().to_string(), "roofline")));
        places.extend(self.content.as_ref().map(|content| (content.path().display().to_string(), "FILE")));
        let kept = |word: &String| {
            places.iter().fold(word.clone(), |word, (place, name)| word.replace(place.as_str(), name))
        };
        words.iter().map(kept).collect()
    }

    /// The words that give one of our ends its congestion control.
    pub(crate) fn congestion(&self) -> Vec<&str> {
        self.congestion.as_deref().map_or_else(Vec::new, |name| vec!["--congestion", name])
    }

    pub(crate) fn selvedge(&self) -> String {
        self.selvedge.display().to_string()
    }

    pub(crate) fn spdk(&self) -> Result<&Spdk, String> {
        self.spdk.as_ref().ok_or_else(|| "there is no SPDK".to_owned())
    }

    /// The file that targets without memory of their own serve.
    pub(crate) fn file(&self) -> Result<String, String> {
        let content = self.content.as_ref().ok_or("there is no file to serve")?;
        Ok(content.path().display().to_string())
    }
}

/// Names of missing programs with their packages, as a reason, or None.
pub(crate) fn missing(names: &[&str]) -> Option<String> {
    let missing = names.iter().filter(|name| !is_installed(name));
    let named = missing.map(|name| {
        let package =
            PROGRAMS.iter().find(|(program, _)| program == name).map_or(*name, |(_, package)| package);
        format!("{name} (Debian's {package})")
    });
    let named: Vec<String> = named.collect();
    (!named.is_empty()).then(|| format!("not installed: {}", named.join(", ")))
}

/// True if qemu-img can be an iSCSI host, which distributions ship as a module of its own.
pub(crate) fn has_iscsi_driver() -> bool {
    // This port has no listener. The message about the driver comes before that.
    let options =
        "driver=raw,file.driver=iscsi,file.transport=tcp,file.portal=127.0.0.1:1,file.target=none,file.lun=0";
    let words = ["qemu-img", "info", "--image-opts", options].map(str::to_owned);
    let Ok(mut program) = Program::start(&words) else { return false };
    let ended = program.finished(Instant::now() + Duration::from_secs(10));
    matches!(ended, Ok(Some(_))) && !program.errors().contains("Unknown driver")
}

/// True if this process runs as root.
pub(crate) fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_names_no_place() {
        let means = Means {
            selvedge: PathBuf::from("/opt/selvedge"),
            congestion: None,
            spdk: None,
            bare: Some(PathBuf::from("/build/deps/roofline-123")),
            content: None,
            target_cpu: 0,
            host_cpu: 1,
        };
        let words = Means::on(1, &["/opt/selvedge", "bench"].map(str::to_owned));
        assert_eq!(means.named(&words).join(" "), "taskset -c 1 selvedge bench");
        let bare = ["/build/deps/roofline-123", "--bare"].map(str::to_owned);
        assert_eq!(means.named(&bare).join(" "), "roofline --bare");
        assert!(means.spdk().is_err() && means.file().is_err());
    }

    #[test]
    fn missing_programs_are_named_with_their_packages() {
        assert_eq!(missing(&["sh"]), None);
        let reason = missing(&["sh", "selvedge-no-such-program"]).unwrap();
        assert_eq!(reason, "not installed: selvedge-no-such-program (Debian's selvedge-no-such-program)");
    }
}
