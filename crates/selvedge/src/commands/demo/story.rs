//! Output of the demo: as text while it runs, or as one JSON value at its end. The module runs none of the steps.

use std::net::SocketAddr;
use std::path::Path;
use std::time::{Duration, Instant};

use chart::units;
use engine::initiator::{Controller, NamespaceInfo};
use nvme::identify::ascii;
use schemars::JsonSchema;
use serde::Serialize;

use crate::config::workload::Workload;
use crate::failure::Failure;
use crate::flags::OutputFormat;
use crate::report;
use crate::report::bench::{BenchReport, CpuReport};
use crate::spec::size::Size;

/// The story as far as it is.
pub(super) struct Story {
    format: OutputFormat,
    began: Instant,
    chapter: u32,
    facts: Facts,
}

/// The JSON form.
#[derive(Default, Serialize, JsonSchema)]
pub(in crate::commands) struct Facts {
    address: String,
    reactors: usize,
    runs: Vec<BenchReport>,
    idle: Option<IdleCost>,
    elapsed_s: f64,
}

/// Cost of a connected, idle target.
#[derive(Serialize, JsonSchema)]
pub(super) struct IdleCost {
    pub(super) queues: usize,
    pub(super) target_cpu: CpuReport,
}

impl Story {
    pub(super) fn new(format: OutputFormat) -> Self {
        Self { format, began: Instant::now(), chapter: 0, facts: Facts::default() }
    }

    fn tell(&self, text: &str) -> Result<(), Failure> {
        if self.format == OutputFormat::Normal { report::print(text) } else { Ok(()) }
    }

    fn heading(&mut self, text: &str) -> Result<(), Failure> {
        self.chapter += 1;
        self.tell(&format!("\n{}  {text}\n", self.chapter))
    }

    pub(super) fn target_is_up(
        &mut self,
        address: SocketAddr,
        reactors: usize,
        bytes: u64,
        file: &Path,
    ) -> Result<(), Failure> {
        self.facts.address = address.to_string();
        self.facts.reactors = reactors;
        self.tell(
            "Selvedge demo: an NVMe/TCP target and a host in one process, without root or kernel module.\n",
        )?;
        self.heading(&format!("A target listens on {address}"))?;
        self.tell(&format!(
            "   {}\n   namespace 1  memory, {}\n   namespace 2  {}, {} (sparse)\n",
            units::plural(reactors as u64, "reactor"),
            Size(bytes),
            file.display(),
            Size(bytes),
        ))
    }

    pub(super) fn host_looks_around(
        &mut self,
        controller: &Controller,
        namespaces: &[NamespaceInfo],
    ) -> Result<(), Failure> {
        let identify = controller.identify();
        self.heading("A host queries the discovery service")?;
        let mut text = format!(
            "   {}  controller {}, model {}, serial {}\n",
            controller.options().subsystem_nqn,
            controller.id(),
            ascii(&identify.model_number),
            ascii(&identify.serial_number),
        );
        for namespace in namespaces {
            let NamespaceInfo { nsid, block_size, .. } = namespace;
            let size = Size(namespace.size_bytes());
            text += &format!("   namespace {nsid}  {size} in blocks of {block_size} bytes\n");
        }
        self.tell(&text)
    }

    pub(super) fn chapter_begins(&mut self, title: &str, workload: &Workload) -> Result<(), Failure> {
        let seconds = workload.runtime.map_or(0.0, |runtime| runtime.as_secs_f64());
        let queues = units::plural(u64::from(workload.jobs), "queue");
        let each = if workload.jobs == 1 { "" } else { " each" };
        self.heading(&format!("{}{}", title[..1].to_uppercase(), &title[1..]))?;
        self.tell(&format!(
            "   {}, {queues}, {} outstanding{each}, {seconds:.0} s\n",
            Size(u64::from(workload.block_bytes)),
            workload.depth
        ))
    }

    pub(super) fn chapter_ends(&mut self, report: BenchReport) -> Result<(), Failure> {
        let total = &report.total;
        let latency = total.lat_ns;
        let mut text = format!(
            "   {} IOPS, {}; latency p50 {}, p99 {}, p99.9 {}\n",
            units::count(total.iops),
            units::bandwidth(total.bw_bytes),
            units::time_ns(latency.p50 as f64),
            units::time_ns(latency.p99 as f64),
            units::time_ns(latency.p99_9 as f64),
        );
        if let Some(flush) = &report.flush {
            let (p50, p99) = (flush.lat_ns.p50 as f64, flush.lat_ns.p99 as f64);
            let (p50, p99) = (units::time_ns(p50), units::time_ns(p99));
            text += &format!("   {} flushes; latency p50 {p50}, p99 {p99}\n", units::grouped(flush.ios));
        }
        let cpu = |cpu: &CpuReport| format!("{:.2} µs ({:.0} % of a core)", cpu.us_per_io, cpu.percent);
        text += &format!("   CPU per I/O: host {}", cpu(&report.cpu));
        if let Some(target) = &report.target_cpu {
            text += &format!(", target {}", cpu(target));
        }
        text.push('\n');
        if let Some(verify) = &report.verify {
            let bytes = Size(verify.blocks_read_back * u64::from(report.options.bs));
            let reads = match verify.reads_checked {
                0 => String::new(),
                reads => format!("{} reads checked, ", units::grouped(reads)),
            };
            text += &format!(
                "   verified: {} stamped writes, {reads}all written blocks ({bytes}) read back, {} wrong\n",
                units::grouped(verify.writes),
                units::grouped(verify.blocks_wrong),
            );
        }
        self.facts.runs.push(report);
        self.tell(&text)
    }

    pub(super) fn rest_begins(&mut self, queues: u16, length: Duration) -> Result<(), Failure> {
        let seconds = length.as_secs();
        self.heading(&format!("{queues} connected, idle queues for {seconds} s"))
    }

    pub(super) fn rest_ends(&mut self, cost: IdleCost) -> Result<(), Failure> {
        let text = format!("   CPU of the target: {:.2} % of a core\n", cost.target_cpu.percent);
        self.facts.idle = Some(cost);
        self.tell(&text)
    }

    /// All went well.
    pub(super) fn end(mut self) -> Result<(), Failure> {
        self.facts.elapsed_s = self.began.elapsed().as_secs_f64();
        if self.format == OutputFormat::Json {
            return report::print_json(&self.facts);
        }
        self.tell(&format!(
            "\nAll written data was verified. The demo took {:.0} s, and has removed its files.\n\
             Next: selvedge serve --namespace memory:1g\n",
            self.facts.elapsed_s
        ))
    }
}
