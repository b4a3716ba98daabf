//! What a service manager learns from a target and gives it: that it serves, that its reactors go round, that it ends, and the
//! sockets that were opened for it. Without a service manager nothing happens.

use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use engine::target::Target;
use listenfd::ListenFd;
use sd_notify::NotifyState;

use crate::failure::Failure;

/// Pings in one period of the watchdog.
const TIMES: u32 = 4;

/// The sockets that the service manager has opened for this process.
pub(crate) fn inherited() -> Result<Vec<Arc<TcpListener>>, Failure> {
    let mut passed = ListenFd::from_env();
    let mut sockets = Vec::with_capacity(passed.len());
    for at in 0..passed.len() {
        let socket = passed.take_tcp_listener(at).map_err(|error| {
            Failure::failed(format!(
                "socket {} that the service manager passes is not one that listens for TCP ({error}); use ListenStream= with \
                 an address and a port",
                at + 1
            ))
        })?;
        sockets.extend(socket.map(Arc::new));
    }
    Ok(sockets)
}

/// Checks that each socket is one of the ports, which hosts would otherwise reach without an answer.
pub(crate) fn check_inherited(sockets: &[Arc<TcpListener>], ports: &[SocketAddr]) -> Result<(), Failure> {
    for socket in sockets {
        let address = socket.local_addr().map_err(Failure::failed)?;
        if !ports.contains(&address) {
            let ports: Vec<String> = ports.iter().map(ToString::to_string).collect();
            return Err(Failure::usage(format!(
                "the service manager passes a socket for {address}, which is none of the ports ({}); change ListenStream= or \
                 the address of a [[port]]",
                ports.join(", ")
            )));
        }
    }
    Ok(())
}

/// Notifications to the service manager until the target ends.
#[derive(Debug)]
pub(crate) struct Service {
    watchdog: Option<(SyncSender<()>, JoinHandle<()>)>,
}

impl Service {
    /// Tells that the target serves, and from then on that it is well, if the service manager wants to know.
    pub(crate) fn ready(target: &Arc<Target>) -> Self {
        tell(&[NotifyState::Ready, NotifyState::Status(&status(target))]);
        let watchdog = sd_notify::watchdog_enabled().and_then(|limit| {
            let (end, ended) = sync_channel(0);
            let target = target.clone();
            let watch = move || watch(&target, limit / TIMES, &ended);
            let thread = thread::Builder::new().name("watchdog".to_owned()).spawn(watch);
            // Then the service manager ends this process, which says what the system lacks.
            let failed = |error: &std::io::Error| tracing::error!(%error, "no thread for the watchdog");
            Some((end, thread.inspect_err(failed).ok()?))
        });
        Self { watchdog }
    }

    /// Tells that it ends.
    pub(crate) fn stopping(mut self) {
        tell(&[NotifyState::Stopping, NotifyState::Status("finishing commands")]);
        if let Some((end, thread)) = self.watchdog.take() {
            drop(end);
            let _ = thread.join();
        }
    }
}

/// Asks the reactors every so often, and tells the service manager when all have answered.
fn watch(target: &Target, interval: Duration, ended: &Receiver<()>) {
    let (mut asked, mut was_well) = (target.ask_pulse(), true);
    while ended.recv_timeout(interval) == Err(RecvTimeoutError::Timeout) {
        let missing = asked.missing();
        if missing == 0 {
            tell(&[NotifyState::Watchdog, NotifyState::Status(&status(target))]);
            asked = target.ask_pulse();
        } else if was_well {
            // Once: the same question stays open until they answer, or the service manager has had enough.
            tracing::error!(
                reactors = missing,
                "reactors are stuck; sending no watchdog ping, so the service manager may restart this target"
            );
        }
        was_well = missing == 0;
    }
}

fn status(target: &Target) -> String {
    let config = target.config();
    let namespaces: usize = config.subsystems.iter().map(|subsystem| subsystem.namespaces.len()).sum();
    let absent = match target.absent().len() {
        0 => String::new(),
        count => format!(", {count} of them absent"),
    };
    let (ports, subsystems) = (config.ports.len(), config.subsystems.len());
    let of = |count: usize, one: &str| format!("{count} {one}{}", if count == 1 { "" } else { "s" });
    format!(
        "serving {}{absent} in {} on {}",
        of(namespaces, "namespace"),
        of(subsystems, "subsystem"),
        of(ports, "port")
    )
}

fn tell(news: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(news) {
        tracing::warn!(%error, "a message to the service manager is lost");
    }
}
