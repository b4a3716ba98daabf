//! The walls between a crate's folders: imports run downward in the order that ARCHITECTURE.md states, and nowhere in a
//! circle. How imports are read is in `imports`.

use std::collections::{BTreeMap, BTreeSet};

use crate::imports::{Imports, Module, circles};

/// File with the order: in blocks of this kind, a line for each folder, from the highest child to
/// the lowest.
pub(crate) const ARCHITECTURE: &str = "ARCHITECTURE.md";
const BLOCK: &str = "```order";
/// Circles between folders that are still there. It may only shrink.
const EXCEPTIONS: &str = "xtask/import-exceptions.txt";
/// Folders whose files must not import each other in circles either.
const STRICT: [&str; 1] = ["crates/engine/src/target"];

/// Texts of the project by their paths.
pub(crate) type Texts<'a> = BTreeMap<&'a str, &'a str>;

/// The folders that hold crates' sources.
pub(crate) fn sources(texts: &Texts<'_>) -> BTreeSet<String> {
    let manifests = texts.keys().filter_map(|path| path.strip_suffix("Cargo.toml"));
    let folders = manifests.map(|folder| format!("{folder}src"));
    folders.filter(|folder| texts.keys().any(|path| path.starts_with(&format!("{folder}/")))).collect()
}

/// Imports in the crate whose sources are in `folder`.
pub(crate) fn imports(texts: &Texts<'_>, folder: &str) -> Imports {
    let prefix = format!("{folder}/");
    let inside = texts.iter().filter_map(|(path, text)| Some((path.strip_prefix(prefix.as_str())?, *text)));
    Imports::of(inside.filter(|(path, _)| path.ends_with(".rs") && !path.starts_with("bin/")))
}

/// Finds what is wrong with the imports of all crates.
pub(crate) fn judge(texts: &Texts<'_>, problems: &mut Vec<String>) {
    let order = LayerOrder::parse(texts.get(ARCHITECTURE).copied().unwrap_or(""));
    let listed = texts.get(EXCEPTIONS).copied().unwrap_or("");
    let mut excused: BTreeMap<&str, bool> = listed
        .lines()
        .filter(|line| !line.is_empty() && !line.starts_with('#'))
        .map(|line| (line, false))
        .collect();
    for source in sources(texts) {
        let imports = imports(texts, &source);
        for circle in circles_of(&imports, &source) {
            match excused.get_mut(circle.as_str()) {
                Some(is_used) => *is_used = true,
                None => problems.push(format!("{circle}: these import each other in a circle")),
            }
        }
        order.judge(&imports, &source, problems);
    }
    for (circle, _) in excused.iter().filter(|(_, is_used)| !**is_used) {
        problems.push(format!("{EXCEPTIONS}: {circle} is not a circle; remove it"));
    }
}

/// The circles that are forbidden, each as the folder where it is and what is in it.
fn circles_of(imports: &Imports, source: &str) -> Vec<String> {
    let mut found = Vec::new();
    for folder in imports.folders() {
        for circle in folder_circles(imports, &folder) {
            found.push(format!("{}: {}", join(source, &folder), circle.join(" ")));
        }
    }
    for strict in STRICT {
        let Some(folder) = strict.strip_prefix(source).and_then(|rest| rest.strip_prefix('/')) else {
            continue;
        };
        let folder: Module = folder.split('/').map(str::to_owned).collect();
        for circle in imports.file_circles(&folder) {
            let names = circle.iter().map(|module| module[folder.len()..].join("/"));
            found.push(format!("{strict}: {}", names.collect::<Vec<_>>().join(" ")));
        }
    }
    found
}

/// The circles between the folders in `folder`.
pub(crate) fn folder_circles(imports: &Imports, folder: &[String]) -> Vec<Vec<String>> {
    let is_folder = |child: &str| {
        let mut module = folder.to_vec();
        module.push(child.to_owned());
        imports.is_folder(&module)
    };
    circles(&imports.children(folder).into_iter().filter(|(a, b)| is_folder(a) && is_folder(b)).collect())
}

fn join(source: &str, folder: &[String]) -> String {
    std::iter::once(source).chain(folder.iter().map(String::as_str)).collect::<Vec<_>>().join("/")
}

