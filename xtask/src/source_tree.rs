//! The sources as git names them: the hash of the whole checkout as it lies on disk, committed or not, and of parts of it.

use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::command::Step;
use crate::workspace;

/// A tree object of the checkout. Neither the index nor the branch changes by making it.
pub(crate) struct SourceTree {
    pub(crate) hash: String,
}

impl SourceTree {
    /// Writes the checkout as a tree, by an index of its own.
    ///
    /// # Errors
    /// Git refuses.
    pub(crate) fn of_checkout() -> Result<Self, String> {
        let index = Index::new()?;
        // With the files' times in it, only what has changed is read again.
        let own = git(&["rev-parse", "--git-path", "index"], None)?;
        let _ = std::fs::copy(workspace::root().join(own.trim()), &index.path);
        git(&["add", "--all", "."], Some(&index))?;
        Ok(Self { hash: git(&["write-tree"], Some(&index))?.trim().to_owned() })
    }

    /// The hash of these paths in it.
    ///
    /// # Errors
    /// Git refuses.
    pub(crate) fn hash_of(&self, paths: &[&str]) -> Result<String, String> {
        if paths == ["."] {
            return Ok(self.hash.clone());
        }
        let listed = git(&[&["ls-tree", &self.hash, "--"], paths].concat(), None)?;
        let names: Vec<&str> =
            listed.lines().filter_map(|line| line.split_once('\t')).map(|(_, name)| name).collect();
        if let Some(path) = paths.iter().find(|path| !names.contains(path)) {
            return Err(format!("{path}: not in the checkout"));
        }
        let hashes = listed.split_whitespace().filter(|word| word.len() == 40);
        Ok(hashes.map(|hash| &hash[..12]).collect::<Vec<_>>().join("-"))
    }
}

/// An index that only this run has.
struct Index {
    path: PathBuf,
}

impl Index {
    fn new() -> Result<Self, String> {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let folder = workspace::target_dir();
        std::fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        let name = format!("index-{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        Ok(Self { path: folder.join(name) })
    }
}

impl Drop for Index {
    fn drop(&mut self) {
        // Nothing reads it again.
        let _ = std::fs::remove_file(&self.path);
    }
}

/// Output of git.
fn git(words: &[&str], index: Option<&Index>) -> Result<String, String> {
    let root = workspace::root().display().to_string();
    let mut step = Step::new("git", &[&["-C", &root, "-c", "safe.directory=*"], words].concat());
    if let Some(index) = index {
        step = step.env("GIT_INDEX_FILE", &index.path.display().to_string());
    }
    let done = step.run_quietly();
    if done.passed { Ok(done.output) } else { Err(format!("git: {}", done.output.trim())) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_have_hashes_of_their_own() {
        let tree = SourceTree::of_checkout().unwrap();
        assert_eq!(tree.hash.len(), 40);
        let [xtask, both] = [&["xtask"][..], &["crates", "xtask"]].map(|paths| tree.hash_of(paths).unwrap());
        assert_eq!(xtask.len(), 12);
        assert!(both.ends_with(&xtask) && both.len() == 25);
        assert!(tree.hash_of(&["no-such-folder"]).is_err());
    }
}
