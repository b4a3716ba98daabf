//! An SPDK build: the paths of its programs, and their options. It keeps out when they run.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::means::NAMESPACE_MIB;
use super::server::NQN;
use super::workload::Workload;
use crate::guard::Guard;
use crate::machine::version;

const TARGET: &str = "build/bin/nvmf_tgt";
const HOST: &str = "build/bin/spdk_nvme_perf";
/// Memory of each program in MiB: the namespace and the buffers of the target, the buffers of the host.
const TARGET_MIB: u64 = 700;
const HOST_MIB: u64 = 512;
const HUGE_PAGE_MIB: u64 = 2;
/// Both ends at the same time, and some for what is not in one piece.
pub(crate) const HUGE_PAGES: u64 = (TARGET_MIB + HOST_MIB) / HUGE_PAGE_MIB + 64;
/// Commands on one queue that its target takes by default.
const QUEUE_DEPTH_USUAL: u32 = 128;
/// Bytes that its target transfers at once by default.
const TRANSFER_BYTES_USUAL: u32 = 128 << 10;

/// Build of SPDK.
pub(crate) struct Spdk {
    directory: PathBuf,
    /// For its configuration and its socket; removed in the end.
    scratch: PathBuf,
    _guard: Guard,
}

impl Spdk {
    /// Looks for it.
    ///
    /// # Errors
    /// It is not there.
    pub(crate) fn find(directory: &Path) -> Result<Spdk, String> {
        for program in [TARGET, HOST] {
            if !directory.join(program).is_file() {
                return Err(format!(
                    "no SPDK in {}: looked for {TARGET} and {HOST}; {program} is missing",
                    directory.display()
                ));
            }
        }
        let scratch = std::env::temp_dir().join(format!("selvedge-peers-{}", std::process::id()));
        let failed = |error: std::io::Error| format!("{}: {error}", scratch.display());
        std::fs::create_dir_all(&scratch).map_err(failed)?;
        let guard = Guard::new(&scratch).map_err(failed)?;
        Ok(Spdk { directory: directory.to_owned(), scratch, _guard: guard })
    }

    pub(crate) fn directory(&self) -> &Path {
        &self.directory
    }

    pub(crate) fn scratch(&self) -> &Path {
        &self.scratch
    }

    fn program(&self, name: &str) -> String {
        self.directory.join(name).display().to_string()
    }

    /// Version that its target prints.
    pub(crate) fn version(&self) -> Option<String> {
        version(&[&self.program(TARGET), "--version"])
    }

    /// Writes the target's configuration, and says how it is started on one processor.
    ///
    /// # Errors
    /// The configuration cannot be written.
    pub(crate) fn target(
        &self,
        cpu: usize,
        address: SocketAddr,
        workload: &Workload,
    ) -> Result<Vec<String>, String> {
        let path = self.scratch.join("target.json");
        std::fs::write(&path, configuration(address, workload).to_string())
            .map_err(|error| format!("{}: {error}", path.display()))?;
        let socket = self.scratch.join("rpc.sock");
        let text =
            format!("PROGRAM -m {} -s {TARGET_MIB} -r {} -c {}", mask(cpu), socket.display(), path.display());
        Ok(self.words(&text, TARGET))
    }

    /// Command line of its host on one processor, with `warm_up_s` that do not count.
    pub(crate) fn host(
        &self,
        cpu: usize,
        address: SocketAddr,
        workload: &Workload,
        seconds: u32,
        warm_up_s: u32,
    ) -> Vec<String> {
        let Workload { depth, connections, block_bytes, digests, .. } = workload;
        let text = format!(
            "PROGRAM -q {depth} -P {connections} -o {block_bytes} -w {} -t {seconds} -a {warm_up_s} -c {} -s {HOST_MIB}{} -r",
            workload.word(),
            mask(cpu),
            if *digests { " -H -I" } else { "" },
        );
        let mut words = self.words(&text, HOST);
        words.push(format!(
            "trtype:TCP adrfam:IPv4 traddr:{} trsvcid:{} subnqn:{NQN}",
            address.ip(),
            address.port()
        ));
        words
    }

    fn words(&self, text: &str, program: &str) -> Vec<String> {
        let words = text.split_whitespace();
        words.map(|word| if word == "PROGRAM" { self.program(program) } else { word.to_owned() }).collect()
    }
}

/// A set of one processor.
fn mask(cpu: usize) -> String {
    format!("{:#x}", 1_u128 << cpu)
}

