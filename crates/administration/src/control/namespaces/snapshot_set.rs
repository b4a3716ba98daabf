//! Snapshots of several images at one moment: writes to all of them are held, at all gateways of a group, until the last snapshot
//! is made. A host that has heard of one write before it began another one finds the first in every snapshot that has the second.

use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use engine::backend::{BackendConfig, RbdConfig};
use engine::ceph::{CephError, Cluster, ClusterOptions, Pool};
use engine::limits::{IMAGES_AT_A_TIME, SNAPSHOT_IMAGES_MAX};
use engine::target::{NamespaceConfig, SubsystemConfig};
use serde::{Deserialize, Serialize};

use super::super::ask::{Answer, Ask, encode};
use super::super::limits::CEPH_OPERATION_TIMEOUT_MS;
use super::super::refusal::Refusal;
use super::images::{changeable, check_snapshot, image_of};
use crate::spec::ceph::image_path;

/// Snapshots that are to be made at one moment.
#[derive(Clone, Debug, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "NewSnapshotSet")]
pub(crate) struct SnapshotSetBody {
    /// The name of each.
    name: String,
    /// Of the images of these namespaces; without them, of all that hosts can write to.
    nsids: Option<Vec<u32>>,
}

/// Snapshots of one moment.
#[derive(Debug, Serialize, schemars::JsonSchema)]
pub(in crate::control) struct SnapshotSet {
    name: String,
    snapshots: Vec<MemberSnapshot>,
    /// Time for which writes were held, in milliseconds.
    held_ms: u64,
}

/// The snapshot of one namespace's image.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, schemars::JsonSchema)]
struct MemberSnapshot {
    nsid: u32,
    image: String,
}

/// An image of which a snapshot is made.
struct Member {
    pool: Pool,
    image: String,
    shown: MemberSnapshot,
}

impl Member {
    fn take(&self, name: &str) -> Result<(), CephError> {
        self.pool.create_snapshot(&self.image, name)
    }

    fn undo(&self, name: &str) {
        if let Err(error) = self.pool.remove_snapshot(&self.image, name) {
            let image = &self.shown.image;
            tracing::warn!(%error, image, name, "cannot remove a snapshot of a set that has failed; remove it by hand");
        }
    }
}

/// Makes them.
pub(in crate::control) fn make(ask: &Ask<'_>) -> Result<Answer, Refusal> {
    let SnapshotSetBody { name, nsids } = ask.body()?;
    let nqn = ask.part("nqn");
    let fabric = ask.administration.fabric();
    let subsystem = fabric.subsystem(nqn);
    let subsystem = subsystem.ok_or_else(|| Refusal::not_found(format!("there is no subsystem {nqn}")))?;
    let namespaces = chosen(subsystem, nsids.as_deref())?;
    for namespace in &namespaces {
        check_snapshot(image_of(namespace)?, &name, "name")?;
    }
    let members = members(ask, &namespaces)?;
    // What can be found out before is: writes are held for as little as can be.
    side_by_side(&members, |member| {
        let snapshots = member.pool.snapshots(&member.image)?;
        if snapshots.iter().any(|known| known.name == name) {
            return Err(CephError::SnapshotExists { snapshot: format!("{}@{name}", member.shown.image) });
        }
        Ok(())
    })
    .map_err(|(_, error)| error)?;
    let places: Vec<(String, u32)> =
        namespaces.iter().map(|namespace| (nqn.to_owned(), namespace.nsid)).collect();
    let began = Instant::now();
    let held = ask.administration.hold_writes(&places)?;
    let made = match side_by_side(&members, |member| member.take(&name)) {
        Ok(()) => held.confirm().map_err(|refusal| (members.iter().collect(), refusal)),
        Err((made, error)) => Err((made, error.into())),
    };
    let held_ms = u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX);
    drop(held);
    if let Err((made, refusal)) = made {
        for member in made {
            member.undo(&name);
        }
        return Err(refusal);
    }
    let first = namespaces.first().map_or(0, |namespace| namespace.nsid);
    let location = format!("/v1/subsystems/{}/namespaces/{first}/snapshots", encode(nqn));
    let snapshots = members.into_iter().map(|member| member.shown).collect();
    Answer::created(location, &SnapshotSet { name, snapshots, held_ms })
}

/// The namespaces of whose images snapshots are made.
fn chosen<'a>(
    subsystem: &'a SubsystemConfig,
    nsids: Option<&[u32]>,
) -> Result<Vec<&'a NamespaceConfig>, Refusal> {
    let find = |nsid: &u32| {
        let found = subsystem.namespaces.iter().find(|namespace| namespace.nsid == *nsid);
        found.ok_or_else(|| {
            let what = format!("{} has no namespace {nsid}", subsystem.nqn);
            Refusal::unprocessable(what).about("nsids")
        })
    };
    let is_written = |namespace: &&NamespaceConfig| {
        !matches!(&namespace.backend, BackendConfig::Rbd(RbdConfig { snapshot: Some(_), .. }))
    };
    let mut namespaces = match nsids {
        Some(nsids) => nsids.iter().map(find).collect::<Result<Vec<_>, _>>()?,
        None => subsystem.namespaces.iter().filter(is_written).collect(),
    };
    namespaces.sort_unstable_by_key(|namespace| namespace.nsid);
    namespaces.dedup_by_key(|namespace| namespace.nsid);
    if namespaces.is_empty() {
        return Err(Refusal::unprocessable("no namespace is named").about("nsids"));
    }
    if namespaces.len() > SNAPSHOT_IMAGES_MAX {
        let what =
            format!("{} images are too many for one moment: at most {SNAPSHOT_IMAGES_MAX}", namespaces.len());
        return Err(Refusal::unprocessable(what).about("nsids"));
    }
    for namespace in &namespaces {
        let hint = "name those that are on images, by their nsids";
        changeable(image_of(namespace).map_err(|refusal| refusal.hint(hint))?)?;
    }
    Ok(namespaces)
}

