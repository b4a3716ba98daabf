//! Connections of this process as it knows them itself, completed with facts that it cannot know:
//! their interfaces, and the processors of the threads that work on them. Other processes are not
//! examined.

use std::collections::BTreeMap;

use super::reader::{Reader, numbered};
use super::{Machine, ObserveError, flows, interfaces, irqbalance, processors, programs};
use crate::{Flow, Topology, Worker};

/// Looks at what of a machine concerns this process's own connections, each with the name of the thread that works on it. A
/// flow keeps the worker that it has where no thread, or more than one, has that name.
///
/// # Errors
/// When a file holds what it cannot hold, or the machine has no processors: the file is named.
pub fn observe_own(machine: &Machine, found: Vec<(Flow, String)>) -> Result<Topology, ObserveError> {
    let mut reader = Reader::new(machine);
    let kernel = reader.text("proc/sys/kernel/osrelease").unwrap_or_default();
    let processors = processors::read(&mut reader)?;
    let workers = workers(&mut reader)?;
    let keep = |(flow, thread): (Flow, String)| match workers.get(&thread) {
        Some(Some(worker)) => Flow { worker: Some(worker.clone()), ..flow },
        _ => flow,
    };
    let flows = flows::located(&mut reader, &[], found.into_iter().map(keep).collect())?;
    let names = flows.iter().filter_map(|flow| flow.interface.clone()).collect();
    let interfaces = interfaces::read_below(&mut reader, names)?;
    let irqbalance = irqbalance(machine);
    let shortfalls = reader.finish();
    Ok(Topology { kernel, processors, interfaces, flows, irqbalance, shortfalls, ..Topology::default() })
}

/// This process's threads by their names; none where several have one name.
fn workers(reader: &mut Reader<'_>) -> Result<BTreeMap<String, Option<Worker>>, ObserveError> {
    let mut found = BTreeMap::new();
    let threads = reader.machine.list_where("proc/self/task", |name| numbered(name, "").is_some());
    for thread in threads.iter().filter_map(|name| numbered(name, "")) {
        let Ok(name) = reader.machine.read(&format!("proc/self/task/{thread}/comm")) else { continue };
        let worker = programs::worker(reader, "self", thread)?;
        // Each works on many connections: none moves for one of them.
        let worker = worker.map(|worker| Worker { is_movable: false, ..worker });
        found.entry(name.trim_end().to_owned()).and_modify(|known| *known = None).or_insert(worker);
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use super::*;
    use crate::{CpuSet, FlowOwner, FlowSource, sample};

    /// A flow of a machine's as its target would know it.
    fn own(machine: &Topology) -> Flow {
        let flow = machine.flows.iter().find(|flow| flow.interface.is_some()).unwrap().clone();
        Flow {
            owner: FlowOwner::Target { pid: Some(7) },
            controller: "cntlid 2".to_owned(),
            source: FlowSource::Program,
            worker: Some(Worker { cpu: Some(1), allowed: CpuSet::one(1), ..Worker::default() }),
            interface: None,
            ..flow
        }
    }

    #[test]
    fn only_what_concerns_the_flows_is_looked_at() {
        for name in ["vlan", "bond", "bridge", "cpu72-queues32"] {
            let whole = sample::topology(name).unwrap();
            let flow = own(&whole);
            let machine = Machine::of_recording(name, sample::recording(&whole));
            let seen = observe_own(&machine, vec![(flow.clone(), "reactor-0".to_owned())]).unwrap();
            let was = whole.flows.iter().find(|known| known.local == flow.local && known.peer == flow.peer);
            let [own] = seen.flows.as_slice() else { panic!("{name}: {:?}", seen.flows) };
            assert_eq!(own.interface, was.unwrap().interface, "{name}");
            assert_eq!(own.worker, flow.worker, "{name}: a recording has no threads of this process");
            for interface in &seen.interfaces {
                assert_eq!(Some(interface), whole.interface(&interface.name), "{name}");
            }
            let legs = crate::course(&seen, own);
            let cpus =
                |legs: &[crate::Leg]| -> Vec<_> { legs.iter().map(|leg| (leg.queue, leg.cpu)).collect() };
            assert_eq!(cpus(&legs), cpus(&crate::course(&whole, was.unwrap())), "{name}");
            assert!(!legs.is_empty() && seen.interfaces.len() <= whole.interfaces.len(), "{name}");
        }
    }

    #[test]
    fn a_thread_of_this_process_is_found_by_its_name() {
        let ((begin, begun), (done, wait)) = (channel::<()>(), channel::<()>());
        let run = move || begin.send(()).is_ok() && wait.recv().is_ok();
        let thread = std::thread::Builder::new().name("own-tests-only".to_owned()).spawn(run).unwrap();
        // It gives itself its name.
        begun.recv().unwrap();
        let machine = Machine::live();
        let workers = workers(&mut Reader::new(&machine)).unwrap();
        let worker = workers["own-tests-only"].clone().unwrap();
        assert!(worker.thread.is_some() && !worker.is_movable && !worker.allowed.is_empty(), "{worker:?}");
        assert!(worker.cpu.is_some_and(|cpu| worker.allowed.contains(cpu)));
        drop(done);
        thread.join().unwrap();
    }
}
