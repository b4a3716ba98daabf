//! Programs in C, compiled against the header and linked with the shared library, use a target of this process.

use std::io::{Read as _, Write as _};
use std::net::SocketAddr;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use engine::backend::BackendConfig;
use engine::target::{FabricConfig, NamespaceConfig, PortConfig, SubsystemConfig, Target, TargetConfig};
use prerequisite::wait_for_end;
use tempfile::TempDir;

const NQN: &str = "nqn.2014-08.org.example:disk";
const SOURCES: [&str; 2] = ["volume.c", "queue.c"];

fn target() -> Target {
    let namespace = NamespaceConfig::new(1, BackendConfig::Memory { size: 64 << 20 }, 4096);
    let ports = vec![PortConfig::new(1, ([127, 0, 0, 1], 0).into())];
    let subsystems = vec![SubsystemConfig::new(NQN, "serial", "model").with(vec![namespace])];
    let fabric = FabricConfig { ports, subsystems, ..FabricConfig::default() };
    Target::start(&TargetConfig { fabric, ..TargetConfig::default() }).unwrap()
}

/// A folder with the library by its installed names, and with the compiled programs.
struct Programs(TempDir);

impl Programs {
    fn compile() -> Self {
        let programs = Self(tempfile::tempdir().unwrap());
        let folder = programs.0.path();
        let built = std::env::current_exe().unwrap().with_file_name("libc_library.so");
        for name in ["libselvedge.so", "libselvedge.so.0"] {
            symlink(&built, folder.join(name)).unwrap();
        }
        let package = Path::new(env!("CARGO_MANIFEST_DIR"));
        for source in SOURCES {
            let mut compiler = Command::new("cc");
            compiler.args(["-std=c11", "-Wall", "-Wextra", "-Werror", "-pedantic", "-pthread", "-I"]);
            compiler.arg(package.join("include")).arg(package.join("tests/all").join(source));
            compiler.arg("-L").arg(folder).args(["-lselvedge", "-o"]);
            let output = compiler.arg(programs.path(source)).output().expect("a C compiler");
            assert!(output.status.success(), "{source}: {}", String::from_utf8_lossy(&output.stderr));
        }
        programs
    }

    fn path(&self, source: &str) -> PathBuf {
        self.0.path().join(source.trim_end_matches(".c"))
    }

    fn start(&self, source: &str, address: SocketAddr, mode: &str) -> Child {
        let mut program = Command::new(self.path(source));
        program.args([address.ip().to_string(), address.port().to_string(), NQN.to_owned(), mode.to_owned()]);
        program.env("LD_LIBRARY_PATH", self.0.path()).stdin(Stdio::piped()).stdout(Stdio::piped());
        program.spawn().unwrap()
    }

    /// Runs it to its end, which it reports on the standard error where a check fails.
    fn run(&self, source: &str, address: SocketAddr) {
        let status = wait_for_end(&mut self.start(source, address, "use"));
        assert!(status.success(), "{source}: {status}");
    }
}

#[test]
fn a_volume_and_a_queue_are_used_from_c() {
    let (target, programs) = (target(), Programs::compile());
    for source in SOURCES {
        programs.run(source, target.ports()[0]);
    }
}

#[test]
fn requests_fail_with_a_number_when_the_target_has_ended() {
    let programs = Programs::compile();
    for source in SOURCES {
        let target = target();
        let mut program = programs.start(source, target.ports()[0], "lose");
        let mut ready = [0];
        program.stdout.as_mut().unwrap().read_exact(&mut ready).expect("the namespace is opened");
        target.shutdown();
        drop(target);
        program.stdin.as_mut().unwrap().write_all(b"\n").unwrap();
        let status = wait_for_end(&mut program);
        assert!(status.success(), "{source}: {status}");
    }
}
