//! The two processes of an upgrade of the disk, as the program has them: one offers its socket and hands over its clients, or
//! leaves its block device; the other opens and adopts them. What they decide is the engine's, and how clients and devices come
//! to rest and go on is the code of `attach`.

use std::cell::{Cell, RefCell};
use std::io;
use std::rc::Rc;
use std::time::Duration;

use attach_crate::{FrontEndListener, HandedServer, HandedVhostServer};
use engine::hand_over::{
    self, Channel, Fault, Greeting, HandOverError, NewService, NotOffered, OldService, Protocol,
    TakeOverOutcome,
};
use engine::ring::tcp;
use engine::simulation::{self, sleep};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::attach;
use crate::disk_node::DiskNode;
use crate::disk_process::{self, DiskProcess, LISTEN, Listening};
use crate::hand_over::{END, OtherProcess, WatchedProcess, has_died_within};
use crate::scene::Scene;
use crate::upgrade::{Played, State, Upgrade};
use crate::upgrade_channel::{Descriptor, UpgradeChannel};

/// Interval of looks whether an old process that does not answer has died.
const LOOK_INTERVAL: Duration = Duration::from_millis(50);

type Word = hand_over::Word<AttachProtocol>;

/// Hand-over of the disk, with the time limits of the program's.
#[derive(Debug)]
pub(crate) enum AttachProtocol {}

impl Protocol for AttachProtocol {
    const MAGIC: [u8; 8] = *b"slv-atch";
    const FORMAT: u32 = 1;
    const PREPARATION: Duration = Duration::from_secs(60);
    const TAKING: Duration = Duration::from_secs(5);
    const TAKING_EACH: Duration = Duration::ZERO;
    type Offer = Offered;
    type State = Handed;
    /// A word takes the descriptors along that it is said with.
    type Descriptor = RefCell<Option<attach_crate::Descriptor>>;
}

impl Played for AttachProtocol {}

/// Offer of the old process beside its descriptors.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Offered {
    /// Descriptors that are offered.
    descriptors: usize,
}

/// State of the disk's users.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum HandedState {
    /// NBD clients.
    Nbd(HandedServer),
    /// Guests.
    VhostUser(HandedVhostServer),
    /// A block device, which the old process leaves behind its last word.
    Ublk,
}

/// State of the disk.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Handed {
    state: HandedState,
    /// Descriptors that go with it.
    descriptors: usize,
}

impl Channel<AttachProtocol> for UpgradeChannel {
    type Descriptor = Descriptor;

    fn wait_at_most(&self, time: Option<Duration>) -> io::Result<()> {
        self.set_patience(time);
        Ok(())
    }

    fn say(&self, word: &Word, descriptors: &[RefCell<Option<attach_crate::Descriptor>>]) -> io::Result<()> {
        let taken = descriptors.iter().filter_map(RefCell::take).map(Descriptor::OfDisk);
        self.say_with(word, taken.collect())
    }

    fn hear(&self) -> io::Result<(Word, Vec<Descriptor>)> {
        self.hear_with()
    }
}

/// Hands the disk over if a new process has come, on a thread of its own.
pub(crate) fn leave(scene: &Rc<Scene>, node: &DiskNode, process: &Rc<DiskProcess>) {
    let Some(upgrade) = node.upgrade.borrow().clone() else { return };
    if upgrade.old != simulation::current_process() {
        return;
    }
    let Some(channel) = upgrade.channel.take() else { return };
    let (scene, process) = (scene.clone(), process.clone());
    simulation::start_thread("upgrade", move || {
        let Some(node) = &scene.disk else { return };
        let outcome = hand_over(node, &process, &upgrade, &channel);
        drop(channel);
        simulation::say(|| format!("the old process: {outcome:?}"));
        match outcome {
            Ok(true) => {
                upgrade.old_is(State::Ends { is_alone: false });
                process.leave();
            }
            // A block device that was left to a process which has died waits for a recovery.
            Ok(false) if matches!(upgrade.old_state(), State::Ends { .. }) => process.leave(),
            _ => upgrade.old_is(State::Serves),
        }
    });
}

