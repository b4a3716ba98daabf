//! Which file of a crate imports which other, read from its source: `use` lines, and paths that begin with `crate` or `super`.
//! A name that a folder's front door re-exports counts as an import of the file that defines it. Tests are left out.
//! What of it is allowed is the rules' to say.

use std::collections::{BTreeMap, BTreeSet};

use crate::source::code_only;

/// A module of a crate by its path below the crate's root, such as `["target", "queue"]`.
pub(crate) type Module = Vec<String>;

/// The files of one crate and what they import of each other.
#[derive(Debug, Default)]
pub(crate) struct Imports {
    /// All modules that are files.
    pub(crate) modules: BTreeSet<Module>,
    /// From who imports to what is imported.
    pub(crate) edges: BTreeSet<(Module, Module)>,
}

/// Imports of one file.
#[derive(Debug, Default)]
struct Source {
    /// Paths that it names.
    used: Vec<Vec<String>>,
    /// Names that it hands on, with what they stand for; `*` for all of a module.
    handed_on: Vec<(String, Vec<String>)>,
}

impl Imports {
    /// Imports among these files, by their paths below the crate's `src`.
    pub(crate) fn of<'a>(files: impl Iterator<Item = (&'a str, &'a str)>) -> Self {
        let mut sources: BTreeMap<Module, Source> = BTreeMap::new();
        let mut tests = BTreeSet::new();
        for (path, text) in files {
            let Some(module) = module_of(path) else { continue };
            let (code, test_files) = without_tests(&code_only(text), text);
            let folder = if is_front_door(path) { module.clone() } else { parent(&module) };
            for test in test_files {
                // A name as of `mod`, or a path as of `#[path]`, which counts from the file's folder.
                let beside = test.strip_suffix(".rs").map(|name| (folder.clone(), name.to_owned()));
                let (mut at, name) = beside.unwrap_or((module.clone(), test));
                at.push(name);
                tests.insert(at);
            }
            sources.insert(module, read(&code));
        }
        sources.retain(|module, _| !tests.iter().any(|test| module.starts_with(test)));
        let mut edges = BTreeSet::new();
        for (module, source) in &sources {
            for path in &source.used {
                if let Some(target) = resolve(&sources, module, path, 0)
                    && target != *module
                {
                    edges.insert((module.clone(), target));
                }
            }
        }
        Self { modules: sources.into_keys().collect(), edges }
    }

    /// The circles among files in `folder` and below, each with its files in order.
    pub(crate) fn file_circles(&self, folder: &[String]) -> Vec<Vec<Module>> {
        let inside = |module: &Module| module.starts_with(folder);
        let edges = self.edges.iter().filter(|(from, to)| inside(from) && inside(to));
        circles(&edges.cloned().collect())
    }

    /// Imports among the children of `folder`: its files and its folders, without its own front
    /// door.
    pub(crate) fn children(&self, folder: &[String]) -> BTreeSet<(String, String)> {
        let child =
            |module: &Module| module.starts_with(folder).then(|| module.get(folder.len()).cloned())?;
        let edges = self.edges.iter().filter_map(|(from, to)| Some((child(from)?, child(to)?)));
        edges.filter(|(from, to)| from != to).collect()
    }

    /// All folders, the crate's root first.
    pub(crate) fn folders(&self) -> BTreeSet<Module> {
        let mut folders: BTreeSet<Module> =
            self.modules.iter().filter(|m| !m.is_empty()).map(|m| parent(m)).collect();
        folders.insert(Module::new());
        folders
    }

    /// True if `module` is a folder.
    pub(crate) fn is_folder(&self, module: &[String]) -> bool {
        self.modules.iter().any(|other| other.len() > module.len() && other.starts_with(module))
    }
}

/// The circles of a graph: its strongly connected parts of more than one node.
pub(crate) fn circles<T: Ord + Clone>(edges: &BTreeSet<(T, T)>) -> Vec<Vec<T>> {
    let reached = |start: &T| {
        let (mut seen, mut left) = (BTreeSet::new(), vec![start.clone()]);
        while let Some(node) = left.pop() {
            for (_, to) in edges.iter().filter(|(from, _)| *from == node) {
                if seen.insert(to.clone()) {
                    left.push(to.clone());
                }
            }
        }
        seen
    };
    let nodes: BTreeSet<&T> = edges.iter().flat_map(|(from, to)| [from, to]).collect();
    let reach: BTreeMap<&T, BTreeSet<T>> = nodes.iter().map(|node| (*node, reached(node))).collect();
    let mut found: BTreeSet<Vec<T>> = BTreeSet::new();
    for node in nodes {
        if reach[node].contains(node) {
            let both = |other: &&T| reach[node].contains(other) && reach[*other].contains(node);
            found.insert(reach.keys().copied().filter(both).cloned().collect());
        }
    }
    found.into_iter().collect()
}

fn parent(module: &[String]) -> Module {
    module[..module.len().saturating_sub(1)].to_vec()
}

