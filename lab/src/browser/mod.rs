//! `lab browser`: reports and the console in a real headless Chromium, without any network but the loopback. It decides what is looked at and tells what
//! is wrong; each check says what is right.

mod access;
mod console;
mod content;
mod devtools;
mod layout;
mod made;
mod page;

use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::{Value, json};

use crate::answer::has_failed;
use devtools::Browser;
use page::Page;

/// The command line.
#[derive(Args, Clone, Debug)]
pub(crate) struct Arguments {
    /// Selvedge's program, which makes the reports; else the output folder has one
    #[arg(long, value_name = "PATH")]
    program: Option<String>,
    /// Folder of its files and the log
    #[arg(long, value_name = "DIR", default_value = "pages")]
    output: PathBuf,
    /// The browser
    #[arg(long, value_name = "PROGRAM", default_value = "chromium")]
    chromium: String,
    /// Keep pictures of the page even if nothing failed
    #[arg(long)]
    screenshots: bool,
}

/// `lab browser [OPTION]...`
///
/// # Errors
/// What could not be looked at, or is wrong.
pub(crate) fn main(arguments: &Arguments) -> Result<(), String> {
    match run(arguments)? {
        0 => Ok(()),
        count => Err(format!("{count} of the page's checks failed")),
    }
}

/// Report as data, and the folder of its files.
pub(crate) struct Report {
    pub(crate) document: Value,
    pub(crate) folder: PathBuf,
}

impl Report {
    pub(crate) fn page(&self) -> PathBuf {
        self.folder.join("report.html")
    }

    pub(crate) fn charts(&self) -> &[Value] {
        self.document["charts"].as_array().map_or(&[], Vec::as_slice)
    }

    pub(crate) fn tables(&self) -> &[Value] {
        self.document["tables"].as_array().map_or(&[], Vec::as_slice)
    }
}

type Check = fn(&mut Page<'_>, &Report) -> Result<(), String>;

/// In the order in which they run. Each opens what it looks at.
const CHECKS: [(&str, Check); 14] = [
    ("charts have the points of the JSON", content::points),
    ("pictures stand alone", content::pictures),
    ("tables have every row", content::rows),
    ("the data is in the page", content::data),
    ("nothing is wider than the window", layout::width),
    ("text can be read and does not collide", layout::text),
    ("colours differ enough, light and dark", layout::contrast),
    ("it prints", layout::paper),
    ("charts and tables have names", access::names),
    ("keys move between points", access::points),
    ("keys sort and filter tables", access::tables),
    ("legends switch lines", access::legends),
    ("tables and pictures can be saved", access::saving),
    ("everything is there without a script", content::without_script),
];

/// Makes the reports and looks at them; how many checks failed.
fn run(arguments: &Arguments) -> Result<usize, String> {
    let reports = match &arguments.program {
        Some(program) => made::reports(program, &arguments.output)?,
        None => vec![("report", arguments.output.clone())],
    };
    let mut problems = 0;
    for (name, folder) in reports {
        println!("{name}");
        problems += look(&load(&folder)?, arguments)?;
    }
    if let Some(program) = &arguments.program {
        problems += console::look(program, &arguments.output, &arguments.chromium, arguments.screenshots)?;
    }
    Ok(problems)
}

/// Looks at one report; how many checks failed.
fn look(report: &Report, arguments: &Arguments) -> Result<usize, String> {
    let mut browser = Browser::start(&arguments.chromium, &report.folder)?;
    let mut page = Page { browser: &mut browser };
    page.listen()?;
    let mut problems = 0;
    for (name, check) in CHECKS {
        let before = page.browser.events().len();
        let result = fresh(&mut page)
            .and_then(|()| check(&mut page, report))
            .and_then(|()| quiet(&page.browser.events()[before..], report));
        if has_failed(name, &result) {
            problems += 1;
            let picture = report.folder.join(format!("failed-{problems}.png"));
            if page.photograph(&picture).is_ok() {
                println!("        {}", picture.display());
            }
        }
    }
    if arguments.screenshots {
        photograph(&mut page, report)?;
    }
    Ok(problems)
}

/// The report in a folder.
fn load(folder: &Path) -> Result<Report, String> {
    let failed = |error: std::io::Error| format!("{}: {error}", folder.display());
    let text = std::fs::read_to_string(folder.join("report.json")).map_err(failed)?;
    let document =
        serde_json::from_str(&text).map_err(|error| format!("report.json is not valid JSON: {error}"))?;
    Ok(Report { document, folder: folder.canonicalize().map_err(failed)? })
}

/// The window as a check finds it.
fn fresh(page: &mut Page<'_>) -> Result<(), String> {
    page.browser.call("Emulation.setScriptExecutionDisabled", &json!({"value": false}))?;
    page.set_width(1280)?;
    page.set_media("screen", "light")
}

/// Checks that there were no complaints, and that only the report's own files were requested.
fn quiet(events: &[Value], report: &Report) -> Result<(), String> {
    let own = page::url(&report.folder);
    for event in events {
        if let Some(grievance) = grievance(event) {
            return Err(grievance);
        }
        if event["method"] == "Network.requestWillBeSent" {
            let params = &event["params"];
            let url = params["request"]["url"].as_str().unwrap_or_default();
            let is_own_file = params["type"] == "Document" && url.starts_with(&own);
            // A blob is what the page itself has made to be saved.
            if !is_own_file && !url.starts_with("data:") && !url.starts_with("blob:") {
                return Err(format!("a request for {url}"));
            }
        }
    }
    Ok(())
}

/// Complaint of the browser in an event.
fn grievance(event: &Value) -> Option<String> {
    let params = &event["params"];
    let is_one_of = |value: &Value, words: &[&str]| words.iter().any(|word| value == *word);
    match event["method"].as_str().unwrap_or_default() {
        "Runtime.exceptionThrown" => Some(format!("an exception: {}", params["exceptionDetails"])),
        "Runtime.consoleAPICalled" if is_one_of(&params["type"], &["error", "warning", "assert"]) => {
            Some(format!("on the console: {}", params["args"]))
        }
        "Log.entryAdded" if is_one_of(&params["entry"]["level"], &["error", "warning"]) => {
            Some(format!("in the log: {}", params["entry"]))
        }
        _ => None,
    }
}

/// Pictures of the page, light and dark, wide and narrow.
fn photograph(page: &mut Page<'_>, report: &Report) -> Result<(), String> {
    for scheme in ["light", "dark"] {
        for width in [1280, 400] {
            fresh(page)?;
            page.set_width(width)?;
            page.set_media("screen", scheme)?;
            page.open(&report.page())?;
            let file = shot(&report.folder, scheme, width);
            page.photograph(&file)?;
            println!("{}", file.display());
        }
    }
    Ok(())
}

fn shot(folder: &Path, scheme: &str, width: u32) -> PathBuf {
    folder.join(format!("page-{scheme}-{width}.png"))
}

/// Fails with the words unless it is so.
fn demand(is_so: bool, words: impl FnOnce() -> String) -> Result<(), String> {
    if is_so { Ok(()) } else { Err(words()) }
}