fn hand_over(
    node: &DiskNode,
    process: &DiskProcess,
    upgrade: &Upgrade,
    channel: &UpgradeChannel,
) -> Result<bool, HandOverError> {
    let Greeting::Comes { .. } = Greeting::hear::<AttachProtocol>(channel)? else { return Ok(false) };
    simulation::spare()?;
    let has_resumed = Rc::new(Cell::new(false));
    let mut descriptors = vec![Descriptor::HasResumed(has_resumed.clone())];
    descriptors.extend(process.listener()?);
    let offered = Offered { descriptors: descriptors.len() };
    channel.say_with(&Word::Offer(Box::new(offered)), descriptors)?;
    let Some(new) = upgrade.new_process() else { return Ok(false) };
    let mut service = OldDisk { node, process, upgrade, has_resumed, handed: None };
    hand_over::hand_over(channel, &OtherProcess(new), &mut service)
}

/// The disk of the old process.
struct OldDisk<'a> {
    node: &'a DiskNode,
    process: &'a DiskProcess,
    upgrade: &'a Upgrade,
    has_resumed: Rc<Cell<bool>>,
    handed: Option<(HandedState, Vec<attach_crate::Descriptor>)>,
}

impl OldService<AttachProtocol> for OldDisk<'_> {
    fn quiesce(&mut self) -> Result<(), HandOverError> {
        let handed = self.process.freeze().map_err(|error| HandOverError::program(Fault::Time, error))?;
        match &handed.0 {
            HandedState::Nbd(server) => self.node.cover_handed(server),
            HandedState::VhostUser(server) => self.node.cover_handed_guests(server),
            HandedState::Ublk => {}
        }
        self.handed = Some(handed);
        Ok(())
    }

    fn give(&mut self) -> Result<(Handed, Vec<RefCell<Option<attach_crate::Descriptor>>>), HandOverError> {
        let handed = self.handed.take();
        let (state, descriptors) =
            handed.ok_or_else(|| HandOverError::program(Fault::ThisProcess, "nothing is quiesced"))?;
        let handed = Handed { state, descriptors: descriptors.len() };
        Ok((handed, descriptors.into_iter().map(|one| RefCell::new(Some(one))).collect()))
    }

    fn taken(&mut self, failed: Vec<(String, String)>) {
        self.node.count("clients or guests not taken over", failed.len());
    }

    fn after_go(&mut self) {
        self.process.leave_devices();
    }

    fn is_awaited(&mut self) {
        self.node.count("new process awaited", 1);
    }

    fn mark_resumed(&mut self) {
        self.has_resumed.set(true);
    }

    fn resume(&mut self, _has_refused: bool) {
        self.upgrade.old_is(State::Serves);
        self.process.thaw();
    }

    fn serve_again(&mut self, _has_died: bool) {
        // Before anything is written: what the new process had sent may still be carried out.
        self.process.look_again(self.node);
        let serves = self.process.serve_again();
        self.upgrade.old_is(if serves { State::Serves } else { State::Ends { is_alone: false } });
    }

    fn leave(&mut self) {}
}

/// The life of the new process.
pub(crate) fn live(scene: &Rc<Scene>, life: u64, upgrade: &Rc<Upgrade>, channel: UpgradeChannel) {
    let Some(node) = &scene.disk else { return };
    let ends = |is_alone| upgrade.new_is(State::Ends { is_alone });
    let opened = match hand_over::ask::<AttachProtocol, _>(&channel, "0.2.0", Vec::new()) {
        Ok((offered, descriptors)) => Opened::of(&offered, descriptors),
        Err(NotOffered::Silence(error)) => {
            simulation::say(|| format!("the old process offers nothing: {error}"));
            drop(channel);
            // Where the old process lives, it has what this one does not get.
            let until = simulation::now().after(END);
            while !simulation::has_died(upgrade.old) {
                if simulation::now() >= until {
                    return ends(false);
                }
                sleep(LOOK_INTERVAL);
            }
            return serve_again(scene, node, life, upgrade);
        }
        Err(NotOffered::Refused(reason)) => {
            simulation::say(|| format!("the new process is refused: {reason}"));
            None
        }
    };
    let Some(Opened { listener, has_resumed }) = opened else {
        return ends(simulation::has_died(upgrade.old));
    };
    let old = WatchedProcess::marked_by(upgrade.old, has_resumed);
    let mut service = NewDisk { scene, node, life, listener, process: None };
    let taken = hand_over::take_over(&channel, &old, &mut service);
    simulation::say(|| format!("the new process: {taken:?}"));
    // One without a disk has no target; that the old one has died meanwhile is not its fault.
    let Some(process) = service.process else { return ends(false) };
    let (state, is_disowned) = match taken {
        Ok(TakeOverOutcome::Serves) => (State::Serves, false),
        Ok(TakeOverOutcome::StartsAnew(_)) => {
            process.look_again(node);
            (State::ServesAnew, true)
        }
        Err(_) => return ends(simulation::has_died(upgrade.old)),
    };
    if let Err(error) = process.begin(scene, node, is_disowned, || upgrade.new_is(state)) {
        simulation::say(|| format!("the new process does not serve: {error}"));
        return ends(false);
    }
    let _ = channel.say_with(&Word::Serving, Vec::new());
    drop(channel);
    if !has_died_within(upgrade.old, END) {
        simulation::say(|| "the old process has not ended yet".to_owned());
    }
    disk_process::serve(scene, node, &process);
}

