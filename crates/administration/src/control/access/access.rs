//! Identifies the callers of the API and looks up their rights. The refusal of a wrong token is delayed, each time longer for
//! the same network; a right token is answered at once.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use engine::offenders::Offenders;
use engine::ring::Moment;
use engine::seldom::Seldom;
use engine::target::Network;
use jiff::Timestamp;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::server::ParsedCertificate;
use uzers::User;

use super::super::Token;
use super::super::file_stamp::FileStamp;
use super::super::fingerprint::Fingerprint;
use super::super::limits::REFUSAL_DELAY_MAX;
use super::super::refusal::Refusal;
use super::access_file::{AccessFile, CertificateEntry, LocalEntry};
use super::allowed_storage::AllowedStorage;
use super::caller::{Caller, Identity, Peer, is_operator};
use super::name_modules;
use super::rights::Rights;
use crate::failure::Failure;
use crate::spec::role::Role;
use crate::version;

/// The name of the token that has no entry of its own.
const ONLY_TOKEN: &str = "of --control-token-file";

/// The machine's own list of users (passwd(5)).
const USERS: &str = "/etc/passwd";

/// Tokens, certificates, users and groups that may use the API, and their rights.
#[derive(Debug)]
pub struct Access {
    file: Option<Mutex<Watched>>,
    /// The hash of the one token that may do everything.
    token: Option<Fingerprint>,
    /// True if every caller has all rights, without a token.
    is_open: bool,
    offenders: Mutex<Offenders<Network>>,
    /// Refused tokens and certificates.
    refused: Seldom,
    since: Instant,
}

/// A file that is read again when it changes.
#[derive(Debug)]
struct Watched {
    path: PathBuf,
    stamp: Option<FileStamp>,
    file: Arc<AccessFile>,
}

impl Access {
    /// Reads the access file, if there is one, and stores the hash of the token that has all
    /// rights.
    pub fn new(file: Option<&Path>, token: Option<&Token>) -> Result<Self, Failure> {
        let watch = |path: &Path| {
            let wrong = |error| Failure::usage(format!("the access file: {error}"));
            // Looked at before it is read: what changes it in between is seen later.
            let stamp = FileStamp::of(path);
            let file = Arc::new(AccessFile::read(path).map_err(wrong)?);
            Ok::<_, Failure>(Mutex::new(Watched { path: path.to_owned(), stamp, file }))
        };
        let file = file.map(watch).transpose()?;
        // Names that come into the file later are looked up, too.
        if file.is_some() && !version::is_static() {
            name_modules::load_configured();
        }
        Ok(Self { file, token: token.map(Token::fingerprint), ..Self::of_this_process() })
    }

    /// Admits only this process, its user and root.
    pub(crate) fn of_this_process() -> Self {
        Self {
            file: None,
            token: None,
            is_open: false,
            offenders: Mutex::default(),
            refused: Seldom::default(),
            since: Instant::now(),
        }
    }

    /// The same access, with all rights for every caller.
    #[must_use]
    pub fn open(self) -> Self {
        Self { is_open: true, ..self }
    }

    /// True if users other than the target's own may connect to the Unix socket.
    pub(crate) fn has_others(&self) -> bool {
        self.file.is_some()
    }

    /// True if there is a token or a certificate that a remote caller can show.
    pub(crate) fn has_remote(&self) -> bool {
        self.token.is_some() || self.file.is_some()
    }

    /// List of the storage that all administrators may name; `None` without limit.
    pub fn storage(&self) -> Option<AllowedStorage> {
        self.file().storage.clone()
    }

    /// True if the certificate is that of a caller, by an entry of the access file.
    pub(in crate::control) fn has_certificate(&self, certificate: &CertificateDer<'_>) -> bool {
        by_certificate(&self.file(), certificate).is_ok()
    }

    /// Stamp of the access file, if there is one.
    pub(in crate::control) fn stamp(&self) -> Option<FileStamp> {
        let watched = self.file.as_ref()?.lock().unwrap_or_else(PoisonError::into_inner);
        FileStamp::of(&watched.path)
    }

    /// Identifies a caller by the `Authorization` header of its request, or else by its connection.
    pub(in crate::control) fn identify(&self, peer: &Peer, header: Option<&[u8]>) -> Result<Caller, Refusal> {
        let file = self.file();
        let (identity, rights) = match peer {
            Peer::Process => (Identity::Process, Rights::admin()),
            Peer::Local { uid, .. } => local(&file, *uid, listed_name, uzers::get_user_by_uid)?,
            Peer::Remote { .. } if self.is_open => (Identity::Unknown, Rights::admin()),
            Peer::Remote { address, certificate } => {
                let known = match (header, certificate) {
                    (Some(header), _) => self.bearer(&file, header),
                    (None, Some(certificate)) => by_certificate(&file, certificate),
                    (None, None) => Err(unknown("a token is missing")),
                }?;
                self.offenders().forgive(&Network::of(address.ip()));
                known
            }
        };
        let lists = lists(&file, &rights);
        Ok(Caller { identity, rights, lists })
    }

