//! The target that tests of the control API administer.

use std::sync::Arc;

use engine::target::{FabricConfig, Target, TargetConfig};

/// A target that serves this, with one reactor that does not poll.
pub(super) fn start(fabric: FabricConfig) -> Arc<Target> {
    let config = TargetConfig { fabric, poll_us_max: 0, ..TargetConfig::default() };
    Arc::new(Target::start(&config).expect("a target"))
}
