//! The network of an experiment: a namespace for hosts and one or more for targets, joined by emulated links, with addresses,
//! routes and MPTCP endpoints.
//! Everything of it goes when it is dropped. It keeps out what runs in it.

use std::io::{BufRead, BufReader, Write};
use std::ops::RangeInclusive;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use crate::answer::system_path;
use crate::cell::{Family, Word as _};
use crate::cleanup::Cleanup;
use crate::emulator::AllCounters;
use crate::emulator::control::LinkDirection;
use crate::emulator::link::Settings;
use crate::namespace;

/// Links of the network, as many as the seed's experiment has.
pub(crate) const LINKS: usize = 4;
/// The emulator answers at once; this is for a machine that is very busy.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);

/// Settings of both namespaces: buffers that fill a gigabit over 50 ms, no memory of an earlier
/// run's congestion windows, and no IPv6 where no cell uses it: its own packets would have a part in the losses.
const SYSCTLS: [(&str, &str); 8] = [
    ("net/mptcp/enabled", "1"),
    ("net/ipv4/conf/all/rp_filter", "0"),
    ("net/ipv4/conf/default/rp_filter", "0"),
    ("net/ipv4/tcp_rmem", "4096 131072 33554432"),
    ("net/ipv4/tcp_wmem", "4096 65536 33554432"),
    ("net/ipv4/tcp_no_metrics_save", "1"),
    ("net/ipv6/conf/all/disable_ipv6", "1"),
    ("net/ipv6/conf/default/disable_ipv6", "1"),
];
/// Settings of both namespaces for IPv6: no addresses but those that are given, so that the kernel sends nothing of its own.
const IPV6_SYSCTLS: [(&str, &str); 4] = [
    ("net/ipv6/conf/all/addr_gen_mode", "1"),
    ("net/ipv6/conf/default/addr_gen_mode", "1"),
    ("net/ipv6/conf/all/disable_ipv6", "0"),
    ("net/ipv6/conf/default/disable_ipv6", "0"),
];
/// Settings that a kernel may lack: without MPTCP or IPv6 in it, all else still works.
const OPTIONAL: [&str; 2] = ["net/mptcp", "net/ipv6"];

/// The target's address on a link; links are counted from 1.
pub(crate) fn target_address(link: usize) -> String {
    format!("10.1.{link}.1")
}

/// The target's address of a family on a link.
pub(crate) fn target_address_of(family: Family, link: usize) -> String {
    match family {
        Family::Ipv4 => target_address(link),
        Family::Ipv6 => format!("fd10:1:{link}::1"),
        Family::V4Mapped => format!("::ffff:{}", target_address(link)),
    }
}

/// The host's device at the end of a link.
pub(crate) fn host_device(link: usize) -> String {
    format!("th{link}")
}

/// The host's address on a link.
fn host_address(link: usize) -> String {
    format!("10.1.{link}.2")
}

/// The addresses of a link's ends, the target's first, as MPTCP's path manager has them: mapped addresses are those of IPv4.
fn endpoints(family: Family, link: usize) -> [String; 2] {
    match family {
        Family::Ipv6 => [target_address_of(family, link), format!("fd10:1:{link}::2")],
        Family::Ipv4 | Family::V4Mapped => [target_address(link), host_address(link)],
    }
}

/// Namespaces and the links between them.
pub(crate) struct Network {
    emulator: Emulator,
    /// Each has as many of the links, in order.
    targets: Vec<String>,
    host: String,
    has_mptcp: bool,
    // The last to be dropped: what is in the namespaces goes first.
    _cleanup: Cleanup,
}

impl Network {
    /// Makes the network, with links that are as `Settings::default()` says and lose by `seed`.
    ///
    /// # Errors
    /// What failed and why. Nothing is left then.
    pub(crate) fn new(seed: u64) -> Result<Network, String> {
        Network::with_targets(seed, 1, LINKS)
    }

