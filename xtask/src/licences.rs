//! The licences and sources of everything the workspace is built from, against the lists in deny.toml;
//! it needs cargo only. It keeps out advisories, for which cargo-deny asks the network.

use std::collections::BTreeSet;

use crate::workspace;

/// Asks cargo for every package, and prints the ones that deny.toml does not allow.
pub(crate) fn pass() -> bool {
    println!("$ cargo tree (licences and sources against deny.toml)");
    let problems = match problems() {
        Ok(problems) => problems,
        Err(reason) => vec![reason],
    };
    for problem in &problems {
        println!("{problem}");
    }
    println!("  {}", if problems.is_empty() { "ok" } else { "FAILED" });
    problems.is_empty()
}

fn problems() -> Result<Vec<String>, String> {
    let list = std::fs::read_to_string(workspace::root().join("deny.toml"))
        .map_err(|error| format!("deny.toml: {error}"))?;
    let allowed = allowed(&list);
    let tree = ["tree", "--workspace", "--quiet", "--target", "all", "--edges", "all", "--prefix", "none"];
    let tree = workspace::cargo(&[&tree[..], &["--format", "{p}|{l}"]].concat());
    let tree = tree.run_quietly();
    if !tree.passed {
        return Err(format!("cargo tree: {}", tree.output.trim()));
    }
    let root = workspace::root().display().to_string();
    // A package that stands in the tree again is marked. All of its places would be gigabytes.
    let lines = tree.output.lines().map(|line| line.trim_end_matches(" (*)"));
    let packages: BTreeSet<&str> = lines.filter(|line| line.contains('|')).collect();
    Ok(packages.into_iter().filter_map(|package| problem(package, &allowed, &root)).collect())
}

/// `name version (source)|licence`, where the source is left out for the default registry.
fn problem(package: &str, allowed: &BTreeSet<String>, root: &str) -> Option<String> {
    let (name, licence) = package.split_once('|')?;
    let source = name.split_once('(').map(|(_, source)| source);
    let foreign = source.is_some_and(|source| !source.starts_with(root) && !source.starts_with("proc-macro"));
    if foreign {
        return Some(format!("{name}: not from the default registry"));
    }
    (!licence_allowed(licence, allowed)).then(|| format!("{name}: the licence is `{licence}`"))
}

/// The strings of `allow = [...]` in the section on licences.
fn allowed(deny: &str) -> BTreeSet<String> {
    let section = deny.split("[licenses]").nth(1).unwrap_or("");
    let list = section.split("allow = [").nth(1).and_then(|rest| rest.split(']').next()).unwrap_or("");
    let lines = list.lines().map(|line| line.split('#').next().unwrap_or(""));
    let words: Vec<&str> = lines.flat_map(|line| line.split(',')).map(str::trim).collect();
    words.into_iter().map(|word| word.trim_matches('"').to_owned()).filter(|word| !word.is_empty()).collect()
}

/// AND binds closer than OR; a slash is an old way to write OR.
fn licence_allowed(expression: &str, allowed: &BTreeSet<String>) -> bool {
    let expression = expression.replace('/', " OR ").replace('(', " ( ").replace(')', " ) ");
    let words: Vec<&str> = expression.split_whitespace().collect();
    let mut at = 0;
    let value = either(&words, &mut at, allowed);
    value && at == words.len()
}

fn either(words: &[&str], at: &mut usize, allowed: &BTreeSet<String>) -> bool {
    let mut value = both(words, at, allowed);
    while words.get(*at) == Some(&"OR") {
        *at += 1;
        value |= both(words, at, allowed);
    }
    value
}

fn both(words: &[&str], at: &mut usize, allowed: &BTreeSet<String>) -> bool {
    let mut value = one(words, at, allowed);
    while words.get(*at) == Some(&"AND") {
        *at += 1;
        value &= one(words, at, allowed);
    }
    value
}

fn one(words: &[&str], at: &mut usize, allowed: &BTreeSet<String>) -> bool {
    let Some(&word) = words.get(*at) else { return false };
    *at += 1;
    if word == "(" {
        let value = either(words, at, allowed);
        *at += 1;
        return value;
    }
    if words.get(*at) == Some(&"WITH") {
        let exception = words.get(*at + 1).copied().unwrap_or("");
        *at += 2;
        return allowed.contains(&format!("{word} WITH {exception}"));
    }
    allowed.contains(word)
}

#[cfg(test)]
mod tests {
    use super::*;

    const DENY: &str = "[advisories]\nallow = [\"X\"]\n[licenses]\nallow = [\n    \"MIT\", # why\n    \
                        \"Apache-2.0\",\n    \"Apache-2.0 WITH LLVM-exception\",\n]\n[bans]\n";

    #[test]
    fn reads_the_list_of_its_section() {
        let list: Vec<String> = allowed(DENY).into_iter().collect();
        assert_eq!(list, ["Apache-2.0", "Apache-2.0 WITH LLVM-exception", "MIT"]);
    }

    #[test]
    fn judges_expressions() {
        let allowed = allowed(DENY);
        for good in ["MIT", "GPL-3.0 OR MIT", "MIT/X", "(MIT OR X) AND Apache-2.0", "X OR MIT AND MIT"] {
            assert!(licence_allowed(good, &allowed), "{good}");
        }
        assert!(licence_allowed("Apache-2.0 WITH LLVM-exception OR X", &allowed));
        for bad in ["", "X", "MIT AND X", "(MIT", "MIT WITH X", "(MIT OR X) AND X", "MIT MIT"] {
            assert!(!licence_allowed(bad, &allowed), "{bad}");
        }
    }

    #[test]
    fn judges_packages() {
        let allowed = allowed(DENY);
        assert_eq!(problem("a v1.0.0|MIT", &allowed, "/p"), None);
        assert_eq!(problem("a v1.0.0 (/p/a)|MIT", &allowed, "/p"), None);
        assert_eq!(problem("a v1.0.0 (proc-macro)|MIT", &allowed, "/p"), None);
        assert!(problem("a v1.0.0 (/q/a)|MIT", &allowed, "/p").unwrap().contains("default registry"));
        assert!(problem("a v1.0.0|X", &allowed, "/p").unwrap().contains("`X`"));
    }
}
