//! tcpdump beside a workload: everything that goes to a port of the loopback and back, with nanoseconds. It keeps out
//! what is in the packets.

use std::fs::File;
use std::path::Path;
use std::time::{Duration, Instant};

use crate::peers::MEMORY;
use crate::program::Program;

const START_TIMEOUT: Duration = Duration::from_secs(10);
const LOOK: Duration = Duration::from_millis(20);
/// Time for which its file keeps its name.
const NAMED: Duration = Duration::from_millis(500);
/// A file that has not grown for this time contains everything that was captured: the kernel hands packets over when a
/// block of them is full, or after a second.
const QUIET: Duration = Duration::from_millis(1500);
const QUIET_TIMEOUT: Duration = Duration::from_secs(60);
/// KiB that the kernel keeps until tcpdump comes to take them: all of a run, so that nothing is dropped.
const KERNEL_KIB: &str = "262144";

/// A capture that goes on. Dropping it ends it.
pub(crate) struct Capture {
    program: Program,
    /// File whose name is already removed.
    file: File,
}

impl Capture {
    /// Starts to capture, and returns once no packet can be missed.
    ///
    /// # Errors
    /// tcpdump does not start to capture, which takes root.
    pub(crate) fn start(port: u16) -> Result<Capture, String> {
        // Where tcpdump is confined, it may write what is named so.
        let path = format!("{MEMORY}/selvedge-{}-{port}.pcap", std::process::id());
        let (path, filter) = (Path::new(&path), format!("tcp port {port}"));
        let words = [
            // As another user than the one who started it, it would outlive us.
            &["tcpdump", "-Z", "root", "-i", "lo", "-n", "-B", KERNEL_KIB, "--time-stamp-precision=nano"][..],
            &["-w", &path.display().to_string(), &filter],
        ];
        let words: Vec<String> = words.concat().iter().map(|&word| word.to_owned()).collect();
        let mut program = Program::start(&words)?;
        let deadline = Instant::now() + START_TIMEOUT;
        // It makes its file when everything else is ready.
        let file = loop {
            if let Ok(file) = File::open(path) {
                break file;
            }
            if Instant::now() >= deadline || program.ended(Instant::now() + LOOK)?.is_some() {
                return Err(format!("tcpdump does not capture: {}", program.errors()));
            }
        };
        // It gives the file to its user right after it has made it, for which the file needs its name.
        std::thread::sleep(NAMED);
        std::fs::remove_file(path).map_err(|error| format!("{}: {error}", path.display()))?;
        Ok(Capture { program, file })
    }

    /// Ends it and gives its file, and how many packets the kernel had no room for.
    ///
    /// # Errors
    /// The file cannot be read, or tcpdump does not say how it went.
    pub(crate) fn stop(mut self) -> Result<(File, u64), String> {
        let failed = |error: std::io::Error| format!("tcpdump's file: {error}");
        let deadline = Instant::now() + QUIET_TIMEOUT;
        let mut length = 0;
        loop {
            std::thread::sleep(QUIET);
            let now = self.file.metadata().map_err(failed)?.len();
            if now == length || Instant::now() >= deadline {
                break;
            }
            length = now;
        }
        let errors = self.program.errors();
        let dropped = dropped(&errors).ok_or_else(|| format!("tcpdump says nothing of its end: {errors}"))?;
        Ok((self.file, dropped))
    }
}

/// Number of dropped packets, which tcpdump prints in the end.
fn dropped(errors: &str) -> Option<u64> {
    let line = errors.lines().find_map(|line| line.strip_suffix(" packets dropped by kernel"))?;
    line.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_tcpdump_says_in_the_end() {
        let said = "tcpdump: listening on lo, link-type EN10MB (Ethernet), snapshot length 262144 bytes\n\
                    130 packets captured\n264 packets received by filter\n4 packets dropped by kernel";
        assert_eq!((dropped(said), dropped("tcpdump: lo: You don't have permission")), (Some(4), None));
    }
}