    /// The same with `count` places for targets, each with `links` of its own, in order.
    ///
    /// # Errors
    /// What failed and why. Nothing is left then.
    pub(crate) fn with_targets(seed: u64, count: usize, links: usize) -> Result<Network, String> {
        let id = std::process::id();
        let host = format!("svl-h-{id}");
        let mut targets = vec![format!("svl-t-{id}")];
        targets.extend((2..=count).map(|number| format!("svl-t{number}-{id}")));
        let names: Vec<&str> = targets.iter().chain([&host]).map(String::as_str).collect();
        let cleanup = Cleanup::new(&names).map_err(|error| format!("cannot run sh: {error}"))?;
        for name in &names {
            ip(&format!("netns add {name}"), "")?;
            namespace::inside(name, || set_sysctls(&SYSCTLS))?;
        }
        let emulator = Emulator::start(&targets, &host, count * links, seed)?;
        let has_mptcp = std::path::Path::new("/proc/sys/net/mptcp").exists();
        for (number, target) in targets.iter().enumerate() {
            let first = number * links + 1;
            ip(&format!("-n {target} -batch -"), &target_setup(first..=first + links - 1))?;
        }
        ip(&format!("-n {host} -batch -"), &host_setup(1..=count * links))?;
        if has_mptcp {
            for name in &names {
                ip(&format!("-n {name} mptcp limits set add_addr_accepted 8 subflows 8"), "")?;
            }
        }
        Ok(Network { emulator, targets, host, has_mptcp, _cleanup: cleanup })
    }

    /// Gives the host's end an address of no link, which each place for targets reaches by one of these links, in order.
    ///
    /// # Errors
    /// What failed and why.
    pub(crate) fn anchor(&self, address: &str, links: &[usize]) -> Result<(), String> {
        ip(&format!("-n {} address add {address}/32 dev lo", self.host), "")?;
        for (target, link) in self.targets.iter().zip(links) {
            ip(&format!("-n {target} route add {address}/32 dev tt{link}"), "")?;
        }
        Ok(())
    }

    /// Gives the links of the (first) target addresses of IPv6, too.
    ///
    /// # Errors
    /// The kernel has no IPv6, or `ip` failed.
    pub(crate) fn enable_ipv6(&self) -> Result<(), String> {
        for (name, setup) in [(&self.targets[0], target_setup_ipv6()), (&self.host, host_setup_ipv6())] {
            namespace::inside(name, || set_sysctls(&IPV6_SYSCTLS))?;
            ip(&format!("-6 -n {name} -batch -"), &setup)?;
        }
        Ok(())
    }

    /// Makes a link what `settings` say.
    pub(crate) fn set(&mut self, link: usize, settings: &Settings) -> Result<(), String> {
        let values = [
            ("rate", settings.rate_mbit.to_string()),
            ("delay", settings.delay_ms.to_string()),
            ("loss", settings.loss.to_string()),
            ("mode", settings.mode.name()),
            ("queue", settings.queue_kb.to_string()),
        ];
        for (name, value) in values {
            self.emulator.ask(&format!("set {link} {name} {value}"))?;
        }
        if settings.up { self.restore(link) } else { self.cut(link) }
    }

    /// From now on the link swallows everything, without a word to either end.
    pub(crate) fn cut(&mut self, link: usize) -> Result<(), String> {
        self.emulator.ask(&format!("cut {link}")).map(drop)
    }

    /// From now on the link swallows what goes one way.
    pub(crate) fn cut_one_way(&mut self, link: usize, direction: LinkDirection) -> Result<(), String> {
        self.emulator.ask(&format!("cut {link} {}", direction.name())).map(drop)
    }

    /// The network namespaces of the (first) target's and of the host's ends of the links.
    pub(crate) fn names(&self) -> (&str, &str) {
        (&self.targets[0], &self.host)
    }

    /// The network namespaces of all places for targets.
    pub(crate) fn targets(&self) -> &[String] {
        &self.targets
    }

    /// The link carries again.
    pub(crate) fn restore(&mut self, link: usize) -> Result<(), String> {
        self.emulator.ask(&format!("restore {link}")).map(drop)
    }

    /// Counters of the links since they exist.
    pub(crate) fn counters(&mut self) -> Result<AllCounters, String> {
        let answer = self.emulator.ask("counters")?;
        serde_json::from_str(&answer).map_err(|error| format!("the emulator's counters are not: {error}"))
    }

    /// The emulator's process.
    pub(crate) fn emulator_id(&self) -> u32 {
        self.emulator.process.id()
    }

