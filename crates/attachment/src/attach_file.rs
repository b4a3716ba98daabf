//! `attach.toml`: many disks of one process, a table for each. A setting is a long option of `attach` with `_` for `-`, and means what
//! it means there: what is read here are command lines.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::ops::Range;
use std::path::Path;

use administration::config::target_file::{Mistake, line_of};
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Arg, ArgAction, CommandFactory as _, Parser as _};
use toml::de::{DeTable, DeValue};
use toml::{Spanned, Table, Value};

use crate::failure::Failure;
use crate::flags::attach::AttachFlags;
use crate::flags::{TypedLine, number_error};

/// The table of what all disks have that do not say otherwise.
const DEFAULTS: &str = "defaults";
/// The table of tables, by the disks' names.
const DISK: &str = "disk";
/// Bytes of a file: some thousand disks.
const FILE_BYTES_MAX: u64 = 1 << 20;
/// Disks of one process, of which each has threads.
const DISKS_MAX: usize = 256;
/// Options that are about the whole process, and no disk's.
const OF_PROCESS: [&str; 8] = [
    "help",
    "version",
    "output_format",
    "log_format",
    "log_level",
    "confinement",
    "metrics",
    "metrics_for_anybody",
];

/// A table of the file: one or more namespaces of one subsystem, attached in one way.
#[derive(Debug)]
pub(crate) struct DiskTable {
    pub(crate) name: String,
    /// The options as they would be typed.
    pub(crate) options: Vec<OsString>,
    pub(crate) flags: Box<AttachFlags>,
}

/// Reads and checks the file.
pub(crate) fn read(path: &Path) -> Result<Vec<DiskTable>, Failure> {
    let unread = |why: String| Failure::usage(format!("{} cannot be read: {why}", path.display()));
    let length = std::fs::metadata(path).map_err(|error| unread(error.to_string()))?.len();
    if length > FILE_BYTES_MAX {
        return Err(unread(format!("it has more than {FILE_BYTES_MAX} bytes")));
    }
    read_text(&std::fs::read_to_string(path).map_err(|error| unread(error.to_string()))?, path)
}

/// Reads and checks what is in the file.
fn read_text(text: &str, path: &Path) -> Result<Vec<DiskTable>, Failure> {
    parse(text).map_err(|mistake| {
        let line = mistake.span.map_or(String::new(), |span| format!(":{}", line_of(text, span.start)));
        Failure::usage(format!("{}{line}: {}", path.display(), mistake.what))
    })
}

/// A setting: its value, and where it stands.
type Settings = BTreeMap<String, (Value, Range<usize>)>;

fn parse(text: &str) -> Result<Vec<DiskTable>, Mistake> {
    let places = DeTable::parse(text)?;
    let mut values: Table = toml::from_str(text)?;
    let command = TypedLine::command();
    let attach = command.find_subcommand("attach").into_iter();
    let arguments: Vec<&Arg> = attach.flat_map(clap::Command::get_arguments).collect();
    for (name, _) in places.get_ref() {
        if name.get_ref() != DEFAULTS && name.get_ref() != DISK {
            let what = format!(
                "unknown table or setting `{}`: there are [{DEFAULTS}] and [{DISK}.NAME]",
                name.get_ref()
            );
            return Err(Mistake { what, span: Some(name.span()) });
        }
    }
    let defaults = match places.get_ref().get(DEFAULTS) {
        Some(place) => settings(place, values.remove(DEFAULTS), &arguments)?,
        None => Settings::new(),
    };
    let (Some(place), Some(Value::Table(mut disks))) = (places.get_ref().get(DISK), values.remove(DISK))
    else {
        return Err(Mistake { what: format!("there is no disk: add a [{DISK}.NAME]"), span: None });
    };
    if disks.len() > DISKS_MAX {
        let what = format!("{} disks, and a process has at most {DISKS_MAX}", disks.len());
        return Err(Mistake { what, span: Some(place.span()) });
    }
    let mut tables = Vec::with_capacity(disks.len());
    for (name, place) in place.get_ref().as_table().into_iter().flatten() {
        let mut all = defaults.clone();
        all.extend(settings(place, disks.remove(&**name.get_ref()), &arguments)?);
        tables.push(disk(name.get_ref(), &all, &arguments, name.span())?);
    }
    Ok(tables)
}