fn is_below(folder: &str, source: &str) -> bool {
    folder.strip_prefix(source).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// Layers: the children of folders, from the highest to the lowest.
pub(crate) struct LayerOrder<'a>(Vec<(&'a str, Vec<&'a str>)>);

impl<'a> LayerOrder<'a> {
    pub(crate) fn parse(text: &'a str) -> Self {
        let blocks =
            text.split(BLOCK).skip(1).filter_map(|rest| rest.split_once("```")).map(|(block, _)| block);
        let lines = blocks.flat_map(str::lines).filter_map(|line| line.split_once(':'));
        let mut folders: Vec<(&str, Vec<&str>)> = Vec::new();
        for (folder, children) in lines {
            let children = children.split_whitespace();
            match folders.iter_mut().find(|(known, _)| *known == folder.trim()) {
                // A long list goes on in another line for the same folder.
                Some((_, known)) => known.extend(children),
                None => folders.push((folder.trim(), children.collect())),
            }
        }
        Self(folders)
    }

    /// Number of imports that the order does not allow. None where no order is stated for a folder
    /// of the crate.
    pub(crate) fn upward(&self, imports: &Imports, source: &str) -> Option<usize> {
        let mut problems = Vec::new();
        self.judge(imports, source, &mut problems);
        let is_stated = self.0.iter().any(|(folder, _)| is_below(folder, source));
        is_stated.then_some(problems.len())
    }

    fn judge(&self, imports: &Imports, source: &str, problems: &mut Vec<String>) {
        for (folder, children) in &self.0 {
            let below = folder.strip_prefix(source).filter(|_| is_below(folder, source));
            let Some(below) = below else { continue };
            let module: Module =
                below.split('/').filter(|part| !part.is_empty()).map(str::to_owned).collect();
            let at = |name: &str| children.iter().position(|child| *child == name);
            for (from, to) in imports.children(&module) {
                match (at(&from), at(&to)) {
                    (Some(higher), Some(lower)) if higher < lower => {}
                    (Some(_), Some(_)) => {
                        problems.push(format!(
                            "{folder}: {from} imports {to}, which is above it in {ARCHITECTURE}"
                        ));
                    }
                    (None, _) => problems.push(format!("{ARCHITECTURE}: {folder} has no place for {from}")),
                    (_, None) => problems.push(format!("{ARCHITECTURE}: {folder} has no place for {to}")),
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOML: (&str, &str) = ("c/Cargo.toml", "");

    fn problems(files: &[(&'static str, &'static str)]) -> String {
        let mut found = Vec::new();
        judge(&files.iter().copied().chain([TOML]).collect(), &mut found);
        found.join("\n")
    }

    #[test]
    fn imports_run_down_in_the_order_that_is_stated() {
        let lib = ("c/src/lib.rs", "mod a; mod b;");
        let (a, b) = (("c/src/a.rs", "use super::b::B;"), ("c/src/b.rs", ""));
        let down = (ARCHITECTURE, "x\n```order\nc/src: a b\n```\n");
        let up = (ARCHITECTURE, "```order\nc/src: b\nc/src: a\n```");
        assert_eq!(problems(&[lib, a, b, down]), "");
        assert_eq!(problems(&[lib, a, b, up]), "c/src: a imports b, which is above it in ARCHITECTURE.md");
        let without = (ARCHITECTURE, "```order\nc/src: a\n```");
        assert_eq!(problems(&[lib, a, b, without]), "ARCHITECTURE.md: c/src has no place for b");
        assert_eq!(problems(&[lib, a, b]), "", "nothing is said of it");
    }

    #[test]
    fn folders_have_no_circles_but_those_that_are_excused() {
        let files = [
            ("c/src/lib.rs", "mod a; mod b;"),
            ("c/src/a/mod.rs", "pub mod x; pub mod y;"),
            ("c/src/a/x.rs", "use crate::b::z::Z;"),
            ("c/src/a/y.rs", ""),
            ("c/src/b/mod.rs", "pub mod z;"),
            ("c/src/b/z.rs", "use crate::a::y::Y;"),
        ];
        assert_eq!(problems(&files), "c/src: a b: these import each other in a circle");
        let with = |list: &'static str| {
            let files: Vec<_> = files.into_iter().chain([(EXCEPTIONS, list)]).collect();
            problems(&files)
        };
        assert_eq!(with("# why\nc/src: a b\n"), "");
        assert!(with("c/src: a b\nc/src: d e\n").contains("c/src: d e is not a circle; remove it"));
    }

    #[test]
    fn in_the_target_files_have_none_either() {
        let files = [
            ("crates/engine/Cargo.toml", ""),
            ("crates/engine/src/lib.rs", "mod target;"),
            ("crates/engine/src/target/mod.rs", "mod a; mod b;"),
            ("crates/engine/src/target/a.rs", "use super::b::B;"),
            ("crates/engine/src/target/b.rs", "use super::a::A;"),
        ];
        assert_eq!(problems(&files), "crates/engine/src/target: a b: these import each other in a circle");
    }
}
