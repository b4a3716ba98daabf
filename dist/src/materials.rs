//! What the program is made of: every crate in it, as a CycloneDX bill of materials.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::checksums::{put, sha256};
use crate::program::{Builder, TARGET};
use crate::release::Release;
use crate::run;

const PROGRAM: &str = "selvedge";

/// A crate that is part of the program or of building it.
pub(crate) struct Crate {
    pub(crate) name: String,
    pub(crate) version: String,
    pub(crate) licence: String,
    /// Folder of its sources.
    pub(crate) folder: PathBuf,
    /// True if it is from a registry; the project's own have no checksum and no page there.
    is_foreign: bool,
    checksum: Option<String>,
    needs: Vec<String>,
}

/// All of them by their identity, and which is the program's.
pub(crate) struct Materials {
    pub(crate) crates: BTreeMap<String, Crate>,
    program: String,
}

impl Materials {
    /// Follows the dependencies of the program, without those of its tests.
    pub(crate) fn collect(builder: &Builder<'_>) -> Result<Self, String> {
        let mut cargo = builder.offline_cargo("metadata");
        cargo.args(["--format-version", "1", "--filter-platform", TARGET]);
        let metadata: Value =
            serde_json::from_str(&run::output(&mut cargo)?).map_err(|error| error.to_string())?;
        Self::of(&metadata).ok_or_else(|| "cargo metadata says something else than it used to".to_owned())
    }

    fn of(metadata: &Value) -> Option<Self> {
        let packages: BTreeMap<&str, &Value> = list(&metadata["packages"])?
            .filter_map(|package| Some((package["id"].as_str()?, package)))
            .collect();
        let nodes: BTreeMap<&str, &Value> = list(&metadata["resolve"]["nodes"])?
            .filter_map(|node| Some((node["id"].as_str()?, node)))
            .collect();
        let is_program = |package: &&Value| package["name"] == PROGRAM && package["source"].is_null();
        let first = packages.values().copied().find(is_program)?["id"].as_str()?;
        let (mut crates, mut left) = (BTreeMap::new(), BTreeSet::from([first]));
        while let Some(id) = left.pop_first() {
            let needed: BTreeSet<&str> = list(&nodes.get(id)?["deps"])?
                .filter(|need| {
                    list(&need["dep_kinds"]).is_some_and(|mut kinds| kinds.any(|kind| kind["kind"] != "dev"))
                })
                .filter_map(|need| need["pkg"].as_str())
                .collect();
            let package = packages.get(id)?;
            let text = |key: &str| package[key].as_str().unwrap_or_default().to_owned();
            let manifest = PathBuf::from(text("manifest_path"));
            let folder = manifest.parent()?.to_path_buf();
            let found = Crate {
                name: text("name"),
                version: text("version"),
                licence: text("license").replace('/', " OR "),
                is_foreign: !package["source"].is_null(),
                checksum: checksum(&folder),
                folder,
                needs: needed.iter().filter_map(|need| Some(reference(packages.get(need)?))).collect(),
            };
            crates.insert(reference(package), found);
            left.extend(needed.into_iter().filter(|need| {
                packages.get(need).is_some_and(|package| !crates.contains_key(&reference(package)))
            }));
        }
        Some(Self { crates, program: reference(packages.get(first)?) })
    }

    /// The crates of others.
    pub(crate) fn foreign(&self) -> impl Iterator<Item = &Crate> {
        self.crates.values().filter(|found| found.is_foreign)
    }

