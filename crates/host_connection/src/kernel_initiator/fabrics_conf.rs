//! nvme-cli 3's nvme-fabrics.conf (INI): its sections and paths, entries added to what is there, and taken out again. What a file
//! has besides stays in it. Reading one for this program's own connections is `config::nvme_cli`'s.

use engine::address::HostAddress;
use nvme::discovery::DISCOVERY_NQN;
use zeroize::Zeroizing;

use super::config_json::Wanted;

/// Path of nvme-cli 3's configuration. Files of other host identities are in a folder of the same name with `.d`.
pub const FABRICS_CONF: &str = "/etc/nvme/nvme-fabrics.conf";
/// Bytes that nvme-cli reads of one.
const BYTES_MAX: usize = 1 << 20;

/// The sections of endpoints.
pub const DISCOVERY: &str = "Discovery Controller";
pub const SUBSYSTEM: &str = "Subsystem";
/// The section of the host's identity.
pub const HOST: &str = "Host";

/// The parts of a path that say where it is.
const IDENTITY: [&str; 5] = ["transport", "traddr", "trsvcid", "host-traddr", "host-iface"];

/// A section, with the lines from its head to the next one.
pub struct Section {
    pub name: String,
    first: usize,
    end: usize,
    pub entries: Vec<Entry>,
}

/// `key = value`, with the number of its line from 0 on. A value may be a secret.
pub struct Entry {
    line: usize,
    pub key: String,
    pub value: Zeroizing<String>,
}

impl Section {
    /// The last value of a key; empty where it is reset.
    pub fn value(&self, key: &str) -> Option<&str> {
        self.entries.iter().rev().find(|entry| entry.key == key).map(|entry| entry.value.as_str())
    }

    /// The paths to its endpoint.
    pub fn paths(&self) -> impl Iterator<Item = Path<'_>> {
        self.entries.iter().filter(|entry| entry.key == "controller").map(|entry| Path(&entry.value))
    }

    pub fn is_discovery(&self) -> bool {
        self.name == DISCOVERY
    }

    /// The name of its endpoint.
    pub fn nqn(&self) -> Option<&str> {
        match self.value("nqn") {
            None if self.is_discovery() => Some(DISCOVERY_NQN),
            nqn => nqn,
        }
    }

    fn is_endpoint(&self) -> bool {
        self.name == DISCOVERY || self.name == SUBSYSTEM
    }
}

/// The value of a `controller =` line.
#[derive(Clone, Copy)]
pub struct Path<'a>(&'a str);

impl Path<'_> {
    pub fn part(&self, name: &str) -> Option<&str> {
        let pairs = self.0.split(';').filter_map(|pair| pair.split_once('='));
        pairs.into_iter().find(|(key, _)| key.trim() == name).map(|(_, value)| value.trim())
    }

    /// The target's port, or that of its kind of service.
    pub fn service(&self, section: &Section) -> Option<u16> {
        let default = if section.is_discovery() { "8009" } else { "4420" };
        self.part("trsvcid").unwrap_or(default).parse().ok()
    }

    fn is_at(&self, section: &Section, wanted: &Wanted<'_>) -> bool {
        let address = || {
            let traddr = self.part("traddr")?.parse::<HostAddress>().ok()?;
            traddr.literal(self.service(section)?)
        };
        match address() {
            _ if self.part("transport") != Some("tcp") => false,
            Some(address) => wanted.has_address(&address),
            None => wanted.addresses.is_empty(),
        }
    }

    fn identity(&self, section: &Section) -> [String; 5] {
        let service = self.service(section).map(|service| service.to_string());
        IDENTITY.map(|name| match name {
            "trsvcid" => service.clone().unwrap_or_default(),
            _ => self.part(name).unwrap_or_default().to_owned(),
        })
    }
}

/// True if the text is such a file, and not JSON.
pub fn is_ini(text: &str) -> bool {
    let mut lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    let Some(first) = lines.next() else { return false };
    match first.strip_prefix('[') {
        // A list in JSON has an object or nothing in it.
        Some(rest) => !matches!(rest.trim_start().chars().next(), None | Some('{' | ']')),
        None => !first.starts_with('{'),
    }
}

