//! Queues of the kernel's initiator: its controllers over TCP in /sys/class/nvme, and which connection is which queue, from
//! debugfs where it says so and otherwise by the order in which they were made.

use std::net::{IpAddr, SocketAddr};

use super::ObserveError;
use super::flows::{Connections, Ends, Found};
use super::pairing::{self, Candidate, Wanting};
use super::queue_info::{self, QueueInfo};
use super::reader::{Reader, SHOWN_CHARACTERS, numbered};
use crate::limits::FLOWS_MAX;
use crate::socket::{Socket, SocketState};
use crate::{CpuSet, FlowOwner, FlowSource, Worker};

pub(super) const CLASS: &str = "sys/class/nvme";

/// A controller over TCP.
struct Controller {
    name: String,
    instance: u32,
    controller_id: Option<u32>,
    subsystem_nqn: Option<String>,
    queue_count: u16,
    peer: SocketAddr,
    /// Addresses that its connections come from, where it says some.
    sources: Vec<IpAddr>,
    /// Disks of the controller, under which debugfs describes its queues.
    disks: Vec<String>,
}

/// Adds the kernel's queues to those found. Whether it has any controller over TCP.
pub(super) fn read(
    reader: &mut Reader<'_>,
    connections: &Connections,
    found: &mut Vec<Found>,
) -> Result<bool, ObserveError> {
    let mut controllers = Vec::new();
    for name in reader.list(CLASS) {
        if let Some(controller) = controller(reader, name)? {
            controllers.push(controller);
        }
    }
    controllers.sort_by_key(|controller| controller.instance);
    let mut infos = Vec::new();
    for controller in &controllers {
        infos.push(queue_infos(reader, controller));
    }
    for (controller, infos) in controllers.iter().zip(&infos) {
        for info in infos {
            let worker = worker(reader, controller, info.queue_id, info.cpu)?;
            found.push(queue(
                &controller.name,
                controller,
                info.ends,
                Some(info.queue_id),
                FlowSource::Kernel,
                worker,
            ));
        }
    }
    derive(reader, connections, &controllers, &infos, found)?;
    Ok(!controllers.is_empty())
}

fn controller(reader: &mut Reader<'_>, name: String) -> Result<Option<Controller>, ObserveError> {
    let path = |file: &str| format!("{CLASS}/{name}/{file}");
    let Some(instance) = numbered(&name, "nvme") else { return Ok(None) };
    if reader.text(&path("transport")).as_deref() != Some("tcp") {
        return Ok(None);
    }
    let Some(address) = reader.text(&path("address")) else { return Ok(None) };
    let Some((peer, sources)) = address_of(&address) else {
        let expected = "traddr=ADDRESS,trsvcid=PORT and more";
        return Err(reader.nonsense(&path("address"), &address, expected));
    };
    let queue_count = reader.value(&path("queue_count"), "a number of queues")?.unwrap_or(0);
    let controller_id = reader.value(&path("cntlid"), "a controller identifier")?;
    let subsystem_nqn = reader.text(&path("subsysnqn")).filter(|nqn| !nqn.is_empty());
    let is_disk = |disk: &str| is_disk(disk, instance);
    let disks = reader.machine.list_where(&format!("{CLASS}/{name}"), is_disk);
    Ok(Some(Controller { name, instance, controller_id, subsystem_nqn, queue_count, peer, sources, disks }))
}

/// True if a name is that of a disk of a controller: `nvme0n1`, or `nvme0c1n1` where there are
/// paths.
fn is_disk(name: &str, instance: u32) -> bool {
    let Some(rest) = name.strip_prefix("nvme") else { return false };
    let Some((before, namespace)) = rest.rsplit_once('n') else { return false };
    let is_number = |digits: &str| !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    let owner = before.split_once('c').map_or(before, |(_, controller)| controller);
    is_number(namespace) && owner.parse() == Ok(instance)
}

/// Value of this name in a controller's address.
pub(super) fn address_value<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    let mut pairs = text.split(',').filter_map(|pair| pair.split_once('='));
    pairs.find(|(key, _)| key.trim() == name).map(|(_, value)| value.trim())
}

