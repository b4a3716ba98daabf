//! Which group of gateways, as it is typed: `POOL[/NAMESPACE]/GROUP[,conf=FILE][,id=NAME][,failback=TIME]`. It opens nothing.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

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
}

impl FromStr for GroupSpec {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut parts = text.split(',');
        let place: Vec<&str> = parts.next().unwrap_or_default().split('/').collect();
        let (pool, namespace, group) = match place[..] {
            [pool, group] => (pool, "", group),
            [pool, namespace, group] if !namespace.is_empty() => (pool, namespace, group),
            _ => return Err(format!("`{text}` is not a group of gateways: write POOL[/NAMESPACE]/GROUP")),
        };
        if pool.is_empty() {
            return Err(format!("`{text}` names no pool: write POOL[/NAMESPACE]/GROUP"));
        }
        check_name(group)?;
        let owned = str::to_owned;
        let (pool, namespace, group) = (owned(pool), owned(namespace), owned(group));
        let mut spec = Self { pool, namespace, group, conf: None, id: None, failback: Failback::default() };
        for part in parts {
            match part.split_once('=') {
                Some(("conf", file)) if !file.is_empty() => {
                    // It fails for an empty path only.
                    spec.conf = Some(std::path::absolute(file).unwrap_or_else(|_| file.into()));
                }
                Some(("id", name)) if !name.is_empty() => {
                    spec.id = Some(name.strip_prefix("client.").unwrap_or(name).to_owned());
                }
                Some(("failback", text)) => {
                    let failback = text.parse::<Failback>();
                    spec.failback = failback.map_err(|what| format!("failback: {what}, or on-demand"))?;
                }
                _ => {
                    return Err(format!(
                        "`{part}` is nothing that a group takes: it takes conf=FILE and id=NAME, and failback=TIME"
                    ));
                }
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
pub fn check_name(name: &str) -> Result<(), String> {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.' | b':');
    if name.is_empty() || name.len() > 128 || !name.bytes().all(is_plain) {
        return Err(format!("the name `{name}` must be 1 to 128 letters, digits and -_.:"));
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
            ("rbd", "POOL[/NAMESPACE]/GROUP"),
            ("/gw", "names no pool"),
            ("rbd//gw", "POOL[/NAMESPACE]/GROUP"),
            ("rbd/", "1 to 128 letters"),
            ("rbd/a b", "1 to 128 letters"),
            ("rbd/gw,size=1", "conf=FILE and id=NAME"),
            ("rbd/gw,id=", "conf=FILE and id=NAME"),
            ("rbd/gw,failback=soon", "is not a time"),
        ] {
            let what = GroupSpec::from_str(text).unwrap_err();
            assert!(what.contains(expected), "{text}: {what}");
        }
    }
}
