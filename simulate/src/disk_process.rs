//! A process that serves the disk by the code of `attach`, to NBD clients, to a guest or as a block device, from its start or from
//! an upgrade to its end. It may be killed at any moment.

use std::cell::{Cell, RefCell};
use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use attach_crate::limits::RECOVERY_TIMEOUT_MS;
use attach_crate::ublk::{Device, DeviceHolder, Geometry};
use attach_crate::{
    Descriptor, Disk, FrontEndListener, HandOverError, Holder, Listener, Server, ServerOptions, VhostHolder,
    VhostUserServer,
};
use engine::initiator::Paths;
use engine::ring::RingOptions;
use engine::ring::tcp::{self, TcpListener};
use engine::simulation::{self, sleep};
use engine::transport::{ListenOptions, Transport};

use crate::attach;
use crate::attach_hand_over::{self, HandedState};
use crate::controller_files::ControllerStore;
use crate::disk_node::DiskNode;
use crate::disk_plan::FrontEnd;
use crate::nbd_client::{DISK, address};
use crate::scene::Scene;
use crate::ublk_driver::UblkDriver;
use crate::upgrade_channel;

/// Options of a process's listener.
pub(crate) const LISTEN: ListenOptions<'static> =
    ListenOptions { transport: Transport::Tcp, congestion: None, backlog: 128 };
/// Interval of looks for the end, and for an upgrade.
const LOOK_INTERVAL: Duration = Duration::from_millis(5);
/// Interval at which a process checks if another one still has the disk.
const PLACE_INTERVAL: Duration = Duration::from_millis(2);

/// The disk as a process has it.
pub(crate) struct DiskProcess {
    pub(crate) life: u64,
    paths: Arc<Paths>,
    controller_store: Arc<ControllerStore>,
    server: DiskServer,
    /// Another process serves, or was to and has died.
    pub(crate) is_over: Cell<bool>,
}

/// Socket by which the disk's users come.
pub(crate) enum Listening {
    /// None: the disk is a block device.
    Nothing,
    /// NBD clients.
    Clients(TcpListener),
    /// Monitors of guests.
    Guests(FrontEndListener),
}

/// Server of the disk.
enum DiskServer {
    /// NBD clients, with a second descriptor of the socket that listens.
    Nbd { server: RefCell<Option<Server>>, holder: Holder, listener: TcpListener },
    /// A guest, in the same way.
    VhostUser { server: RefCell<Option<VhostUserServer>>, holder: VhostHolder, listener: FrontEndListener },
    /// A block device, as the block layer knows it.
    Ublk { disk: Disk, geometry: Geometry, device: RefCell<Option<Device>>, leaves: Cell<bool> },
}

impl DiskProcess {
    /// A process that does not serve yet, and listens by this socket.
    pub(crate) fn open(
        node: &DiskNode,
        life: u64,
        (paths, controller_store): (Arc<Paths>, Arc<ControllerStore>),
        listening: Listening,
    ) -> io::Result<Rc<Self>> {
        let (name, description) = (DISK.to_owned(), String::new());
        let disk = Disk { name, description, paths: paths.clone(), is_read_only: false };
        let options = ServerOptions { threads: node.plan.queues, is_held: true, ..ServerOptions::default() };
        let server = match listening {
            Listening::Clients(own_listener) => {
                let listener = tcp::adopt(&own_listener.share()?, &LISTEN)?;
                let server = Server::start(vec![disk], vec![Listener(own_listener)], options)?;
                DiskServer::Nbd { holder: server.holder(), server: RefCell::new(Some(server)), listener }
            }
            Listening::Guests(own_listener) => {
                let listener = own_listener.share()?;
                let server = VhostUserServer::start(vec![(disk, own_listener)], options)?;
                let holder = server.holder();
                DiskServer::VhostUser { holder, server: RefCell::new(Some(server)), listener }
            }
            Listening::Nothing => {
                let geometry = Geometry::of(&disk).map_err(io::Error::other)?;
                // As `attach` has it of a device that can do more than the namespace can now.
                if geometry.discard_bytes_max == 0 || geometry.write_zeroes_bytes_max == 0 {
                    return Err(io::Error::other("the namespace can do less than the device"));
                }
                DiskServer::Ublk { disk, geometry, device: RefCell::default(), leaves: Cell::new(false) }
            }
        };
        Ok(Rc::new(Self { life, paths, controller_store, server, is_over: Cell::new(false) }))
    }

    /// The socket that listens, for the next process.
    pub(crate) fn listener(&self) -> io::Result<Option<upgrade_channel::Descriptor>> {
        use upgrade_channel::Descriptor::{Listening, ListeningForGuests};
        match &self.server {
            DiskServer::Nbd { listener, .. } => listener.share().map(|shared| Some(Listening(shared))),
            DiskServer::VhostUser { listener, .. } => {
                listener.share().map(|shared| Some(ListeningForGuests(shared)))
            }
            DiskServer::Ublk { .. } => Ok(None),
        }
    }

