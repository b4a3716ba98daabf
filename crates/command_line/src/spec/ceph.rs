//! Images of a Ceph cluster as people name them, and how all of a target's images reach their clusters. It asks no
//! cluster: whether an image is there is for the target to find.

use engine::backend::RbdConfig;
use engine::ceph::CephConfig;

/// Most images that can share a connection; with more, all share one in effect.
pub const BDEVS_PER_CLUSTER_MAX: u64 = 1024;
/// The longest time-out, in milliseconds: a day is as good as forever, which 0 says.
pub const TIMEOUT_MS_MAX: u64 = 86_400_000;

/// Settings of connections to clusters, as far as they are given.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CephSpec {
    /// Images that share one connection.
    pub bdevs_per_cluster: Option<u64>,
    /// Time limit of an operation, in milliseconds; 0 for none.
    pub timeout_ms: Option<u64>,
}

impl CephSpec {
    /// Settings of `other`, and for those it lacks, these.
    pub fn with(self, other: Self) -> Self {
        Self {
            bdevs_per_cluster: other.bdevs_per_cluster.or(self.bdevs_per_cluster),
            timeout_ms: other.timeout_ms.or(self.timeout_ms),
        }
    }

    /// The engine's form.
    pub fn to_engine(self) -> CephConfig {
        let usual = CephConfig::default();
        CephConfig {
            bdevs_per_cluster: self.bdevs_per_cluster.map_or(usual.bdevs_per_cluster, |count| count as usize),
            operation_timeout_ms: self.timeout_ms.unwrap_or(usual.operation_timeout_ms),
            ..usual
        }
    }
}

/// Checks how many images are to share a connection.
pub fn check_bdevs_per_cluster(count: i64) -> Result<u64, String> {
    u64::try_from(count).ok().filter(|count| (1..=BDEVS_PER_CLUSTER_MAX).contains(count)).ok_or_else(|| {
        format!("{count} images for each connection cannot be: write 1 to {BDEVS_PER_CLUSTER_MAX}")
    })
}

/// Checks how long an operation is to take at most, in milliseconds.
pub fn check_timeout_ms(time_ms: i64) -> Result<u64, String> {
    u64::try_from(time_ms).ok().filter(|time_ms| *time_ms <= TIMEOUT_MS_MAX).ok_or_else(|| {
        format!("a time-out of {time_ms} ms cannot be: write up to {TIMEOUT_MS_MAX}, or 0 for none")
    })
}

/// An image by its path, `POOL[/NAMESPACE]/IMAGE[@SNAPSHOT]`, as Ceph's own programs write it.
pub fn parse_image(path: &str) -> Result<RbdConfig, String> {
    let wrong =
        || format!("`{path}` names no image: write POOL/IMAGE, POOL/NAMESPACE/IMAGE, either with @SNAPSHOT");
    let (place, last) = path.rsplit_once('/').ok_or_else(wrong)?;
    let (pool, namespace) = place.split_once('/').map_or((place, None), |(pool, name)| (pool, Some(name)));
    let (image, snapshot) = last.split_once('@').map_or((last, None), |(image, name)| (image, Some(name)));
    if namespace.is_some_and(str::is_empty) {
        return Err(wrong());
    }
    let config = RbdConfig {
        pool: pool.to_owned(),
        namespace: namespace.unwrap_or_default().to_owned(),
        image: image.to_owned(),
        snapshot: snapshot.map(str::to_owned),
        conf: None,
        id: None,
        encryption: None,
    };
    check_image(&config).map_err(|_| wrong())?;
    Ok(config)
}

/// Checks that an image can be written as a path, and that there is nothing of it that has no name. The error is the
/// field and what is wrong with it.
pub fn check_image(config: &RbdConfig) -> Result<(), (&'static str, String)> {
    let parts = [
        ("pool", Some(&config.pool), "/"),
        ("namespace", Some(&config.namespace).filter(|name| !name.is_empty()), "/@"),
        ("image", Some(&config.image), "/@"),
        ("snapshot", config.snapshot.as_ref(), "/@"),
        ("id", config.id.as_ref(), ""),
    ];
    for (field, name, forbidden) in parts {
        let Some(name) = name else { continue };
        if name.is_empty() {
            return Err((field, "it needs a name".to_owned()));
        }
        if name.contains(|character: char| character.is_control() || forbidden.contains(character)) {
            return Err((
                field,
                format!("`{}` has a character that no such name has", name.escape_default()),
            ));
        }
    }
    Ok(())
}

/// A user without `client.`, with which some write it.
pub fn user(name: &str) -> String {
    name.strip_prefix("client.").unwrap_or(name).to_owned()
}

/// The path of an image.
pub fn image_path(config: &RbdConfig) -> String {
    let RbdConfig { pool, namespace, image, snapshot, .. } = config;
    let within = if namespace.is_empty() { String::new() } else { format!("{namespace}/") };
    let at = snapshot.as_ref().map_or(String::new(), |snapshot| format!("@{snapshot}"));
    format!("{pool}/{within}{image}{at}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_read_and_written_as_the_same() {
        for (path, pool, namespace, image, snapshot) in [
            ("rbd/disk", "rbd", "", "disk", None),
            ("rbd/space/disk", "rbd", "space", "disk", None),
            ("rbd/disk@monday", "rbd", "", "disk", Some("monday")),
            ("p@1/space/a disk@monday", "p@1", "space", "a disk", Some("monday")),
        ] {
            let read = parse_image(path).unwrap();
            assert_eq!(
                (read.pool.as_str(), read.namespace.as_str(), read.image.as_str()),
                (pool, namespace, image)
            );
            assert_eq!(read.snapshot.as_deref(), snapshot);
            assert_eq!(image_path(&read), path);
        }
        for path in [
            "",
            "disk",
            "/disk",
            "rbd/",
            "rbd//disk",
            "rbd/a/b/c",
            "rbd/a@b@c",
            "rbd/disk@",
            "rbd/@s",
            "a/b\n",
        ] {
            assert!(parse_image(path).unwrap_err().contains("POOL/IMAGE"), "{path}");
        }
    }

    #[test]
    fn the_knobs_have_limits() {
        assert_eq!((check_bdevs_per_cluster(1), check_bdevs_per_cluster(1024)), (Ok(1), Ok(1024)));
        assert!(check_bdevs_per_cluster(0).is_err() && check_bdevs_per_cluster(1025).is_err());
        assert_eq!(check_timeout_ms(0), Ok(0));
        assert!(check_timeout_ms(-1).is_err() && check_timeout_ms(86_400_001).is_err());
        let said = CephSpec { bdevs_per_cluster: Some(8), timeout_ms: None };
        let both = said.with(CephSpec { bdevs_per_cluster: None, timeout_ms: Some(0) }).to_engine();
        assert_eq!((both.bdevs_per_cluster, both.operation_timeout_ms), (8, 0));
        let usual = CephSpec::default().to_engine();
        assert_eq!((usual.bdevs_per_cluster, usual.operation_timeout_ms), (32, 30_000));
    }
}