    /// Writes the bill, and gives its path.
    pub(crate) fn write(&self, release: &Release, output: &Path) -> Result<PathBuf, String> {
        let components: Vec<Value> = self
            .crates
            .iter()
            .filter(|(reference, _)| **reference != self.program)
            .map(|(reference, found)| found.component(reference))
            .collect();
        let dependencies: Vec<Value> = self
            .crates
            .iter()
            .map(|(reference, found)| json!({ "ref": reference, "dependsOn": found.needs }))
            .collect();
        let mut bill = json!({
            "bomFormat": "CycloneDX",
            "specVersion": "1.5",
            "version": 1,
            "metadata": {
                "timestamp": release.date_rfc3339()?,
                "component": {
                    "type": "application",
                    "bom-ref": self.program,
                    "name": PROGRAM,
                    "version": release.version,
                    "licenses": [{ "expression": "MIT OR Apache-2.0" }],
                    "properties": [{ "name": "commit", "value": release.commit }],
                },
            },
            "components": components,
            "dependencies": dependencies,
        });
        // A number of its own, and the same whenever it is made again.
        bill["serialNumber"] = format!("urn:uuid:{}", uuid(&sha256(bill.to_string().as_bytes()))).into();
        let text = serde_json::to_string_pretty(&bill).map_err(|error| error.to_string())? + "\n";
        put(&output.join(format!("selvedge-{}.cdx.json", release.version)), text.as_bytes())
    }
}

impl Crate {
    fn component(&self, reference: &str) -> Value {
        let mut component = json!({
            "type": "library",
            "bom-ref": reference,
            "name": self.name,
            "version": self.version,
            "licenses": [{ "expression": self.licence }],
        });
        if self.is_foreign {
            component["purl"] = reference.into();
        }
        if let Some(checksum) = &self.checksum {
            component["hashes"] = json!([{ "alg": "SHA-256", "content": checksum }]);
        }
        component
    }
}

/// Name and version of a crate, whichever folder it is in.
fn reference(package: &Value) -> String {
    let text = |key: &str| package[key].as_str().unwrap_or_default();
    let kind = if package["source"].is_null() { "selvedge" } else { "pkg:cargo" };
    format!("{kind}/{}@{}", text("name"), text("version"))
}

/// Checksum of the archive that a vendored crate came in.
fn checksum(folder: &Path) -> Option<String> {
    let text = std::fs::read_to_string(folder.join(".cargo-checksum.json")).ok()?;
    let sums: Value = serde_json::from_str(&text).ok()?;
    Some(sums["package"].as_str()?.to_owned())
}

/// The first digits of a checksum in the form of a UUID of version 8, which is free to be anything.
fn uuid(sum: &str) -> String {
    format!("{}-{}-8{}-a{}-{}", &sum[..8], &sum[8..12], &sum[13..16], &sum[17..20], &sum[20..32])
}

fn list(value: &Value) -> Option<impl Iterator<Item = &Value>> {
    Some(value.as_array()?.iter())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tests_dependencies_are_no_part_of_the_program() {
        let package = |name: &str, source: Value| {
            json!({ "id": name, "name": name, "version": "1.0.0", "license": "MIT/Apache-2.0",
                    "manifest_path": format!("/crates/{name}/Cargo.toml"), "source": source })
        };
        let need = |name: &str, kind: Value| json!({ "pkg": name, "dep_kinds": [{ "kind": kind }] });
        let registry = json!("registry");
        let metadata = json!({
            "packages": [package("selvedge", Value::Null), package("a", registry.clone()),
                package("b", registry.clone()), package("c", registry)],
            "resolve": { "nodes": [
                { "id": "selvedge", "deps": [need("a", Value::Null), need("c", json!("dev"))] },
                { "id": "a", "deps": [need("b", json!("build"))] },
                { "id": "b", "deps": [need("a", Value::Null)] },
                { "id": "c", "deps": [] },
            ] },
        });
        let materials = Materials::of(&metadata).expect("it is as cargo writes it");
        let names: Vec<&str> = materials.foreign().map(|found| &*found.name).collect();
        assert_eq!(names, ["a", "b"]);
        assert_eq!(materials.crates["pkg:cargo/a@1.0.0"].licence, "MIT OR Apache-2.0");
        assert_eq!(materials.program, "selvedge/selvedge@1.0.0");
    }
}
