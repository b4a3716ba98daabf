//! An image of a real cluster, and two targets that serve it in turn, as gateways of a group do: `SELVEDGE_CEPH_CONF` names the
//! cluster's configuration, which has a pool `rbd`.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use engine::backend::{BackendConfig, RbdConfig};
use engine::ceph::{Cluster, ClusterOptions, NewImage, Object, Pool};
use engine::ring::Engine;
use engine::target::{Directives, NamespaceConfig, TargetError};

use crate::raw_host::{Kind, NQN, Space, TestTarget};
use crate::reservation_party::Party;
use prerequisite::wait_until;

pub(crate) const SPACE: Space = Space { nsid: 1, kind: Kind::Null, block: 4096 };

/// An image, and two gateways that serve it in turn.
pub(crate) struct Pair {
    pub(crate) pool: Arc<Pool>,
    pub(crate) gateways: [TestTarget; 2],
}

/// Directives for a gateway that has the image, or has not.
pub(crate) fn directives(has_image: bool, added: u64) -> Directives {
    let place = (NQN.to_owned(), SPACE.nsid);
    let standby = if has_image { BTreeSet::new() } else { BTreeSet::from([place.clone()]) };
    Directives { standby, reservations: Some(BTreeMap::from([(place, added)])), ..Directives::default() }
}

fn namespace(conf: &Path, image: &str) -> NamespaceConfig {
    let image = RbdConfig {
        pool: "rbd".to_owned(),
        namespace: String::new(),
        image: image.to_owned(),
        snapshot: None,
        conf: Some(conf.to_owned()),
        id: None,
        encryption: None,
    };
    NamespaceConfig::new(SPACE.nsid, BackendConfig::Rbd(image), SPACE.block)
}

impl Pair {
    /// The first of both has the image.
    pub(crate) fn start() -> Self {
        let conf = std::env::var_os("SELVEDGE_CEPH_CONF").expect("SELVEDGE_CEPH_CONF names a cluster");
        let conf = PathBuf::from(conf);
        let options = ClusterOptions { conf: Some(conf.clone()), ..ClusterOptions::default() };
        let pool = Pool::open(Cluster::connect(&options).unwrap(), "rbd", "").unwrap();
        let image = format!("reserved.{}", uuid::Uuid::new_v4());
        pool.create_image(&image, 8 << 20, &NewImage::default()).unwrap();
        let gateways = [true, false].map(|has_image| {
            TestTarget::start_with(Engine::Epoll, |config| {
                config.fabric.subsystems[0].namespaces = vec![namespace(&conf, &image)];
                config.ceph.are_images_shared = true;
                config.ceph.operation_timeout_ms = 5_000;
                config.directives = directives(has_image, 7);
            })
        });
        for gateway in &gateways {
            wait_until("the image is there", || gateway.target().status().namespaces.len() == 1);
        }
        Self { pool: Arc::new(pool), gateways }
    }

    pub(crate) fn direct(&self, at: usize, directives: &Directives) -> Result<(), TargetError> {
        let target = self.gateways[at].target();
        target.apply_directed(&target.config(), directives, Duration::ZERO).map(drop)
    }

    /// Gives the image to one of both, in order.
    pub(crate) fn hand_to(&self, at: usize) {
        self.direct(1 - at, &directives(false, 7)).unwrap();
        self.direct(at, &directives(true, 7)).unwrap();
    }

    pub(crate) fn party(&self, at: usize, number: u8) -> Party {
        Party::connect(self.gateways[at].address(), number)
    }

    /// Object with the reservations.
    pub(crate) fn object(&self) -> Object {
        let identities = self.gateways[0].target().namespace_identities();
        let uuid = identities[&(NQN.to_owned(), SPACE.nsid)];
        Object::new(self.pool.clone(), &format!("selvedge.reservations.{uuid}")).unwrap()
    }
}