fn is_front_door(path: &str) -> bool {
    path.ends_with("/mod.rs") || matches!(path, "lib.rs" | "main.rs" | "mod.rs")
}

/// The module that the file at this path below `src` is.
pub(crate) fn module_of(path: &str) -> Option<Module> {
    let path = path.strip_suffix(".rs")?;
    let mut module: Module = path.split('/').map(str::to_owned).collect();
    if matches!(module.last().map(String::as_str), Some("mod" | "lib" | "main")) {
        module.pop();
    }
    Some(module)
}

/// The code without its tests, and the modules or files that are tests alone.
pub(crate) fn without_tests(code: &str, text: &str) -> (String, Vec<String>) {
    let (mut kept, mut files) = (String::new(), Vec::new());
    let mut at = 0;
    while let Some(found) = code[at..].find("#[cfg(") {
        let begin = at + found;
        let line = code[begin..].find(']').map_or(code.len(), |end| begin + end + 1);
        let is_test = code[begin..line].contains("test)") || code[begin..line].contains("(test,");
        if !is_test {
            kept.push_str(&code[at..line]);
            at = line;
            continue;
        }
        kept.push_str(&code[at..begin]);
        let brace = code[line..].find('{').map(|end| line + end);
        let semicolon = code[line..].find(';').map(|end| line + end);
        at = match (brace, semicolon) {
            (Some(brace), semicolon) if semicolon.is_none_or(|semicolon| brace < semicolon) => {
                block_end(code, brace)
            }
            (_, Some(semicolon)) => {
                // The source has the name of the file, which the code without its strings has not.
                let item = &text[line..semicolon];
                let named = item.split('"').nth(1).filter(|_| item.contains("#[path"));
                let module = code[line..semicolon].rsplit_once("mod ").map(|(_, name)| name.trim());
                files.extend(named.or(module).map(str::to_owned));
                semicolon + 1
            }
            _ => code.len(),
        };
    }
    kept.push_str(&code[at..]);
    (kept, files)
}

/// End of the block whose brace is at `open`.
fn block_end(code: &str, open: usize) -> usize {
    let mut depth = 0;
    for (at, byte) in code.bytes().enumerate().skip(open) {
        match byte {
            b'{' => depth += 1,
            b'}' => {
                depth -= 1;
                if depth == 0 {
                    return at + 1;
                }
            }
            _ => {}
        }
    }
    code.len()
}

fn read(code: &str) -> Source {
    let mut source = Source::default();
    let mut rest = String::new();
    for statement in code.split_inclusive(';') {
        let Some((before, tree)) = split_use(statement) else {
            rest.push_str(statement);
            continue;
        };
        rest.push_str(before);
        let line = before.rsplit(['\n', '}', '{']).next().unwrap_or("");
        let is_handed_on = line.trim_start().starts_with("pub");
        for (path, name) in expand(tree) {
            if is_handed_on { source.handed_on.push((name, path)) } else { source.used.push(path) }
        }
    }
    source.used.extend(paths(&rest));
    source
}

/// A statement up to its `use`, if it has one, and the tree behind it.
fn split_use(statement: &str) -> Option<(&str, &str)> {
    let at = statement.rfind("use ")?;
    let before = &statement[..at];
    let is_word = before.chars().next_back().is_none_or(char::is_whitespace);
    is_word.then(|| (before, statement[at + 4..].trim_end_matches(';')))
}

/// The paths of a `use` tree, each with the name that it has from then on.
fn expand(tree: &str) -> Vec<(Vec<String>, String)> {
    let tree = tree.trim();
    let Some(open) = tree.find('{') else {
        let (path, renamed) = tree.split_once(" as ").map_or((tree, None), |(path, name)| (path, Some(name)));
        let mut path: Vec<String> = path.split("::").map(|part| part.trim().to_owned()).collect();
        if path.last().is_some_and(|last| last == "self") && path.len() > 1 {
            path.pop();
        }
        let name = renamed.map(str::trim).map(str::to_owned).or_else(|| path.last().cloned());
        return name.filter(|name| !name.is_empty()).map(|name| (path, name)).into_iter().collect();
    };
    let prefix: Vec<String> =
        tree[..open].split("::").map(|part| part.trim().to_owned()).filter(|part| !part.is_empty()).collect();
    let inner = &tree[open + 1..tree.rfind('}').unwrap_or(tree.len())];
    let (mut depth, mut begin, mut parts) = (0, 0, Vec::new());
    for (at, byte) in inner.bytes().enumerate() {
        match byte {
            b'{' => depth += 1,
            b'}' => depth -= 1,
            b',' if depth == 0 => {
                parts.push(&inner[begin..at]);
                begin = at + 1;
            }
            _ => {}
        }
    }
    parts.push(&inner[begin..]);
    let below = parts.into_iter().flat_map(expand);
    below
        .map(|(path, name)| {
            let is_self = path.len() == 1 && path[0] == "self";
            let whole: Vec<String> =
                prefix.iter().cloned().chain(path.into_iter().filter(|_| !is_self)).collect();
            let name = if is_self { whole.last().cloned().unwrap_or_default() } else { name };
            (whole, name)
        })
        .collect()
}

