//! Hosts that load the targets, each on one processor: their options for a workload, and how they
//! are run. It keeps out what their figures mean.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use super::means::Means;
use super::reading::{self, FIO_PERCENTILES, Reading};
use super::server::{IQN, NQN};
use super::workload::Workload;
use crate::program::Program;

/// Time for a client besides its runtime.
const GRACE: Duration = Duration::from_secs(60);
/// Seconds at the beginning that do not count, for clients that can leave them out.
pub(crate) const WARM_UP_S: u32 = 1;
/// Requests by which a client that counts, and knows no time, shows how fast it is.
const TRIAL_REQUESTS: u64 = 2000;
/// iSCSI counts in blocks of 512 bytes, whatever a request has.
const SCSI_BLOCK_BYTES: u32 = 512;
/// qemu-img bench knows no random order. It steps over the file by this many blocks instead, an odd number, so that it
/// comes to each of a power of two of blocks once before it comes again.
const STRIDE_BLOCKS: u32 = 257;

/// A kind of client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Client {
    /// `selvedge bench`.
    Selvedge,
    /// SPDK's spdk_nvme_perf: no percentiles.
    Spdk,
    /// libiscsi's iscsi-perf: reads only, and no latency.
    IscsiPerf,
    /// `qemu-img bench` over libiscsi: no latency.
    QemuImg,
    /// fio's nbd engine, which is libnbd. QEMU's own client does not count: with several small requests outstanding it
    /// and qemu-nbd 7.2 wait for each other's acknowledgements, about 40 ms each time.
    Fio,
}

/// Result of one run.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) reading: Reading,
    /// Of all its processes, in seconds.
    pub(crate) cpu_s: f64,
    /// Requests for which that time was spent, those of trials and of the warm-up too.
    pub(crate) requests: f64,
    pub(crate) command: Vec<String>,
}