/// Serves as after the end of any process.
fn serve_again(scene: &Rc<Scene>, node: &DiskNode, life: u64, upgrade: &Upgrade) {
    match disk_process::start(scene, node, life, || upgrade.new_is(State::ServesAnew)) {
        Ok(process) => disk_process::serve(scene, node, &process),
        Err(error) => {
            simulation::say(|| format!("the new process does not serve: {error}"));
            upgrade.new_is(State::Ends { is_alone: false });
        }
    }
}

/// Socket that the old process offers.
enum Opening {
    Clients(tcp::Opened),
    Guests(FrontEndListener),
}

/// Opened offer of the old process.
struct Opened {
    listener: Option<Opening>,
    has_resumed: Rc<Cell<bool>>,
}

impl Opened {
    fn of(offered: &Offered, descriptors: Vec<Descriptor>) -> Option<Self> {
        let count = descriptors.len();
        let (mut listener, mut has_resumed) = (None, None);
        for descriptor in descriptors {
            match descriptor {
                Descriptor::Listening(socket) => listener = Some(Opening::Clients(socket)),
                Descriptor::ListeningForGuests(socket) => listener = Some(Opening::Guests(socket)),
                Descriptor::HasResumed(flag) => has_resumed = Some(flag),
                _ => return None,
            }
        }
        (count == offered.descriptors).then_some(())?;
        Some(Self { listener, has_resumed: has_resumed? })
    }
}

/// The disk of the new process.
struct NewDisk<'a> {
    scene: &'a Scene,
    node: &'a DiskNode,
    life: u64,
    listener: Option<Opening>,
    process: Option<Rc<DiskProcess>>,
}

impl NewDisk<'_> {
    fn process(&self) -> Result<&DiskProcess, HandOverError> {
        self.process.as_deref().ok_or_else(|| HandOverError::program(Fault::ThisProcess, "there is no disk"))
    }
}

impl NewService<AttachProtocol, Descriptor> for NewDisk<'_> {
    fn prepare(&mut self) -> Result<Option<Value>, HandOverError> {
        let failed = |error: io::Error| HandOverError::program(Fault::ThisProcess, error);
        let connected = attach::connect_once(self.scene, self.node, self.life);
        let connected = connected.map_err(|error| HandOverError::program(Fault::ThisProcess, error))?;
        let listening = match &self.listener {
            None => Listening::Nothing,
            Some(Opening::Clients(listener)) => {
                Listening::Clients(tcp::adopt(listener, &LISTEN).map_err(failed)?)
            }
            Some(Opening::Guests(listener)) => Listening::Guests(listener.share().map_err(failed)?),
        };
        self.process = Some(DiskProcess::open(self.node, self.life, connected, listening).map_err(failed)?);
        Ok(None)
    }

    fn take(
        &mut self,
        handed: Handed,
        descriptors: Vec<Descriptor>,
    ) -> Result<Vec<(String, String)>, HandOverError> {
        let other = |reason: &str| HandOverError::program(Fault::OtherProcess, reason);
        if handed.descriptors != descriptors.len() {
            return Err(other("it hands over something else than it says"));
        }
        let own = |descriptor| match descriptor {
            Descriptor::OfDisk(own) => Ok(own),
            _ => Err(other("a descriptor is neither a client nor a file")),
        };
        let descriptors = descriptors.into_iter().map(own).collect::<Result<_, _>>()?;
        let adopted = self.process()?.adopt(handed.state, descriptors);
        adopted.map_err(|error| HandOverError::program(Fault::ThisProcess, error))
    }

    fn go_on(&mut self, has_died: bool) -> Result<(), HandOverError> {
        if has_died {
            self.process()?.look_again(self.node);
        }
        Ok(())
    }
}