/// The paths in code that begin with `crate` or `super`.
fn paths(code: &str) -> Vec<Vec<String>> {
    let is_path = |c: char| c.is_alphanumeric() || c == '_' || c == ':';
    let words = code.split(|c: char| !is_path(c));
    let named = words.filter(|word| word.starts_with("crate::") || word.starts_with("super::"));
    named.map(|word| word.split("::").map(str::to_owned).collect()).collect()
}

/// The module that defines what `path` names in `from`, if it is one of this crate.
fn resolve(
    sources: &BTreeMap<Module, Source>,
    from: &[String],
    path: &[String],
    depth: usize,
) -> Option<Module> {
    /// Names that are handed on in a circle have no origin.
    const DEPTH_MAX: usize = 16;
    let (first, mut rest) = path.split_first()?;
    let mut at = match first.as_str() {
        "crate" => Module::new(),
        "self" => from.to_vec(),
        "super" => parent(from),
        // A path of an own child, or of a sibling that an edition before 2018 would have meant: else another crate's.
        child => {
            let mut own = from.to_vec();
            own.push(child.to_owned());
            if !sources.contains_key(&own) {
                return None;
            }
            own
        }
    };
    while rest.first().is_some_and(|part| part == "super") {
        at.pop();
        rest = &rest[1..];
    }
    for (number, part) in rest.iter().enumerate() {
        let mut below = at.clone();
        below.push(part.clone());
        if sources.contains_key(&below) {
            at = below;
            continue;
        }
        let source = sources.get(&at)?;
        let named = source.handed_on.iter().filter(|(name, _)| name == part);
        for (_, handed) in named.chain(source.handed_on.iter().filter(|(name, _)| name == "*")) {
            let is_glob = handed.last().is_some_and(|last| last == "*");
            let mut whole = handed[..handed.len() - usize::from(is_glob)].to_vec();
            whole.extend(rest[number + usize::from(!is_glob)..].iter().cloned());
            if depth < DEPTH_MAX
                && let Some(found) = resolve(sources, &at, &whole, depth + 1)
            {
                return Some(found);
            }
        }
        return Some(at);
    }
    sources.contains_key(&at).then_some(at)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn edges(files: &[(&str, &str)]) -> Vec<String> {
        let imports = Imports::of(files.iter().copied());
        imports.edges.iter().map(|(from, to)| format!("{} > {}", from.join("/"), to.join("/"))).collect()
    }

    #[test]
    fn imports_are_found_in_use_lines_and_in_paths() {
        let files = [
            ("lib.rs", "mod a; mod b; mod c;"),
            ("a.rs", "use super::b::{self, B, c::D as E};\nuse std::fmt;\nfn f() { crate::c::g() }"),
            ("b.rs", "// use crate::a;\nconst A: &str = \"crate::a\";"),
            ("c.rs", "#[cfg(test)]\nmod tests { use crate::a; }"),
        ];
        assert_eq!(edges(&files), ["a > b", "a > c"]);
    }

    #[test]
    fn what_a_front_door_hands_on_is_an_import_of_the_file_behind_it() {
        let files = [
            ("lib.rs", "mod queue; mod user;"),
            ("queue/mod.rs", "mod reply;\nmod send;\npub(crate) use reply::Reply;"),
            ("queue/reply.rs", ""),
            ("queue/send.rs", "use super::Reply;"),
            ("user.rs", "use crate::queue::{Reply, send};"),
        ];
        assert_eq!(edges(&files), ["queue/send > queue/reply", "user > queue/reply", "user > queue/send"]);
    }

    #[test]
    fn tests_in_files_of_their_own_are_left_out() {
        let files = [
            ("lib.rs", "mod a; mod b;"),
            ("a.rs", "#[cfg(test)]\n#[path = \"a_tests.rs\"]\nmod tests;"),
            ("a_tests.rs", "use crate::b::B;"),
            ("b.rs", "use super::a::A;\n#[cfg(all(test, other))]\nmod races;"),
            ("b/races.rs", "use crate::a::A;"),
        ];
        assert_eq!(edges(&files), ["b > a"]);
    }

    #[test]
    fn circles_are_found_among_files_and_among_folders() {
        let files = [
            ("lib.rs", "mod a; mod b;"),
            ("a/mod.rs", "pub mod x; pub mod y;"),
            ("a/x.rs", "use crate::b::z::Z;"),
            ("a/y.rs", ""),
            ("b/mod.rs", "pub mod z;"),
            ("b/z.rs", "use crate::a::y::Y;"),
        ];
        let imports = Imports::of(files.iter().copied());
        assert!(imports.file_circles(&[]).is_empty());
        let circle = circles(&imports.children(&[]));
        assert_eq!(circle, [["a".to_owned(), "b".to_owned()]]);
        assert!(
            imports.is_folder(&["a".to_owned()]) && !imports.is_folder(&["a".to_owned(), "x".to_owned()])
        );
    }
}