/// Reads the sections.
///
/// # Errors
/// When nvme-cli could not read it either; the line is named, and nothing of what is in it.
pub fn sections(text: &str) -> Result<Vec<Section>, String> {
    if text.len() > BYTES_MAX || text.contains('\0') {
        return Err("it is not an nvme-fabrics.conf".to_owned());
    }
    let mut found: Vec<Section> = Vec::new();
    for (at, line) in text.lines().enumerate() {
        let wrong = |what: &str| format!("line {}: {what}", at + 1);
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        if let Some(rest) = line.strip_prefix('[') {
            let name = rest.strip_suffix(']').map(str::trim).filter(|name| !name.is_empty());
            let name =
                name.ok_or_else(|| wrong("it is not a section, which is written as [Name]"))?.to_owned();
            found.iter_mut().rev().take(1).for_each(|section| section.end = at);
            found.push(Section { name, first: at, end: usize::MAX, entries: Vec::new() });
            continue;
        }
        let (key, value) = line
            .split_once('=')
            .filter(|(key, _)| !key.trim().is_empty())
            .ok_or_else(|| wrong("it is neither a section nor `key = value`"))?;
        let section = found.last_mut().ok_or_else(|| wrong("it stands before the first section"))?;
        section.entries.push(Entry {
            line: at,
            key: key.trim().to_owned(),
            value: Zeroizing::new(value.trim().to_owned()),
        });
    }
    if found.iter().filter(|section| section.name == HOST).count() > 1 {
        return Err("it has two [Host] sections, and a file is of one host".to_owned());
    }
    let count = text.lines().count();
    found.iter_mut().for_each(|section| section.end = section.end.min(count));
    Ok(found)
}

/// A path that is to be in a file.
#[derive(Clone)]
pub struct PathEntry {
    /// The subsystem; none for a discovery service.
    pub nqn: Option<String>,
    /// Address and settings of the path, by nvme-cli's names with hyphens.
    pub parts: Vec<(String, String)>,
    /// Keys of the endpoint, such as secrets.
    pub keys: Vec<(&'static str, String)>,
}

impl PathEntry {
    fn line(&self) -> String {
        let parts: Vec<String> = self.parts.iter().map(|(name, value)| format!("{name}={value}")).collect();
        format!("controller = {}", parts.join(";"))
    }

    fn section(&self) -> &'static str {
        if self.nqn.is_some() { SUBSYSTEM } else { DISCOVERY }
    }

    /// Checks that nvme-cli can read it: it refuses a whole file for one name.
    fn check(&self) -> Result<(), String> {
        if let Some(nqn) = &self.nqn
            && !is_strict_nqn(nqn)
        {
            return Err(format!(
                "nvme-cli 3 does not read a file with the name `{nqn}`: names there are nqn.YYYY-MM.DOMAIN"
            ));
        }
        let is_plain = |value: &str| !value.contains([';', '\n', '\r']);
        match self.parts.iter().find(|(_, value)| !is_plain(value)) {
            Some((name, value)) => Err(format!("{name} `{value}` has a character that ends it there")),
            None => Ok(()),
        }
    }
}

/// True if nvme-cli 3 takes the name.
pub fn is_strict_nqn(nqn: &str) -> bool {
    let Some(rest) = nqn.strip_prefix("nqn.").map(str::as_bytes) else { return false };
    let is_digit = |at: usize| rest.get(at).is_some_and(u8::is_ascii_digit);
    let month = || rest[5..7].iter().fold(0, |month, digit| month * 10 + u32::from(digit - b'0'));
    (0..4).all(is_digit)
        && rest.get(4) == Some(&b'-')
        && (5..7).all(is_digit)
        && rest.get(7) == Some(&b'.')
        && rest.len() > 8
        && (1..=12).contains(&month())
        && rest.iter().all(u8::is_ascii_graphic)
}

