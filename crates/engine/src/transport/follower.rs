//! The thread that looks at live connections and gives each the congestion control that suits its
//! path. One serves the whole process, targets and hosts, and there is none until a connection asks
//! for it. What suits is `path_judge`'s to say.

use std::io;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use super::congestion::{BBR, calm, set_in_use};
use super::info::traffic;
use super::path_judge::{Control, PathJudge};

/// Time between two looks at a connection that carries something: a lossy path should not stay slow for long.
const LOOK: Duration = Duration::from_millis(100);
/// The same while no connection carries anything.
const IDLE_LOOK: Duration = Duration::from_secs(2);

/// A connection that is followed. It does not keep the socket open.
struct Followed {
    socket: Weak<dyn AsFd + Send + Sync>,
    judge: PathJudge,
}

#[derive(Default)]
struct State {
    arrived: Vec<Followed>,
    is_running: bool,
}

static STATE: Mutex<State> = Mutex::new(State { arrived: Vec::new(), is_running: false });
static ARRIVED: Condvar = Condvar::new();
/// Changes to the calm control, and to bbr.
static CHANGES: [AtomicU64; 2] = [AtomicU64::new(0), AtomicU64::new(0)];

/// Follows the path of `socket` until it is closed.
pub(super) fn follow(socket: Weak<dyn AsFd + Send + Sync>) {
    let mut state = lock();
    state.arrived.push(Followed { socket, judge: PathJudge::new() });
    if !state.is_running {
        let started = std::thread::Builder::new().name("congestion".to_owned()).spawn(run);
        match started {
            Ok(_) => state.is_running = true,
            Err(error) => {
                tracing::warn!(%error, "cannot start the thread that chooses congestion controls; retrying");
            }
        }
    }
    ARRIVED.notify_one();
}

/// Numbers of changes of connections of this process to the calm control, and to bbr.
pub(super) fn changes() -> [u64; 2] {
    [CHANGES[0].load(Ordering::Relaxed), CHANGES[1].load(Ordering::Relaxed)]
}

fn lock() -> MutexGuard<'static, State> {
    STATE.lock().unwrap_or_else(PoisonError::into_inner)
}

fn run() {
    let began = Instant::now();
    let mut followed: Vec<Followed> = Vec::new();
    let mut pause = LOOK;
    loop {
        let mut state = lock();
        if state.arrived.is_empty() {
            // Without connections it sleeps until one comes: an idle process is not woken.
            state = if followed.is_empty() {
                ARRIVED.wait(state).unwrap_or_else(PoisonError::into_inner)
            } else {
                ARRIVED.wait_timeout(state, pause).unwrap_or_else(PoisonError::into_inner).0
            };
        }
        let has_arrivals = !state.arrived.is_empty();
        followed.append(&mut state.arrived);
        drop(state);
        if has_arrivals {
            // Thousands may connect one after the other: each would else have all the others looked at.
            std::thread::sleep(LOOK);
        }
        let mut is_idle = true;
        followed.retain_mut(|connection| {
            let Some(socket) = connection.socket.upgrade() else { return false };
            match look(&*socket, &mut connection.judge, began.elapsed()) {
                Ok(spoke) => is_idle &= !spoke,
                // It has ended, or the kernel does not have what it was to get: it stays as it is.
                Err(error) => {
                    tracing::debug!(%error, "a connection's congestion control is no longer chosen");
                    return false;
                }
            }
            true
        });
        pause = if is_idle { (pause * 2).min(IDLE_LOOK) } else { LOOK };
    }
}

/// Looks at one connection, and changes its control if need be; whether it has carried something since the last look.
fn look(socket: &dyn AsFd, judge: &mut PathJudge, now: Duration) -> io::Result<bool> {
    let traffic = traffic(&socket)?;
    let spoke = judge.has_spoken(traffic);
    if let Some(control) = judge.judge(now, traffic) {
        let name = match control {
            Control::Calm => calm(),
            Control::Bbr => BBR,
        };
        set_in_use(socket, name)?;
        CHANGES[usize::from(control == Control::Bbr)].fetch_add(1, Ordering::Relaxed);
        let peer = rustix::net::getpeername(socket).ok().flatten();
        let peer = peer.and_then(|peer| std::net::SocketAddr::try_from(peer).ok());
        tracing::info!(
            peer = peer.map_or_else(String::new, |peer| peer.to_string()),
            congestion = name,
            rtt_us_min = traffic.rtt_us_min,
            sent_bytes = traffic.sent_bytes,
            retransmitted_bytes = traffic.retransmitted_bytes,
            "changed a connection's congestion control"
        );
    }
    Ok(spoke)
}
