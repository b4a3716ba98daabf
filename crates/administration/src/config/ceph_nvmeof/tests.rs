//! `recorded/` has the state of a group as ceph-nvmeof 1.5.1 writes it: its own code made the keys, protobuf's the values, and
//! Python's `cryptography` the Fernet tokens, with the key in `encryption.pem`. `listomapvals.txt` is the same state as Ceph's
//! `rados` printed it.

use engine::backend::{BackendConfig, RbdConfig};
use engine::target::{TlsUse, Visibility, WriteProtection};
use serde_json::{Value, json};

use super::*;
use crate::config::target_dump;

const STATE: &str = include_str!("recorded/state.json");
const LISTED: &str = include_str!("recorded/listomapvals.txt");
const KEY: &str = include_str!("recorded/encryption.pem");
const STORE: &str = "nqn.2016-06.io.spdk:store.g1";
const OPEN: &str = "nqn.2016-06.io.spdk:open.g1";
/// Secret of the subsystem in the recorded state.
const SUBSYSTEM_SECRET: &str = "DHHC-1:01:/hwym28OAOum/KSgwCfBfge1j5ZWH6wAypW1zbGX2KzkX2jZ:";
const HOST_SECRET: &str = "DHHC-1:01:H0D8ktokFpR1CXnubPWC8tXX0o4YM13gWrxU0FYOD1PSgP0x:";
const TLS_KEY: &str = "NVMeTLSkey-1:01:Umd2iCLuYk1I/OFexcp5y9YCy39MIVelFlVpkfIu+MfxiUBy:";
const PLAIN_SECRET: &str =
    "DHHC-1:02:rMKNsr63tCuqHLAkPUAcy04/zkTXsCh5pSeZqt/1QVItiCJZiy+mZPnVFWwAySSAwQchQQ==:";

fn host(number: u8) -> String {
    format!("nqn.2014-08.org.nvmexpress:uuid:a38bd9d6-7c0f-4a9c-8d4d-00000000000{number}")
}

fn choice(gateway: &str) -> Choice {
    Choice {
        gateway: Some(gateway.to_owned()),
        encryption_key: Some(EncryptionKey::read(KEY).unwrap()),
        secret_dir: Some("/secrets".into()),
        ..Choice::default()
    }
}

fn imported(pairs: &Pairs) -> Imported {
    read(pairs, &choice("node-a")).unwrap()
}

/// The state after a change of one value. A key that is not there is there then.
fn changed(key: &str, change: impl FnOnce(&mut Value)) -> Pairs {
    let mut pairs = saved::read(STATE).unwrap();
    let mut value = pairs.get(key).map_or(json!({}), |value| serde_json::from_slice(value).unwrap());
    change(&mut value);
    pairs.insert(key.to_owned(), value.to_string().into_bytes());
    pairs
}

/// Losses after such a change of the recorded state.
fn losses(key: &str, change: impl FnOnce(&mut Value)) -> Vec<String> {
    imported(&changed(key, change)).losses.iter().map(ToString::to_string).collect()
}

fn secret(of: &Imported, file: Option<&PathBuf>) -> String {
    let file = of.secrets.iter().find(|secret| Some(&secret.path) == file);
    file.map(|file| file.text.to_string()).unwrap_or_default()
}