impl Client {
    const fn name(self) -> &'static str {
        match self {
            Client::Selvedge => "selvedge bench",
            Client::Spdk => "spdk_nvme_perf",
            Client::IscsiPerf => "iscsi-perf",
            Client::QemuImg => "qemu-img bench",
            Client::Fio => "fio",
        }
    }

    /// Runs it for `seconds`.
    ///
    /// # Errors
    /// It fails, or says something else than expected.
    pub(crate) fn run(
        self,
        means: &Means,
        address: SocketAddr,
        workload: &Workload,
        seconds: u32,
    ) -> Result<Outcome, String> {
        let once = |amount: u64| self.once(means, address, workload, amount, seconds);
        if !matches!(self, Client::QemuImg) {
            return once(seconds.into());
        }
        let trial = once(TRIAL_REQUESTS)?;
        let requests = trial.reading.iops / f64::from(workload.connections) * f64::from(seconds);
        let outcome = once((requests as u64).max(TRIAL_REQUESTS))?;
        let (cpu_s, requests) = (outcome.cpu_s + trial.cpu_s, outcome.requests + trial.requests);
        Ok(Outcome { cpu_s, requests, ..outcome })
    }

    /// Runs it to its end. `amount` is what its command line counts in: seconds, or requests of each process.
    fn once(
        self,
        means: &Means,
        address: SocketAddr,
        workload: &Workload,
        amount: u64,
        seconds: u32,
    ) -> Result<Outcome, String> {
        let command = self.command(means, address, workload, amount)?;
        let processes = if self.is_one_connection() { workload.connections } else { 1 };
        let mut programs = Vec::new();
        for _ in 0..processes {
            programs.push(Program::start(&command)?);
        }
        let deadline = Instant::now() + Duration::from_secs((seconds + WARM_UP_S).into()) + GRACE;
        let (mut readings, mut cpu_s) = (Vec::new(), 0.0);
        for program in &mut programs {
            let Some(ended) = program.finished(deadline)? else {
                return Err(format!("{} does not come to its end: {}", self.name(), program.errors()));
            };
            let output = program.rest();
            if !ended.status.success() {
                let errors = program.errors();
                return Err(format!("{} failed ({}): {}", self.name(), ended.status, errors.trim()));
            }
            cpu_s += ended.cpu_s;
            let reading = self.read(&output, workload, amount);
            readings.push(reading.ok_or_else(|| {
                format!(
                    "{} printed nothing that is understood: {} {}",
                    self.name(),
                    output.trim(),
                    program.errors()
                )
            })?);
        }
        let reading = reading::together(&readings).ok_or("there is no client")?;
        let warm_up_s = if self.warms_up() { f64::from(WARM_UP_S) } else { 0.0 };
        // Who runs for a time tells the rate only, and none counts the requests of the warm-up.
        let counted = reading.requests.unwrap_or(reading.iops * f64::from(seconds));
        Ok(Outcome { reading, cpu_s, requests: counted + reading.iops * warm_up_s, command })
    }

    /// True if each of its processes has one connection, so that several take several processes.
    const fn is_one_connection(self) -> bool {
        matches!(self, Client::IscsiPerf | Client::QemuImg)
    }

    /// True if it can leave its first second out.
    const fn warms_up(self) -> bool {
        matches!(self, Client::Selvedge | Client::Spdk | Client::Fio)
    }

    fn read(self, output: &str, workload: &Workload, amount: u64) -> Option<Reading> {
        match self {
            Client::Selvedge => reading::of_selvedge(output, workload.is_write()),
            Client::Spdk => reading::of_spdk(output),
            Client::IscsiPerf => reading::of_iscsi_perf(output),
            Client::QemuImg => reading::of_qemu_img(output, amount),
            Client::Fio => reading::of_fio(output, workload.is_write()),
        }
    }

    fn command(
        self,
        means: &Means,
        address: SocketAddr,
        workload: &Workload,
        amount: u64,
    ) -> Result<Vec<String>, String> {
        let Workload { depth, connections, block_bytes, .. } = *workload;
        let (rw, depth_each) = (workload.word(), workload.depth_per_connection());
        let text = match self {
            Client::Spdk => {
                let seconds = u32::try_from(amount).map_err(|_| "too many seconds")?;
                return Ok(means.spdk()?.host(means.host_cpu, address, workload, seconds, WARM_UP_S));
            }
            // One job has one thread, as SPDK's host has, and all of the connections.
            Client::Selvedge => format!(
                "PROGRAM bench -a {address} -n {NQN} --rw {rw} --bs {block_bytes} --iodepth {depth} --numjobs 1 \
                 -i {connections}{} {} --runtime {amount} --ramp_time {WARM_UP_S} --destroy-data -o json",
                if workload.digests { " -g -G" } else { "" },
                means.congestion().join(" ")
            ),
            Client::IscsiPerf => format!(
                "iscsi-perf -r -m {depth_each} -b {} -t {amount} iscsi://{address}/{IQN}/1",
                block_bytes / SCSI_BLOCK_BYTES
            ),
            Client::QemuImg => format!(
                "qemu-img bench {}-t none -c {amount} -d {depth_each} -s {block_bytes} -S {} --image-opts \
                 driver=raw,file.driver=iscsi,file.transport=tcp,file.portal={address},file.target={IQN},file.lun=1",
                if workload.is_write() { "-w " } else { "" },
                STRIDE_BLOCKS * block_bytes
            ),
            Client::Fio => format!(
                "fio --name=peers --ioengine=nbd --uri=nbd://{address}/ --rw={rw} --bs={block_bytes} \
                 --iodepth={depth_each} --numjobs={connections} --thread --group_reporting --norandommap \
                 --randrepeat=0 {FIO_PERCENTILES} --time_based --runtime={amount} --ramp_time={WARM_UP_S} \
                 --output-format=json"
            ),
        };
        let words = text.split_whitespace();
        let words = words.map(|word| if word == "PROGRAM" { means.selvedge() } else { word.to_owned() });
        Ok(Means::on(means.host_cpu, &words.collect::<Vec<_>>()))
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::super::workload::{Rw, USUAL};
    use super::*;

    fn line(client: Client, workload: &Workload) -> String {
        let address = SocketAddr::from(([127, 0, 0, 1], 3260));
        let selvedge = PathBuf::from("selvedge");
        let means = Means {
            selvedge,
            congestion: None,
            spdk: None,
            bare: None,
            content: None,
            target_cpu: 0,
            host_cpu: 1,
        };
        client.command(&means, address, workload, 4).unwrap().join(" ")
    }

    #[test]
    fn all_are_asked_the_same() {
        let wide = Workload { depth: 32, connections: 4, ..USUAL[0] };
        assert_eq!(
            line(Client::Selvedge, &Workload { digests: true, ..wide }),
            "taskset -c 1 selvedge bench -a 127.0.0.1:3260 -n nqn.2026-01.io.selvedge:target --rw randread --bs 4096 \
             --iodepth 32 --numjobs 1 -i 4 -g -G --runtime 4 --ramp_time 1 --destroy-data -o json"
        );
        assert_eq!(
            line(Client::IscsiPerf, &wide),
            "taskset -c 1 iscsi-perf -r -m 8 -b 8 -t 4 iscsi://127.0.0.1:3260/iqn.2026-01.io.selvedge:target/1"
        );
        let large = Workload { rw: Rw::RandWrite, block_bytes: 131_072, ..wide };
        let qemu_img = line(Client::QemuImg, &large);
        assert!(
            qemu_img.contains(" bench -w -t none -c 4 -d 8 -s 131072 -S 33685504 --image-opts"),
            "{qemu_img}"
        );
        let fio = line(Client::Fio, &large);
        assert!(fio.contains("--rw=randwrite --bs=131072 --iodepth=8 --numjobs=4 --thread"), "{fio}");
    }
}
