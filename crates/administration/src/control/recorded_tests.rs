//! Bodies as clients of the version before one schema send them: they are read, and mean what they meant; what cannot be is
//! refused with the field, and the word of today.

use engine::backend::BackendConfig;
use engine::target::{FabricConfig, NamespaceConfig, QosConfig, Visibility, WriteProtection};
use serde::de::DeserializeOwned;

use super::ask;
use super::namespaces::NamespaceBody;
use super::namespaces::images::CloneBody;
use super::patches::NamespacePatch;
use super::refusal::Refusal;

const NEW_NAMESPACE: &str = include_str!("recorded/new_namespace.json");
const NAMESPACE_PATCH: &str = include_str!("recorded/namespace_patch.json");
const CLONE: &str = include_str!("recorded/clone.json");
const CONFIG: &str = include_str!("recorded/config.json");

fn read<T: DeserializeOwned>(text: &str) -> Result<T, Refusal> {
    ask::read(text.as_bytes())
}

fn namespace(text: &str) -> Result<NamespaceConfig, Refusal> {
    let body: NamespaceBody = read(text)?;
    let nsid = body.nsid().unwrap_or(1);
    body.into_config(nsid)
}

#[test]
fn a_former_namespace_is_added_as_it_was() {
    let expected = NamespaceConfig {
        uuid: Some("1b4e28ba-2fa1-11d2-883f-0016d3ccabcd".parse().unwrap()),
        ana_group: 2,
        visible: Visibility::AllExcept(vec!["nqn.2026-01.io.selvedge:host-b".to_owned()]),
        qos: QosConfig { iops: Some(10_000), write_bytes: Some(100 << 20), ..QosConfig::default() },
        write_protection: WriteProtection::UntilRestart,
        host_write_protection: WriteProtection::On,
        write_delay_ms: 500,
        shared_storage: true,
        ..NamespaceConfig::new(
            7,
            BackendConfig::File { path: "/srv/disk.img".into(), size: Some(16 << 20) },
            4096,
        )
    };
    assert_eq!(namespace(NEW_NAMESPACE), Ok(expected.clone()));
    // It is shown with today's names, and without what is an order now.
    let shown = serde_json::to_string(&expected).unwrap();
    assert!(shown.contains("\"ana_group\":2"), "{shown}");
    assert!(!shown.contains("load_balancing_group") && !shown.contains("standby"), "{shown}");
}

#[test]
fn a_former_patch_changes_what_it_changed() {
    let mut config = namespace(NEW_NAMESPACE).unwrap();
    let patch: NamespacePatch = read(NAMESPACE_PATCH).unwrap();
    patch.apply(&mut config).unwrap();
    assert_eq!((config.ana_group, config.owner, config.write_delay_ms), (3, None, 500));
    assert_eq!((config.qos.iops, config.qos.bytes), (None, Some(200 << 20)));
    assert_eq!(config.qos.write_bytes, Some(100 << 20), "what is not said stays");
}

#[test]
fn a_former_clone_goes_to_the_group_that_it_names() {
    let body: CloneBody = read(CLONE).unwrap();
    assert_eq!((body.ana_group, body.qos.iops), (Some(4), Some(1000)));
    assert_eq!(body.new_image().object_size, Some(4 << 20));
}

#[test]
fn a_former_configuration_is_the_same_with_todays_names() {
    let fabric: FabricConfig = read(CONFIG).unwrap();
    let namespace = &fabric.subsystems[0].namespaces[0];
    assert_eq!((namespace.ana_group, namespace.block_size), (2, 512));
    assert_eq!(fabric.subsystems[0].storage.as_ref().map(|storage| storage.bytes_max), Some(1 << 40));
    let today = CONFIG.replace("load_balancing_group", "ana_group").replace(", \"standby\": false", "");
    assert_ne!(today, CONFIG);
    assert_eq!(read::<FabricConfig>(&today), Ok(fabric));
}

#[test]
fn what_cannot_be_is_refused_with_the_field_and_the_word_of_today() {
    let both = NEW_NAMESPACE.replace("\"nsid\": 7", "\"nsid\": 7, \"ana_group\": 2");
    let file = |name: &str| NEW_NAMESPACE.replace("\"block_size\"", name);
    for (text, field, word) in [
        (both, "", "ana_group"),
        // The former names of files were never those of the API.
        (file("\"block\""), "block", "`block_size`"),
        (NEW_NAMESPACE.replace("write_delay_ms", "write_delay"), "write_delay", "`write_delay_ms`"),
        (NEW_NAMESPACE.replace("shared_storage", "shared"), "shared", "`shared_storage`"),
    ] {
        let refusal = namespace(&text).unwrap_err();
        assert_eq!(refusal.status, 422, "{refusal}");
        assert!(refusal.error.contains(word), "{refusal}");
        assert!(field.is_empty() || refusal.field.as_deref() == Some(field), "{refusal:?}");
    }
}
