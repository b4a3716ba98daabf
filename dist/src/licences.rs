//! The licences of what is in the program, with their texts: most of them ask for that.

use std::collections::BTreeMap;
use std::path::Path;

use crate::materials::Materials;

/// All of them as one text.
pub(crate) struct ThirdParty {
    pub(crate) text: String,
}

impl ThirdParty {
    /// Takes the texts out of the vendored sources, each once, with the crates that it is for.
    pub(crate) fn collect(materials: &Materials) -> Result<Self, String> {
        let mut text = "What is part of the program, by others, and the licences of it.\n\n".to_owned();
        let mut texts: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for found in materials.foreign() {
            let name = format!("{} {}", found.name, found.version);
            text.push_str(&format!("{name}: {}\n", found.licence));
            for licence in files(&found.folder)? {
                texts.entry(licence).or_default().push(name.clone());
            }
        }
        text.push_str(
            "\nThe static program also has the GNU C Library in it (LGPL-2.1-or-later); its sources, like ours, are open, and\n\
             `cargo xtask dist` relinks them.\n",
        );
        for (licence, crates) in &texts {
            text.push_str(&format!(
                "\n{}\n{}:\n\n{}\n",
                "-".repeat(72),
                crates.join(", "),
                licence.trim_end()
            ));
        }
        Ok(Self { text })
    }
}

/// The texts beside a crate's manifest whose names say that they are a licence.
fn files(folder: &Path) -> Result<Vec<String>, String> {
    let said = |error: std::io::Error| format!("{}: {error}", folder.display());
    let mut found = BTreeMap::new();
    for entry in std::fs::read_dir(folder).map_err(said)? {
        let path = entry.map_err(said)?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().to_uppercase();
        let is_licence = ["LICENSE", "LICENCE", "COPYING", "COPYRIGHT", "NOTICE", "UNLICENSE"]
            .iter()
            .any(|word| name.starts_with(word));
        if is_licence && path.is_file() {
            found.insert(name, String::from_utf8_lossy(&std::fs::read(&path).map_err(said)?).into_owned());
        }
    }
    Ok(found.into_values().collect())
}