#[test]
fn a_group_becomes_a_target_with_the_same_names() {
    let all = imported(&saved::read(STATE).unwrap());
    assert_eq!(all.losses, []);
    let [open, store] = &all.fabric.subsystems[..] else { panic!("{:?}", all.fabric) };
    assert_eq!(
        (&*store.nqn, &*store.serial, &*store.model),
        (STORE, "Ceph38961297401", "Ceph bdev Controller")
    );
    assert_eq!((&*open.nqn, open.allow_any_host, store.allow_any_host), (OPEN, true, false));
    assert_eq!(store.hosts, [host(1), host(2), host(3)]);
    let ports: Vec<_> = all.fabric.ports.iter().map(|p| (p.id, p.address.to_string(), p.tls)).collect();
    let tls = Some(TlsUse::Required);
    let expected =
        [(1, "192.168.13.3:4420", None), (2, "192.168.13.3:4430", tls), (3, "[fd00::3]:4430", tls)];
    assert_eq!(ports, expected.map(|(id, address, tls)| (id, address.to_owned(), tls)));
    assert_eq!((&open.ports[..], &store.ports[..]), (&[1][..], &[2, 3][..]));
    let [first, second] = &store.namespaces[..] else { panic!("{store:?}") };
    let image = |image: &str| {
        BackendConfig::Rbd(RbdConfig {
            pool: "rbd".to_owned(),
            image: image.to_owned(),
            namespace: String::new(),
            snapshot: None,
            conf: None,
            id: None,
            encryption: None,
        })
    };
    assert_eq!((first.nsid, &first.backend, first.block_size, first.ana_group), (1, &image("disk1"), 512, 1));
    assert_eq!(
        (second.nsid, &second.backend, second.block_size, second.ana_group),
        (2, &image("disk2"), 4096, 2)
    );
    assert_eq!(first.uuid.unwrap().to_string(), "6f1c5b2e-8a4b-4f0e-9d27-000000000001");
    assert_eq!(first.visible, Visibility::AllExcept(Vec::new()));
    assert_eq!(second.visible, Visibility::Only(vec![host(1)]));
    assert_eq!((first.qos.iops, first.qos.read_bytes, first.qos.bytes), (Some(5000), Some(100 << 20), None));
    assert!(second.qos.is_unlimited());
    assert_eq!(open.namespaces[0].backend, image("shared_disk"), "names of images have what separates keys");
    assert!(open.namespaces[0].trash_image && !first.trash_image);
    let fixed = changed(&format!("namespace_{STORE}_1"), |value| value["disable_auto_resize"] = json!(true));
    let fixed = imported(&fixed);
    let kept = fixed.fabric.subsystems.iter().flat_map(|subsystem| &subsystem.namespaces);
    assert_eq!(kept.filter(|namespace| namespace.disable_auto_resize).count(), 1);
    let placed = |location: &str| {
        let pairs = changed(&format!("namespace_{STORE}_1"), |value| value["location"] = json!(location));
        imported(&pairs).fabric.subsystems[1].namespaces[0].location.clone()
    };
    assert_eq!(["rack1", "", "rack 1"].map(placed), [Some("rack1".to_owned()), None, None]);
    let warnings: Vec<_> = all.warnings.iter().map(ToString::to_string).collect();
    assert_eq!(warnings.len(), 2, "{warnings:?}");
    assert!(warnings[0].contains("it and 1 more are left to the target that takes the place of node-b"));
    assert!(warnings[1].starts_with(&format!("namespace_{OPEN}_1: trash_image")));
    target_dump::write(&all.fabric).unwrap();
}

#[test]
fn a_namespace_in_a_persistent_group_is_imported() {
    let group = |number: i64| {
        let all =
            imported(&changed(&format!("namespace_{STORE}_2"), |value| value["anagrpid"] = json!(number)));
        assert_eq!(all.losses, []);
        all.fabric.subsystems[1].namespaces[1].ana_group
    };
    assert_eq!([2, -2, -3].map(group), [2, 2, 3]);
    let lost = losses(&format!("namespace_{STORE}_2"), |value| value["anagrpid"] = json!(-1_000_000));
    assert!(lost[0].contains("it is in group 1"), "{lost:?}");
}