    /// Looks for processes that have been killed meanwhile.
    pub(crate) fn look_again(&self, node: &DiskNode) {
        let late = self.controller_store.left_controllers();
        node.count("left controllers found late", late.len());
        self.paths.quiesce_left(&late);
    }

    /// Ends what was asked for, and begins nothing else.
    pub(crate) fn freeze(&self) -> Result<(HandedState, Vec<Descriptor>), HandOverError> {
        match &self.server {
            DiskServer::Nbd { holder, .. } => {
                holder.freeze().map(|(server, descriptors)| (HandedState::Nbd(server), descriptors))
            }
            DiskServer::VhostUser { holder, .. } => {
                holder.freeze().map(|(server, descriptors)| (HandedState::VhostUser(server), descriptors))
            }
            DiskServer::Ublk { .. } => {
                self.device_holder().map_or(Ok(()), |holder| holder.freeze())?;
                Ok((HandedState::Ublk, Vec::new()))
            }
        }
    }

    /// Serves on as if nothing had been.
    pub(crate) fn thaw(&self) {
        match &self.server {
            DiskServer::Nbd { holder, .. } => holder.thaw(false),
            DiskServer::VhostUser { holder, .. } => holder.thaw(false),
            DiskServer::Ublk { .. } => self.device_holder().iter().for_each(DeviceHolder::thaw),
        }
    }

    /// Leaves what the new process cannot serve before.
    pub(crate) fn leave_devices(&self) {
        if let DiskServer::Ublk { leaves, .. } = &self.server {
            leaves.set(true);
            let has_left = self.device_holder().is_none_or(|holder| holder.leave());
            if !has_left {
                simulation::say(|| "the block device is left later than its new process expects".to_owned());
            }
        }
    }

    /// Serves on where another process had begun to, if it can: a device that was left waits for a recovery.
    pub(crate) fn serve_again(&self) -> bool {
        match &self.server {
            DiskServer::Nbd { holder, .. } => {
                holder.thaw(true);
                true
            }
            DiskServer::VhostUser { holder, .. } => {
                holder.thaw(true);
                true
            }
            DiskServer::Ublk { .. } => false,
        }
    }

    /// Leaves it to the new process, which serves.
    pub(crate) fn leave(&self) {
        match &self.server {
            DiskServer::Nbd { holder, .. } => holder.leave(),
            DiskServer::VhostUser { holder, .. } => holder.leave(),
            DiskServer::Ublk { .. } => {}
        }
        self.is_over.set(true);
    }

    /// Takes over what the old process hands over.
    pub(crate) fn adopt(
        &self,
        state: HandedState,
        descriptors: Vec<Descriptor>,
    ) -> Result<Vec<(String, String)>, HandOverError> {
        match (&self.server, state) {
            (DiskServer::Nbd { holder, .. }, HandedState::Nbd(server)) => holder.adopt(server, descriptors),
            (DiskServer::VhostUser { holder, .. }, HandedState::VhostUser(server)) => {
                holder.adopt(server, descriptors)
            }
            (DiskServer::Ublk { .. }, HandedState::Ublk) => Ok(Vec::new()),
            _ => Err(HandOverError::Descriptors),
        }
    }

    /// Begins to serve. A block device is taken over when no other process has it.
    /// `serves` is called when it does.
    pub(crate) fn begin(
        &self,
        scene: &Rc<Scene>,
        node: &DiskNode,
        is_disowned: bool,
        serves: impl FnOnce(),
    ) -> io::Result<()> {
        let (disk, geometry, device) = match &self.server {
            DiskServer::Nbd { holder, .. } => {
                serves();
                holder.thaw(is_disowned);
                return Ok(());
            }
            DiskServer::VhostUser { holder, .. } => {
                serves();
                holder.thaw(is_disowned);
                return Ok(());
            }
            DiskServer::Ublk { disk, geometry, device, .. } => (disk, *geometry, device),
        };
        let until = simulation::now().after(Duration::from_millis(RECOVERY_TIMEOUT_MS));
        while node.layer.borrow().has_server() {
            if simulation::now() >= until {
                return Err(io::Error::other("another process has the device"));
            }
            sleep(PLACE_INTERVAL);
        }
        node.layer.borrow_mut().serve(self.life);
        let driver = Box::new(UblkDriver { scene: scene.clone(), life: self.life });
        let size = (node.plan.queues, node.plan.depth as u16);
        let started = Device::start((disk, geometry), driver, size, RingOptions::default());
        *device.borrow_mut() = Some(started.inspect_err(|_| self.free(node))?);
        serves();
        Ok(())
    }

