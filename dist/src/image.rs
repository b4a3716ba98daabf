//! A container image with the static program and nothing else, as a tar that holds an OCI image layout. `docker load`
//! reads it too.

use std::path::{Path, PathBuf};

use serde_json::json;

use crate::archive;
use crate::checksums::{put, sha256};
use crate::contents::Contents;
use crate::licences::ThirdParty;
use crate::program::Program;
use crate::release::Release;

/// A user that no machine has by another name: numbers are all that `runAsNonRoot` can check.
const USER: u32 = 65532;
const FOLDER_OF_THE_USER: u32 = 0o750;

/// Writes it, and gives its path.
pub(crate) fn write(
    release: &Release,
    program: &Program,
    licences: &ThirdParty,
    output: &Path,
) -> Result<PathBuf, String> {
    let tar = archive::tar(layer(program, licences, release)?.entries(), "", release.date)?;
    let packed = archive::gzip(&tar)?;
    let mut blobs = Contents::default();
    let mut blob = |bytes: Vec<u8>| {
        let (sum, size) = (sha256(&bytes), bytes.len());
        blobs.file(&format!("blobs/sha256/{sum}"), 0o644, bytes);
        (format!("sha256:{sum}"), size)
    };
    let (layer, layer_size) = blob(packed);
    let labels = json!({
        "org.opencontainers.image.title": "selvedge",
        "org.opencontainers.image.description": "NVMe over TCP in userspace: target, host, tuner and benchmark",
        "org.opencontainers.image.version": release.version,
        "org.opencontainers.image.revision": release.commit,
        "org.opencontainers.image.created": release.date_rfc3339()?,
        "org.opencontainers.image.source": "https://github.com/selvedge/selvedge",
        "org.opencontainers.image.licenses": "MIT OR Apache-2.0",
    });
    let config = json!({
        "created": release.date_rfc3339()?,
        "architecture": "amd64",
        "os": "linux",
        "config": {
            "User": format!("{USER}:{USER}"),
            "ExposedPorts": { "4420/tcp": {}, "8009/tcp": {}, "9464/tcp": {} },
            "Env": ["PATH=/usr/bin", "XDG_RUNTIME_DIR=/run/selvedge"],
            "Entrypoint": ["/usr/bin/selvedge"],
            "Cmd": ["serve", "--config", "/etc/selvedge/target.toml", "--state-dir", "/var/lib/selvedge"],
            "Volumes": { "/var/lib/selvedge": {} },
            "WorkingDir": "/var/lib/selvedge",
            "Labels": labels,
            "StopSignal": "SIGTERM",
        },
        "rootfs": { "type": "layers", "diff_ids": [format!("sha256:{}", sha256(&tar))] },
        "history": [{ "created": release.date_rfc3339()?, "created_by": "cargo xtask dist" }],
    });
    let (config, config_size) = blob(config.to_string().into_bytes());
    let manifest = json!({
        "schemaVersion": 2,
        "mediaType": "application/vnd.oci.image.manifest.v1+json",
        "config": {
            "mediaType": "application/vnd.oci.image.config.v1+json", "digest": config, "size": config_size
        },
        "layers": [{
            "mediaType": "application/vnd.oci.image.layer.v1.tar+gzip", "digest": layer, "size": layer_size
        }],
        "annotations": labels,
    });
    let (manifest, manifest_size) = blob(manifest.to_string().into_bytes());
    let name = format!("selvedge:{}", release.version);
    let index = index(release, &manifest, manifest_size, &name);

    let blob_path = |digest: &str| digest.replacen("sha256:", "blobs/sha256/", 1);
    let of_docker =
        json!([{ "Config": blob_path(&config), "RepoTags": [name], "Layers": [blob_path(&layer)] }]);
    blobs.file("oci-layout", 0o644, json!({ "imageLayoutVersion": "1.0.0" }).to_string().into_bytes());
    blobs.file("index.json", 0o644, index.to_string().into_bytes());
    blobs.file("manifest.json", 0o644, of_docker.to_string().into_bytes());
    let tar = archive::tar(blobs.entries(), "", release.date)?;
    put(&output.join(format!("selvedge-{}-oci.tar", release.version)), &tar)
}

/// Index of the archive, with the digest of its only image.
fn index(release: &Release, manifest: &str, size: usize, name: &str) -> serde_json::Value {
    json!({
        "schemaVersion": 2,
        "mediaType": "application/vnd.oci.image.index.v1+json",
        "manifests": [{
            "mediaType": "application/vnd.oci.image.manifest.v1+json",
            "digest": manifest,
            "size": size,
            "platform": { "architecture": "amd64", "os": "linux" },
            "annotations": {
                "org.opencontainers.image.ref.name": release.version,
                "io.containerd.image.name": name,
            },
        }],
    })
}

/// Files of the image: only the three folders of its user are writable.
fn layer(program: &Program, licences: &ThirdParty, release: &Release) -> Result<Contents, String> {
    let bytes =
        std::fs::read(&program.path).map_err(|error| format!("{}: {error}", program.path.display()))?;
    let mut layer = Contents::default();
    layer.file("usr/bin/selvedge", 0o755, bytes);
    let user = format!(
        "root:x:0:0:root:/:/sbin/nologin\nselvedge:x:{USER}:{USER}::/var/lib/selvedge:/sbin/nologin\n"
    );
    layer.file("etc/passwd", 0o644, user.into_bytes());
    layer.file("etc/group", 0o644, format!("root:x:0:\nselvedge:x:{USER}:\n").into_bytes());
    layer.file("etc/selvedge/target.toml", 0o644, release.file("packaging/image/target.toml")?);
    layer.file("usr/share/doc/selvedge/LICENSE-APACHE", 0o644, release.file("LICENSE-APACHE")?);
    layer.file("usr/share/doc/selvedge/LICENSE-MIT", 0o644, release.file("LICENSE-MIT")?);
    layer.file("usr/share/doc/selvedge/THIRD-PARTY.gz", 0o644, archive::gzip(licences.text.as_bytes())?);
    layer.folder("run/selvedge", FOLDER_OF_THE_USER, USER);
    layer.folder("var/lib/selvedge", FOLDER_OF_THE_USER, USER);
    layer.folder("tmp", 0o1777, 0);
    Ok(layer)
}
