//! Images that are opened for a configuration before it is put into effect. A cluster may take long to open one, and until then
//! other orders are carried out.

use std::sync::Arc;
use std::time::Duration;

use super::preparation::kept_subsystem;
use crate::backend::BackendConfig;
use crate::target::config::{Change, Directives, FabricConfig, NamespaceConfig, namespaces_of};
use crate::target::fabric::{Directory, Fabric};
use crate::target::image::{ImageOpener, Images, OpenRequest};

/// The images that a configuration needs and the one in effect has not. Who drops it gives up those that are not in effect then.
#[derive(Debug)]
pub struct EarlyImages {
    opener: Arc<ImageOpener<Images>>,
    requests: Vec<OpenRequest>,
}

impl EarlyImages {
    /// Begins to open them.
    pub(crate) fn begin(fabric: &Fabric, wanted: &FabricConfig, directives: &Directives) -> Self {
        let old = fabric.directory();
        let wanted = fabric.complete(&old.config, wanted);
        let changes = fabric.changes(&old, &wanted, directives);
        let new = namespaces_of(&changes, |change| {
            matches!(change, Change::NamespaceAdded { .. } | Change::NamespaceReplaced { .. })
        });
        let mut requests = Vec::new();
        for subsystem in &wanted.subsystems {
            let is_kept = kept_subsystem(&old, &subsystem.nqn, &changes).is_some();
            let comes = |config: &&NamespaceConfig| {
                let is_image = matches!(config.backend, BackendConfig::Rbd(_));
                is_image
                    && (!is_kept || new.contains(&(subsystem.nqn.as_str(), config.nsid)))
                    && !is_open(&old, directives, config)
            };
            let due = subsystem.namespaces.iter().filter(comes).map(|config| {
                let is_standby = directives.is_standby(&subsystem.nqn, config.nsid);
                OpenRequest::of(&subsystem.nqn, config, directives.opening).early(is_standby)
            });
            requests.extend(due);
        }
        Self::open(fabric, requests)
    }

    /// Begins to open the image of one namespace that is to come to the subsystem of this name, in this opening of images and with
    /// whether it is to stand by. A configuration that has it so finds it open.
    pub(crate) fn begin_one(
        fabric: &Fabric,
        nqn: &str,
        config: &NamespaceConfig,
        (opening, is_standby): (u64, bool),
    ) -> Self {
        let is_image = matches!(config.backend, BackendConfig::Rbd(_));
        let request = is_image.then(|| OpenRequest::of(nqn, config, opening).early(is_standby));
        Self::open(fabric, request.into_iter().collect())
    }

    fn open(fabric: &Fabric, requests: Vec<OpenRequest>) -> Self {
        let opener = fabric.opener().clone();
        opener.hold(&requests);
        Self { opener, requests }
    }

    /// Waits until all are open or cannot be, for `patience` at most.
    pub fn wait(&self, patience: Duration) {
        self.opener.wait(&self.requests, patience);
    }

    /// True if there are images, and all of them are open.
    pub fn are_open(&self) -> bool {
        !self.requests.is_empty() && self.requests.iter().all(|request| self.opener.is_opened(request))
    }

    /// The namespaces whose images are being opened yet, by subsystem and identifier. What cannot be opened is not among them: to
    /// put it into effect says why.
    pub fn pending(&self) -> Vec<(String, u32)> {
        let pending = self.requests.iter().filter(|request| self.opener.is_under_way(request));
        pending.map(OpenRequest::place).map(|(nqn, nsid)| (nqn.to_owned(), nsid)).collect()
    }
}

impl Drop for EarlyImages {
    fn drop(&mut self) {
        self.opener.release(&self.requests);
    }
}

/// True if another namespace has this image open, from which the change takes it over.
fn is_open(old: &Directory, directives: &Directives, config: &NamespaceConfig) -> bool {
    let mut open = old.config.subsystems.iter().flat_map(|subsystem| &subsystem.namespaces);
    old.directives.opening == directives.opening
        && open.any(|known| known.backend.is_same_place(&config.backend))
}
