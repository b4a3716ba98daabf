//! What is built once for the workspace and for the simulation: each crate of others has to have the same version and features in
//! both, or building it takes minutes twice. How both are built is the suites' concern.

use std::collections::BTreeSet;

use crate::workspace;

/// Crates that only the simulation is built of: its coroutines, and its allocator. And two of attach, built within seconds, of
/// which the workspace's programs and tests have more features.
const ALONE: [&str; 5] = ["corosensei", "libmimalloc-sys", "mimalloc", "slab", "vhost"];

/// True if the simulation is built of what the workspace has built. Prints the crates that are not.
pub(crate) fn pass() -> bool {
    let trees = crates(&["--workspace", "--edges", "normal,build,dev"]).and_then(|ours| {
        Some((ours, crates(&["--manifest-path", "simulate/Cargo.toml", "--edges", "normal,build"])?))
    });
    let Some((ours, simulated)) = trees else {
        println!("cargo does not say what the simulation is built of");
        return false;
    };
    let others = built_apart(&ours, &simulated);
    for line in &others {
        println!(
            "simulate/Cargo.toml: {line} is built for the simulation alone: the workspace has other features of it"
        );
    }
    others.is_empty()
}

/// A line for each crate and kind of it: its name, version and features.
fn crates(selected: &[&str]) -> Option<BTreeSet<String>> {
    let words = [&["tree", "--locked", "--prefix", "none", "--format", "{p} {f}"], selected].concat();
    let tree = workspace::cargo(&words).run_quietly();
    let line = |line: &str| line.trim_end_matches(" (*)").trim_end().to_owned();
    tree.passed.then(|| tree.output.lines().map(line).collect())
}

/// Crates of others in the simulation that are not in the workspace as they are there.
fn built_apart<'a>(ours: &'a BTreeSet<String>, simulated: &'a BTreeSet<String>) -> Vec<&'a str> {
    let is_own = |line: &str| line.contains(" (/");
    let is_alone = |line: &str| ALONE.iter().any(|name| line.split(' ').next() == Some(name));
    let apart = simulated.difference(ours).map(String::as_str);
    apart.filter(|line| !line.is_empty() && !is_own(line) && !is_alone(line)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_what_has_other_features() {
        let lines = |text: &str| text.lines().map(str::to_owned).collect::<BTreeSet<_>>();
        let ours = lines("engine v0.2.0 (/x/engine)\nsyn v3.0.9 default,full\nuuid v1.29.1 serde,v4");
        let same = lines(
            "engine v0.2.0 (/x/engine) simulation\nsyn v3.0.9 default,full\ncorosensei v0.3.4 default\n",
        );
        assert_eq!(built_apart(&ours, &same), [""; 0]);
        let other = lines("syn v3.0.9 default\nuuid v1.29.1 serde,v4");
        assert_eq!(built_apart(&ours, &other), ["syn v3.0.9 default"]);
    }
}