/// The text of a file with this path in it, beside all that it had.
///
/// # Errors
/// When it is not such a file, or could not be read with the path in it.
pub fn with_path(text: &str, entry: &PathEntry) -> Result<String, String> {
    entry.check()?;
    let known = sections(text)?;
    let mut lines: Vec<String> = text.lines().map(ToOwned::to_owned).collect();
    let is_it = |section: &&Section| {
        section.name == entry.section()
            && section.nqn() == Some(entry.nqn.as_deref().unwrap_or(DISCOVERY_NQN))
    };
    let Some(section) = known.iter().find(is_it) else {
        if lines.last().is_some_and(|last| !last.trim().is_empty()) {
            lines.push(String::new());
        }
        lines.push(format!("[{}]", entry.section()));
        lines.extend(entry.nqn.iter().map(|nqn| format!("nqn = {nqn}")));
        lines.extend(entry.keys.iter().map(|(key, value)| format!("{key} = {value}")));
        lines.push(entry.line());
        return Ok(lines.join("\n") + "\n");
    };
    let line = entry.line();
    let wanted = Path(line.trim_start_matches("controller = ")).identity(section);
    let is_path =
        |known: &&Entry| known.key == "controller" && Path(&known.value).identity(section) == wanted;
    let end = section.entries.last().map_or(section.first, |last| last.line) + 1;
    let mut added = Vec::new();
    match section.entries.iter().find(is_path) {
        Some(known) => lines[known.line] = line,
        None => added.push(line),
    }
    for (key, value) in &entry.keys {
        let line = format!("{key} = {value}");
        match section.entries.iter().find(|known| known.key == *key) {
            Some(known) => lines[known.line] = line,
            None => added.insert(0, line),
        }
    }
    lines.splice(end..end, added);
    Ok(lines.join("\n") + "\n")
}

/// The text of a file without the paths that are meant, and how many there were. An endpoint goes with its last path; comments
/// stay. No text where nothing is left but the host's identity.
///
/// # Errors
/// When it is not such a file.
pub fn without_paths(text: &str, wanted: &Wanted<'_>) -> Result<(Option<String>, usize), String> {
    let known = sections(text)?;
    let mut lines: Vec<Option<&str>> = text.lines().map(Some).collect();
    let (mut count, mut is_anything_left) = (0, false);
    for section in &known {
        let is_meant = section.is_endpoint()
            && match wanted.nqn {
                Some(nqn) => !section.is_discovery() && section.nqn() == Some(nqn),
                None => true,
            };
        let goes = |entry: &&Entry| {
            is_meant && entry.key == "controller" && Path(&entry.value).is_at(section, wanted)
        };
        let gone: Vec<&Entry> = section.entries.iter().filter(goes).collect();
        count += gone.len();
        let is_last = !gone.is_empty() && gone.len() == section.paths().count();
        if is_last {
            // Also the empty line that set it apart.
            for line in &mut lines[section.first..section.end] {
                let is_comment = line.is_some_and(|line| line.trim().starts_with('#'));
                line.take_if(|_| !is_comment);
            }
        } else {
            gone.iter().for_each(|entry| lines[entry.line] = None);
            is_anything_left |= section.name != HOST;
        }
    }
    let left: Vec<&str> = lines.into_iter().flatten().collect();
    let has_comment = left.iter().any(|line| line.trim().starts_with('#'));
    let is_empty = !is_anything_left && !has_comment;
    Ok(((!is_empty || count == 0).then(|| left.join("\n") + "\n"), count))
}

#[cfg(test)]
mod tests {
    use engine::address::NetAddress;

    use super::*;

    const THEIRS: &str = "# theirs\n[I/O Controller Defaults]\nkeep-alive-tmo = 5\n\n[Discovery Controller]\n\
        controller = transport=tcp;traddr=10.0.0.9\n\n[Subsystem]\n# the disks\nnqn = nqn.2026-01.org.example:a\n\
        ctrl-loss-tmo = 1800\ncontroller = transport=tcp; traddr=10.0.0.1;trsvcid=4420\n";

    fn entry(nqn: Option<&str>, traddr: &str) -> PathEntry {
        let parts = [("transport", "tcp"), ("traddr", traddr), ("trsvcid", "4420"), ("nr-io-queues", "2")];
        PathEntry {
            nqn: nqn.map(ToOwned::to_owned),
            parts: parts.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec(),
            keys: Vec::new(),
        }
    }

