//! The programs that ask the servers: what each is told to do for a pattern, and how it is run. It keeps out what their
//! figures mean.

use std::net::SocketAddr;
use std::path::Path;
use std::time::{Duration, Instant};

use serde::Serialize;

use super::pattern::Pattern;
use super::reading::{self, FIO_PERCENTILES, Reading};
use super::server::{IQN, NQN, named};
use crate::program::Program;

/// How long a client may take besides its time.
const GRACE: Duration = Duration::from_secs(60);
/// Requests by which a client that counts, and knows no time, shows how fast it is.
const TRIAL_REQUESTS: u64 = 2000;
/// iSCSI counts in blocks of 512 bytes, whatever a request has.
const SCSI_BLOCK_BYTES: u32 = 512;
/// qemu-img bench knows no random order. It steps over the file by this many blocks instead, an odd number, so that it
/// comes to each of a power of two of blocks once before it comes again.
const STRIDE_BLOCKS: u32 = 257;

/// A kind of client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(crate) enum Client {
    /// `selvedge bench`.
    Selvedge,
    /// libiscsi's iscsi-perf: reads only, and no latency.
    IscsiPerf,
    /// `qemu-img bench` over libiscsi: no latency.
    QemuImg,
    /// fio's nbd engine, which is libnbd. QEMU's own client does not count: with several small requests outstanding it
    /// and qemu-nbd 7.2 wait for each other's acknowledgements, about 40 ms each time.
    Fio,
}

/// What came out of one run.
pub(crate) struct Outcome {
    pub(crate) reading: Reading,
    /// Of all its processes, in seconds.
    pub(crate) cpu_s: f64,
    /// Requests for which that time was spent, those of trials too.
    pub(crate) asked: f64,
    pub(crate) command: Vec<String>,
}

