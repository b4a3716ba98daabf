//! Saved configurations of the kernel's target, and what becomes of them.

use engine::backend::BackendConfig;
use engine::target::TlsUse;
use uuid::Uuid;

use super::*;

const WHOLE: &str = r#"{
  "hosts": [
    { "nqn": "nqn.2014-08.org.nvmexpress:uuid:1b4e28ba-2fa1-11d2-883f-0016d3ccabcd" }
  ],
  "ports": [
    {
      "addr": { "adrfam": "ipv4", "traddr": "192.0.2.1", "treq": "not specified", "trsvcid": "4420", "trtype": "tcp" },
      "ana_groups": [
        { "ana": { "state": "optimized" }, "grpid": 1 },
        { "ana": { "state": "non-optimized" }, "grpid": 2 }
      ],
      "param": { "inline_data_size": "16384", "pi_enable": "0" },
      "portid": 1,
      "referrals": [
        { "addr": { "adrfam": "ipv4", "traddr": "192.0.2.9", "trsvcid": "8009", "trtype": "tcp" }, "enable": 1, "name": "r" }
      ],
      "subsystems": [ "nqn.test:a", "nqn.test:b" ]
    },
    {
      "addr": { "adrfam": "ipv6", "traddr": "::1", "treq": "not specified", "trsvcid": "4421", "trtype": "tcp" },
      "portid": 2,
      "referrals": [],
      "subsystems": [ "nqn.test:a" ]
    },
    { "addr": { "adrfam": "", "traddr": "", "treq": "not specified", "trsvcid": "", "trtype": "" }, "portid": 3, "subsystems": [] }
  ],
  "subsystems": [
    {
      "allowed_hosts": [ "nqn.2014-08.org.nvmexpress:uuid:1b4e28ba-2fa1-11d2-883f-0016d3ccabcd" ],
      "attr": { "allow_any_host": "0", "cntlid_max": "65519", "cntlid_min": "1", "model": "Model", "serial": "abc", "version": "1.3" },
      "namespaces": [
        {
          "ana_grpid": 2,
          "device": { "nguid": "00000000-0000-0000-0000-000000000000", "path": "/dev/no-such-device", "uuid": "d592cdf3-5d1c-44e0-8412-3fcf7d99df27" },
          "enable": 1,
          "nsid": 3
        }
      ],
      "nqn": "nqn.test:a"
    },
    { "allowed_hosts": [], "attr": { "allow_any_host": "1", "subsys_vendor_id": "0x0", "vendor_id": "0x0" }, "namespaces": [], "nqn": "nqn.test:b",
      "passthru": [ { "admin_timeout": 0, "clear_ids": 0, "device": { "path": "(null)" }, "enable": 0, "io_timeout": 0 } ] }
  ]
}"#;

fn losses(text: &str) -> Vec<String> {
    read(text).unwrap().losses.iter().map(ToString::to_string).collect()
}

/// The whole with something else in one place.
fn changed(old: &str, new: &str) -> String {
    let text = WHOLE.replacen(old, new, 1);
    assert_ne!(text, WHOLE, "{old}");
    text
}

/// Imports the recorded configuration with one change, which must lose the settings at `paths` and
/// no others.
fn imported(old: &str, new: &str, paths: &[&str]) -> FabricConfig {
    let imported = read(&changed(old, new)).unwrap();
    let lost: Vec<&str> = imported.losses.iter().map(|loss| loss.path.as_str()).collect();
    assert_eq!(lost, paths, "{old} became {new}");
    imported.fabric
}

fn port_numbers(fabric: &FabricConfig) -> Vec<u16> {
    fabric.ports.iter().map(|port| port.id).collect()
}

const HOST: &str = "nqn.2014-08.org.nvmexpress:uuid:1b4e28ba-2fa1-11d2-883f-0016d3ccabcd";
const UUID: &str = "d592cdf3-5d1c-44e0-8412-3fcf7d99df27";

