//! `selvedge token`: who may administer a target, in the file that the target reads.

use jiff::{SignedDuration, Timestamp};
use schemars::JsonSchema;
use serde::Serialize;

use super::key::write_secret;
use crate::control::Token;
use crate::control::access::{AccessFile, Rights, TokenEntry};
use crate::failure::Failure;
use crate::flags::OutputFormat;
use crate::flags::token::{AccessFileFlags, Expiry, TokenAction};
use crate::report;
use crate::report::table::{Side, Table};

/// Token, certificate, user or group with a role, as JSON.
#[derive(Serialize, JsonSchema)]
pub(super) struct Entry {
    /// token, certificate, user or group.
    kind: &'static str,
    name: String,
    /// metrics, read, operate or admin.
    role: String,
    /// Subsystems that an operator may change.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    subsystems: Vec<String>,
    /// From then on it is refused.
    #[serde(skip_serializing_if = "Option::is_none")]
    expires: Option<String>,
    /// True if it has expired.
    is_expired: bool,
    /// The token itself, where it was just made and not written to a file.
    #[serde(skip_serializing_if = "Option::is_none")]
    token: Option<String>,
}

/// For programs: all who may administer.
#[derive(Serialize, JsonSchema)]
pub(super) struct Entries {
    entries: Vec<Entry>,
}

/// Does what was typed.
pub(super) fn run(action: &TokenAction) -> Result<(), Failure> {
    match action {
        TokenAction::Create { name, role, subsystems, expires, output, file } => {
            let expires = match expires {
                Expiry::Never => None,
                Expiry::After(time) => Some(until(*time)?),
            };
            let rights = Rights { role: *role, subsystems: subsystems.clone(), storage: None };
            let token = Token::random();
            let entry = TokenEntry { name: name.clone(), rights, sha256: token.fingerprint(), expires };
            let mut shown = Entry::of_token(&entry);
            let mut access = read_or_new(file)?;
            access.tokens.push(entry);
            // What cannot be kept must not be shown, and what cannot be shown must not be kept.
            access.check().map_err(Failure::usage)?;
            if let Some(path) = output {
                write_secret(path, token.reveal())?;
            }
            access.write(&file.control_access).map_err(Failure::failed)?;
            let text = match output {
                Some(path) => format!("{} has the token {name}\n", path.display()),
                None => format!("{}\n", token.reveal()),
            };
            shown.token = output.is_none().then(|| token.reveal().to_owned());
            print(file, &shown, text)
        }
        TokenAction::Revoke { name, file } => {
            let mut access = AccessFile::read(&file.control_access).map_err(Failure::usage)?;
            let at = access.tokens.iter().position(|entry| entry.name == *name).ok_or_else(|| {
                let path = file.control_access.display();
                Failure::failed(format!("{path} has no token {name}; `selvedge token list` shows all"))
            })?;
            let gone = access.tokens.remove(at);
            access.write(&file.control_access).map_err(Failure::failed)?;
            print(file, &Entry::of_token(&gone), format!("token {name} is revoked\n"))
        }
        TokenAction::List { file } => {
            let access = AccessFile::read(&file.control_access).map_err(Failure::usage)?;
            let entries = Entries::of(&access);
            print(file, &entries, entries.to_table())
        }
    }
}

fn print(file: &AccessFileFlags, shown: &impl Serialize, text: String) -> Result<(), Failure> {
    match file.format.output_format {
        OutputFormat::Normal => report::print_exactly(text),
        OutputFormat::Json => report::print_json(shown),
    }
}

fn read_or_new(file: &AccessFileFlags) -> Result<AccessFile, Failure> {
    if file.control_access.symlink_metadata().is_err() {
        return Ok(AccessFile::default());
    }
    AccessFile::read(&file.control_access).map_err(Failure::usage)
}

fn until(time: std::time::Duration) -> Result<Timestamp, Failure> {
    let wrong = || Failure::usage("--expires: the time is out of range");
    let time = SignedDuration::try_from(time).map_err(|_| wrong())?;
    Timestamp::now().checked_add(time).map_err(|_| wrong())
}

impl Entry {
    fn new(kind: &'static str, name: &str, rights: &Rights, expires: Option<Timestamp>) -> Self {
        Self {
            kind,
            name: name.to_owned(),
            role: rights.role.to_string(),
            subsystems: rights.subsystems.clone(),
            expires: expires.map(|expires| format!("{expires:.0}")),
            is_expired: expires.is_some_and(|expires| expires <= Timestamp::now()),
            token: None,
        }
    }

    fn of_token(entry: &TokenEntry) -> Self {
        Self::new("token", &entry.name, &entry.rights, entry.expires)
    }
}

impl Entries {
    fn of(access: &AccessFile) -> Self {
        let tokens = access.tokens.iter().map(Entry::of_token);
        let certificates = access.certificates.iter();
        let certificates =
            certificates.map(|entry| Entry::new("certificate", &entry.name, &entry.rights, None));
        let users = access.users.iter().map(|entry| Entry::new("user", &entry.name, &entry.rights, None));
        let groups = access.groups.iter().map(|entry| Entry::new("group", &entry.name, &entry.rights, None));
        Self { entries: tokens.chain(certificates).chain(users).chain(groups).collect() }
    }

    fn to_table(&self) -> String {
        let columns = ["kind", "name", "role", "subsystems", "expires"].map(|name| (name, Side::Left));
        let mut table = Table::new(&columns);
        for entry in &self.entries {
            let expires = match &entry.expires {
                Some(when) if entry.is_expired => format!("expired {when}"),
                Some(when) => when.clone(),
                None => "-".to_owned(),
            };
            let subsystems =
                if entry.subsystems.is_empty() { "-".to_owned() } else { entry.subsystems.join(", ") };
            table.row(vec![
                entry.kind.to_owned(),
                entry.name.clone(),
                entry.role.clone(),
                subsystems,
                expires,
            ]);
        }
        table.to_string()
    }
}
