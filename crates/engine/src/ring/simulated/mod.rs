//! A world for the engine in which nothing is real: time, threads, the network and the disks follow from a seed, so that
//! the same seed gives the same history. It stands where `ring`, `transport` and the file backend meet the system; what
//! happens in that world, and what must not, is said by who simulates.

pub mod channel;
mod clock;
pub mod disk;
mod event_count;
mod event_descriptor;
mod fiber;
mod link;
pub mod lock;
mod network;
pub mod rados;
mod random;
mod remote;
mod ring;
mod scheduler;
mod socket;
pub mod tcp;
pub mod thread;
mod trace;

use std::net::IpAddr;
use std::time::Duration;

pub use clock::{now, wall_time};
pub use disk::{Hold, Storage};
pub(crate) use event_count::EventCount;
pub use event_descriptor::EventDescriptor;
pub use link::{Direction, Streams};
pub use random::Random;
pub use remote::{RemoteOperation, RemoteStorage};
pub use ring::{Ring, Waker};
pub use scheduler::{Judge, MachineId, Options, Outcome, ProcessId, run};
pub use socket::{SharedSocket, Socket};
pub use thread::Vital;

use crate::observation::Observation;
use scheduler::with;

/// A random number.
pub fn random() -> u64 {
    with(|world| world.random.next())
}

/// A generator of random numbers for the scene.
pub fn fork_random() -> Random {
    with(|world| world.random.fork())
}

/// Waits for `time`.
pub fn sleep(time: Duration) {
    thread::sleep(time);
}

/// Adds a machine with these addresses.
pub fn add_machine(addresses: &[IpAddr]) -> MachineId {
    with(|world| {
        let machine = world.add_machine();
        for address in addresses {
            world.own(*address, machine);
        }
        machine
    })
}

/// Starts a process on a machine.
pub fn start_process(name: &str, machine: MachineId, body: impl FnOnce() + 'static) -> ProcessId {
    let process = with(|world| world.add_process(name, machine));
    scheduler::spawn(Some(process), "main".to_owned(), move || {
        body();
        disk::release(process);
        with(|world| world.exit(process));
    });
    process
}

/// Another thread of the running process.
pub fn start_thread(name: &str, body: impl FnOnce() + 'static) {
    scheduler::spawn(None, name.to_owned(), body);
}

/// Ends a process as SIGKILL does. It must not be the running one.
pub fn kill(process: ProcessId) {
    say(|| format!("kill {process:?}"));
    scheduler::end_process(process);
}

/// Stops a process as SIGSTOP does, or lets it go on. What the system does for it goes on meanwhile.
pub fn pause(process: ProcessId, is_paused: bool) {
    with(|world| world.pause(process, is_paused));
}

/// A process gets nothing new of the system from now on, or does again: descriptors, threads, memory.
pub fn starve(process: ProcessId, is_starved: bool) {
    with(|world| world.starve(process, is_starved));
}

/// Checks that the running process gets something new of the system: a descriptor, a thread,
/// memory.
///
/// # Errors
/// When it does not.
pub fn spare() -> std::io::Result<()> {
    with(|world| world.spare())
}

/// The process that runs.
///
/// # Panics
/// Where none does.
pub fn current_process() -> ProcessId {
    with(|world| world.running().expect("a process runs"))
}

/// True while the running process is killed: what it has is dropped then, and nothing of it may be noticed.
pub fn is_ending() -> bool {
    scheduler::is_ending()
}

/// True if a process has ended, in whatever way. The system may still do what it had begun.
pub fn has_died(process: ProcessId) -> bool {
    with(|world| world.has_died(process))
}

/// Has the running program end as if an operator had asked it to: a part of it has found that it no longer has a place.
pub fn end_program() {
    with(|world| {
        if let Some(process) = world.running() {
            world.ask_to_end(process);
        }
    });
}

/// True if a part of the running program has asked it to end.
pub fn is_to_end() -> bool {
    with(|world| world.running().is_some_and(|process| world.is_to_end(process)))
}

/// Stops a machine with all its processes; no peer is notified.
pub fn power_off(machine: MachineId) {
    let processes = with(|world| {
        world.set_up(machine, false);
        world.forget_connections(machine);
        world.forget_rados(machine);
        world.processes_on(machine)
    });
    for process in processes {
        scheduler::end_process(process);
    }
}

/// A machine can be reached again. Its processes have to be started.
pub fn power_on(machine: MachineId) {
    with(|world| world.set_up(machine, true));
}

/// Cuts the link between a machine and an address in one direction, or mends it.
pub fn cut(host: MachineId, address: IpAddr, direction: Direction, is_cut: bool) {
    with(|world| world.cut(host, address, direction, is_cut));
}

/// Sets the speed of a link: shortest and longest latency in microseconds, and bytes per second.
pub fn set_link(host: MachineId, address: IpAddr, latency_us: (u64, u64), bytes_per_second: u64) {
    with(|world| {
        let now = world.now;
        let link = world.link(host, address);
        // What has been sent is on its way; what comes now does not stand behind it.
        link.busy_until = [now; 2];
        link.latency_ns = (latency_us.0 * 1000, latency_us.1 * 1000);
        link.bytes_per_second = bytes_per_second;
    });
}

/// Sets the properties of the connections that a host makes over a link from now on.
pub fn set_streams(host: MachineId, address: IpAddr, streams: Streams) {
    with(|world| world.link(host, address).streams = Some(streams));
}

/// Damages a byte of what a host next sends, or is sent, some way into a connection's data; `None` takes that back.
pub fn damage(host: MachineId, direction: Option<Direction>) {
    with(|world| world.network.damage = direction.map(|direction| link::Damage::new(host, direction)));
}

/// Resets all connections over a link.
pub fn reset(host: MachineId, address: IpAddr) {
    with(|world| world.reset_link(host, address));
}

/// Ends of connections that a process has open.
pub fn open_connections(process: ProcessId) -> usize {
    with(|world| world.open_ends(process))
}

/// States of the connections that a process has made: `connecting`, `initializing`, `joining`,
/// `live`, or `connection ending`.
pub fn connection_states(process: ProcessId) -> Vec<&'static str> {
    with(|world| world.states(process))
}

/// Something went wrong: the simulation ends here, and says this.
pub fn fail(reason: impl Into<String>) {
    with(|world| world.fail(reason.into()));
}

/// An end of a connection found something out about the other.
pub(crate) fn observe(observation: Observation) {
    // Who judges may let the simulation fail: the world must not be borrowed meanwhile.
    let Some(Some((judge, who))) = scheduler::with_if(|world| Some((world.judge?, world.who()))) else {
        return;
    };
    if let Some(fault) = judge(&who, observation) {
        fail(format!("{who}: {fault}"));
    }
}

/// Adds a line to the trace, where one is kept.
pub fn say(line: impl FnOnce() -> String) {
    scheduler::with_if(|world| {
        let (now, who) = (world.now, world.who());
        world.trace.say(now, || format!("{who}: {}", line()));
    });
}

/// Takes a number into the fingerprint of the history.
pub fn note(number: u64) {
    with(|world| {
        let now = world.now;
        world.trace.note(now, number);
    });
}