    /// With a family, connections over MPTCP get subflows on all links, as in the seed's experiment: the target signals its
    /// other addresses, and the host makes subflows from its own.
    ///
    /// # Errors
    /// The kernel has no MPTCP, or `ip` failed.
    pub(crate) fn use_mptcp(&self, family: Option<Family>) -> Result<(), String> {
        if !self.has_mptcp {
            return if family.is_some() {
                Err("this kernel has no MPTCP; the experiments with tcp work without it".to_owned())
            } else {
                Ok(())
            };
        }
        for name in [&self.targets[0], &self.host] {
            ip(&format!("-n {name} mptcp endpoint flush"), "")?;
        }
        let Some(family) = family else { return Ok(()) };
        for link in 2..=LINKS {
            let [ours, theirs] = endpoints(family, link);
            ip(&format!("-n {} mptcp endpoint add {ours} dev tt{link} signal", self.targets[0]), "")?;
            ip(&format!("-n {} mptcp endpoint add {theirs} dev th{link} subflow", self.host), "")?;
        }
        Ok(())
    }

    /// Starts a program beside the target's ends of the links.
    pub(crate) fn spawn_at_target(&self, command: &mut Command) -> Result<Child, String> {
        spawn(&self.targets[0], command)
    }

    /// Starts a program beside the host's ends of the links.
    pub(crate) fn spawn_at_host(&self, command: &mut Command) -> Result<Child, String> {
        spawn(&self.host, command)
    }

    /// Output of a command beside the host's ends of the links.
    ///
    /// # Errors
    /// A start that fails, or a run that does.
    pub(crate) fn output_at_host(&self, words: &[&str]) -> Result<String, String> {
        let failed = |reason: &str| format!("`{}` failed: {reason}", words.join(" "));
        let mut command = Command::new(words[0]);
        command.args(&words[1..]).env("PATH", system_path());
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let output = self.spawn_at_host(&mut command)?.wait_with_output();
        let output = output.map_err(|error| failed(&error.to_string()))?;
        if !output.status.success() {
            return Err(failed(String::from_utf8_lossy(&output.stderr).trim()));
        }
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }

    /// Congestion control of connections by default.
    pub(crate) fn default_congestion(&self) -> Result<String, String> {
        namespace::inside(&self.host, || {
            let path = "/proc/sys/net/ipv4/tcp_congestion_control";
            let text = std::fs::read_to_string(path).map_err(|error| format!("{path}: {error}"))?;
            Ok(text.trim().to_owned())
        })
    }
}

/// The emulator as a process of its own, so that it can have a scheduling class of its own.
struct Emulator {
    process: Child,
    commands: ChildStdin,
    answers: Receiver<String>,
}

