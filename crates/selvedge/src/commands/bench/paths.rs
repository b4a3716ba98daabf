//! From `bench`'s flags to paths: which connections, and what becomes of lost ones. Connecting them is the engine's.

use std::net::SocketAddr;
use std::time::Duration;

use engine::initiator::{ConnectOptions, PathOptions, Paths};
use engine::ring::Engine;
use nvme::discovery::Nqn;

use crate::bench::matching::Placements;
use crate::config::connection::Connection;
use crate::config::workload::Queues;
use crate::failure::Failure;
use crate::flags::bench::{BenchFlags, PathFlags};
use crate::flags::connection::{ConnectionFlags, Transport};
use crate::mptcp::{Applied, MptcpPlan};

/// Options of the paths to a namespace.
pub(in crate::commands) struct PathsAsked<'a> {
    pub(in crate::commands) flags: &'a PathFlags,
    pub(in crate::commands) nsid: u32,
    /// True if lost paths are reconnected.
    pub(in crate::commands) is_kept: bool,
}

impl<'a> PathsAsked<'a> {
    /// Returns the options of a benchmark.
    pub(in crate::commands) fn of(flags: &'a BenchFlags, nsid: u32) -> Self {
        let is_kept = flags.connection.traddr.len() > 1
            || flags.paths.reconnect_delay.is_some()
            || flags.paths.ctrl_loss_tmo.is_some();
        Self { flags: &flags.paths, nsid, is_kept }
    }
}

/// Returns the engine's options for the paths.
pub(in crate::commands) fn options(
    asked: &PathsAsked<'_>,
    (connection, nqn): (&Connection, &Nqn),
    queues: Queues,
    engine: Engine,
    placements: Option<&Placements>,
) -> Result<PathOptions, Failure> {
    let PathsAsked { flags, nsid, is_kept } = *asked;
    let path = |(at, options): (usize, ConnectOptions)| ConnectOptions {
        io_queue_ports: placements.map(|placed| placed.ports(at)).unwrap_or_default(),
        io_queues: queues.count,
        queue_entries: queues.entries,
        congestion: flags.congestion.clone(),
        engine,
        ..options
    };
    let paths: Vec<ConnectOptions> = connection.paths(nqn).into_iter().enumerate().map(path).collect();
    let mut options = if is_kept {
        PathOptions::new(paths, nsid)
    } else {
        // By default, the loss of a single connection ends the run.
        PathOptions { controller_loss: Some(Duration::ZERO), ..PathOptions::new(paths, nsid) }
    };
    options.policy = flags.iopolicy;
    options.quiesce = !flags.retry_at_once;
    if let Some(seconds) = flags.quiesce_time {
        options.unknown_quiesce = Duration::from_secs(seconds.into());
    }
    if let Some(seconds) = flags.reconnect_delay {
        options.reconnect_delay = Duration::from_secs(seconds.into());
    }
    if let Some(seconds) = flags.ctrl_loss_tmo {
        options.controller_loss = at_most(seconds);
    }
    options.fast_io_fail = flags.fast_io_fail_tmo.and_then(at_most);
    if is_kept && options.paths.iter().any(|path| path.keep_alive_ms == 0) {
        return Err(Failure::usage(
            "--keep-alive-tmo 0 cannot be used with several paths or reconnecting: without a keep alive, a lost controller \
             may go on forever",
        ));
    }
    Ok(options)
}

/// Notice about targets after whose loss writes wait for long; `None` if there are none, or the
/// time was given.
pub(in crate::commands) fn quiesce_notice(flags: &PathFlags, paths: &Paths) -> Option<String> {
    let (addresses, wait) = paths.unstated_quiesce().filter(|_| flags.quiesce_time.is_none())?;
    let targets: Vec<String> = addresses.iter().map(SocketAddr::to_string).collect();
    Some(format!(
        "target {}: reports no Command Quiesce Time: after the loss of a path, writes without a response wait for up to {} s; \
         --quiesce-time SECONDS shortens it, where you know in which time the target ends a lost host's commands",
        targets.join(", "),
        wait.as_secs()
    ))
}

