//! `selvedge attach recover`: takes over the block devices of processes that are gone.

use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command as Program, Stdio};
use std::time::Duration;

use attach::ublk::{Device, FoundDevice};
use clap::Parser as _;
use rustix::process::{Pid, Signal, kill_process};

use super::record::KnownRecord;
use super::{AttachProcess, confined, many, serve};
use crate::failure::Failure;
use crate::flags::attach::{AttachAction, AttachFlags, UblkDevice};
use crate::flags::{OutputFormat, TypedLine};
use crate::stop::{self, Stop};

/// Interval of checks for processes that have ended.
const LOOK_INTERVAL: Duration = Duration::from_millis(250);

/// Takes over those that are asked for.
pub(super) fn run(asked: UblkDevice, format: OutputFormat) -> Result<(), Failure> {
    Device::check().map_err(Failure::failed)?;
    let found = FoundDevice::all().map_err(Failure::failed)?;
    let mut waiting: Vec<KnownRecord> = KnownRecord::all();
    waiting.retain(|known| {
        let mut devices = known.recoverable(&found).into_iter();
        devices.any(|device| matches!(asked, UblkDevice::All) || asked == UblkDevice::Number(device.number))
    });
    match waiting.len() {
        0 => Err(Failure::failed(nothing(asked, &found))),
        1 => take_over(waiting.remove(0), &found, format),
        _ => {
            let devices =
                waiting.iter().filter_map(|known| known.recoverable(&found).first().map(|it| it.number));
            let devices: Vec<u32> = devices.collect();
            // Each is locked by the process that takes it over.
            drop(waiting);
            take_over_several(&devices, format)
        }
    }
}

fn nothing(asked: UblkDevice, found: &[FoundDevice]) -> String {
    let UblkDevice::Number(number) = asked else {
        return "no block device waits for a process: see `selvedge attach list`".to_owned();
    };
    match found.iter().find(|device| device.number == number) {
        None => format!("there is no /dev/ublkb{number}"),
        Some(_) => format!(
            "/dev/ublkb{number} has a process that serves it, or cannot be recovered: see `selvedge attach list`"
        ),
    }
}

/// Takes over the disks of this record, whose process was killed.
fn take_over(known: KnownRecord, found: &[FoundDevice], format: OutputFormat) -> Result<(), Failure> {
    let line = known.record.command_line();
    let folder = &line.working_directory;
    std::env::set_current_dir(folder).map_err(|error| {
        Failure::failed(format!("the working directory {} of the killed process: {error}", folder.display()))
    })?;
    let mut flags = flags(&line.arguments)?;
    flags.output.output_format = format;
    keep_left(&mut flags, &known, found);
    let prepared = confined::prepare(&flags)?;
    confined::confine(&flags.confinement, &[&flags])?;
    let process = AttachProcess::begin(line.clone(), std::iter::once(&line), &flags.metrics)?;
    serve(&flags, line, Some(known), &process, prepared)
}

/// Of the namespaces, those whose devices wait, or were stopped and not removed when their process was killed. What another program
/// has deleted stays so.
pub(super) fn keep_left(flags: &mut AttachFlags, known: &KnownRecord, found: &[FoundDevice]) {
    let left = known.devices(found);
    let is_left = |nsid: u32| {
        let device = known.record.disks.iter().find(|disk| disk.nsid == nsid).and_then(|disk| disk.device);
        device.is_some_and(|device| left.iter().any(|found| device.is(found) && found.owner.is_none()))
    };
    flags.nsid.retain(|nsid| is_left(*nsid));
}

/// The flags of that process.
fn flags(arguments: &[String]) -> Result<Box<AttachFlags>, Failure> {
    if arguments.first().is_none_or(|command| command != "attach") {
        return Err(no_device());
    }
    let words = std::iter::once("selvedge").chain(arguments.iter().map(String::as_str));
    let parsed = TypedLine::try_parse_from(words).map_err(|error| {
        let first = error.to_string().lines().next().unwrap_or_default().to_owned();
        Failure::failed(format!("the command line of the killed process is invalid: {first}"))
    })?;
    let flags = parsed.attach();
    let flags = match &flags.action {
        None => flags,
        // One of a file's disks.
        Some(AttachAction::Serve { config, disk, .. }) => many::flags(config, disk)?,
        Some(_) => return Err(no_device()),
    };
    if flags.ublk { Ok(flags) } else { Err(no_device()) }
}