    /// Counts a refused token or certificate: the delay with which it leaves, and its number if it is one to be logged.
    pub(in crate::control) fn count_refusal(&self, peer: &Peer) -> (Duration, Option<u64>) {
        let now = Moment::default().after(self.since.elapsed());
        let delay = match peer {
            Peer::Remote { address, .. } => self.offenders().add(&Network::of(address.ip()), now),
            Peer::Process | Peer::Local { .. } => Duration::ZERO,
        };
        (delay.min(REFUSAL_DELAY_MAX), self.refused.count_to_log(now))
    }

    fn offenders(&self) -> MutexGuard<'_, Offenders<Network>> {
        self.offenders.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn bearer(&self, file: &AccessFile, header: &[u8]) -> Result<(Identity, Rights), Refusal> {
        let Some(shown) = Token::shown(header) else {
            return Err(unknown("the header is not `Bearer TOKEN`"));
        };
        // What is compared is a hash: how long that takes says nothing about a token.
        let shown = Fingerprint::of(shown);
        if self.token == Some(shown) {
            return Ok((Identity::Token(ONLY_TOKEN.to_owned()), Rights::admin()));
        }
        let Some(entry) = file.tokens.iter().find(|entry| entry.sha256 == shown) else {
            return Err(unknown("the token is not one that is known"));
        };
        match entry.expires {
            Some(expires) if expires <= Timestamp::now() => {
                let what = format!("token {} has expired at {expires:.0}", entry.name);
                Err(Refusal::new(401, what).hint("`selvedge token create` makes another"))
            }
            _ => Ok((Identity::Token(entry.name.clone()), entry.rights.clone())),
        }
    }

    /// Current content of the access file. If the file is unreadable, its last content stays in
    /// force; if it is gone, it is empty.
    fn file(&self) -> Arc<AccessFile> {
        let Some(watched) = &self.file else { return Arc::default() };
        let mut watched = watched.lock().unwrap_or_else(PoisonError::into_inner);
        let now = FileStamp::of(&watched.path);
        if now != watched.stamp {
            watched.stamp = now;
            match AccessFile::read(&watched.path) {
                Ok(file) => {
                    tracing::info!(path = %watched.path.display(), "the access file is read again");
                    watched.file = Arc::new(file);
                }
                Err(error) if now.is_none() => {
                    tracing::error!("access file gone; no caller is admitted until it returns: {error}");
                    watched.file = Arc::default();
                }
                Err(error) => tracing::error!("the access file stays as it was: {error}"),
            }
        }
        watched.file.clone()
    }
}

fn unknown(what: &str) -> Refusal {
    let hint = "send the header `Authorization: Bearer TOKEN`, or a certificate that the access file names";
    Refusal::new(401, what).hint(hint)
}

/// Lists of which each has to contain what the caller names. Without one, an operator names
/// nothing outside the target: files
/// of the target's own user are not its to serve.
fn lists(file: &AccessFile, rights: &Rights) -> Vec<AllowedStorage> {
    let lists: Vec<AllowedStorage> = file.storage.iter().chain(&rights.storage).cloned().collect();
    if lists.is_empty() && rights.role < Role::Admin { vec![AllowedStorage::default()] } else { lists }
}

fn by_certificate(
    file: &AccessFile,
    certificate: &CertificateDer<'_>,
) -> Result<(Identity, Rights), Refusal> {
    let sha256 = Fingerprint::of(certificate);
    let parsed = ParsedCertificate::try_from(certificate).ok();
    let is_it = |entry: &&CertificateEntry| match entry.sha256 {
        Some(known) => known == sha256,
        None => parsed.as_ref().is_some_and(|parsed| {
            ServerName::try_from(entry.name.as_str())
                .is_ok_and(|name| rustls::client::verify_server_name(parsed, &name).is_ok())
        }),
    };
    let entry = file.certificates.iter().find(is_it).ok_or_else(|| {
        unknown(&format!("no [[certificate]] of the access file is the one shown (SHA-256 {sha256})"))
    })?;
    Ok((Identity::Certificate { name: entry.name.clone(), sha256 }, entry.rights.clone()))
}

/// Name of a user by the machine's own list, which is read also where a directory service does not answer.
fn listed_name(uid: u32) -> Option<String> {
    name_in(&std::fs::read(USERS).unwrap_or_default(), uid)
}

