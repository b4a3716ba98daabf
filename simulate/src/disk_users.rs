//! Users of the disk, one for each of its queues: they read, write, flush, zero and discard, and keep off blocks that others than
//! they write. They live as long as the scene.

use std::rc::Rc;
use std::time::Duration;

use engine::simulation::{self, Random, sleep};

use crate::block_layer::{Change, Request, Work};
use crate::disk_node::DiskNode;
use crate::scene::Scene;

/// The name of their process.
pub(crate) const PROCESS: &str = "disk-users";

/// The life of all of them.
pub(crate) fn live(scene: &Rc<Scene>) {
    let Some(node) = &scene.disk else { return };
    for queue in 0..node.plan.queues {
        let scene = scene.clone();
        simulation::start_thread(&format!("user{queue}"), move || use_queue(&scene, queue));
    }
}

fn use_queue(scene: &Scene, queue: u16) {
    let Some(node) = &scene.disk else { return };
    let mut random = simulation::fork_random();
    while !scene.ends.get() {
        sleep(Duration::from_micros(random.between(1, node.plan.pause_us_max)));
        if node.layer.borrow().has_room(queue) {
            begin(scene, node, queue, &mut random);
        }
    }
    node.users_done.set(node.users_done.get() + 1);
}

fn begin(scene: &Scene, node: &DiskNode, queue: u16, random: &mut Random) {
    let blocks = scene.history.borrow().block_count();
    let count = random.between(1, node.plan.blocks_max.min(blocks));
    let start = random.below(blocks - count + 1);
    let [writes, flushes, zeroes, discards] = node.plan.mix;
    let choice = random.below(1000);
    let durable = random.chance(node.plan.durable);
    let how = match choice {
        _ if choice < writes => Change::Write,
        _ if choice < writes + zeroes => Change::Zeroes { deallocate: random.chance(500) },
        _ => Change::Discard,
    };
    let mut history = scene.history.borrow_mut();
    let work = if choice < writes + zeroes + discards {
        if !history.is_free_but_for_sharers(start, count, simulation::now()) {
            return;
        }
        let name = history.begin_shared_write(start, count, how != Change::Write);
        // A discard is never durable by itself.
        Work::Write { name, durable: durable && how != Change::Discard, how }
    } else if choice < writes + zeroes + discards + flushes {
        Work::Flush { name: history.begin_flush(), era: history.era() }
    } else {
        Work::Read { look: history.begin_read(start, count) }
    };
    drop(history);
    node.layer.borrow_mut().add(queue, Request::new(work, start, count));
}