    fn taken(text: &str, nqn: Option<&str>, addresses: &[&str]) -> (Option<String>, usize) {
        let addresses: Vec<NetAddress> = addresses.iter().map(|text| text.parse().unwrap()).collect();
        without_paths(text, &Wanted { nqn, addresses: &addresses }).unwrap()
    }

    #[test]
    fn both_forms_are_distinguished() {
        for ini in [THEIRS, "[Host]\n", "\n# only a comment\n", "[ Subsystem ]"] {
            assert!(is_ini(ini), "{ini}");
        }
        for json in ["", "[]", "[ {", "[\n  {\n", "{\"hosts\":[]}"] {
            assert!(!is_ini(json), "{json}");
        }
    }

    #[test]
    fn a_path_is_added_once_to_its_subsystem() {
        let (a, b) = ("nqn.2026-01.org.example:a", "nqn.2026-01.org.example:b");
        let added = with_path(THEIRS, &entry(Some(a), "10.0.0.2")).unwrap();
        let line = "controller = transport=tcp;traddr=10.0.0.2;trsvcid=4420;nr-io-queues=2\n";
        assert_eq!(added, format!("{THEIRS}{line}"));
        assert_eq!(with_path(&added, &entry(Some(a), "10.0.0.2")).unwrap(), added);
        // A path that is there gets its settings.
        let set = with_path(THEIRS, &entry(Some(a), "10.0.0.1")).unwrap();
        assert!(set.ends_with(&line.replace("10.0.0.2", "10.0.0.1")), "{set}");
        let other = with_path(&added, &entry(Some(b), "10.0.0.2")).unwrap();
        assert_eq!(other, format!("{added}\n[Subsystem]\nnqn = {b}\n{line}"));
        let service = with_path("", &entry(None, "10.0.0.2")).unwrap();
        assert_eq!(service, format!("[Discovery Controller]\n{line}"));
        let keyed =
            PathEntry { keys: vec![("kxchap-secret", "new".to_owned())], ..entry(Some(b), "10.0.0.2") };
        let keyed = with_path(&other, &keyed).unwrap();
        assert!(keyed.ends_with(&format!("nqn = {b}\n{line}kxchap-secret = new\n")), "{keyed}");
    }

    #[test]
    fn paths_are_taken_out_again() {
        let b = "nqn.2026-01.org.example:b";
        let added = with_path(THEIRS, &entry(Some(b), "10.0.0.2")).unwrap();
        assert_eq!(taken(&added, Some(b), &[]), (Some(THEIRS.to_owned() + "\n"), 1));
        assert_eq!(taken(&added, Some("nqn.c"), &[]).1, 0);
        let (left, count) = taken(&added, None, &["10.0.0.9:8009", "10.0.0.1:0"]);
        assert_eq!(count, 2);
        let left = left.unwrap();
        assert!(left.contains("# the disks") && !left.contains("10.0.0.9") && left.contains(b), "{left}");
        assert_eq!(
            taken(
                &format!(
                    "[Host]\nhostnqn = {b}\n[Subsystem]\nnqn = {b}\n{}\n",
                    "controller = transport=tcp;traddr=a.name"
                ),
                Some(b),
                &[]
            ),
            (None, 1)
        );
        assert_eq!(taken("[Subsystem]\ncontroller = transport=rdma;traddr=10.0.0.1\n", None, &[]).1, 0);
    }

    #[test]
    fn a_file_that_nvme_cli_could_not_read_is_not_changed() {
        for (text, reason) in [
            ("nqn = a\n", "line 1"),
            ("[Host]\n\nhostnqn\n", "line 3"),
            ("[Host\n", "line 1"),
            ("[Host]\n[Host]\n", "two [Host]"),
        ] {
            let refused = with_path(text, &entry(None, "10.0.0.2")).unwrap_err();
            assert!(refused.contains(reason), "{text}: {refused}");
        }
        for name in ["mysub", "nqn.2026-13.org.example", "nqn.2026-01.", "nqn.a"] {
            assert!(
                with_path("", &entry(Some(name), "10.0.0.2")).unwrap_err().contains("nvme-cli 3"),
                "{name}"
            );
        }
        assert!(with_path("", &entry(None, "10.0.0.2;x=1")).unwrap_err().contains("traddr"));
    }
}
