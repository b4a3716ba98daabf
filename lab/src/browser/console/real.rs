//! A real target with its console, and a host that reads and writes.

use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::answer::Answer;
use crate::program::Program;

pub(super) const NQN: &str = "nqn.2026-01.org.example:console";

/// Time for a target to listen.
const START: Duration = Duration::from_secs(30);

/// A running target. Dropping it ends it.
pub(super) struct Real {
    /// Address of its console.
    pub(super) control: SocketAddr,
    pub(super) version: String,
    /// A token that may read.
    pub(super) token: String,
    /// Token that may change the subsystem.
    pub(super) operator: String,
    program: String,
    port: String,
    folder: PathBuf,
    _target: Program,
}

impl Real {
    pub(super) fn start(program: &str, folder: &Path) -> Result<Self, String> {
        let file = folder.join("access.toml");
        let failed = |error: std::io::Error| format!("{}: {error}", file.display());
        std::fs::write(&file, "").map_err(failed)?;
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o600)).map_err(failed)?;
        let path = file.display().to_string();
        let create = |rights: &[&str]| {
            let words = [&[program, "token", "create"], rights, &["--control-access", &*path]].concat();
            Answer::of(&words).map(|made| made.output.lines().next().unwrap_or_default().trim().to_owned())
        };
        let token = create(&["viewer", "--role", "read"])?;
        let operator = create(&["operator", "--role", "operate", "--subsystem", NQN])?;
        let version = Answer::of(&[program, "--version"])?.output;
        let version = version.split_whitespace().nth(1).unwrap_or_default().to_owned();
        let words = [
            program,
            "serve",
            "-s",
            "0",
            "-n",
            NQN,
            "--namespace",
            "memory:16m",
            "--control",
            "tcp:127.0.0.1:0",
            "--control-access",
            &path,
        ];
        let target = Program::start(&words.map(str::to_owned))?;
        let until = Instant::now() + START;
        let (mut port, mut control) = (None, None);
        while port.is_none() || control.is_none() {
            let line = target.line(until).ok_or("the target does not say where it is")?;
            match line.strip_prefix("administered at ") {
                Some(place) => control = place.trim_start_matches("tcp:").parse().ok(),
                None => port = port.or_else(|| line.rsplit_once(':').map(|(_, port)| port.to_owned())),
            }
        }
        let (port, control) = (port.unwrap_or_default(), control.ok_or("the target has no console")?);
        let (program, folder) = (program.to_owned(), folder.to_owned());
        Ok(Self { control, version, token, operator, program, port, folder, _target: target })
    }

    pub(super) fn url(&self) -> String {
        format!("http://{}/console", self.control)
    }

    /// A host that reads and writes for a while.
    pub(super) fn host(&self) -> Result<Program, String> {
        let words = [
            &self.program,
            "bench",
            "-a",
            "127.0.0.1",
            "-s",
            &self.port,
            "-n",
            NQN,
            "--rw",
            "randrw",
            "--rate_iops",
            "2000",
            "--runtime",
            "120",
        ];
        Program::start(&words.map(str::to_owned))
    }
    /// A sweep of it over these depths and queues, a second each, that is published by this name with this token.
    pub(super) fn sweep(&self, name: &str, token: &str, axes: [&str; 2]) -> Result<Program, String> {
        let letters: String = name.chars().filter(char::is_ascii_alphanumeric).collect();
        let results = self.folder.join(format!("sweep-{letters}"));
        let file = results.with_extension("token");
        let failed = |error: std::io::Error| format!("{}: {error}", file.display());
        std::fs::write(&file, token).map_err(failed)?;
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o600)).map_err(failed)?;
        let path = |path: &Path| path.display().to_string();
        let place = ["-a", "127.0.0.1", "-s", &self.port, "-n", NQN].map(str::to_owned);
        let axes = format!("--numjobs 4 --iodepth {} -i {} --repeat 1", axes[0], axes[1]);
        let fixed = "--rw randread --runtime 1 --ramp_time 100ms --pause 0";
        let words = axes.split(' ').chain(fixed.split(' ')).map(str::to_owned);
        let published = [
            format!("--publish={name}"),
            "--control".to_owned(),
            format!("tcp:{}", self.control),
            "--control-token-file".to_owned(),
            path(&file),
            "--output".to_owned(),
            path(&results),
        ];
        let first = [self.program.clone(), "sweep".to_owned()];
        let words: Vec<String> = first.into_iter().chain(place).chain(words).chain(published).collect();
        Program::start(&words)
    }
}