/// The address that a controller is at, and those its connections come from.
pub(super) fn address_of(text: &str) -> Option<(SocketAddr, Vec<IpAddr>)> {
    let value = |name: &str| address_value(text, name);
    // An address of one link has its interface behind it.
    let plain =
        |text: &str| text.split('%').next()?.parse::<IpAddr>().ok().map(|address| address.to_canonical());
    let peer = SocketAddr::new(plain(value("traddr")?)?, value("trsvcid")?.parse().ok()?);
    let sources = ["src_addr", "host_traddr"].iter().filter_map(|name| value(name).and_then(plain));
    Some((peer, sources.collect()))
}

/// Description of a controller's queues in debugfs. Those in another form are left to the order of connections.
fn queue_infos(reader: &mut Reader<'_>, controller: &Controller) -> Vec<QueueInfo> {
    for disk in &controller.disks {
        let path = format!("sys/kernel/debug/block/{disk}/io_queue_info");
        let text = match reader.machine.read(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied => {
                let what = "/sys/kernel/debug/block/*/io_queue_info";
                reader.shortfall(what, &error.to_string(), true);
                continue;
            }
            Err(_) => continue,
        };
        let (mut infos, unknown) = queue_info::parse(&text);
        if let Some(line) = unknown {
            let line: String = line.chars().take(SHOWN_CHARACTERS).collect();
            let reason = format!(
                "`{line}` is not of the form qid=1 cpu=3 src_ip=... src_port=... dst_ip=... dst_port=...; the connections of its \
                 queues are derived"
            );
            reader.shortfall(&format!("/{path}"), &reason, false);
        }
        infos.truncate(FLOWS_MAX);
        return infos;
    }
    Vec::new()
}

/// Worker of a queue: the kernel's worker on a processor that the block layer gives the queue.
fn worker(
    reader: &mut Reader<'_>,
    controller: &Controller,
    queue_id: u16,
    cpu: Option<u32>,
) -> Result<Option<Worker>, ObserveError> {
    let mut allowed = CpuSet::default();
    for disk in &controller.disks {
        // The block layer counts I/O queues from 0.
        let Some(context) = queue_id.checked_sub(1) else { break };
        let path = format!("{CLASS}/{}/{disk}/mq/{context}/cpu_list", controller.name);
        let Some(text) = reader.text(&path) else { continue };
        let parsed = text.replace(' ', "").parse();
        allowed = parsed.map_err(|_| reader.nonsense(&path, &text, "a list of CPUs, as in 0, 1"))?;
        break;
    }
    let cpu = cpu.or(allowed.only());
    let is_known = cpu.is_some() || !allowed.is_empty();
    Ok(is_known.then_some(Worker { thread: None, cpu, allowed, is_movable: false }))
}

fn queue(
    name: &str,
    controller: &Controller,
    ends: Ends,
    queue_id: Option<u16>,
    source: FlowSource,
    worker: Option<Worker>,
) -> Found {
    Found {
        owner: FlowOwner::Kernel,
        controller: name.to_owned(),
        subsystem_nqn: controller.subsystem_nqn.clone(),
        queue_id,
        source,
        worker,
        ends,
    }
}

/// Adds the queues that the kernel does not tell, by controllers of one address at a time.
fn derive(
    reader: &mut Reader<'_>,
    connections: &Connections,
    controllers: &[Controller],
    infos: &[Vec<QueueInfo>],
    found: &mut Vec<Found>,
) -> Result<(), ObserveError> {
    let mut left: Vec<usize> = (0..controllers.len()).collect();
    while let Some(first) = left.first().copied() {
        let (group, others) = left.iter().partition(|at| are_alike(&controllers[first], &controllers[**at]));
        left = others;
        let group: Vec<usize> = group;
        let is_described = |socket: &Socket| {
            let ends = (socket.local, socket.peer);
            group.iter().any(|at| infos[*at].iter().any(|info| info.ends == ends))
        };
        let is_ours = |socket: &Socket| group.iter().any(|at| can_be_of(socket, &controllers[*at]));
        let sockets: Vec<&Socket> =
            connections.all.iter().filter(|socket| is_ours(socket) && !is_described(socket)).collect();
        note_missing(reader, connections, &group, controllers, sockets.len(), infos);
        let wanting: Vec<Wanting> = group.iter().map(|at| wanting(&controllers[*at], &infos[*at])).collect();
        let candidates: Vec<Candidate> = sockets.iter().map(|socket| candidate(socket)).collect();
        for pair in pairing::pair(&wanting, &candidates) {
            let socket = sockets[pair.candidate];
            let ends = (socket.local, socket.peer);
            let Some(at) = pair.controller else {
                let names: Vec<&str> = group.iter().map(|at| controllers[*at].name.as_str()).collect();
                let name = names.join(" or ");
                let mut unknown = queue(&name, &controllers[group[0]], ends, None, pair.source, None);
                let nqn = |at: &usize| &controllers[*at].subsystem_nqn;
                unknown.subsystem_nqn =
                    nqn(&group[0]).clone().filter(|_| group.iter().all(|at| nqn(at) == nqn(&group[0])));
                found.push(unknown);
                continue;
            };
            let controller = &controllers[group[at]];
            let worker = match pair.queue_id {
                Some(queue_id) => worker(reader, controller, queue_id, None)?,
                None => None,
            };
            found.push(queue(&controller.name, controller, ends, pair.queue_id, pair.source, worker));
        }
    }
    Ok(())
}

