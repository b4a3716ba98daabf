//! Files and folders that jobs name, as far as this program needs to know them: how many different ones there are.
//! None of them is opened.

use super::job_file::Said;

/// Files that a section names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Storage {
    pub(super) filename: Option<Said>,
    pub(super) directory: Option<Said>,
}

impl Storage {
    /// The line that names it.
    pub(super) fn line(&self) -> Option<usize> {
        self.filename.as_ref().or(self.directory.as_ref()).map(|said| said.line)
    }

    /// Returns the files, each as fio would open it. A job without a file name has a file of its
    /// own in its folder; the folder stands for all of those.
    pub(super) fn files(&self) -> Vec<String> {
        let list = |said: &Option<Said>| said.as_ref().map_or_else(Vec::new, |said| split(&said.text));
        let (names, folders) = (list(&self.filename), list(&self.directory));
        match (names.is_empty(), folders.is_empty()) {
            (true, true) => vec![String::new()],
            (true, false) => folders,
            (false, true) => names,
            (false, false) => {
                let in_folder = |folder: &String| {
                    names.iter().map(|name| format!("{}/{name}", folder.trim_end_matches('/'))).collect()
                };
                folders.iter().flat_map(|folder| -> Vec<String> { in_folder(folder) }).collect()
            }
        }
    }
}

/// The names in a list: `:` is between them, and `\:` in one.
pub(super) fn split(text: &str) -> Vec<String> {
    let mut names = vec![String::new()];
    let mut letters = text.chars().peekable();
    while let Some(letter) = letters.next() {
        let last = names.len() - 1;
        match letter {
            '\\' if letters.peek() == Some(&':') => names[last].extend(letters.next()),
            ':' => names.push(String::new()),
            _ => names[last].push(letter),
        }
    }
    names.retain(|name| !name.is_empty());
    names.sort();
    names.dedup();
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files(filename: &str, directory: &str) -> Vec<String> {
        let said = |text: &str| (!text.is_empty()).then(|| Said { line: 1, text: text.to_owned() });
        Storage { filename: said(filename), directory: said(directory) }.files()
    }

    #[test]
    fn names_are_split_as_fio_splits_them() {
        assert_eq!(files("/dev/nvme0n1", ""), ["/dev/nvme0n1"]);
        assert_eq!(files("/dev/nvme1n1:/dev/nvme0n1:", ""), ["/dev/nvme0n1", "/dev/nvme1n1"]);
        assert_eq!(files("/dev/a:/dev/a", ""), ["/dev/a"]);
        assert_eq!(files("/dev/bsg/0\\:0\\:0\\:0", ""), ["/dev/bsg/0:0:0:0"]);
        assert_eq!(files("x", "/mnt/"), ["/mnt/x"]);
        assert_eq!(files("x:y", "/a:/b"), ["/a/x", "/a/y", "/b/x", "/b/y"]);
        assert_eq!(files("", "/a:/b"), ["/a", "/b"]);
        assert_eq!(files("", ""), [""]);
    }
}
