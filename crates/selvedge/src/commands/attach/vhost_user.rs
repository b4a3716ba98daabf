//! Namespaces as vhost-user-blk devices, each on a socket of its own.

use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use attach::{Disk, Tally, VhostUserServer};
use chart::units;
use engine::initiator::Paths;

use super::record::{DiskWay, RecordedDisk};
use super::{AttachedDisk, Attaching, listen, watch};
use crate::control::socket::SocketFile;
use crate::failure::Failure;
use crate::flags::attach::AttachFlags;
use crate::report;
use crate::stop::Stop;

/// A socket, before anybody listens.
struct Place {
    listener: UnixListener,
    file: SocketFile,
    path: PathBuf,
}

/// Whether there is a socket for each namespace.
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
pub(super) fn serve(attaching: &Attaching<'_>, disks: Vec<Disk>, stop: &Stop) -> Result<(), Failure> {
    let all_paths: Vec<Arc<Paths>> = disks.iter().map(|disk| disk.paths.clone()).collect();
    let places = attaching.flags.vhost_user.iter().map(|path| Place::open(path));
    let places = places.collect::<Result<Vec<_>, _>>()?;
    let recorded = attaching.recorded(&disks).into_iter().zip(&places);
    let recorded = recorded.map(|(disk, place)| RecordedDisk { socket: Some(place.path.clone()), ..disk });
    let kept = attaching.keep(DiskWay::VhostUser, recorded.collect());
    let (mut files, mut sockets, mut listened) = (Vec::new(), Vec::new(), Vec::new());
    for (disk, Place { listener, file, path }) in disks.into_iter().zip(places) {
        files.push(file);
        sockets.push(path);
        listened.push((disk, listener));
    }
    attaching.controllers.look_again();
    let server = VhostUserServer::start(listened, attaching.server_options());
    let server =
        server.map_err(|error| Failure::failed(format!("cannot serve vhost-user front ends: {error}")))?;
    let mut attached = attaching.attached(server.threads());
    attached.disks =
        server.exports().iter().zip(sockets).map(|(export, socket)| disk(export, socket)).collect();
    report::print_as(attaching.flags.output.output_format, &attached)?;
    let has_failed = || {
        let said = "a thread of the vhost-user server has ended; see the log";
        server.has_failed().then(|| said.to_owned())
    };
    let outcome = watch(stop, &all_paths, has_failed);
    let tally = server.stop();
    drop((files, kept));
    if attaching.is_told() {
        eprintln!("{}", told(&tally));
    }
    outcome
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

fn told(tally: &Tally) -> String {
    let Tally { clients, requests, errors } = *tally;
    format!(
        "detached after {} of {}, {} answered with an error",
        units::plural(requests, "request"),
        units::plural(clients, "front end"),
        units::grouped(errors)
    )
}

impl Place {
    fn open(path: &Path) -> Result<Self, Failure> {
        let (listener, file, path) = listen(path, "--vhost-user PATH")?;
        Ok(Self { listener, file, path })
    }
}
