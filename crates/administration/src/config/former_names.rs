//! Former names of settings in a target.toml, from the time before each setting had one name
//! everywhere: they are replaced by today's names in place, so error messages still have the right
//! line. Values are not looked at.

use std::borrow::Cow;
use std::ops::Range;

use engine::address::HostAddress;
use engine::target::parse_write_delay;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::target_file::Mistake;
use crate::spec::ceph;
use crate::spec::service::SERVICE_DEFAULT;

/// A value with its place.
type Value<'i> = Spanned<DeValue<'i>>;

/// Tables of backends outside `backend`, each with its name inside.
const BACKENDS: [(&str, &str); 5] =
    [("memory", "memory"), ("null", "null"), ("file", "file"), ("block_device", "block"), ("rbd", "rbd")];

/// Turns former names into those of today.
pub(super) fn replace(root: &mut DeTable<'_>) -> Result<(), Mistake> {
    for (table, list) in [("port", "ports"), ("subsystem", "subsystems"), ("referral", "referrals")] {
        rename(root, table, list)?;
    }
    let mut others = Vec::new();
    for (port, span) in tables(root, "ports") {
        let addresses = replace_address(port)?;
        others.extend(addresses.into_iter().map(|address| (port.clone(), span.clone(), address)));
    }
    for (port, span, address) in others {
        add_port(root, port, span, address)?;
    }
    for (subsystem, _) in tables(root, "subsystems") {
        rename(subsystem, "ana_group", "ana_groups")?;
        rename(subsystem, "namespace", "namespaces")?;
        rename(subsystem, "host_key", "host_keys")?;
        if let Some(DeValue::Table(storage)) = subsystem.get_mut("storage").map(Spanned::get_mut) {
            rename(storage, "max", "bytes_max")?;
            rename(storage, "max_per_host", "bytes_max_per_host")?;
            rename(storage, "namespaces_per_host", "namespaces_max_per_host")?;
        }
        for (namespace, span) in tables(subsystem, "namespaces") {
            replace_namespace(namespace, span)?;
        }
    }
    Ok(())
}

/// The tables of a list, with their places.
pub(super) fn tables<'t, 'i>(
    table: &'t mut DeTable<'i>,
    list: &str,
) -> Vec<(&'t mut DeTable<'i>, Range<usize>)> {
    let Some(DeValue::Array(items)) = table.get_mut(list).map(Spanned::get_mut) else { return Vec::new() };
    let tables = items.iter_mut().filter_map(|item| {
        let span = item.span();
        match item.get_mut() {
            DeValue::Table(table) => Some((table, span)),
            _ => None,
        }
    });
    tables.collect()
}

fn take<'i>(table: &mut DeTable<'i>, name: &str) -> Option<Value<'i>> {
    table.remove(name)
}

fn put<'i>(table: &mut DeTable<'i>, name: &'static str, value: Value<'i>) {
    table.insert(Spanned::new(value.span(), Cow::Borrowed(name)), value);
}

pub(super) fn text<'i>(span: Range<usize>, text: String) -> Value<'i> {
    Spanned::new(span, DeValue::String(Cow::Owned(text)))
}

/// Gives a setting its name of today, unless it stands there under both.
fn rename(table: &mut DeTable<'_>, from: &str, to: &'static str) -> Result<(), Mistake> {
    let Some(value) = take(table, from) else { return Ok(()) };
    if table.contains_key(to) {
        let what = format!("{from} is {to} now, which is given too: keep {to}");
        return Err(Mistake { what, span: Some(value.span()) });
    }
    put(table, to, value);
    Ok(())
}

/// Adds a port for another address of a name, behind all others: those without a number are numbered in their order.
fn add_port<'i>(
    root: &mut DeTable<'i>,
    mut port: DeTable<'i>,
    span: Range<usize>,
    address: Value<'i>,
) -> Result<(), Mistake> {
    if port.contains_key("id") {
        let what = "the name has several addresses on this machine, and a port with an id is one address: write the address";
        return Err(Mistake { what: what.to_owned(), span: Some(address.span()) });
    }
    put(&mut port, "address", address);
    if let Some(DeValue::Array(ports)) = root.get_mut("ports").map(Spanned::get_mut) {
        ports.push(Spanned::new(span, DeValue::Table(port)));
    }
    Ok(())
}

