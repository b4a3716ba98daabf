//! Resources that `attach` needs, from the flags of its disks; all others are given up before guests and clients are served.

use std::path::PathBuf;

use super::{nbd_tls, record, ublk, vhost_user};
use crate::confinement::{self, Extent, Needs, folder_of};
use crate::control::socket;
use crate::failure::Failure;
use crate::flags::attach::{AttachFlags, NbdEndpoint};
use crate::flags::confinement::ConfinementKindFlags;
use crate::flags::connection::Transport;
use attach::ServerTls;
use attach::ublk::FoundDevice;
use host_connection::config::connection::Connection;

/// Everything that disks need of what is given up: their files, and names of addresses, whose look-up may load libraries.
pub(super) struct Prepared {
    pub(super) connection: Connection,
    pub(super) nbd_tls: Option<ServerTls>,
    /// Block devices of the kernel's driver, which answers privileged processes alone.
    pub(super) found: Vec<FoundDevice>,
}

/// Checks the flags of disks, and reads the files that they name.
pub(super) fn prepare(flags: &AttachFlags) -> Result<Prepared, Failure> {
    vhost_user::check(flags)?;
    if flags.ublk {
        ublk::prepare()?;
    }
    let nbd_tls = nbd_tls::read(&flags.nbd_tls)?;
    let found = match FoundDevice::all() {
        // A block device that waits for a recovery would not be seen, and another one would have its blocks.
        Err(error) if flags.ublk => return Err(Failure::failed(error)),
        found => found.unwrap_or_default(),
    };
    Ok(Prepared { connection: Connection::new(&flags.connection)?, nbd_tls, found })
}

/// Gives up all privileges and files that these disks do not need. No thread may run yet.
pub(super) fn confine(kinds: &ConfinementKindFlags, disks: &[&AttachFlags]) -> Result<(), Failure> {
    let wishes = kinds.wishes().map_err(Failure::usage)?;
    // The folders that are written have to be there. Where they cannot, records are not kept anyway.
    let _ = record::make_folder();
    confinement::confine(wishes, &needs(disks))?.log();
    Ok(())
}

fn needs(disks: &[&AttachFlags]) -> Needs {
    let all = || disks.iter().copied();
    let block_devices = all().any(|flags| flags.ublk);
    let mut written = socket::kept_folders();
    // The kernel makes the files of devices when they are added.
    written.extend(block_devices.then(|| PathBuf::from("/dev")));
    Needs {
        extent: Extent::ListedWherePossible,
        written,
        sockets: all().flat_map(socket_folders).collect(),
        read: all().flat_map(named_files).filter_map(|file| folder_of(&file)).collect(),
        // `ip` shows and changes the settings of MPTCP.
        programs: all().any(|flags| flags.connection.transport == Transport::Mptcp),
        network_settings: all().any(|flags| flags.paths.configure_mptcp || flags.paths.congestion.is_some()),
        attach: true,
        block_devices,
        ..Needs::default()
    }
}

/// Returns the folders of sockets for clients and front ends.
fn socket_folders(flags: &AttachFlags) -> Vec<PathBuf> {
    let of_clients = match &flags.nbd {
        Some(NbdEndpoint::Unix(path)) => folder_of(path),
        Some(NbdEndpoint::Default) => socket::make_kept_folder(),
        Some(NbdEndpoint::Tcp(_)) | None => None,
    };
    of_clients.into_iter().chain(flags.vhost_user.iter().filter_map(|path| folder_of(path))).collect()
}

/// Returns the files that flags name, and the targets of their links: paths that are connected again may read them.
fn named_files(flags: &AttachFlags) -> Vec<PathBuf> {
    let (connection, tls) = (&flags.connection, &flags.nbd_tls);
    let secrets =
        [&connection.dhchap_secret_file, &connection.dhchap_ctrl_secret_file, &connection.tls_key_file];
    let certificates = [&tls.nbd_tls_cert, &tls.nbd_tls_key, &tls.nbd_tls_client_ca, &tls.nbd_tls_psk_file];
    let files = secrets.into_iter().chain([&connection.config]).chain(certificates).flatten();
    files.flat_map(|path| [Some(path.clone()), path.canonicalize().ok()]).flatten().collect()
}

#[cfg(test)]
mod tests {
    use std::fs::OpenOptions;
    use std::os::unix::net::UnixListener;
    use std::path::Path;

    use super::*;
    use crate::confinement::{Wish, Wishes};

    #[test]
    fn the_kernel_refuses_files_that_no_flag_names() {
        let folder = tempfile::tempdir().unwrap();
        let folders = ["named", "sockets", "outside"].map(|name| {
            let path = folder.path().join(name);
            std::fs::create_dir(&path).unwrap();
            std::fs::write(path.join("file"), "").unwrap();
            path
        });
        let [secret, socket] = [folders[0].join("file"), folders[1].join("a.vhost")];
        let text = format!(
            "-a 127.0.0.1 --vhost-user {} --dhchap-secret-file {}",
            socket.display(),
            secret.display()
        );
        let needs = needs(&[&AttachFlags::of(&text)]);
        let wishes = Wishes { landlock: Wish::Required, ..Wishes::all(Wish::Off) };
        // This thread alone: the others run other tests.
        let tried = std::thread::spawn(move || {
            confinement::confine(wishes, &needs).map_err(|failure| failure.line().unwrap_or_default())?;
            let opens = |folder: &Path, write| {
                OpenOptions::new().read(true).write(write).open(folder.join("file")).is_ok()
            };
            let listens = |folder: &Path| UnixListener::bind(folder.join("socket")).is_ok();
            Ok::<_, String>(
                folders.map(|folder| [opens(&folder, false), opens(&folder, true), listens(&folder)]),
            )
        });
        let (read, sockets, none) = ([true, false, false], [false, false, true], [false; 3]);
        match tried.join().unwrap() {
            Ok(allowed) => assert_eq!(allowed, [read, sockets, none]),
            Err(reason) => prerequisite::missing(reason),
        }
    }

    #[test]
    fn disks_need_what_their_flags_name() {
        let folder = tempfile::tempdir().unwrap();
        let here = folder.path().to_owned();
        let path = |name: &str| here.join(name).display().to_string();
        let guest = AttachFlags::of(&format!("-a 127.0.0.1 --vhost-user {}", path("a.vhost")));
        let needs_of_guest = needs(&[&guest]);
        assert!(needs_of_guest.is_closed() && needs_of_guest.sockets == [here.clone()]);
        assert!(
            !needs_of_guest.block_devices && !needs_of_guest.programs && !needs_of_guest.network_settings
        );
        let text = format!("-a 127.0.0.1 --ublk --dhchap-secret-file {}", path("key"));
        let device = AttachFlags::of(&text);
        let both = needs(&[&guest, &device]);
        assert!(both.block_devices && both.written.contains(&"/dev".into()) && both.read.contains(&here));
        assert!(!needs_of_guest.written.contains(&"/dev".into()));
        let mptcp = AttachFlags::of("-a 127.0.0.1 -t mptcp --nbd 127.0.0.1:1");
        assert!(needs(&[&mptcp]).programs && needs(&[&mptcp]).sockets.is_empty());
    }
}
