//! Namespaces as vhost-user-blk devices, each on a socket of its own.

use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use attach::{Disk, Tally, VhostHolder, VhostUserServer};
use chart::units;
use engine::initiator::Paths;

use super::hand_over::{GroupServer, GroupTakeOver, HandedState};
use super::record::{AttachMethod, RecordedDisk};
use super::{AttachedDisk, Attaching, OTHER_WAY, listen, watch};
use crate::control::socket::SocketFile;
use crate::failure::Failure;
use crate::flags::attach::AttachFlags;
use crate::report;
use crate::stop::Stop;

/// Socket of a front end, before it is served.
struct ListeningSocket {
    listener: UnixListener,
    file: SocketFile,
    path: PathBuf,
}

/// Checks that there is a socket for each namespace.
pub(super) fn check(flags: &AttachFlags) -> Result<(), Failure> {
    match (flags.vhost_user.len(), flags.nsid.len()) {
        (0, _) => Ok(()),
        (sockets, namespaces) if sockets == namespaces => Ok(()),
        (sockets, namespaces) => Err(Failure::usage(format!(
            "{} for {}: write --vhost-user PATH once for each namespace",
            units::plural(sockets as u64, "socket"),
            units::plural(namespaces as u64, "namespace")
        ))),
    }
}

/// Serves front ends until a signal comes.
pub(super) fn serve(
    attaching: &Attaching<'_>,
    disks: Vec<Disk>,
    mut take_over: Option<GroupTakeOver>,
    stop: &Stop,
) -> Result<(), Failure> {
    let all_paths: Vec<Arc<Paths>> = disks.iter().map(|disk| disk.paths.clone()).collect();
    let recorded = attaching.recorded(&disks, take_over.as_ref().map(|one| &one.offered.disks[..]))?;
    let listening = listening_sockets(attaching, take_over.as_mut())?;
    let copies = listening.iter().map(|socket| socket.listener.as_fd().try_clone_to_owned());
    let copies = copies.collect::<Result<Vec<_>, _>>().map_err(Failure::failed)?;
    let recorded = recorded.into_iter().zip(&listening);
    let recorded = recorded.map(|(disk, socket)| RecordedDisk { socket: Some(socket.path.clone()), ..disk });
    let recorded: Vec<RecordedDisk> = recorded.collect();
    let (mut files, mut sockets, mut listened) = (Vec::new(), Vec::new(), Vec::new());
    for (disk, ListeningSocket { listener, file, path }) in disks.into_iter().zip(listening) {
        files.push(file);
        sockets.push(path);
        listened.push((disk, listener));
    }
    let server = VhostUserServer::start(listened, attaching.server_options());
    let server =
        server.map_err(|error| Failure::failed(format!("cannot serve vhost-user front ends: {error}")))?;
    let holder = server.holder();
    if let Some(take_over) = &mut take_over
        && let Err(failure) = complete(attaching, &holder, take_over)
    {
        // They are still the old process's.
        files.into_iter().for_each(SocketFile::leave);
        return Err(failure);
    }
    let previous = take_over.as_ref().and_then(|one| one.offered.record.as_deref());
    let kept = attaching.keep(AttachMethod::VhostUser, recorded.clone(), previous)?;
    if take_over.is_none() {
        holder.thaw(false);
    }
    attaching.hold(kept.as_ref(), recorded, GroupServer::VhostUser { holder, listeners: copies });
    match take_over {
        Some(take_over) => take_over.serves(),
        None => {
            let mut attached = attaching.attached(server.threads());
            attached.disks =
                server.exports().iter().zip(sockets).map(|(export, socket)| disk(export, socket)).collect();
            report::print_as(attaching.flags.output.output_format, &attached)?;
        }
    }
    let has_failed = || {
        let said = "a thread of the vhost-user server has ended; see the log";
        (server.has_failed() && !attaching.registration.is_over()).then(|| said.to_owned())
    };
    let outcome = watch(stop, attaching, &all_paths, has_failed, || None);
    if attaching.registration.is_over() {
        files.into_iter().for_each(SocketFile::leave);
        return Ok(());
    }
    let tally = server.stop();
    drop((files, kept));
    if attaching.prints_text() {
        eprintln!("{}", summary(&tally));
    }
    attaching.print_stages(&all_paths);
    outcome
}

/// The sockets of the process that goes before this one, or new ones.
fn listening_sockets(
    attaching: &Attaching<'_>,
    take_over: Option<&mut GroupTakeOver>,
) -> Result<Vec<ListeningSocket>, Failure> {
    let Some(take_over) = take_over else {
        let listening = attaching.flags.vhost_user.iter().map(|path| ListeningSocket::open(path)).collect();
        attaching.controllers.look_again();
        return listening;
    };
    let listeners = std::mem::take(&mut take_over.descriptors);
    let offered = &take_over.offered.disks;
    let paths = attaching.flags.vhost_user.iter();
    if listeners.len() != paths.len() || offered.len() != paths.len() {
        return Err(Failure::failed(OTHER_WAY));
    }
    let socket = |((path, listener), disk): ((&PathBuf, OwnedFd), &RecordedDisk)| {
        let path = std::path::absolute(path).map_err(Failure::failed)?;
        if disk.socket.as_ref() != Some(&path) {
            return Err(Failure::failed(OTHER_WAY));
        }
        let file = SocketFile::left_by_another(&path)
            .map_err(|error| Failure::failed(format!("the socket {}: {error}", path.display())))?;
        Ok(ListeningSocket { listener: listener.into(), file, path })
    };
    paths.zip(listeners).zip(offered).map(socket).collect()
}

/// Takes over from another process.
fn complete(
    attaching: &Attaching<'_>,
    holder: &VhostHolder,
    take_over: &mut GroupTakeOver,
) -> Result<(), Failure> {
    let service = take_over.complete(|state, descriptors| match state {
        HandedState::VhostUser(front_ends) => {
            holder.adopt(front_ends, descriptors).map_err(|error| error.to_string())
        }
        _ => Err(OTHER_WAY.to_owned()),
    })?;
    if service.has_old_died {
        attaching.controllers.look_again();
    }
    holder.thaw(service.is_disowned);
    Ok(())
}

fn disk(export: &nbd::Export, socket: PathBuf) -> AttachedDisk {
    AttachedDisk {
        nsid: export.name.parse().unwrap_or_default(),
        uri: None,
        device: None,
        socket: Some(socket),
        size_bytes: export.size,
        block_bytes: export.block_bytes,
        read_only: export.is_read_only,
    }
}

fn summary(tally: &Tally) -> String {
    let Tally { clients, requests, errors, .. } = *tally;
    format!(
        "detached after {} of {}, {} answered with an error",
        units::plural(requests, "request"),
        units::plural(clients, "front end"),
        units::grouped(errors)
    )
}

impl ListeningSocket {
    fn open(path: &Path) -> Result<Self, Failure> {
        let (listener, file, path) = listen(path, "--vhost-user PATH")?;
        Ok(Self { listener, file, path })
    }
}