fn name_in(passwd: &[u8], uid: u32) -> Option<String> {
    // Comments on users may be in any encoding.
    let passwd = String::from_utf8_lossy(passwd);
    let mut users = passwd.lines().map(|line| line.split(':'));
    users.find_map(|mut user| {
        let name = user.next()?;
        (user.nth(1)?.parse() == Ok(uid)).then(|| name.to_owned())
    })
}

/// Rights of a user of this machine. `look_up` may wait for a directory service, and is called only for a user who is neither root
/// nor this process's, and where the file has names or groups. Elsewhere `listed` names the user, for the audit log alone.
fn local(
    file: &AccessFile,
    uid: u32,
    listed: impl Fn(u32) -> Option<String>,
    look_up: impl Fn(u32) -> Option<User>,
) -> Result<(Identity, Rights), Refusal> {
    if is_operator(uid) {
        let name = if uid == 0 { Some("root".to_owned()) } else { listed(uid) };
        return Ok((Identity::User { uid, name }, Rights::admin()));
    }
    let has_names = file.users.iter().any(|entry| entry.name.parse::<u32>().is_err());
    let is_looked_up = has_names || !file.groups.is_empty();
    let user = if is_looked_up { look_up(uid) } else { None };
    let name = user.as_ref().map(|user| user.name().to_string_lossy().into_owned());
    let shown = if is_looked_up { name.clone() } else { listed(uid) };
    let identity = Identity::User { uid, name: shown };
    let named = |entry: &LocalEntry, id: u32, name: Option<&str>| {
        entry.name.parse() == Ok(id) || name == Some(entry.name.as_str())
    };
    let mut found: Vec<&Rights> = Vec::new();
    found.extend(
        file.users.iter().filter(|entry| named(entry, uid, name.as_deref())).map(|entry| &entry.rights),
    );
    if !file.groups.is_empty() {
        for group in user.and_then(|user| user.groups()).unwrap_or_default() {
            let name = group.name().to_str();
            let entries = file.groups.iter().filter(|entry| named(entry, group.gid(), name));
            found.extend(entries.map(|entry| &entry.rights));
        }
    }
    match found.into_iter().max_by_key(|rights| rights.role) {
        Some(rights) => Ok((identity, rights.clone())),
        None => {
            let refusal = Refusal::new(403, format!("{identity} may not use this target"));
            Err(refusal.hint("permitted are root, the target's user, and entries of the access file"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OTHER: u32 = 3_000_000_019;

    fn entry(name: &str) -> LocalEntry {
        LocalEntry { name: name.to_owned(), rights: Rights::admin() }
    }

    #[test]
    fn a_silent_directory_service_stops_neither_operators_nor_users_by_number() {
        let silent = |uid: u32| -> Option<User> { panic!("a look-up of {uid} would wait") };
        let own = rustix::process::geteuid().as_raw();
        let names =
            AccessFile { users: vec![entry("alice")], groups: vec![entry("staff")], ..AccessFile::default() };
        let listed = |uid: u32| name_in(format!("root:x:{own}:\nbob:x:{OTHER}:").as_bytes(), uid);
        for uid in [0, own] {
            let (identity, rights) = local(&names, uid, listed, silent).unwrap();
            assert_eq!((identity.to_string(), rights.role), (format!("user root ({uid})"), Role::Admin));
        }
        let numbers = AccessFile { users: vec![entry(&OTHER.to_string())], ..AccessFile::default() };
        let (identity, _) = local(&numbers, OTHER, listed, silent).unwrap();
        assert_eq!(identity.to_string(), format!("user bob ({OTHER})"), "for the audit log");
        assert_eq!(local(&numbers, OTHER + 1, listed, silent).map(drop).unwrap_err().status, 403);
        // An entry with a name needs one.
        let alice = |uid| Some(User::new(uid, "alice", uid));
        assert!(local(&names, OTHER, listed, alice).is_ok());
        assert_eq!(local(&names, OTHER, listed, |_| None).map(drop).unwrap_err().status, 403);
    }

    #[test]
    fn a_user_whose_name_is_the_number_of_another_has_no_rights_of_that_one() {
        let numbers = AccessFile { users: vec![entry(&OTHER.to_string())], ..AccessFile::default() };
        let (listed, no_user) = (|_: u32| Some(OTHER.to_string()), |_: u32| -> Option<User> { None });
        assert!(local(&numbers, OTHER, listed, no_user).is_ok());
        assert_eq!(local(&numbers, OTHER + 1, listed, no_user).map(drop).unwrap_err().status, 403);
    }

    #[test]
    fn a_user_has_its_name_in_the_machines_list() {
        let passwd = b"other:x:4000000001:0:M\xfcller:/:/bin/sh\nbroken\nbob:x:4000000002:0::/:/bin/sh\n";
        assert_eq!(name_in(passwd, 4_000_000_002).as_deref(), Some("bob"));
        assert_eq!(name_in(passwd, 4_000_000_003), None);
    }
}
