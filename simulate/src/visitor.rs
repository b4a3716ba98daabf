//! A visitor: a process that uses the volume by the blocking library, in requests so long that they are split, while
//! hosts use it by their paths.

use std::rc::Rc;
use std::time::Duration;

use engine::initiator::{ConnectOptions, Controller, HostIdentity, InitiatorError, Volume};
use engine::simulation::{self, Random, sleep};
use nvme::Status;
use uuid::Uuid;

use crate::block;
use crate::history::WriteEnd;
use crate::host;
use crate::scene::{Scene, address};
use crate::target::NQN;

/// Number of the host it is; the others have smaller ones.
const IDENTITY: u128 = 0x100;
/// Time between two attempts to connect.
const AGAIN: Duration = Duration::from_millis(300);
/// Longest time between two requests, in milliseconds.
const PAUSE_MS_MAX: u64 = 60;
/// Requests of one visit.
const REQUESTS: usize = 12;

/// Plan of a visitor.
#[derive(Clone, Debug)]
pub(crate) struct VisitorPlan {
    pub(crate) target: usize,
    pub(crate) port: usize,
    pub(crate) io_queues: u16,
    pub(crate) keep_alive_ms: u32,
}

/// The life of a visitor: it comes, does what it came for, and goes, for as long as the scene lasts.
pub(crate) fn live(scene: &Rc<Scene>, plan: &VisitorPlan) {
    let mut random = simulation::fork_random();
    while !scene.ends.get() {
        if let Err(error) = run_session(scene, plan, &mut random) {
            simulation::say(|| format!("the visit is over: {error}"));
            if !scene.may_lose_connections() {
                simulation::fail(format!("a visitor was sent away: {error}"));
            }
        }
        sleep(AGAIN);
    }
    scene.visitors_left.set(scene.visitors_left.get() - 1);
}

fn run_session(scene: &Rc<Scene>, plan: &VisitorPlan, random: &mut Random) -> Result<(), InitiatorError> {
    let Some(controller) = come(IDENTITY, (plan.target, plan.port), plan.io_queues, plan.keep_alive_ms)
    else {
        return Ok(());
    };
    let namespace = Volume::on_controller(&controller, 1)?;
    for _ in 0..REQUESTS {
        if scene.ends.get() {
            break;
        }
        sleep(Duration::from_millis(random.between(1, PAUSE_MS_MAX)));
        request(scene, plan, &namespace, random)?;
    }
    drop(namespace);
    controller.disconnect()
}

/// Connects to a port of a target. None where it does not take the visitor, which may have come before the target.
pub(crate) fn come(
    identity: u128,
    (target, port): (usize, usize),
    io_queues: u16,
    keep_alive_ms: u32,
) -> Option<Controller> {
    let options = ConnectOptions {
        host: HostIdentity::from_uuid(Uuid::from_u128(identity)),
        io_queues,
        keep_alive_ms,
        ..ConnectOptions::new(address(target, port), NQN)
    };
    Controller::connect(options).inspect_err(|error| simulation::say(|| format!("no visit: {error}"))).ok()
}

/// Sends one request, of any length that the volume has.
fn request(
    scene: &Scene,
    plan: &VisitorPlan,
    namespace: &Volume,
    random: &mut Random,
) -> Result<(), InitiatorError> {
    let block_size = scene.plan.block_size;
    // It may have seen a volume that has just grown before everybody has.
    let blocks = (namespace.size_bytes() / block_size as u64).min(scene.history.borrow().block_count());
    let count = random.between(1, blocks);
    let start = random.below(blocks - count + 1);
    let (offset, mut data) = (start * block_size as u64, vec![0; count as usize * block_size]);
    if random.chance(500) {
        let look = scene.history.borrow().begin_read(start, count);
        namespace.read_at(offset, &mut data)?;
        scene.history.borrow_mut().end_read(start, &look, &data);
        return Ok(());
    }
    if !scene.history.borrow().is_free(start, count, simulation::now()) {
        return Ok(());
    }
    let (durable, zeroes) = (random.chance(300), random.chance(150));
    let name = scene.history.borrow_mut().begin_write(start, count, zeroes);
    let outcome = if zeroes {
        namespace.write_zeroes(offset, data.len() as u64, false)
    } else {
        block::fill(&mut data, block_size, start, name);
        if durable { namespace.write_durable_at(offset, &data) } else { namespace.write_at(offset, &data) }
    };
    let end = match &outcome {
        Ok(()) => WriteEnd::Answered(Status::SUCCESS),
        Err(InitiatorError::CommandFailed { status, .. }) => WriteEnd::Answered(*status),
        // What was under way may go on for a while.
        Err(_) => WriteEnd::Lost { rest: host::rest(scene, plan.keep_alive_ms) },
    };
    let is_durable = durable && !zeroes;
    scene.history.borrow_mut().end_write((start, count), name, is_durable, end);
    outcome
}