#[test]
fn a_configuration_of_spdk_is_called_so() {
    let nvmf = r#"{"subsystem": "nvmf", "config": [{"method": "nvmf_create_transport", "params": {"trtype": "TCP"}}]}"#;
    for text in
        [nvmf.to_owned(), format!(r#"{{"subsystems": [{{"subsystem": "bdev", "config": []}}, {nvmf}]}}"#)]
    {
        let refused = read(&text).unwrap_err();
        assert!(refused.contains("SPDK") && refused.contains("target.toml"), "{refused}");
    }
}

#[test]
fn names_as_linux_has_them_are_taken_over_with_a_warning() {
    let imported = read(&WHOLE.replace("nqn.test:b", "testnqn")).unwrap();
    assert_eq!(imported.losses, []);
    assert!(imported.fabric.subsystem("testnqn").is_some());
    let warnings: Vec<String> = imported.warnings.iter().map(ToString::to_string).collect();
    assert!(
        warnings
            .iter()
            .any(|it| it.contains("subsystems[1].nqn: `testnqn`: the name does not begin with nqn.")),
        "{warnings:?}"
    );
    let host = "nqn.2014-08.org.nvmexpress:uuid:1b4e28ba-2fa1-11d2-883f-0016d3ccabcd";
    let imported = read(&WHOLE.replace(host, "client-7")).unwrap();
    assert_eq!(
        (imported.losses, imported.fabric.subsystems[0].hosts.clone()),
        (vec![], vec!["client-7".to_owned()])
    );
}

#[test]
fn the_name_of_the_discovery_subsystem_is_kept_where_it_is_another() {
    let with = |discovery: &str| read(&changed("{\n", &format!("{{ \"discovery\": {discovery},\n"))).unwrap();
    let of = |discovery: &str| {
        let imported = with(discovery);
        assert_eq!(imported.losses, [], "{discovery}");
        imported.fabric.discovery_nqn
    };
    assert_eq!(of(r#"{"nqn": "nqn.2014-08.org.nvmexpress.discovery"}"#), None);
    assert_eq!(
        of(r#"{"nqn": "nqn.2026-01.org.example:find"}"#).as_deref(),
        Some("nqn.2026-01.org.example:find")
    );
    for nothing in ["{}", "null", r#"{"nqn": ""}"#, r#"{"nqn": null}"#] {
        assert_eq!(of(nothing), None, "{nothing}");
    }
    for (discovery, path) in [
        (r#"{"nqn": "a\u0007b"}"#, "discovery.nqn"),
        (r#"{"nqn": "nqn.a", "attr": {"allow_any_host": "0"}}"#, "discovery.attr"),
        ("7", "discovery"),
    ] {
        let losses = with(discovery).losses;
        assert!(losses.len() == 1 && losses[0].path == path, "{discovery}: {losses:?}");
    }
    // A name that a subsystem has, too, is refused as in target.toml.
    let taken = changed("{\n", "{ \"discovery\": {\"nqn\": \"nqn.test:a\"},\n");
    assert!(read(&taken).is_err());
}

#[test]
fn a_saved_configuration_becomes_ours() {
    let Imported { fabric, losses, warnings } = read(WHOLE).unwrap();
    assert_eq!(losses, []);
    assert_eq!(
        fabric.ports.iter().map(|p| (p.id, p.address.to_string())).collect::<Vec<_>>(),
        [(1, "192.0.2.1:4420".to_owned()), (2, "[::1]:4421".to_owned())],
        "a port without subsystems is not listened on"
    );
    assert!(fabric.ports.iter().all(|port| !port.discovery_only));
    assert_eq!(fabric.referrals[0].service, "8009");
    let a = fabric.subsystem("nqn.test:a").unwrap();
    assert_eq!((a.serial.as_str(), a.model.as_str(), a.allow_any_host), ("abc", "Model", false));
    assert_eq!(a.hosts, [HOST]);
    assert!(a.ports.is_empty(), "it is on all ports");
    let namespace = &a.namespaces[0];
    assert_eq!((namespace.nsid, namespace.ana_group, namespace.block_size), (3, 2, 512));
    assert_eq!(namespace.uuid.unwrap().to_string(), UUID);
    assert_eq!(namespace.backend, BackendConfig::Block { path: "/dev/no-such-device".into() });
    let b = fabric.subsystem("nqn.test:b").unwrap();
    assert_eq!((b.ports.as_slice(), b.allow_any_host, b.model.as_str()), (&[1][..], true, "Linux"));
    let warned: Vec<_> = warnings.iter().map(|w| (w.line, w.path.as_str())).collect();
    assert_eq!(warned, [(15, "ports[0].referrals[0]"), (34, "subsystems[0].namespaces[0].device.path")]);
}

#[test]
fn a_group_has_the_states_that_the_kernel_gives_it() {
    let states = |fabric: &FabricConfig, group| {
        let a = fabric.subsystem("nqn.test:a").unwrap();
        [1, 2].map(|port| a.group_state(group, port))
    };
    use GroupState::{Inaccessible, NonOptimized, Optimized, PersistentLoss};
    let fabric = read(WHOLE).unwrap().fabric;
    assert_eq!(states(&fabric, 2), [NonOptimized, Inaccessible], "port 2 does not list group 2");
    let fabric = imported("\"state\": \"non-optimized\"", "\"state\": \"optimized\"", &[]);
    assert_eq!(states(&fabric, 2), [Optimized, Inaccessible]);
    let fabric = imported("\"ana_grpid\": 2", "\"ana_grpid\": 7", &[]);
    assert_eq!(states(&fabric, 7), [Inaccessible; 2], "no port lists group 7");
    for first in ["\"ana_grpid\": 1", "\"ana_grpid\": 0", "\"resv\": {}"] {
        let fabric = imported("\"ana_grpid\": 2", first, &[]);
        let a = fabric.subsystem("nqn.test:a").unwrap();
        assert_eq!((a.namespaces[0].ana_group, &a.ana_groups), (1, &Vec::new()), "{first}");
    }
    let text = changed("\"ana_grpid\": 2", "\"ana\": { \"grpid\": \"1\" }")
        .replace("\"state\": \"optimized\"", "\"state\": \"persistent-loss\"");
    let Imported { fabric, losses, .. } = read(&text).unwrap();
    assert_eq!(losses, []);
    assert_eq!(states(&fabric, 1), [PersistentLoss, Optimized], "port 2 has group 1 without listing it");
    imported("\"ana_grpid\": 2", "\"ana_grpid\": 5000", &["subsystems[0].namespaces[0].ana_grpid"]);
}

#[test]
fn a_secure_channel_is_never_served_in_the_clear() {
    let old = "\"treq\": \"not specified\"";
    for (treq, tsas, tls) in [
        ("required", "tls1.3", Some(TlsUse::Required)),
        ("not required", "tls1.3", Some(TlsUse::Allowed)),
        ("not specified", "tls1.3", Some(TlsUse::Required)),
        ("required", "none", Some(TlsUse::Required)),
        ("not required", "none", None),
        ("not specified", "", None),
    ] {
        let text = changed(old, &format!("\"treq\": \"{treq}\", \"tsas\": \"{tsas}\""));
        let Imported { fabric, losses, warnings } = read(&text).unwrap();
        assert_eq!(losses, [], "{treq}, {tsas}");
        assert_eq!(fabric.ports[0].tls, tls, "{treq}, {tsas}");
        let warned = warnings.iter().filter(|warning| warning.what.contains("tls_key_file"));
        let places: Vec<&str> = warned.map(|warning| warning.path.as_str()).collect();
        assert_eq!(places, if tls.is_some() { vec!["ports[0].addr"] } else { vec![] }, "{treq}, {tsas}");
    }
    for (new, path) in [
        ("\"treq\": \"wanted\"", "ports[0].addr.treq"),
        ("\"treq\": \"required\", \"tsas\": \"tls1.4\"", "ports[0].addr.tsas"),
    ] {
        let fabric = imported(old, new, &[path, "subsystems[1]"]);
        assert_eq!(port_numbers(&fabric), [2], "{new}");
        assert_eq!((fabric.subsystems.len(), fabric.referrals.len()), (1, 0), "{new}");
    }
    let addr = "\"traddr\": \"192.0.2.9\"";
    let referral = format!("{addr}, \"treq\": \"required\"");
    assert_eq!(imported(addr, &referral, &["ports[0].referrals[0].addr.treq"]).referrals, []);
}

#[test]
fn a_host_with_a_key_does_not_get_in_without_it() {
    let parameters = "\"hash\": \"hmac(sha256)\", \"dhgroup\": \"null\"";
    for key in ["key", "ctrl_key", "dhchap_key", "dhchap_ctrl_key"] {
        let new = format!("abcd\", \"dhchap\": {{ \"{key}\": \"DHHC-1:00:x\", {parameters} }} }}");
        let path = format!("hosts[0].dhchap.{key}");
        let fabric = imported("abcd\" }", &new, &[&path, "subsystems[0].allowed_hosts[0]"]);
        let a = fabric.subsystem("nqn.test:a").unwrap();
        assert_eq!((a.hosts.len(), a.allow_any_host), (0, false), "{key}");
    }
    for strange in ["\"DHHC-1:00:x\"", "[ 1 ]", "{ \"key\": 7 }"] {
        let new = format!("abcd\", \"dhchap\": {strange} }}");
        let fabric = imported("abcd\" }", &new, &["hosts[0].dhchap.key", "subsystems[0].allowed_hosts[0]"]);
        assert!(fabric.subsystems[0].hosts.is_empty(), "{strange}");
    }
    let flat = "abcd\", \"dhchap_key\": \"DHHC-1:00:x\" }";
    imported("abcd\" }", flat, &["hosts[0].dhchap_key", "subsystems[0].allowed_hosts[0]"]);
    let empty = format!("abcd\", \"dhchap\": {{ \"key\": \"\", \"ctrl_key\": \"\", {parameters} }} }}");
    assert_eq!(imported("abcd\" }", &empty, &[]).subsystems[0].hosts, [HOST]);
}

#[test]
fn no_host_gets_in_that_the_kernel_would_keep_out() {
    let fabric = imported("0016d3ccabcd\" }", "0016d3cc0000\" }", &["subsystems[0].allowed_hosts[0]"]);
    assert_eq!(fabric.subsystems[0].hosts, Vec::<String>::new());
    let any = "\"allow_any_host\": \"1\", \"cntlid_max\"";
    let fabric =
        imported("\"allow_any_host\": \"0\", \"cntlid_max\"", any, &["subsystems[0].attr.allow_any_host"]);
    assert_eq!((fabric.subsystems[0].allow_any_host, fabric.subsystems[0].hosts.len()), (false, 1));
}

#[test]
fn a_port_is_what_the_kernel_listens_on() {
    let referral = r#""portid": 3, "referrals": [ { "addr": { "traddr": "192.0.2.8", "trsvcid": "8009", "trtype": "tcp" } } ]"#;
    let fabric = imported("\"portid\": 3", referral, &["ports[2].referrals"]);
    assert_eq!((port_numbers(&fabric), fabric.referrals.len()), (vec![1, 2], 1));
    for (old, new, path) in [
        ("\"::1\"", "\"localhost\"", "ports[1].addr.traddr"),
        ("\"::1\"", "\"[::1]\"", "ports[1].addr.traddr"),
        ("\"::1\"", "\"\"", "ports[1].addr.traddr"),
        ("\"::1\"", "\"192.0.2.7\"", "ports[1].addr.adrfam"),
        ("\"4421\"", "\"0\"", "ports[1].addr.trsvcid"),
    ] {
        assert_eq!(port_numbers(&imported(old, new, &[path])), [1], "{old} became {new}");
    }
    // A port of which nothing is left goes, and what is on all of the others is still nowhere else.
    let text = changed("[ \"nqn.test:a\" ]", "[ \"nqn.test:c\" ]");
    let Imported { fabric, losses, warnings } = read(&text).unwrap();
    let lost: Vec<&str> = losses.iter().map(|loss| loss.path.as_str()).collect();
    assert_eq!(lost, ["ports[1]", "ports[1].subsystems[0]"]);
    assert_eq!(port_numbers(&fabric), [1]);
    assert!(warnings.iter().all(|w| !w.path.contains("referrals")), "it is on every port that is left");
}

#[test]
fn passing_a_controller_through_is_a_loss_where_it_is_enabled() {
    for path in ["", "/dev/nvme0"] {
        let new = format!("{{ \"path\": \"{path}\" }}, \"enable\": 1");
        let fabric =
            imported("{ \"path\": \"(null)\" }, \"enable\": 0", &new, &["subsystems[1].passthru[0]"]);
        assert!(fabric.subsystem("nqn.test:b").is_none());
    }
    assert_eq!(imported("\"(null)\"", "\"\"", &[]).subsystems.len(), 2);
    assert_eq!(imported("\"(null)\"", "\"/dev/nvme0\"", &["subsystems[1].passthru[0]"]).subsystems.len(), 2);
}

#[test]
fn a_namespace_keeps_its_identity_or_its_loss_is_named() {
    let nil = "\"nguid\": \"00000000-0000-0000-0000-000000000000\"";
    let simple = UUID.replace('-', "");
    for same in [UUID, &simple, ""] {
        let fabric = imported(nil, &format!("\"nguid\": \"{same}\""), &[]);
        let namespace = &fabric.subsystems[0].namespaces[0];
        assert_eq!((namespace.uuid, namespace.nguid), (Uuid::parse_str(UUID).ok(), None));
    }
    // What nvmetcli ships as an example.
    let fabric = imported(nil, "\"nguid\": \"ef90689c-6c46-d44c-89c1-4067801309a8\"", &[]);
    let namespace = &fabric.subsystems[0].namespaces[0];
    assert_eq!(namespace.uuid, Uuid::parse_str(UUID).ok());
    assert_eq!(namespace.nguid.unwrap().to_string(), "ef90689c6c46d44c89c14067801309a8");
    let path = "subsystems[0].namespaces[0].device.nguid";
    imported(nil, "\"nguid\": \"ef90\"", &[path]);
    imported(UUID, "d592", &["subsystems[0].namespaces[0].device.uuid"]);
}

#[test]
fn a_namespace_that_is_not_enabled_is_left_out() {
    for new in ["\"enable\": 0,\n", "\"enable\": \"\",\n", "\n"] {
        let fabric = imported("\"enable\": 1,\n", new, &["subsystems[0].namespaces[0].enable"]);
        assert!(fabric.subsystems[0].namespaces.is_empty(), "{new}");
    }
    let fabric = imported("/dev/no-such-device", "/dev/null", &["subsystems[0].namespaces[0].device.path"]);
    assert!(fabric.subsystems[0].namespaces.is_empty(), "it is not a block device");
}

#[test]
fn what_cannot_be_kept_is_named_with_its_line() {
    for (old, new, line, path) in [
        (
            "\"trtype\": \"tcp\" },\n      \"ana_groups\"",
            "\"trtype\": \"rdma\" },\n      \"ana_groups\"",
            7,
            "ports[0].addr.trtype",
        ),
        (
            "\"inline_data_size\": \"16384\"",
            "\"inline_data_size\": \"8192\"",
            12,
            "ports[0].param.inline_data_size",
        ),
        ("\"cntlid_min\": \"1\"", "\"cntlid_min\": \"100\"", 30, "subsystems[0].attr.cntlid_min"),
        ("\"vendor_id\": \"0x0\"", "\"vendor_id\": \"0x1af4\"", 41, "subsystems[1].attr.vendor_id"),
        ("\"nqn\": \"nqn.test:b\"", "\"nqn\": \"test nqn\"", 41, "subsystems[1].nqn"),
        ("\"nsid\": 3", "\"nsid\": 5000", 36, "subsystems[0].namespaces[0].nsid"),
        ("\"ana_grpid\": 2", "\"buffered_io\": 1", 33, "subsystems[0].namespaces[0].buffered_io"),
        ("\"state\": \"non-optimized\"", "\"state\": \"sideways\"", 10, "ports[0].ana_groups[1].ana.state"),
        ("\"grpid\": 2", "\"grpid\": 1", 10, "ports[0].ana_groups[1]"),
    ] {
        let found = losses(&changed(old, new));
        let expected = format!("line {line}: {path}: ");
        assert!(found.iter().any(|loss| loss.starts_with(&expected)), "{expected}\n{found:#?}");
    }
}

#[test]
fn a_subsystem_without_a_port_is_not_served_everywhere() {
    let fabric = imported("[ \"nqn.test:a\", \"nqn.test:b\" ]", "[ \"nqn.test:a\" ]", &["subsystems[1]"]);
    assert!(fabric.subsystem("nqn.test:b").is_none());
}

#[test]
fn something_else_is_not_a_saved_configuration() {
    for text in ["", "[]", "{}", "{\"version\": 1}", "{\"ports\": "] {
        assert!(read(text).is_err(), "{text}");
    }
    assert!(!losses("{\"ports\": [1], \"subsystems\": {}}").is_empty());
    let twice = read("{\"hosts\": [],\n\"ports\": [],\n\"hosts\": []}").unwrap_err();
    assert_eq!(twice, "line 3: hosts is given twice");
}