/// The settings of a table, all of which are options.
fn settings(
    place: &Spanned<DeValue<'_>>,
    values: Option<Value>,
    arguments: &[&Arg],
) -> Result<Settings, Mistake> {
    let (Some(places), Some(Value::Table(values))) = (place.get_ref().as_table(), values) else {
        return Err(Mistake { what: "this has to be a table".to_owned(), span: Some(place.span()) });
    };
    let span_of =
        |name: &str| places.iter().find(|(key, _)| *key.get_ref() == name).map(|(key, _)| key.span());
    let mut settings = Settings::new();
    for (name, value) in values {
        let span = span_of(&name).unwrap_or(place.span());
        if option(&name, arguments).is_none() {
            return Err(Mistake { what: unknown(&name, arguments), span: Some(span) });
        }
        settings.insert(name, (value, span));
    }
    Ok(settings)
}

/// The option that a setting is.
fn option<'a>(name: &str, arguments: &[&'a Arg]) -> Option<&'a Arg> {
    let is_named = |argument: &&&Arg| argument.get_long().is_some_and(|long| long.replace('-', "_") == name);
    if OF_PROCESS.contains(&name) { None } else { arguments.iter().find(is_named).copied() }
}

/// Error message for a name that no option has, with the nearest option.
fn unknown(name: &str, arguments: &[&Arg]) -> String {
    let as_setting = name.replace('-', "_");
    let hint = if option(&as_setting, arguments).is_some() {
        Some(as_setting)
    } else {
        let parsed =
            TypedLine::try_parse_from(["selvedge", "attach", &format!("--{}", name.replace('_', "-"))]);
        let near = parsed.err().and_then(|error| match error.get(ContextKind::SuggestedArg) {
            Some(ContextValue::String(near)) => Some(near.trim_start_matches("--").replace('-', "_")),
            _ => None,
        });
        near.filter(|near| option(near, arguments).is_some())
    };
    match hint {
        Some(hint) => format!("unknown setting `{name}`: did you mean `{hint}`?"),
        None => format!(
            "unknown setting `{name}`: settings are the long options of `selvedge attach --help`, with _ for -"
        ),
    }
}

/// The disk that the settings make.
fn disk(
    name: &str,
    settings: &Settings,
    arguments: &[&Arg],
    place: Range<usize>,
) -> Result<DiskTable, Mistake> {
    let mut words = Vec::new();
    for (setting, (value, span)) in settings {
        let Some(argument) = option(setting, arguments) else { continue };
        let wrong = |what: &str| Mistake { what: format!("{setting} {what}"), span: Some(span.clone()) };
        option_words(argument, value, &mut words).map_err(|what| wrong(&what))?;
    }
    let line = ["selvedge", "attach"].into_iter().map(OsString::from).chain(words.iter().cloned());
    match TypedLine::try_parse_from(line).map(TypedLine::attach) {
        Ok(flags) => Ok(DiskTable { name: name.to_owned(), options: words, flags }),
        Err(error) => {
            let option = match error.get(ContextKind::InvalidArg) {
                Some(ContextValue::String(option)) => option.clone(),
                Some(ContextValue::Strings(options)) => options.first().cloned().unwrap_or_default(),
                _ => String::new(),
            };
            let option = option.trim_start_matches("--").split([' ', '=', '[']).next().unwrap_or_default();
            let span = settings.get(&option.replace('-', "_")).map(|(_, span)| span.clone());
            Err(Mistake { what: format!("[{DISK}.{name}]: {}", said(&error)), span: span.or(Some(place)) })
        }
    }
}

/// Words of a command line for a setting.
fn option_words(argument: &Arg, value: &Value, words: &mut Vec<OsString>) -> Result<(), String> {
    let long = argument.get_long().unwrap_or_default();
    let takes_none = matches!(argument.get_action(), ArgAction::SetTrue);
    let may_have_none = takes_none || argument.get_num_args().is_some_and(|count| count.min_values() == 0);
    let text = |value: &Value| match value {
        Value::String(text) => Ok(text.clone()),
        Value::Integer(number) => Ok(number.to_string()),
        Value::Float(number) => Ok(number.to_string()),
        _ => Err("has to be a text or a number".to_owned()),
    };
    match value {
        Value::Boolean(true) if may_have_none => words.push(format!("--{long}").into()),
        Value::Boolean(false) if may_have_none => {}
        Value::Boolean(_) => return Err("takes a value, and is not true or false".to_owned()),
        _ if takes_none => return Err("is true or false".to_owned()),
        Value::Array(values) => {
            let texts = values.iter().map(text).collect::<Result<Vec<_>, _>>()?;
            match (argument.get_value_delimiter(), argument.get_action()) {
                (Some(delimiter), _) => {
                    words.push(format!("--{long}={}", texts.join(&delimiter.to_string())).into());
                }
                (None, ArgAction::Append) => {
                    words.extend(texts.into_iter().map(|text| format!("--{long}={text}").into()));
                }
                _ => return Err("takes one value".to_owned()),
            }
        }
        value => words.push(format!("--{long}={}", text(value)?).into()),
    }
    Ok(())
}

