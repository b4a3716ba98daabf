//! The target that tests of the control API administer.

use std::sync::Arc;

use engine::target::{FabricConfig, Target, TargetConfig};
use secure_channel::SealingKey;

/// A target that serves this, with one reactor that does not poll, and keeps no keys.
pub(super) fn start(fabric: FabricConfig) -> Arc<Target> {
    start_with(fabric, None)
}

/// The same that keeps keys.
pub(super) fn start_sealing(fabric: FabricConfig) -> Arc<Target> {
    let key = SealingKey::read(&"sealing+".repeat(8)).expect("48 bytes");
    start_with(fabric, Some(Arc::new(key)))
}

fn start_with(fabric: FabricConfig, sealing_key: Option<Arc<SealingKey>>) -> Arc<Target> {
    let config = TargetConfig { fabric, poll_us_max: 0, sealing_key, ..TargetConfig::default() };
    Arc::new(Target::start(&config).expect("a target"))
}
