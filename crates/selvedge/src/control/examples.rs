//! Bodies as they may look, by their schemas: they stand in the document, and the tests send them.

/// The name of a schema, and a body in JSON.
pub(super) const EXAMPLES: &[(&str, &str)] = &[
    ("NewPort", r#"{"address": "127.0.0.1:0"}"#),
    ("NewPort", r#"{"id": 7, "address": "127.0.0.1:0", "advertise": "10.0.2.2", "discovery_only": true}"#),
    ("NewPort", r#"{"address": "127.0.0.1:0", "transport": "tcp", "congestion": "reno"}"#),
    ("NewPort", r#"{"address": "127.0.0.1:0", "tls": "required"}"#),
    ("NewReferral", r#"{"address": "192.168.0.232", "service": "8009"}"#),
    ("Host", r#"{"nqn": "nqn.2014-08.org.nvmexpress:uuid:1b4e28ba-2fa1-11d2-883f-0016d3ccabcd"}"#),
    ("NewHostKey", r#"{"dhchap_secret_file": "/etc/selvedge/host-a.key"}"#),
    (
        "NewHostKey",
        r#"{"dhchap_secret_file": "/etc/selvedge/host-a.key", "dhchap_hash": ["sha384"], "dhchap_dhgroup": ["mlkem768", "ffdhe3072"], "overlap_s": 600}"#,
    ),
    ("NewHostKey", r#"{"tls_key_file": "/etc/selvedge/host-a-tls.key"}"#),
    ("AnaStates", r#"{"state": "inaccessible"}"#),
    ("AnaStates", r#"{"state": "optimized", "ports": {"1": "non-optimized"}}"#),
    ("AddNamespace", r#"{"backend": {"memory": {"size": "16m"}}}"#),
    (
        "AddNamespace",
        r#"{"backend": {"rbd": {"pool": "rbd", "image": "disk", "id": "selvedge"}}, "ana_group": 2}"#,
    ),
    (
        "AddNamespace",
        r#"{"backend": {"rbd": {"pool": "rbd", "image": "new"}}, "create_image": {"size": "10g", "features": ["layering", "exclusive-lock"]}}"#,
    ),
    (
        "AddNamespace",
        r#"{"backend": {"null": {"size": "1t"}}, "block_size": 512, "qos": {"iops": 10000, "bytes": "200m"}, "visible": {"only": []}}"#,
    ),
    ("NamespacePatch", r#"{"size": "32m", "qos": {"write_bytes": "100m", "iops": null}}"#),
    ("NamespacePatch", r#"{"size": 8388608, "shrink": true}"#),
    (
        "NamespacePatch",
        r#"{"visible": {"all_except": ["nqn.2026-01.io.selvedge:host"]}, "ana_group": 2, "write_protection": "on", "host_write_protection": "until_restart"}"#,
    ),
    (
        "NamespacePatch",
        r#"{"owner": {"nqn": "nqn.2026-01.io.selvedge:host", "host_id": "1b4e28ba-2fa1-11d2-883f-0016d3ccabcd"}}"#,
    ),
    ("NamespacePatch", r#"{"owner": null}"#),
    ("NamespacePatch", r#"{"qos": null}"#),
    ("Log", r#"{"level": "warn,engine::target=info"}"#),
    ("NewSnapshot", r#"{"name": "monday"}"#),
    ("Clone", r#"{"snapshot": "monday", "image": "copy"}"#),
    ("Clone", r#"{"snapshot": "monday", "image": "copy", "pool": "fast", "nsid": 7, "qos": {"iops": 1000}}"#),
    ("NewSubsystem", r#"{"nqn": "nqn.2026-01.io.selvedge:example"}"#),
    (
        "NewSubsystem",
        r#"{"nqn": "nqn.2026-01.io.selvedge:larger-example", "hosts": ["nqn.2026-01.io.selvedge:host"], "namespaces": [{"backend": {"memory": {"size": "1m"}}}, {"backend": {"null": {"size": "1m"}}, "ana_group": 2}], "ana_groups": [{"id": 2, "state": "non-optimized"}], "storage": {"directory": "/srv/nvme", "bytes_max": "1t", "bytes_max_per_host": "100g", "namespaces_max_per_host": 8}}"#,
    ),
    ("SubsystemPatch", r#"{"allow_any_host": true}"#),
    ("SubsystemPatch", r#"{"storage": null, "ports": []}"#),
    ("SubsystemPatch", r#"{"command_quiesce_ms": 5000}"#),
    ("SubsystemPatch", r#"{"command_quiesce": "auto"}"#),
    (
        "NewConfig",
        r#"{"ports": [{"address": "127.0.0.1:0"}], "subsystems": [{"nqn": "nqn.2026-01.io.selvedge:target", "allow_any_host": true, "namespaces": [{"backend": {"memory": {"size": "16m"}}}]}], "discovery_nqn": "nqn.2026-01.io.selvedge:discovery"}"#,
    ),
];