/// An address and its service were two settings; a name is looked up. Returns the other addresses of the name.
fn replace_address<'i>(port: &mut DeTable<'i>) -> Result<Vec<Value<'i>>, Mistake> {
    let service = match take(port, "service") {
        None => SERVICE_DEFAULT,
        Some(service) => {
            let number = service
                .get_ref()
                .as_integer()
                .and_then(|number| i64::from_str_radix(number.as_str(), number.radix()).ok());
            number.and_then(|number| u16::try_from(number).ok()).ok_or_else(|| Mistake {
                what: match number {
                    Some(number) => format!("service {number} is not a port: ports are 0 to 65535"),
                    None => "a service is a number from 0 to 65535".to_owned(),
                },
                span: Some(service.span()),
            })?
        }
    };
    let Some(address) = port.get_mut("address") else { return Ok(Vec::new()) };
    let span = address.span();
    let Some(given) = address.get_ref().as_str() else { return Ok(Vec::new()) };
    let written: HostAddress = given.parse().map_err(Mistake::at(span.clone()))?;
    let found = written.local(service).map_err(Mistake::at(span.clone()))?;
    let mut found = found.iter().map(|address| text(span.clone(), address.to_string()));
    if let Some(first) = found.next() {
        *address = first;
    }
    Ok(found.collect())
}

fn replace_namespace(namespace: &mut DeTable<'_>, span: Range<usize>) -> Result<(), Mistake> {
    replace_backend(namespace, span.clone())?;
    rename(namespace, "block", "block_size")?;
    rename(namespace, "shared", "shared_storage")?;
    if let Some(delay) = take(namespace, "write_delay") {
        // Without a unit it was in seconds.
        let given = delay.get_ref().as_str().ok_or("write_delay is a text such as \"500ms\"");
        let given = given.map_err(Mistake::at(delay.span()))?;
        let delay_ms = parse_write_delay(given).map_err(Mistake::at(delay.span()))?;
        put(namespace, "write_delay_ms", text(delay.span(), format!("{delay_ms}ms")));
    }
    let (name, hosts) = match (take(namespace, "visible_to"), take(namespace, "hidden_from")) {
        (None, None) => return Ok(()),
        (Some(hosts), None) => ("only", hosts),
        (None, Some(hosts)) => ("all_except", hosts),
        (Some(_), Some(_)) => {
            let what = "visible_to and hidden_from contradict each other: keep one".to_owned();
            return Err(Mistake { what, span: Some(span) });
        }
    };
    put(namespace, "visible", wrapped(name, hosts));
    Ok(())
}

/// A table with this one value in it.
fn wrapped<'i>(name: &'static str, value: Value<'i>) -> Value<'i> {
    let span = value.span();
    let mut table = DeTable::new();
    put(&mut table, name, value);
    Spanned::new(span, DeValue::Table(table))
}

/// A backend stood beside the other settings: its kind with its size or path, and what else there is of it.
fn replace_backend(namespace: &mut DeTable<'_>, span: Range<usize>) -> Result<(), Mistake> {
    let mut found = Vec::new();
    for (name, kind) in BACKENDS {
        found.extend(take(namespace, name).map(|value| (kind, value)));
    }
    let (size, conf, id) = (take(namespace, "size"), take(namespace, "conf"), take(namespace, "id"));
    // Two keys of the table are two backends.
    let given = match namespace.get("backend").map(Spanned::get_ref) {
        Some(DeValue::Table(backends)) => backends.len(),
        other => usize::from(other.is_some()),
    };
    if found.len() + given != 1 {
        let what =
            "a namespace has exactly one of memory, null, file, block and rbd as its backend".to_owned();
        return Err(Mistake { what, span: Some(span) });
    }
    let kind = found.first().map_or("backend", |(kind, _)| kind);
    if let (Some(size), false) = (&size, kind == "file") {
        let what =
            "size goes with file only; memory and null are given theirs directly, and an image has its own";
        return Err(Mistake { what: what.to_owned(), span: Some(size.span()) });
    }
    if let (Some(other), false) = (conf.as_ref().or(id.as_ref()), kind == "rbd") {
        return Err(Mistake { what: "conf and id go with rbd only".to_owned(), span: Some(other.span()) });
    }
    let Some((kind, value)) = found.pop() else { return Ok(()) };
    let span = value.span();
    let mut table = DeTable::new();
    match kind {
        "memory" | "null" => put(&mut table, "size", value),
        "rbd" => {
            let path = value.get_ref().as_str().unwrap_or_default();
            let image = ceph::parse_image(path).map_err(Mistake::at(span.clone()))?;
            let parts = [
                ("pool", Some(image.pool)),
                ("namespace", Some(image.namespace)),
                ("image", Some(image.image)),
                ("snapshot", image.snapshot),
            ];
            for (name, part) in parts {
                if let Some(part) = part {
                    put(&mut table, name, text(span.clone(), part));
                }
            }
        }
        _ => put(&mut table, "path", value),
    }
    for (name, value) in [("size", size), ("conf", conf), ("id", id)] {
        if let Some(value) = value {
            put(&mut table, name, value);
        }
    }
    put(namespace, "backend", wrapped(kind, Spanned::new(span, DeValue::Table(table))));
    Ok(())
}
