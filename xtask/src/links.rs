//! Links of Markdown files: each relative one leads to a file of the project, and to a heading that is there. Addresses of others are
//! not looked at.

use std::collections::BTreeSet;

/// Pages that are added and never edited.
const KEPT: &str = "bench-runs/";

/// Reports links that lead nowhere, of all pages among these files.
pub(crate) fn judge(files: &[(&str, &str)], problems: &mut Vec<String>) {
    let paths: BTreeSet<&str> = files.iter().map(|(path, _)| *path).collect();
    let exists = |path: &str| {
        let below = format!("{path}/");
        // Pictures are not among them.
        let root = crate::workspace::root();
        paths.contains(path)
            || paths.iter().any(|other| other.starts_with(&below))
            || root.join(path).exists()
    };
    for (path, text) in files.iter().filter(|(path, _)| path.ends_with(".md") && !path.starts_with(KEPT)) {
        for (line, link) in links(text) {
            let (file, heading) = link.split_once('#').unwrap_or((link, ""));
            let target = if file.is_empty() { Some((*path).to_owned()) } else { beside(path, file) };
            let page = target.as_deref().and_then(|target| files.iter().find(|(path, _)| *path == target));
            let leads = match (&target, page) {
                (Some(_), Some((_, page))) => heading.is_empty() || has_heading(page, heading),
                (Some(target), None) => exists(target),
                (None, _) => false,
            };
            if !leads {
                problems.push(format!("{path}:{line}: the link {link} leads nowhere"));
            }
        }
    }
}

/// Relative links with their lines, outside code.
fn links(text: &str) -> Vec<(usize, &str)> {
    let mut found = Vec::new();
    let mut is_code = false;
    for (number, line) in text.lines().enumerate() {
        if line.trim_start().starts_with("```") {
            is_code = !is_code;
        }
        if is_code {
            continue;
        }
        let targets = line.split("](").skip(1).filter_map(|rest| rest.split([')', ' ']).next());
        let relative = targets.filter(|link| !link.contains("://") && !link.starts_with("mailto:"));
        found.extend(relative.map(|link| (number + 1, link)));
    }
    found
}

/// The path of a link on a page, without `.` and `..`; none above the project's folder.
fn beside(page: &str, link: &str) -> Option<String> {
    let mut parts: Vec<&str> = page.split('/').collect();
    parts.pop();
    for part in link.trim_end_matches('/').split('/') {
        match part {
            "." => {}
            ".." => drop(parts.pop()?),
            part => parts.push(part),
        }
    }
    Some(parts.join("/"))
}

fn has_heading(page: &str, wanted: &str) -> bool {
    page.lines().filter(|line| line.starts_with('#')).any(|line| slug(line) == wanted)
}

/// A heading's name in links, as GitHub makes it.
fn slug(line: &str) -> String {
    let text = line.trim_start_matches('#').trim().to_lowercase();
    let kept = text.chars().filter(|c| c.is_alphanumeric() || "-_ ".contains(*c));
    kept.map(|c| if c == ' ' { '-' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problems(text: &str) -> Vec<String> {
        let files = [
            ("docs/a.md", text),
            ("README.md", "# Selvedge\n\n## Try `it`, now\n"),
            ("crates/x/src/lib.rs", ""),
        ];
        let mut problems = Vec::new();
        judge(&files, &mut problems);
        problems
    }

    #[test]
    fn links_to_files_folders_and_headings_are_well() {
        let text = "# A\n[a](../README.md) [b](../README.md#try-it-now) [c](#a) [d](../crates/x) [e](https://x.org/y)\n";
        assert!(problems(text).is_empty(), "{:?}", problems(text));
        assert!(problems("```\n[x](nowhere.md)\n```\n").is_empty());
    }

    #[test]
    fn links_that_lead_nowhere_are_named_with_their_line() {
        for link in ["b.md", "../README.md#other", "#b", "../../above.md", "../crates/y"] {
            let found = problems(&format!("# A\n\n[x]({link})\n"));
            assert_eq!(found, [format!("docs/a.md:3: the link {link} leads nowhere")]);
        }
    }
}
