//! Command lines of documents and helps, for the tests that parse them and those that run them.

use std::path::{Path, PathBuf};

/// Placeholders in documents, each with a value that a command accepts.
pub(crate) const PLACEHOLDERS: [(&str, &str); 8] = [
    ("nqn…", "nqn.2026-01.org.example:disks"),
    ("uuid:...", "uuid:1b4e28ba-2fa1-11d2-883f-0016d3ccabcd"),
    ("uuid:…", "uuid:1b4e28ba-2fa1-11d2-883f-0016d3ccabcd"),
    ("$HOST_NQN", "nqn.2014-08.org.nvmexpress:uuid:1b4e28ba-2fa1-11d2-883f-0016d3ccabcd"),
    ("NQN", "nqn.2026-01.org.example:disks"),
    ("NSID", "1"),
    ("CNTLID", "1"),
    ("SIZE", "1g"),
];

/// Pages for users.
pub(crate) fn pages() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let docs = std::fs::read_dir(root.join("docs")).unwrap().map(|file| file.unwrap().path());
    let mut pages: Vec<PathBuf> =
        docs.filter(|path| path.extension().is_some_and(|kind| kind == "md")).collect();
    pages.extend(["README.md", "SECURITY.md", "CONTRIBUTING.md"].map(|name| root.join(name)));
    pages.sort();
    pages
}

/// Returns the shell commands of a text, each with the number of its line: in pages those between
/// fences, in helps all.
pub(crate) fn commands(text: &str, is_page: bool) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    let (mut block, mut kind) = (Vec::new(), (!is_page).then_some(""));
    for (number, line) in text.lines().enumerate() {
        match line.trim().strip_prefix("```").filter(|_| is_page) {
            // What is only looked at, such as a screen, is `text`.
            Some(opened) if kind.is_none() => kind = Some(opened),
            Some(_) => {
                found.extend(commands_of(&std::mem::take(&mut block)));
                kind = None;
            }
            None if kind.is_some_and(|kind| matches!(kind, "" | "sh")) => block.push((number + 1, line)),
            None => {}
        }
    }
    found.extend(commands_of(&block));
    found
}

/// Returns the commands of one block. If some lines have a prompt, the others are output.
fn commands_of(block: &[(usize, &str)]) -> Vec<(usize, String)> {
    let has_prompt = block.iter().any(|(_, line)| line.trim().starts_with("$ "));
    let mut found = Vec::new();
    let mut lines = block.iter();
    while let Some((number, line)) = lines.next() {
        let line = line.trim();
        let typed = match line.strip_prefix("$ ") {
            Some(typed) => typed,
            None if has_prompt => continue,
            None => line,
        };
        if !(typed.starts_with("selvedge ") || is_assignment(typed)) || typed.starts_with("selvedge: ") {
            continue;
        }
        let mut whole = typed.to_owned();
        while whole.ends_with('\\') {
            whole.pop();
            whole += lines.next().map_or("", |(_, more)| more.trim());
        }
        found.push((*number, whole));
    }
    found
}

/// True for a shell assignment such as `T="-a … -n …"`, which holds options that many commands
/// share.
pub(crate) fn is_assignment(line: &str) -> bool {
    line.split_once('=').is_some_and(|(name, value)| {
        !name.is_empty()
            && name.bytes().all(|byte| byte.is_ascii_uppercase())
            && value.starts_with(['"', '\''])
    })
}
