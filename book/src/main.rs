//! Makes HTML of the documents in their order of use: `cargo xtask book` builds and starts this. The pages themselves are
//! Markdown that reads well without it.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::ExitCode;

use mdbook_driver::MDBook;
use mdbook_driver::book::BookItem;
use mdbook_driver::config::Config;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [root, output] = arguments.as_slice() else {
        eprintln!("usage: book ROOT OUTPUT");
        return ExitCode::from(2);
    };
    match make(Path::new(root), Path::new(output)) {
        Ok(pages) => {
            println!("{pages} pages: {output}/index.html");
            ExitCode::SUCCESS
        }
        Err(reason) => {
            eprintln!("book: {reason}");
            ExitCode::FAILURE
        }
    }
}

/// Makes all of it; how many pages there are.
fn make(root: &Path, output: &Path) -> Result<usize, String> {
    let failed = |error: &dyn std::fmt::Display| error.to_string();
    let mut config = Config::default();
    config.book.title = Some("Selvedge".to_owned());
    config.book.language = Some("en".to_owned());
    config.book.src = "docs".into();
    config.build.build_dir = output.to_owned();
    config.build.create_missing = false;
    let mut book = MDBook::load_with_config(root, config).map_err(|error| failed(&error))?;
    let mut pages = BTreeSet::new();
    book.book.for_each_mut(|item| {
        if let BookItem::Chapter(chapter) = item {
            let depth = chapter.path.as_deref().map_or(1, |path| path.components().count());
            chapter.content = without_outside_links(&chapter.content, &"../".repeat(depth));
            pages.extend(chapter.path.clone());
        }
    });
    let missing = missing(&root.join("docs"), &pages)?;
    if !missing.is_empty() {
        return Err(format!("docs/SUMMARY.md lacks {}", missing.join(", ")));
    }
    book.build().map_err(|error| failed(&error))?;
    let mut broken = BTreeSet::new();
    for page in pages.iter().map(|page| page.with_extension("html")) {
        let text = read(&output.join(&page))?;
        broken.extend(
            links(&text)
                .filter(|link| !leads_somewhere(output, &page, link))
                .map(|link| format!("{}: {link} leads nowhere", page.display())),
        );
    }
    if broken.is_empty() { Ok(pages.len()) } else { Err(broken.into_iter().collect::<Vec<_>>().join("\n")) }
}

fn read(path: &Path) -> Result<String, String> {
    std::fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))
}

/// The links of a page within the book.
fn links(page: &str) -> impl Iterator<Item = &str> {
    let values = page.split("href=\"").skip(1).filter_map(|rest| rest.split('"').next());
    values.filter(|link| !link.contains("://") && !link.starts_with("mailto:") && link.contains(".html"))
}

/// True if there is such a page, with such an anchor in it.
fn leads_somewhere(output: &Path, page: &Path, link: &str) -> bool {
    let (file, place) = link.split_once('#').unwrap_or((link, ""));
    let target = output.join(page.parent().unwrap_or(Path::new(""))).join(file);
    let Ok(text) = read(&target) else { return false };
    place.is_empty() || text.contains(&format!("id=\"{place}\""))
}

/// Pages that the summary does not have.
fn missing(docs: &Path, pages: &BTreeSet<std::path::PathBuf>) -> Result<Vec<String>, String> {
    let mut missing = Vec::new();
    for folder in ["", "internals"] {
        let place = docs.join(folder);
        let files = std::fs::read_dir(&place).map_err(|error| format!("{}: {error}", place.display()))?;
        for file in files.filter_map(Result::ok) {
            let name = Path::new(folder).join(file.file_name());
            let is_page =
                name.extension().is_some_and(|kind| kind == "md") && name != Path::new("SUMMARY.md");
            if is_page && !pages.contains(&name) {
                missing.push(name.display().to_string());
            }
        }
    }
    missing.sort();
    Ok(missing)
}

/// The page with what it links outside the book as text: those files are the repository's.
fn without_outside_links(page: &str, outside: &str) -> String {
    let outside = format!("]({outside}");
    let mut text = String::with_capacity(page.len());
    let mut rest = page;
    while let Some(at) = rest.find(&outside) {
        let (before, link) = rest.split_at(at);
        let Some(end) = link.find(')') else { break };
        match before.rfind('[') {
            Some(open) => {
                text += &before[..open];
                text += &before[open + 1..];
            }
            None => {
                text += before;
                text += &link[..=end];
            }
        }
        rest = &link[end + 1..];
    }
    text + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_out_of_the_book_become_text() {
        assert_eq!(
            without_outside_links("see [it](../SECURITY.md) and [that](a.md), [more](../lab/x).", "../"),
            "see it and [that](a.md), more."
        );
        let inside = "a page of internals: [serve](../serve.md), [it](../../SECURITY.md)";
        assert_eq!(without_outside_links(inside, "../../"), "a page of internals: [serve](../serve.md), it");
    }

    #[test]
    fn a_link_to_nothing_is_found() {
        let folder = std::env::temp_dir().join(format!("selvedge-book-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join("a.html"), "<h1 id=\"here\"></h1>").unwrap();
        let found = |link| leads_somewhere(&folder, Path::new("b.html"), link);
        assert!(found("a.html") && found("a.html#here") && !found("a.html#there") && !found("c.html"));
        assert_eq!(
            links("<a href=\"a.html#x\"><a href=\"https://b/c.html\">").collect::<Vec<_>>(),
            ["a.html#x"]
        );
        std::fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn a_page_that_the_summary_lacks_is_found() {
        let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs");
        assert!(missing(&docs, &BTreeSet::new()).unwrap().contains(&"install.md".to_owned()));
    }
}
