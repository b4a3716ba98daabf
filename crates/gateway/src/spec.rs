//! Which group of gateways, as it is typed: `POOL[/NAMESPACE]/GROUP[,conf=FILE][,id=NAME][,failback=TIME]`. It opens nothing.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use engine::units::QuantityError;

use super::failback::Failback;

/// A group of gateways, and how its cluster is reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupSpec {
    /// The pool that the group's state lies in.
    pub pool: String,
    /// Empty for none.
    pub namespace: String,
    /// The name of the group.
    pub group: String,
    /// The cluster's configuration file, if not the usual one.
    pub conf: Option<PathBuf>,
    /// The client, without `client.`, if not the usual one.
    pub id: Option<String>,
    /// Time at which this gateway gives groups back to gateways that have returned.
    pub failback: Failback,
    /// Location of this gateway, whose namespaces it serves before others do. The text of a group has none.
    pub location: Option<String>,
}

/// Text that names no group of gateways, or name that none can have.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SpecError {
    /// Another number of parts.
    #[error("`{0}` is not a group of gateways: write POOL[/NAMESPACE]/GROUP")]
    NotAGroup(String),
    /// Empty name of the pool.
    #[error("`{0}` names no pool: write POOL[/NAMESPACE]/GROUP")]
    NoPool(String),
    /// Name of a group or gateway that keys and objects' names cannot have in them.
    #[error("the name `{0}` must be 1 to 128 letters, digits and -_.:")]
    Name(String),
    /// Option that there is not.
    #[error("`{0}` is nothing that a group takes: it takes conf=FILE, id=NAME and failback=TIME")]
    Option(String),
    /// Time of failback that is none.
    #[error("failback: {0}, or on-demand")]
    Failback(QuantityError),
}

impl FromStr for GroupSpec {
    type Err = SpecError;

    fn from_str(text: &str) -> Result<Self, SpecError> {
        let mut parts = text.split(',');
        let place: Vec<&str> = parts.next().unwrap_or_default().split('/').collect();
        let (pool, namespace, group) = match place[..] {
            [pool, group] => (pool, "", group),
            [pool, namespace, group] if !namespace.is_empty() => (pool, namespace, group),
            _ => return Err(SpecError::NotAGroup(text.to_owned())),
        };
        if pool.is_empty() {
            return Err(SpecError::NoPool(text.to_owned()));
        }
        check_name(group)?;
        let owned = str::to_owned;
        let (pool, namespace, group) = (owned(pool), owned(namespace), owned(group));
        let failback = Failback::default();
        let mut spec = Self { pool, namespace, group, conf: None, id: None, failback, location: None };
        for part in parts {
            match part.split_once('=') {
                Some(("conf", file)) if !file.is_empty() => {
                    // It fails for an empty path only.
                    spec.conf = Some(std::path::absolute(file).unwrap_or_else(|_| file.into()));
                }
                Some(("id", name)) if !name.is_empty() => {
                    spec.id = Some(name.strip_prefix("client.").unwrap_or(name).to_owned());
                }
                Some(("failback", text)) => spec.failback = text.parse().map_err(SpecError::Failback)?,
                _ => return Err(SpecError::Option(part.to_owned())),
            }
        }
        Ok(spec)
    }
}

impl fmt::Display for GroupSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { pool, namespace, group, .. } = self;
        if namespace.is_empty() {
            write!(f, "{pool}/{group}")
        } else {
            write!(f, "{pool}/{namespace}/{group}")
        }
    }
}

/// Names of groups and gateways become parts of keys and objects' names.
///
/// # Errors
/// `SpecError::Name`.
pub fn check_name(name: &str) -> Result<(), SpecError> {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.' | b':');
    if name.is_empty() || name.len() > 128 || !name.bytes().all(is_plain) {
        return Err(SpecError::Name(name.to_owned()));
    }
    Ok(())
}

/// The name that a gateway has where none is given: its machine's.
pub fn host_name() -> String {
    let name = rustix::system::uname().nodename().to_string_lossy().into_owned();
    if check_name(&name).is_ok() { name } else { "gateway".to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_is_in_a_pool_or_a_namespace_of_one() {
        let spec: GroupSpec = "rbd/gw".parse().unwrap();
        assert_eq!((&*spec.pool, &*spec.namespace, &*spec.group), ("rbd", "", "gw"));
        let spec: GroupSpec = "rbd/tenant/gw,conf=/etc/ceph/b.conf,id=client.gw".parse().unwrap();
        assert_eq!((&*spec.namespace, spec.id.as_deref()), ("tenant", Some("gw")));
        assert_eq!(spec.to_string(), "rbd/tenant/gw");
        assert_eq!(spec.failback, Failback::default());
        assert_eq!(spec.conf, Some(PathBuf::from("/etc/ceph/b.conf")));
        let spec: GroupSpec = "rbd/gw,failback=on-demand".parse().unwrap();
        assert_eq!(spec.failback, Failback::OnDemand);
    }

    #[test]
    fn an_invalid_group_is_refused() {
        for (text, expected) in [
            ("rbd", "`rbd` is not a group of gateways: write POOL[/NAMESPACE]/GROUP"),
            ("/gw", "`/gw` names no pool: write POOL[/NAMESPACE]/GROUP"),
            ("rbd//gw", "`rbd//gw` is not a group of gateways: write POOL[/NAMESPACE]/GROUP"),
            ("rbd/", "the name `` must be 1 to 128 letters, digits and -_.:"),
            ("rbd/a b", "the name `a b` must be 1 to 128 letters, digits and -_.:"),
            (
                "rbd/gw,size=1",
                "`size=1` is nothing that a group takes: it takes conf=FILE, id=NAME and failback=TIME",
            ),
            (
                "rbd/gw,id=",
                "`id=` is nothing that a group takes: it takes conf=FILE, id=NAME and failback=TIME",
            ),
            (
                "rbd/gw,failback=soon",
                "failback: `soon` is not a time: write 10, 10s, 500ms or 2m, or on-demand",
            ),
        ] {
            assert_eq!(GroupSpec::from_str(text).unwrap_err().to_string(), expected);
        }
    }
}