#[test]
fn secrets_are_what_was_typed_at_the_gateways() {
    let all = imported(&saved::read(STATE).unwrap());
    let [first, second, third] = &all.fabric.subsystems[1].host_keys[..] else {
        panic!("three hosts have keys")
    };
    assert_eq!(secret(&all, first.dhchap_secret_file.as_ref()), HOST_SECRET);
    assert_eq!(secret(&all, first.dhchap_ctrl_secret_file.as_ref()), SUBSYSTEM_SECRET);
    assert_eq!(secret(&all, second.tls_key_file.as_ref()), TLS_KEY);
    assert_eq!((&second.dhchap_secret_file, &first.tls_key_file), (&None, &None));
    assert_eq!(secret(&all, third.dhchap_secret_file.as_ref()), PLAIN_SECRET, "not every group encrypts");
    assert_eq!(third.dhchap_ctrl_secret_file, first.dhchap_ctrl_secret_file);
    assert_eq!(secret(&all, third.tls_key_file.as_ref()), TLS_KEY);
    assert_eq!(all.secrets.len(), 5);
    let name = "/secrets/nqn.2014-08.org.nvmexpress_uuid_a38bd9d6-7c0f-4a9c-8d4d-000000000001.dhchap.key";
    assert_eq!(first.dhchap_secret_file, Some(name.into()));
    let without = Choice { secret_dir: None, ..choice("node-a") };
    let refusal = read(&saved::read(STATE).unwrap(), &without).unwrap_err();
    assert!(refusal.contains("5 secrets") && refusal.contains("--secret-dir"), "{refusal}");
}