impl Emulator {
    fn start(targets: &[String], host: &str, links: usize, seed: u64) -> Result<Emulator, String> {
        let program =
            std::env::current_exe().map_err(|error| format!("cannot find this program: {error}"))?;
        // Real-time priority, so that a packet is not late because of other processes. A user
        // without the right goes without.
        let real_time = Command::new("chrt").args(["-f", "10", "true"]).stderr(Stdio::null()).status();
        let mut command = if real_time.is_ok_and(|status| status.success()) {
            let mut command = Command::new("chrt");
            command.args(["-f", "10"]).arg(program);
            command
        } else {
            Command::new(program)
        };
        let (targets, links) = (targets.join(","), links.to_string());
        command.args(["links", "--target", &targets, "--host", host, "--links", &links]);
        command.args(["--seed", &seed.to_string()]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut process = command.spawn().map_err(|error| format!("cannot start the emulator: {error}"))?;
        let (Some(commands), Some(stdout)) = (process.stdin.take(), process.stdout.take()) else {
            return Err("the emulator has no pipes".to_owned());
        };
        let (sender, answers) = channel();
        std::thread::spawn(move || {
            BufReader::new(stdout).lines().map_while(Result::ok).try_for_each(|line| sender.send(line))
        });
        let emulator = Emulator { process, commands, answers };
        match emulator.answer()?.as_str() {
            "ready" => Ok(emulator),
            other => Err(format!("the emulator says `{other}`")),
        }
    }

    fn answer(&self) -> Result<String, String> {
        self.answers.recv_timeout(ANSWER_TIMEOUT).map_err(|_| "the emulator does not answer".to_owned())
    }

    /// Sends one command, and returns what comes with the `ok`.
    fn ask(&mut self, command: &str) -> Result<String, String> {
        writeln!(self.commands, "{command}").map_err(|error| format!("the emulator is gone: {error}"))?;
        let answer = self.answer()?;
        match answer.strip_prefix("ok") {
            Some(rest) => Ok(rest.trim_start().to_owned()),
            None => Err(format!("the emulator answers `{answer}` to `{command}`")),
        }
    }
}

impl Drop for Emulator {
    fn drop(&mut self) {
        // It ends by itself when its standard input is closed; a process that has already ended is as good.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// The target answers on the link of the host's address, which the connected routes see to.
fn target_setup(links: RangeInclusive<usize>) -> String {
    let mut lines = "link set lo up\n".to_owned();
    for link in links {
        lines += &format!(
            "link set tt{link} txqueuelen 10000 up\naddress add {}/24 dev tt{link}\n",
            target_address(link)
        );
    }
    lines
}

/// Routes packets from one of the host's addresses by that address's link, whatever address they go
/// to: otherwise all subflows to one address would share one link.
fn host_setup(links: RangeInclusive<usize>) -> String {
    let mut lines = "link set lo up\n".to_owned();
    for link in links {
        let address = host_address(link);
        lines += &format!(
            "link set th{link} txqueuelen 10000 up\naddress add {address}/24 dev th{link}\n\
             rule add from {address} table {table}\nroute add 10.1.0.0/16 dev th{link} table {table}\n",
            table = 100 + link
        );
    }
    lines
}

/// The same for IPv6. No packet is sent to see that an address is free.
fn target_setup_ipv6() -> String {
    let address = |link| target_address_of(Family::Ipv6, link);
    (1..=LINKS).map(|link| format!("address add {}/64 dev tt{link} nodad\n", address(link))).collect()
}

fn host_setup_ipv6() -> String {
    let lines = (1..=LINKS).map(|link| {
        let [_, address] = endpoints(Family::Ipv6, link);
        let (device, table) = (host_device(link), 100 + link);
        format!(
            "address add {address}/64 dev {device} nodad\nrule add from {address} table {table}\n\
             route add fd10:1::/32 dev {device} table {table}\n"
        )
    });
    lines.collect()
}

fn set_sysctls(settings: &[(&str, &str)]) -> Result<(), String> {
    for (name, value) in settings {
        let path = format!("/proc/sys/{name}");
        match std::fs::write(&path, value) {
            Ok(()) => {}
            Err(_) if OPTIONAL.iter().any(|prefix| name.starts_with(prefix)) => {}
            Err(error) => return Err(format!("{path}: {error}")),
        }
    }
    Ok(())
}

fn spawn(name: &str, command: &mut Command) -> Result<Child, String> {
    namespace::inside(name, || {
        let program = command.get_program().display().to_string();
        command.spawn().map_err(|error| format!("cannot start {program}: {error}"))
    })
}

/// Runs `ip` with the words of `args`, and with `input` on its standard input.
fn ip(args: &str, input: &str) -> Result<(), String> {
    let failed = |reason: String| format!("`ip {args}` failed: {reason}");
    let mut command = Command::new("ip");
    command
        .args(args.split_whitespace())
        .env("PATH", system_path())
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped());
    let mut process =
        command.spawn().map_err(|error| failed(format!("{error}; it is in Debian's iproute2")))?;
    if let Some(mut stdin) = process.stdin.take() {
        // An `ip` that does not read its input says why itself.
        let _ = stdin.write_all(input.as_bytes());
    }
    let output = process.wait_with_output().map_err(|error| failed(error.to_string()))?;
    if output.status.success() {
        return Ok(());
    }
    Err(failed(String::from_utf8_lossy(&output.stderr).trim().replace('\n', "; ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_link_has_a_way_at_both_ends() {
        let (target, host) = (target_setup(1..=LINKS), host_setup(1..=LINKS));
        for link in 1..=LINKS {
            assert!(target.contains(&format!("address add 10.1.{link}.1/24 dev tt{link}\n")));
            assert!(host.contains(&format!("rule add from 10.1.{link}.2 table 10{link}\n")));
        }
        let (target, host) = (target_setup_ipv6(), host_setup_ipv6());
        for link in 1..=LINKS {
            assert!(target.contains(&format!("address add fd10:1:{link}::1/64 dev tt{link} nodad\n")));
            assert!(host.contains(&format!("rule add from fd10:1:{link}::2 table 10{link}\n")));
        }
    }

    #[test]
    fn mapped_addresses_are_those_of_ipv4() {
        assert_eq!(target_address_of(Family::V4Mapped, 3), "::ffff:10.1.3.1");
        assert_eq!(endpoints(Family::V4Mapped, 3), endpoints(Family::Ipv4, 3));
        assert_eq!(endpoints(Family::Ipv6, 3), ["fd10:1:3::1", "fd10:1:3::2"]);
    }
}