impl Client {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Client::Selvedge => "selvedge bench",
            Client::IscsiPerf => "iscsi-perf",
            Client::QemuImg => "qemu-img bench",
            Client::Fio => "fio nbd",
        }
    }

    /// Whether it can do this at all.
    pub(crate) const fn can(self, pattern: &Pattern) -> bool {
        !(matches!(self, Client::IscsiPerf) && pattern.write)
    }

    /// Runs it for about `seconds`.
    ///
    /// # Errors
    /// It fails, or says something else than expected.
    pub(crate) fn run(
        self,
        selvedge: &Path,
        address: SocketAddr,
        pattern: &Pattern,
        seconds: u32,
    ) -> Result<Outcome, String> {
        if !matches!(self, Client::QemuImg) {
            return self.once(
                selvedge,
                address,
                pattern,
                u64::from(seconds),
                Duration::from_secs(seconds.into()),
            );
        }
        let allowed = Duration::from_secs(seconds.into());
        let trial = self.once(selvedge, address, pattern, TRIAL_REQUESTS, allowed)?;
        let requests = trial.reading.iops / f64::from(pattern.connections) * f64::from(seconds);
        let outcome =
            self.once(selvedge, address, pattern, (requests as u64).max(TRIAL_REQUESTS), allowed)?;
        Ok(Outcome { cpu_s: outcome.cpu_s + trial.cpu_s, asked: outcome.asked + trial.asked, ..outcome })
    }

    /// Runs it to its end. `amount` is what its command line counts in: seconds, or requests of each process.
    fn once(
        self,
        selvedge: &Path,
        address: SocketAddr,
        pattern: &Pattern,
        amount: u64,
        time: Duration,
    ) -> Result<Outcome, String> {
        let command = self.command(selvedge, address, pattern, amount);
        let processes = if self.is_one_connection() { pattern.connections } else { 1 };
        let mut programs = Vec::new();
        for _ in 0..processes {
            programs.push(Program::start(&command)?);
        }
        let deadline = Instant::now() + time + GRACE;
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
            readings.push(self.read(&output, pattern, amount)?);
        }
        let reading = reading::together(&readings).ok_or("nobody was asked")?;
        // Who runs for a time tells the rate only.
        let asked = reading.requests.unwrap_or(reading.iops * time.as_secs_f64());
        Ok(Outcome { reading, cpu_s, asked, command: named(&command, None) })
    }

    /// Whether each of its processes has one connection, so that several take several processes.
    const fn is_one_connection(self) -> bool {
        !matches!(self, Client::Selvedge | Client::Fio)
    }

    fn read(self, output: &str, pattern: &Pattern, amount: u64) -> Result<Reading, String> {
        match self {
            Client::Selvedge => reading::of_selvedge(output, pattern.write),
            Client::IscsiPerf => reading::of_iscsi_perf(output),
            Client::QemuImg => reading::of_qemu_img(output, amount),
            Client::Fio => reading::of_fio(output, pattern.write),
        }
        .ok_or_else(|| format!("{} says nothing that is understood: {}", self.name(), output.trim()))
    }

    fn command(self, selvedge: &Path, address: SocketAddr, pattern: &Pattern, amount: u64) -> Vec<String> {
        let (depth, block_bytes) = (pattern.depth_per_connection(), pattern.block_bytes);
        let (jobs, rw) = (pattern.connections, pattern.rw());
        let text = match self {
            Client::Selvedge => format!(
                "PROGRAM bench -a {address} -n {NQN} --rw {rw} --bs {block_bytes} --iodepth {depth} --numjobs {jobs} \
                 -i {jobs} --runtime {amount} --destroy-data -o json"
            ),
            Client::IscsiPerf => format!(
                "iscsi-perf {}-m {depth} -b {} -t {amount} iscsi://{address}/{IQN}/1",
                if pattern.random { "-r " } else { "" },
                block_bytes / SCSI_BLOCK_BYTES
            ),
            Client::QemuImg => format!(
                "qemu-img bench {}-t none -c {amount} -d {depth} -s {block_bytes} -S {} --image-opts \
                 driver=raw,file.driver=iscsi,file.transport=tcp,file.portal={address},file.target={IQN},file.lun=1",
                if pattern.write { "-w " } else { "" },
                if pattern.random { STRIDE_BLOCKS * block_bytes } else { block_bytes }
            ),
            Client::Fio => format!(
                "fio --name=peers --ioengine=nbd --uri=nbd://{address}/ --rw={rw} --bs={block_bytes} \
                 --iodepth={depth} --numjobs={jobs} --thread --group_reporting --norandommap --randrepeat=0 \
                 {FIO_PERCENTILES} --time_based --runtime={amount} --output-format=json"
            ),
        };
        let program = selvedge.display().to_string();
        let words = text.split_whitespace();
        words.map(|word| if word == "PROGRAM" { program.clone() } else { word.to_owned() }).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::super::pattern::PATTERNS;
    use super::*;

    fn line(client: Client, pattern: usize) -> String {
        let address = SocketAddr::from(([127, 0, 0, 1], 3260));
        client.command(Path::new("selvedge"), address, &PATTERNS[pattern], 4).join(" ")
    }

    #[test]
    fn all_are_asked_the_same() {
        assert_eq!(
            line(Client::Selvedge, 2),
            "selvedge bench -a 127.0.0.1:3260 -n nqn.2026-01.io.selvedge:target --rw randread --bs 4096 \
             --iodepth 16 --numjobs 2 -i 2 --runtime 4 --destroy-data -o json"
        );
        assert_eq!(
            line(Client::IscsiPerf, 1),
            "iscsi-perf -r -m 32 -b 8 -t 4 iscsi://127.0.0.1:3260/iqn.2026-01.io.selvedge:target/1"
        );
        assert!(line(Client::IscsiPerf, 4).starts_with("iscsi-perf -m 8 -b 256 "));
        assert!(
            line(Client::QemuImg, 3).starts_with("qemu-img bench -w -t none -c 4 -d 32 -s 4096 -S 1052672 ")
        );
        assert!(line(Client::QemuImg, 4).contains("-d 8 -s 131072 -S 131072 --image-opts driver=raw,"));
        assert!(line(Client::Fio, 3).contains("--rw=randwrite --bs=4096 --iodepth=32 --numjobs=1"));
    }

    #[test]
    fn only_one_cannot_write() {
        let all = [Client::Selvedge, Client::IscsiPerf, Client::QemuImg, Client::Fio];
        let unable = all.into_iter().filter(|client| !client.can(&PATTERNS[3]));
        assert_eq!(unable.collect::<Vec<_>>(), [Client::IscsiPerf]);
        assert!(all.iter().all(|client| client.can(&PATTERNS[0])));
    }
}