fn no_device() -> Failure {
    Failure::failed("the command line of the killed process is not one of attach --ublk")
}

/// A process for each, since they may have different options. They end with this one, and go on if it is killed.
fn take_over_several(devices: &[u32], format: OutputFormat) -> Result<(), Failure> {
    let stop = Stop::on_signals()?;
    let program = std::env::current_exe()
        .map_err(|error| Failure::failed(format!("the path of this program is unknown: {error}")))?;
    let mut children: Vec<Child> = Vec::new();
    let mut outcome = Ok(());
    for device in devices {
        let mut command = Program::new(&program);
        command.args(["attach", "recover", "--ublk-device", &device.to_string()]).stdin(Stdio::null());
        if matches!(format, OutputFormat::Json) {
            command.args(["--output-format", "json"]);
        }
        // Ctrl-C reaches this process alone, which passes it on: the first one waits for users of the disks.
        match command.process_group(0).spawn() {
            Ok(child) => children.push(child),
            Err(error) => outcome = Err(Failure::failed(format!("/dev/ublkb{device}: no process: {error}"))),
        }
    }
    while !children.is_empty() {
        if stop.is_asked() {
            stop.postpone();
            // A second SIGTERM removes disks in use, and a closed terminal sends two signals.
            let signal = if stop::has_hung_up() { Signal::HUP } else { Signal::TERM };
            // One that has just ended does not miss it.
            for child in &children {
                let _ = kill_process(Pid::from_child(child), signal);
            }
        }
        std::thread::sleep(LOOK_INTERVAL);
        children.retain_mut(|child| match child.try_wait() {
            Ok(None) => true,
            Ok(Some(status)) if status.success() => false,
            ended => {
                if let Ok(Some(status)) = ended {
                    outcome = Err(Failure::failed(format!("process {} has failed: {status}", child.id())));
                }
                false
            }
        });
    }
    outcome
}

#[cfg(test)]
mod tests {
    use attach::ublk::DeviceState;

    use super::super::record::tests::record_of;
    use super::super::record::{RecordedDevice, RecordedDisk};
    use super::*;

    #[test]
    fn devices_that_were_stopped_are_taken_over_with_those_that_wait() {
        let mut record = record_of(3, 7);
        let first = record.disks[0].clone();
        let disk = |nsid, number| RecordedDisk {
            nsid,
            device: Some(RecordedDevice { number, mark: 7 }),
            ..first.clone()
        };
        record.disks = vec![disk(1, 3), disk(2, 4), disk(5, 5)];
        // A record that is locked here is that of an ended process.
        let lock = Some(tempfile::tempfile().unwrap());
        let known = KnownRecord { path: "/a.json".into(), record, lock };
        let device = |number, state| FoundDevice { number, mark: 7, state, process: None, owner: None };
        let found = [device(3, DeviceState::Waiting), device(4, DeviceState::Dead)];
        let mut flags = AttachFlags::of("-a 127.0.0.1 --ublk --nsid 1,2,5");
        keep_left(&mut flags, &known, &found);
        assert_eq!(flags.nsid, [1, 2], "another program has deleted the third");
        keep_left(&mut flags, &known, &[FoundDevice { mark: 8, ..found[0] }]);
        assert!(flags.nsid.is_empty(), "its number is another device's");
    }

    #[test]
    fn a_command_line_is_read_again() {
        let words = |text: &str| -> Vec<String> { text.split(' ').map(str::to_owned).collect() };
        let read = flags(&words("attach -a 127.0.0.1 -n nqn.a --nsid 1,2 --ublk")).unwrap();
        assert_eq!((read.ublk, &read.nsid[..]), (true, &[1, 2][..]));
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("attach.toml");
        let text =
            "[disk.a]\ntraddr = \"127.0.0.1\"\nublk = true\n[disk.b]\ntraddr = \"127.0.0.1\"\nnbd = true\n";
        std::fs::write(&file, text).unwrap();
        let of_file =
            |name: &str| flags(&words(&format!("attach serve --config {} --disk {name}", file.display())));
        assert!(of_file("a").unwrap().ublk);
        assert!(of_file("b").is_err() && of_file("c").is_err() && of_file("a,b").is_err());
        for wrong in ["attach -a 127.0.0.1 --nbd", "attach list", "status", "attach --ublk --unknown"] {
            assert!(flags(&words(wrong)).is_err(), "{wrong}");
        }
    }
}