#[test]
fn what_rados_prints_is_the_same_state() {
    let (saved, listed) = (saved::read(STATE).unwrap(), saved::read(LISTED).unwrap());
    assert_eq!(listed.keys().collect::<Vec<_>>(), saved.keys().collect::<Vec<_>>());
    assert_eq!(listed, saved);
    // Rows that are the same are printed once.
    let value = [b'x'; 100];
    let printed = "omap_version\nvalue (2 bytes) :\n00000000  32 34                                             |24|\n\
                   00000002\n\nempty\nvalue (0 bytes) :\n\nkey\nvalue (100 bytes) :\n00000000  \
                   78 78 78 78 78 78 78 78  78 78 78 78 78 78 78 78  |xxxxxxxxxxxxxxxx|\n*\n00000060  78 78 78 78  \
                   |xxxx|\n00000064\n";
    let pairs = saved::read(printed).unwrap();
    assert_eq!(
        (&pairs["omap_version"][..], &pairs["empty"][..], &pairs["key"][..]),
        (&b"24"[..], &b""[..], &value[..])
    );
    for (from, to, expected) in [
        ("(100 bytes)", "(101 bytes)", "has 100 bytes of 101"),
        ("(100 bytes)", "(99 bytes)", "does not follow"),
        ("00000060", "00000050", "does not follow"),
        ("00000060", "00000061", "does not follow"),
        ("value (100", "worth (100", "no line `value"),
        ("(100 bytes)", "(99999999999 bytes)", "more than"),
        ("empty", "omap_version", "omap_version is given twice"),
    ] {
        let refusal = saved::read(&printed.replace(from, to)).unwrap_err();
        assert!(refusal.contains(expected), "{from}: {refusal}");
    }
    for (text, expected) in [
        ("", "it has no omap_version"),
        ("[]", "no line `value"),
        ("{", "this is not JSON"),
        (r#"{"omap_version": "1", "omap_version": "2"}"#, "omap_version is given twice"),
        (r#"{"omap_version": []}"#, "neither a text nor an object"),
        (r#"{"version": "1"}"#, "it has no omap_version"),
    ] {
        let refusal = saved::read(text).and_then(|pairs| read(&pairs, &choice("node-a"))).unwrap_err();
        assert!(refusal.contains(expected), "{text}: {refusal}");
    }
}

#[test]
fn a_gateway_is_named_where_there_are_several() {
    let pairs = saved::read(STATE).unwrap();
    let refused = |gateway: Option<&str>| {
        let choice = Choice { gateway: gateway.map(str::to_owned), ..choice("") };
        read(&pairs, &choice).unwrap_err()
    };
    assert!(refused(None).ends_with("name one by --gateway (node-a, node-b)"), "{}", refused(None));
    assert!(refused(Some("c")).ends_with("no listener of gateway c, but of node-a, node-b"));
    let other = read(&pairs, &choice("node-b")).unwrap();
    let addresses: Vec<_> = other.fabric.ports.iter().map(|port| port.address.to_string()).collect();
    assert_eq!(addresses, ["192.168.13.4:4420", "192.168.13.4:4430"]);
    let mut alone = pairs.clone();
    alone.retain(|key, _| !key.contains("node-b"));
    let unnamed = Choice { gateway: None, ..choice("") };
    assert_eq!(read(&alone, &unnamed).unwrap().fabric.ports.len(), 3);
}

#[test]
fn a_subsystem_keeps_its_networks() {
    const NETWORK: &str = "192.168.13.0/24";
    let store = format!("subsystem_{STORE}");
    let with = |masks: Value, is_secure: bool| {
        changed(&store, |value| {
            (value["network_mask"], value["secure_listeners"]) = (masks, json!(is_secure));
        })
    };
    let on = |all: &Imported| {
        let store = &all.fabric.subsystems[1];
        let ports = all.fabric.ports.iter().filter(|port| store.is_on(port));
        ports.map(|port| port.id).collect::<Vec<_>>()
    };
    let all = imported(&with(json!([NETWORK, "192.168.13.7/24"]), false));
    assert_eq!(all.losses, []);
    let networks: Vec<_> = all.fabric.subsystems[1].networks.iter().map(ToString::to_string).collect();
    assert_eq!(networks, [NETWORK], "once");
    assert_eq!((&all.fabric.subsystems[1].ports[..], on(&all)), (&[2, 3][..], vec![1, 2, 3]));
    assert!(all.warnings.iter().any(|warning| warning.to_string().contains(NETWORK)), "{:?}", all.warnings);
    // Hosts would be accepted without TLS where they were not.
    let all = imported(&with(json!([NETWORK, "fd00::/64"]), true));
    assert!(matches!(&all.losses[..], [loss] if loss.to_string().contains(NETWORK)), "{:?}", all.losses);
    assert_eq!((all.fabric.subsystems[1].networks.len(), on(&all)), (1, vec![2, 3]));
    // Without a listener it is found in its networks alone, also where there is one port.
    for (mask, found) in [("10.0.0.0/8", vec![]), (NETWORK, vec![1])] {
        let mut pairs = with(json!([mask]), false);
        pairs.retain(|key, _| !key.starts_with(&format!("listener_{STORE}")));
        let all = imported(&pairs);
        assert_eq!(all.losses, [], "{mask}");
        assert_eq!((all.fabric.ports.len(), on(&all)), (1, found), "{mask}");
    }
}

#[test]
fn a_host_whose_key_is_lost_is_not_let_in() {
    let key = format!("host_{STORE}_{}", host(1));
    let token = |value: &Value| value["dhchap_key"].as_str().unwrap().to_owned();
    for (change, expected) in [
        (&(|v: &mut Value| v["key_encrypted"] = json!(false)) as &dyn Fn(&mut Value), "its form, length"),
        (&|v| v["dhchap_key"] = json!(format!("x{}", token(v))), "damaged"),
        (&|v| v["dhchap_key"] = json!("Z0FBQQ=="), "damaged"),
        (&|v| v["dhchap_key"] = json!(["x"]), "dhchap_key is not a text"),
        (&|v| v["key_encrypted"] = json!("yes"), "key_encrypted is neither"),
        (&|v| v["host_nqn"] = json!(host(7)), "key and value name different hosts"),
    ] {
        let all = imported(&changed(&key, change));
        let lost: Vec<_> = all.losses.iter().map(ToString::to_string).collect();
        assert!(lost.iter().all(|loss| loss.starts_with(&key)), "{lost:?}");
        assert!(lost[0].contains(expected), "{lost:?}");
        assert_eq!(all.fabric.subsystems[1].hosts, [host(2), host(3)], "{lost:?}");
        assert_eq!(all.fabric.subsystems[1].host_keys.len(), 2, "{lost:?}");
    }
    // One more letter of its token, which its HMAC does not know.
    let mut pairs = saved::read(STATE).unwrap();
    let text = String::from_utf8(pairs[&key].clone()).unwrap();
    let token = serde_json::from_str::<Value>(&text).unwrap()["dhchap_key"].as_str().unwrap().to_owned();
    let at = token.len() / 2;
    let other = if token.as_bytes()[at] == b'A' { "B" } else { "A" };
    let bad = format!("{}{other}{}", &token[..at], &token[at + 1..]);
    pairs.insert(key, text.replace(&token, &bad).into_bytes());
    let lost = imported(&pairs).losses[0].to_string();
    assert!(lost.contains("has been changed") || lost.contains("damaged"), "{lost}");
}

#[test]
fn without_the_right_encryption_key_nothing_encrypted_is_taken_over() {
    let pairs = saved::read(STATE).unwrap();
    let other = EncryptionKey::read(&KEY.replace("MC4C", "MC4D")).unwrap();
    for (key, expected) in
        [(None, "give the gateways' key by --encryption-key"), (Some(other), "not encrypted with")]
    {
        let all = read(&pairs, &Choice { encryption_key: key, ..choice("node-a") }).unwrap();
        let lost: Vec<_> = all.losses.iter().map(ToString::to_string).collect();
        // The subsystem's, those of two hosts, and the TLS key of the third, each with what follows from it.
        assert_eq!(lost.iter().filter(|loss| loss.contains(expected)).count(), 4, "{lost:?}");
        assert_eq!(lost.len(), 8, "{lost:?}");
        assert!(all.fabric.subsystems[1].hosts.is_empty() && all.fabric.subsystems[1].host_keys.is_empty());
        assert!(!lost.iter().any(|loss| loss.contains("DHHC") || loss.contains("Z0FB")), "{lost:?}");
    }
    let spaces = KEY.replace('\n', " ");
    let bare: String = KEY.lines().filter(|line| !line.starts_with('-')).collect();
    for form in [&*spaces, &*bare] {
        let all =
            read(&pairs, &Choice { encryption_key: EncryptionKey::read(form).ok(), ..choice("node-a") });
        assert_eq!(all.unwrap().losses, [], "{form}");
    }
    for (text, expected) in [
        ("", "too short"),
        ("-----BEGIN PRIVATE KEY-----\nMC4C", "last line"),
        ("-----BEGIN RSA PRIVATE KEY-----\nMC4C\n-----END RSA PRIVATE KEY-----", "begins with"),
        ("DHHC-1:00:", "begins with"),
    ] {
        let refusal = EncryptionKey::read(text).unwrap_err();
        assert!(refusal.contains(expected), "{text}: {refusal}");
    }
}

#[test]
fn losses_name_their_keys() {
    let (store, namespace) = (format!("subsystem_{STORE}"), format!("namespace_{STORE}_1"));
    let (open, qos) = (format!("host_{OPEN}_*"), format!("qos_{STORE}_1"));
    let listener = format!("listener_{OPEN}_node-a_TCP_192.168.13.3_4420");
    type Change<'a> = &'a dyn Fn(&mut Value);
    let changes: [(&str, Change<'_>, &str); 22] = [
        (&store, &|v| v["network_mask"] = json!(["10.0.0.0/33"]), "network_mask: "),
        (&store, &|v| v["network_mask"] = json!("10.0.0.0/8"), "network_mask is not a list of texts"),
        (&store, &|v| v["serial_number"] = json!("x".repeat(21)), "serial_number"),
        (&store, &|v| v["new_field"] = json!(true), "new_field: there is nothing like it"),
        (&store, &|v| v["subsystem_nqn"] = json!(OPEN), "different subsystems"),
        (&store, &|v| v["dhchap_key"] = json!("x"), "dhchap_key"),
        (&namespace, &|v| v["block_size"] = json!(1024), "block_size"),
        (&namespace, &|v| v["encryption_entries"] = json!([{"format": "luks2"}]), "encrypted by librbd"),
        (&namespace, &|v| v["location"] = json!("rack 1"), "location"),
        (&namespace, &|v| v["uuid"] = json!("6f1c5b2e-8a4b-4f0e-9d27-00000000000"), "uuid"),
        (&namespace, &|v| v["anagrpid"] = json!(4000), "anagrpid"),
        (&namespace, &|v| v["nsid"] = json!(2), "different namespaces"),
        (&namespace, &|v| v["rbd_pool_name"] = json!(""), "no pool"),
        (&namespace, &|v| v["no_auto_visible"] = json!(1), "no_auto_visible is neither"),
        (&qos, &|v| v["rw_mbytes_per_second"] = json!("18446744073709551615"), "too large"),
        (&listener, &|v| v["traddr"] = json!("node-a.example"), "traddr"),
        (&listener, &|v| v["trsvcid"] = json!(70000), "trsvcid"),
        (&open, &|v| v["host_nqn"] = json!("**"), "different hosts"),
        ("bdev_x", &|_| {}, "version before 1.0"),
        ("kmip-server_x", &|_| {}, "there is nothing like it here"),
        ("namespace_nqn.other_1", &|_| {}, "does not have its subsystem"),
        (&store, &|v| *v = json!([]), "not a JSON object"),
    ];
    for (key, change, expected) in changes {
        let lost = losses(key, change);
        let named = lost.iter().any(|loss| loss.starts_with(&format!("{key}: ")) && loss.contains(expected));
        assert!(named, "{key}, {expected}: {lost:?}");
    }
    let above = format!("namespace_{STORE}_4097");
    assert!(losses(&above, |v| *v = json!({"subsystem_nqn": STORE, "nsid": 4097}))[0].contains("1 to 4096"));
    let orphan = format!("qos_{STORE}_9");
    assert!(losses(&orphan, |_| {})[0].contains("does not have its namespace"));
}

#[test]
fn no_host_gets_more_than_the_gateways_gave() {
    let open = format!("host_{OPEN}_{}", host(9));
    let keyed = changed(&open, |value| {
        *value =
            json!({"subsystem_nqn": OPEN, "host_nqn": host(9), "dhchap_key": "x", "key_encrypted": true});
    });
    let all = imported(&keyed);
    assert!(!all.fabric.subsystems[0].allow_any_host, "its host would come in without its key");
    assert!(
        all.losses.iter().any(|loss| loss.to_string().starts_with(&format!("host_{OPEN}_*: not imported")))
    );
    // A listener beside a secure one is not served without TLS, nor with it.
    let mixed = format!("listener_{OPEN}_node-a_TCP_192.168.13.3_4420");
    let all = imported(&changed(&mixed, |value| value["trsvcid"] = json!(4430)));
    let lost: Vec<_> = all.losses.iter().map(ToString::to_string).collect();
    assert!(lost[0].starts_with(&mixed) && lost[0].contains("is secure"), "{lost:?}");
    assert!(all.fabric.subsystems.iter().all(|subsystem| subsystem.nqn != OPEN), "{lost:?}");
    let namespace = format!("namespace_{STORE}_1");
    let all = imported(&changed(&namespace, |value| value["read_only"] = json!(true)));
    assert_eq!(all.fabric.subsystems[1].namespaces[0].write_protection, WriteProtection::On);
}

#[test]
fn what_earlier_versions_wrote_is_understood() {
    let mut pairs = saved::read(STATE).unwrap();
    // Version 1.3 called these ns_host, and 1.0 its gateways gateway_name.
    let hosts: Vec<_> = pairs.keys().filter(|key| key.starts_with("ns-host_")).cloned().collect();
    for key in hosts {
        let value = pairs.remove(&key).unwrap();
        pairs.insert(key.replace("ns-host_", "ns_host_"), value);
    }
    for (_, value) in pairs.iter_mut().filter(|(key, _)| key.starts_with("listener_")) {
        *value = String::from_utf8(value.clone()).unwrap().replace("host_name", "gateway_name").into_bytes();
    }
    pairs.insert(format!("ns-refresh-size_{STORE}_1"), b"1764184800.5".to_vec());
    let (former, now) = (imported(&pairs), imported(&saved::read(STATE).unwrap()));
    assert_eq!((former.losses, former.fabric), (Vec::new(), now.fabric));
}
