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
    (
        "NewHostKey",
        r#"{"tls_key": "NVMeTLSkey-1:01:AQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQHMnzFi:", "overlap_s": 600}"#,
    ),
    ("HostKeyPatch", r#"{"dhchap_secret": null}"#),
    ("ControllerKey", r#"{"dhchap_ctrl_secret": null}"#),
    (
        "Host",
        r#"{"nqn": "nqn.2026-01.io.selvedge:host", "key": {"dhchap_secret_file": "/etc/selvedge/host-a.key"}}"#,
    ),
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
    ("GatewayPatch", r#"{"drained": true}"#),
    ("GatewayPatch", r#"{"drained": true, "force": true}"#),
    ("Log", r#"{"level": "warn,engine::target=info"}"#),
    (
        "PlannedChange",
        r#"{"method": "POST", "path": "/v1/subsystems/nqn.2026-01.io.selvedge:a/hosts", "body": {"nqn": "nqn.2026-01.io.selvedge:host"}}"#,
    ),
    ("SlowCommandsThreshold", r#"{"threshold_ms": 50}"#),
    ("SlowCommandsThreshold", r#"{"threshold_ms": null}"#),
    (
        "SweepSoFar",
        r#"{"began": "2026-11-28T22:30:00Z", "nsid": 1, "state": "running", "done": 0, "failed": 0, "planned": 18, "left_s": 51, "measuring": "depth 8, 2 queues", "quiet_s": 40, "along": "outstanding", "points": []}"#,
    ),
    (
        "SweepSoFar",
        r#"{"began": "2026-11-28T22:30:00Z", "machine": "host-a", "nsid": 1, "state": "interrupted", "reason": "interrupted", "done": 2, "failed": 0, "planned": 18, "quiet_s": 40, "along": "outstanding", "points": [{"label": "depth 8, 2 queues", "workload": "randread, 4 KiB", "line": "2 queues", "x": 32, "runs": 2, "iops": {"mean": 216000, "low": 209000, "high": 223000}, "bytes_per_s": 884736000, "mean_ns": 147000, "p99_ns": {"mean": 402000}}], "points_omitted": 0}"#,
    ),
    ("NewSnapshot", r#"{"name": "monday"}"#),
    ("NewSnapshotSet", r#"{"name": "monday"}"#),
    ("NewSnapshotSet", r#"{"name": "monday", "nsids": [1, 2]}"#),
    ("Clone", r#"{"snapshot": "monday", "image": "copy"}"#),
    ("Clone", r#"{"snapshot": "monday", "image": "copy", "pool": "fast", "nsid": 7, "qos": {"iops": 1000}}"#),
    ("NewSubsystem", r#"{"nqn": "nqn.2026-01.io.selvedge:example"}"#),
    (
        "NewSubsystem",
        r#"{"nqn": "nqn.2026-01.io.selvedge:larger-example", "hosts": ["nqn.2026-01.io.selvedge:host"], "namespaces": [{"backend": {"memory": {"size": "1m"}}}, {"backend": {"null": {"size": "1m"}}, "ana_group": 2}], "ana_groups": [{"id": 2, "state": "non-optimized"}], "storage": {"directory": "/srv/nvme", "bytes_max": "1t", "bytes_max_per_host": "100g", "namespaces_max_per_host": 8}}"#,
    ),
    ("SubsystemPatch", r#"{"allow_any_host": true}"#),
    ("SubsystemPatch", r#"{"storage": null, "ports": []}"#),
    ("SubsystemPatch", r#"{"ports": [1, 2], "seen": {"ports": [1]}}"#),
    ("SubsystemPatch", r#"{"command_quiesce_ms": 5000}"#),
    ("SubsystemPatch", r#"{"command_quiesce": "auto"}"#),
    (
        "NewConfig",
        r#"{"ports": [{"address": "127.0.0.1:0"}], "subsystems": [{"nqn": "nqn.2026-01.io.selvedge:target", "allow_any_host": true, "namespaces": [{"backend": {"memory": {"size": "16m"}}}]}], "discovery_nqn": "nqn.2026-01.io.selvedge:discovery"}"#,
    ),
];