    fn device_holder(&self) -> Option<DeviceHolder> {
        match &self.server {
            DiskServer::Nbd { .. } | DiskServer::VhostUser { .. } => None,
            DiskServer::Ublk { device, .. } => device.borrow().as_ref().map(Device::holder),
        }
    }

    /// Leaves the device, if that is to be.
    fn look_at_device(&self, node: &DiskNode) {
        if let DiskServer::Ublk { leaves, .. } = &self.server
            && leaves.get()
        {
            self.abandon(node);
        }
    }

    /// Leaves the device to another process.
    fn abandon(&self, node: &DiskNode) {
        if let DiskServer::Ublk { device, .. } = &self.server {
            let device = device.borrow_mut().take();
            if let Some(device) = device {
                device.abandon();
                self.free(node);
            }
        }
    }

    /// Ends the server in order.
    fn stop(&self, node: &DiskNode) {
        self.abandon(node);
        match &self.server {
            DiskServer::Nbd { server, .. } => {
                let server = server.borrow_mut().take();
                server.map(Server::stop);
            }
            DiskServer::VhostUser { server, .. } => {
                let server = server.borrow_mut().take();
                server.map(VhostUserServer::stop);
            }
            DiskServer::Ublk { .. } => {}
        }
    }

    /// The driver has seen that this process has the device no longer.
    fn free(&self, node: &DiskNode) {
        let again = node.layer.borrow_mut().abandon(self.life, &mut simulation::fork_random());
        node.count("requests given to the next process", again);
    }

    fn has_failed(&self) -> bool {
        match &self.server {
            DiskServer::Nbd { server, .. } => server.borrow().as_ref().is_some_and(Server::has_failed),
            DiskServer::VhostUser { server, .. } => {
                server.borrow().as_ref().is_some_and(VhostUserServer::has_failed)
            }
            DiskServer::Ublk { device, leaves, .. } => {
                !leaves.get() && device.borrow().as_ref().is_some_and(Device::has_ended)
            }
        }
    }
}

/// Runs one life of the process, which is not started by an upgrade.
pub(crate) fn live(scene: &Rc<Scene>, life: u64) {
    let Some(node) = &scene.disk else { return };
    loop {
        match start(scene, node, life, || ()) {
            Ok(process) => return serve(scene, node, &process),
            // The process gets nothing of the system for a while, and is another one from then on.
            Err(error) => simulation::say(|| format!("the disk is not served: {error}")),
        }
        sleep(attach::AGAIN);
    }
}

/// Connects, and serves as soon as no other process does.
/// `serves` is called when it does.
pub(crate) fn start(
    scene: &Rc<Scene>,
    node: &DiskNode,
    life: u64,
    serves: impl FnOnce(),
) -> io::Result<Rc<DiskProcess>> {
    let process = match node.plan.front_end {
        FrontEnd::Nbd => {
            let connected = attach::connect(scene, node, life);
            let listener = loop {
                match tcp::listen(address(), &LISTEN) {
                    Ok(listener) => break listener,
                    Err(error) if error.kind() == io::ErrorKind::AddrInUse => sleep(PLACE_INTERVAL),
                    Err(error) => return Err(error),
                }
            };
            DiskProcess::open(node, life, connected, Listening::Clients(listener))?
        }
        FrontEnd::VhostUser => {
            let connected = attach::connect(scene, node, life);
            let listener = loop {
                match node.socket.listen() {
                    Ok(listener) => break listener,
                    Err(error) if error.kind() == io::ErrorKind::AddrInUse => sleep(PLACE_INTERVAL),
                    Err(error) => return Err(error),
                }
            };
            DiskProcess::open(node, life, connected, Listening::Guests(listener))?
        }
        _ => loop {
            match DiskProcess::open(node, life, attach::connect(scene, node, life), Listening::Nothing) {
                Ok(process) => break process,
                Err(error) => simulation::say(|| format!("no block device: {error}")),
            }
            sleep(attach::AGAIN);
        },
    };
    // The earlier process has ended by then.
    while node.layer.borrow().has_server() {
        sleep(PLACE_INTERVAL);
    }
    process.look_again(node);
    process.begin(scene, node, false, serves)?;
    Ok(process)
}

/// Serves until the users are done, or another process does.
pub(crate) fn serve(scene: &Rc<Scene>, node: &DiskNode, process: &Rc<DiskProcess>) {
    while !node.users_are_done() {
        attach_hand_over::leave(scene, node, process);
        process.look_at_device(node);
        if process.is_over.get() {
            return process.stop(node);
        }
        if process.has_failed() {
            return simulation::fail("a thread that serves the disk has ended");
        }
        attach::check_records(node, process.life, &process.paths);
        sleep(LOOK_INTERVAL);
    }
    process.stop(node);
    attach::end(scene, node, &process.paths, process.life);
}