/// Notes controllers that have queues, but no connection that could be seen.
fn note_missing(
    reader: &mut Reader<'_>,
    connections: &Connections,
    group: &[usize],
    controllers: &[Controller],
    sockets: usize,
    infos: &[Vec<QueueInfo>],
) {
    for at in group.iter().filter(|at| sockets == 0 && connections.is_listed && infos[**at].is_empty()) {
        let Controller { name, peer, queue_count, .. } = &controllers[*at];
        if *queue_count > 0 {
            let reason = format!(
                "no socket of this network namespace goes to {peer}: it may be in another namespace, or be connecting"
            );
            reader.shortfall(&format!("connections of {name}"), &reason, false);
        }
    }
}

/// True if the connections of two controllers look alike: their addresses do not distinguish them.
fn are_alike(one: &Controller, other: &Controller) -> bool {
    let share = one.sources.iter().any(|source| other.sources.contains(source));
    one.peer == other.peer && (share || one.sources.is_empty() || other.sources.is_empty())
}

/// True if a socket can be a connection of a controller: the kernel's own are root's and no process
/// has them.
fn can_be_of(socket: &Socket, controller: &Controller) -> bool {
    let peer = SocketAddr::new(socket.peer.ip().to_canonical(), socket.peer.port());
    let local = socket.local.ip().to_canonical();
    socket.state == SocketState::Established
        && socket.pid.is_none()
        && socket.uid == 0
        && peer == controller.peer
        && (controller.sources.is_empty() || controller.sources.contains(&local))
}

fn wanting(controller: &Controller, infos: &[QueueInfo]) -> Wanting {
    let is_missing = |queue_id: &u16| infos.iter().all(|info| info.queue_id != *queue_id);
    Wanting {
        controller_id: controller.controller_id,
        instance: controller.instance,
        queue_ids: (0..controller.queue_count).filter(is_missing).collect(),
    }
}

fn candidate(socket: &Socket) -> Candidate {
    Candidate { inode: socket.inode, port: socket.local.port(), received_bytes: socket.received_bytes }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_controllers_are_read() {
        let text = "traddr=10.0.0.2,trsvcid=4420,host_traddr=10.0.0.1,host_iface=eth0,src_addr=10.0.0.1";
        let (peer, sources) = address_of(text).unwrap();
        assert_eq!(peer, "10.0.0.2:4420".parse().unwrap());
        assert_eq!(sources, ["10.0.0.1".parse::<IpAddr>().unwrap(); 2]);
        let (peer, sources) = address_of("traddr=fe80::1%eth0,trsvcid=8009\n").unwrap();
        assert_eq!((peer, sources.len()), ("[fe80::1]:8009".parse().unwrap(), 0));
        for wrong in ["", "traddr=x,trsvcid=4420", "traddr=10.0.0.2", "traddr=10.0.0.2,trsvcid=70000"] {
            assert!(address_of(wrong).is_none(), "{wrong}");
        }
    }

    #[test]
    fn disks_are_recognised_by_their_names() {
        for (name, instance, is) in [
            ("nvme0n1", 0, true),
            ("nvme3c12n7", 12, true),
            ("nvme3c12n7", 3, false),
            ("nvme1n1", 0, false),
            ("ng0n1", 0, false),
            ("hwmon3", 0, false),
            ("nvme0n", 0, false),
        ] {
            assert_eq!(is_disk(name, instance), is, "{name}");
        }
    }
}