/// Configuration of nvmf_tgt: a memory namespace of blocks of 4096 bytes. Depth of queues and size
/// of transfers are the usual ones, unless the workload needs more.
fn configuration(address: SocketAddr, workload: &Workload) -> Value {
    let blocks = u64::from(NAMESPACE_MIB) * (1 << 20) / 4096;
    let mut transport = json!({ "trtype": "TCP" });
    if workload.depth_per_connection() >= QUEUE_DEPTH_USUAL {
        transport["max_queue_depth"] = json!(workload.depth_per_connection().next_power_of_two() * 2);
    }
    if workload.block_bytes > TRANSFER_BYTES_USUAL {
        transport["max_io_size"] = json!(workload.block_bytes.next_power_of_two());
    }
    let listen = json!({
        "trtype": "TCP", "adrfam": "IPv4", "traddr": address.ip().to_string(), "trsvcid": address.port().to_string(),
    });
    let call = |method: &str, params: Value| json!({ "method": method, "params": params });
    json!({ "subsystems": [
        { "subsystem": "bdev", "config": [
            call("bdev_malloc_create", json!({ "name": "M0", "num_blocks": blocks, "block_size": 4096 })),
        ]},
        { "subsystem": "nvmf", "config": [
            call("nvmf_create_transport", transport),
            call("nvmf_create_subsystem", json!({ "nqn": NQN, "allow_any_host": true, "serial_number": "M0" })),
            call("nvmf_subsystem_add_ns", json!({ "nqn": NQN, "namespace": { "bdev_name": "M0" } })),
            call("nvmf_subsystem_add_listener", json!({ "nqn": NQN, "listen_address": listen })),
        ]},
    ]})
}

#[cfg(test)]
mod tests {
    use super::super::workload::USUAL;
    use super::*;

    fn built() -> (PathBuf, Spdk) {
        let directory = std::env::temp_dir().join(format!("selvedge-peers-spdk-{}", std::process::id()));
        std::fs::create_dir_all(directory.join("build/bin")).unwrap();
        for program in [TARGET, HOST] {
            std::fs::write(directory.join(program), "").unwrap();
        }
        let spdk = Spdk::find(&directory).unwrap();
        (directory, spdk)
    }

    #[test]
    fn says_what_it_looked_for() {
        let reason = Spdk::find(Path::new("/nowhere")).err().unwrap();
        assert_eq!(
            reason,
            "no SPDK in /nowhere: looked for build/bin/nvmf_tgt and build/bin/spdk_nvme_perf; build/bin/nvmf_tgt is missing"
        );
    }

    #[test]
    fn both_programs_keep_to_one_processor() {
        let (directory, spdk) = built();
        let address = SocketAddr::from(([127, 0, 0, 1], 4420));
        let host = spdk.host(1, address, &USUAL[8], 3, 1);
        assert_eq!(host[0], directory.join(HOST).display().to_string());
        assert_eq!(
            host[1..].join(" "),
            "-q 32 -P 1 -o 4096 -w randread -t 3 -a 1 -c 0x2 -s 512 -H -I -r trtype:TCP adrfam:IPv4 \
             traddr:127.0.0.1 trsvcid:4420 subnqn:nqn.2026-01.io.selvedge:target"
        );
        assert!(host.last().unwrap().starts_with("trtype:TCP adrfam"), "{host:?}");
        let target = spdk.target(0, address, &USUAL[0]).unwrap().join(" ");
        assert!(target.contains("nvmf_tgt -m 0x1 -s 700 -r "), "{target}");
        std::fs::remove_dir_all(directory).unwrap();
    }

    #[test]
    fn the_target_has_what_the_workload_needs() {
        let address = SocketAddr::from(([127, 0, 0, 1], 4420));
        let usual = configuration(address, &USUAL[1]).to_string();
        assert!(usual.contains(r#""num_blocks":65536"#) && !usual.contains("max_queue_depth"), "{usual}");
        assert!(usual.contains(r#""trsvcid":"4420""#), "{usual}");
        let deep = Workload { depth: 256, ..USUAL[1] };
        assert!(configuration(address, &deep).to_string().contains(r#""max_queue_depth":512"#));
        let wide = Workload { connections: 16, ..deep };
        let (wide, usual) =
            (configuration(address, &wide).to_string(), configuration(address, &USUAL[6]).to_string());
        assert!(!wide.contains("max_queue_depth") && !usual.contains("max_io_size"), "{wide} {usual}");
        let large = Workload { block_bytes: 1 << 20, ..USUAL[6] };
        assert!(configuration(address, &large).to_string().contains(r#""max_io_size":1048576"#));
    }
}