/// Error message for wrong options, without clap's usage lines.
fn said(error: &clap::Error) -> String {
    if error.kind() == ErrorKind::MissingRequiredArgument
        && let Some(ContextValue::Strings(missing)) = error.get(ContextKind::InvalidArg)
    {
        return format!("it lacks {}", missing.join(", "));
    }
    let text = error.to_string();
    let text = number_error::reworded(&text).unwrap_or(text);
    let lines = text.lines().take_while(|line| !line.starts_with("Usage:") && !line.starts_with("For more"));
    let lines: Vec<&str> = lines.map(str::trim).filter(|line| !line.is_empty()).collect();
    lines.join("; ").trim_start_matches("error: ").to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Vec<DiskTable>, String> {
        read_text(text, Path::new("attach.toml")).map_err(|failure| failure.line().unwrap_or_default())
    }

    const TWO: &str = "[defaults]\nkeep_alive_tmo = 7\nreconnect_delay = 2\n\n\
        [disk.database]\ntraddr = [\"10.0.0.1\", \"10.0.1.1\"]\nnqn = \"nqn.a\"\nublk = true\nkeep_alive_tmo = 9\n\n\
        [disk.images]\ntraddr = \"10.0.0.2\"\nnqn = \"nqn.b\"\nnsid = [1, 2]\nvhost_user = [\"a.vhost\", \"b.vhost\"]\n\
        read_only = true\nublk = false\n";

    #[test]
    fn a_table_is_a_command_line() {
        let disks = read(TWO).unwrap();
        assert_eq!(disks.iter().map(|disk| &*disk.name).collect::<Vec<_>>(), ["database", "images"]);
        let (first, second) = (&disks[0].flags, &disks[1].flags);
        assert!(first.ublk && !first.read_only && !second.ublk && second.read_only);
        assert_eq!(first.connection.traddr, ["10.0.0.1", "10.0.1.1"]);
        assert_eq!((&first.nsid[..], &second.nsid[..]), (&[1][..], &[1, 2][..]));
        assert_eq!(second.vhost_user.len(), 2);
        assert_eq!(first.connection.keep_alive_tmo, Some(9));
        assert_eq!(second.connection.keep_alive_tmo, Some(7));
        let place = read("[disk.a]\ntraddr = \"10.0.0.1\"\nnbd = true\n").unwrap();
        assert_eq!(place[0].flags.nbd, Some(crate::flags::attach::NbdEndpoint::Default));
    }

    #[test]
    fn what_is_wrong_is_said_with_its_line() {
        let cases = [
            ("", "attach.toml: there is no disk: add a [disk.NAME]"),
            ("x = 1\n", "attach.toml:1: unknown table or setting `x`: there are [defaults] and [disk.NAME]"),
            (
                "[disk.a]\ntraddr = \"a\"\nublkk = true\n",
                "attach.toml:3: unknown setting `ublkk`: did you mean `ublk`?",
            ),
            (
                "[disk.a]\nhost-traddr = \"a\"\n",
                "attach.toml:2: unknown setting `host-traddr`: did you mean `host_traddr`?",
            ),
            (
                "[disk.a]\noutput_format = \"json\"\n",
                "attach.toml:2: unknown setting `output_format`: settings are",
            ),
            (
                "[disk.a]\nmetrics = \"127.0.0.1:9465\"\n",
                "attach.toml:2: unknown setting `metrics`: settings are",
            ),
            ("[disk.a]\ntraddr = \"a\"\nublk = 1\n", "attach.toml:3: ublk is true or false"),
            ("[disk.a]\ntraddr = true\n", "attach.toml:2: traddr takes a value"),
            ("[disk.a]\ntraddr = \"a\"\nnbd = [\"a\", \"b\"]\n", "attach.toml:3: nbd takes one value"),
            (
                "[disk.a]\ntraddr = \"a\"\nublk = true\nnsid = 0\n",
                "attach.toml:4: [disk.a]: invalid value '0' for '--nsid <N>'",
            ),
            ("[disk.a]\ntraddr = \"a\"\n", "attach.toml:1: [disk.a]: it lacks"),
            ("[disk.a]\nublk = true\n", "attach.toml:1: [disk.a]: it lacks --traddr"),
            ("[disk.a]\ntraddr = \"a\"\nublk = true\nnbd = true\n", "attach.toml:"),
            ("[disk.a]\nublk = true\n[disk.a]\n", "attach.toml:3: "),
            ("disk = 1\n", "attach.toml: there is no disk"),
            ("disk.a = 1\n", "attach.toml:1: this has to be a table"),
        ];
        for (text, expected) in cases {
            let refused = read(text).unwrap_err();
            assert!(refused.starts_with(expected), "{text}: {refused}");
        }
    }
}