/// Sets what MPTCP needs on this machine, if that was asked for, and else says what is missing.
pub(in crate::commands) fn prepare_machine(
    connection: &ConnectionFlags,
    paths: &PathFlags,
) -> Result<Option<Applied>, Failure> {
    if connection.transport != Transport::Mptcp {
        return if paths.configure_mptcp {
            Err(Failure::usage("--configure-mptcp requires -t mptcp"))
        } else {
            Ok(None)
        };
    }
    if paths.configure_mptcp {
        let applied = MptcpPlan::for_host()?.apply()?;
        applied.lines().iter().for_each(|line| eprintln!("set for this run: {line}"));
        return Ok(Some(applied));
    }
    // It works with what is there, over fewer addresses; where that is unknown, nothing is missing for sure.
    if let Ok(plan) = MptcpPlan::for_host()
        && !plan.is_empty()
    {
        eprintln!("MPTCP would use more addresses of this machine after (or with --configure-mptcp):");
        plan.lines().iter().for_each(|line| eprintln!("  {line}"));
    }
    Ok(None)
}

/// This number of seconds; a negative number means no limit.
fn at_most(seconds: i32) -> Option<Duration> {
    u64::try_from(seconds).ok().map(Duration::from_secs)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(arguments: &str) -> Result<PathOptions, Failure> {
        let flags = BenchFlags::of(&format!("-n nqn.a --rw randread {arguments}"));
        let connection = Connection::new(&flags.connection)?;
        options(
            &PathsAsked::of(&flags, 1),
            (&connection, &Nqn::new("nqn.a").unwrap()),
            Queues { count: 2, entries: 64 },
            Engine::Automatic,
            None,
        )
    }

    #[test]
    fn one_path_is_not_connected_again_unless_asked() {
        assert_eq!(of("-a 127.0.0.1").unwrap().controller_loss, Some(Duration::ZERO));
        let kept = of("-a 127.0.0.1 -c 2").unwrap();
        assert_eq!(kept.reconnect_delay, Duration::from_secs(2));
        assert_eq!(kept.controller_loss, Some(Duration::from_secs(600)));
        assert_eq!(of("-a 127.0.0.1 -l -1").unwrap().controller_loss, None);
        assert_eq!(of("-a 127.0.0.1,127.0.0.2 -l 5").unwrap().controller_loss, Some(Duration::from_secs(5)));
        assert!(matches!(of("-a 127.0.0.1,127.0.0.2 -k 0"), Err(Failure::Usage(_))));
        assert!(of("-a 127.0.0.1 -k 0").is_ok());
    }

    #[test]
    fn flags_reach_every_path() {
        let options =
            of("-a 127.0.0.1,127.0.0.2 --congestion reno --fast_io_fail_tmo 3 --no-quiesce").unwrap();
        assert_eq!(options.paths.len(), 2);
        for path in &options.paths {
            assert_eq!((path.io_queues, path.queue_entries), (2, 64));
            assert_eq!(path.congestion.as_deref(), Some("reno"));
        }
        assert_eq!(options.fast_io_fail, Some(Duration::from_secs(3)));
        assert!(!options.quiesce);
        assert!(!of("-a 127.0.0.1 --retry-at-once").unwrap().quiesce);
        let time = |arguments: &str| {
            let options = of(arguments).unwrap();
            (options.quiesce, options.unknown_quiesce.as_secs())
        };
        assert_eq!(time("-a 127.0.0.1"), (true, 30));
        assert_eq!(time("-a 127.0.0.1 --quiesce-time 2"), (true, 2));
        assert_eq!(
            of("-a 127.0.0.1 --congestion system").unwrap().paths[0].congestion.as_deref(),
            Some("system")
        );
    }
}