/// The same, each within reach: by a connection that the target has already, or by one for all images of a cluster.
fn members(ask: &Ask<'_>, namespaces: &[&NamespaceConfig]) -> Result<Vec<Member>, Refusal> {
    // How each is reached, by its file and its user.
    type Reached = ((Option<PathBuf>, Option<String>), Arc<Cluster>);
    let mut clusters: Vec<Reached> = Vec::new();
    let mut members = Vec::new();
    for namespace in namespaces {
        let config = image_of(namespace)?;
        let by = (config.conf.clone(), config.id.clone());
        let known = clusters.iter().find(|(known, _)| *known == by).map(|(_, cluster)| cluster.clone());
        let cluster = match known {
            Some(cluster) => cluster,
            None => {
                let options = ClusterOptions {
                    conf: by.0.clone(),
                    id: by.1.clone(),
                    operation_timeout_ms: CEPH_OPERATION_TIMEOUT_MS,
                    ..ClusterOptions::default()
                };
                let near = ask.administration.image_connection(config);
                let cluster = near.map_or_else(|| Cluster::connect(&options), Ok)?;
                clusters.push((by, cluster.clone()));
                cluster
            }
        };
        let pool = Pool::open(cluster, &config.pool, &config.namespace)?;
        let shown = MemberSnapshot { nsid: namespace.nsid, image: image_path(config) };
        members.push(Member { pool, image: config.image.clone(), shown });
    }
    Ok(members)
}

/// Does it for all, some at a time, since each waits for its cluster; by an error, those for which it went well.
fn side_by_side(
    members: &[Member],
    act: impl Fn(&Member) -> Result<(), CephError> + Sync,
) -> Result<(), (Vec<&Member>, CephError)> {
    let (next, done, failed) = (AtomicUsize::new(0), Mutex::new(Vec::new()), Mutex::new(None));
    let work = || {
        while let Some(member) = members.get(next.fetch_add(1, Ordering::Relaxed)) {
            match act(member) {
                Ok(()) => done.lock().unwrap_or_else(PoisonError::into_inner).push(member),
                Err(error) => {
                    failed.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
                    // The rest is not worth holding anybody up.
                    next.store(members.len(), Ordering::Relaxed);
                }
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..members.len().min(IMAGES_AT_A_TIME) {
            scope.spawn(work);
        }
    });
    let done = done.into_inner().unwrap_or_else(PoisonError::into_inner);
    match failed.into_inner().unwrap_or_else(PoisonError::into_inner) {
        None => Ok(()),
        Some(error) => Err((done, error)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn subsystem() -> SubsystemConfig {
        let image = |snapshot: Option<&str>| {
            BackendConfig::Rbd(RbdConfig {
                pool: "rbd".to_owned(),
                namespace: String::new(),
                image: "disk".to_owned(),
                snapshot: snapshot.map(str::to_owned),
                conf: None,
                id: None,
                encryption: None,
            })
        };
        let backends =
            [image(None), image(Some("monday")), image(None), BackendConfig::Memory { size: 4096 }];
        let namespaces = (1..).zip(backends).map(|(nsid, backend)| NamespaceConfig::new(nsid, backend, 4096));
        SubsystemConfig::new("nqn.a", "A", "Selvedge").with(namespaces.collect())
    }

    fn nsids(subsystem: &SubsystemConfig, nsids: Option<&[u32]>) -> Result<Vec<u32>, String> {
        let chosen = chosen(subsystem, nsids).map_err(|refusal| refusal.to_string())?;
        Ok(chosen.into_iter().map(|namespace| namespace.nsid).collect())
    }

    #[test]
    fn what_is_no_image_or_is_not_written_is_not_taken_by_mistake() {
        let mut subsystem = subsystem();
        assert_eq!(nsids(&subsystem, Some(&[3, 1, 3])), Ok(vec![1, 3]));
        for (asked, reason) in [
            (None, "namespace 4 is not on a Ceph image"),
            (Some(&[4][..]), "namespace 4 is not on a Ceph image"),
            (Some(&[1, 2]), "is a snapshot"),
            (Some(&[9]), "no namespace 9"),
            (Some(&[]), "no namespace is named"),
        ] {
            let refused = nsids(&subsystem, asked).unwrap_err();
            assert!(refused.contains(reason), "{asked:?}: {refused}");
        }
        subsystem.namespaces.pop();
        assert_eq!(nsids(&subsystem, None), Ok(vec![1, 3]));
    }
}
