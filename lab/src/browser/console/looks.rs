//! Checks of how the views look and what those hear who do not see them.

use serde_json::{Value, json};

use super::super::page::Page;
use super::super::{demand, layout};
use super::fixture::DISKS;
use super::{Set, VIEWS, enter, open, wait};

/// From a small telephone to a wall screen.
const WIDTHS: [u32; 4] = [360, 768, 1280, 3840];

/// All kinds of text that views have.
const TEXTS: [&str; 31] = [
    "h1",
    "h2",
    "h3",
    "#target",
    "#connection",
    "#health .badge",
    "#health .line",
    "header nav a",
    ".tile dt",
    ".tile .value",
    ".tile .more",
    ".findings .kind",
    ".findings p",
    ".causes .kind",
    ".causes dt",
    ".causes dd",
    ".elsewhere dt",
    ".elsewhere dd",
    "thead th",
    "tbody td",
    "form label",
    "form button",
    ".kinds a",
    "footer p",
    ".chart .tick",
    ".chart .label",
    ".legend .text",
    "figcaption p",
    ".courses .note",
    ".courses text.free",
    ".courses .bad-word",
];

fn each_view(
    page: &mut Page<'_>,
    mut act: impl FnMut(&mut Page<'_>, &str) -> Result<(), String>,
) -> Result<(), String> {
    let subsystem = format!("subsystems/{}", DISKS.replace(':', "%3A"));
    for view in VIEWS.into_iter().chain([subsystem.as_str()]) {
        open(page, view)?;
        act(page, view)?;
    }
    Ok(())
}

/// No view scrolls sideways.
pub(super) fn width(page: &mut Page<'_>, _set: &Set) -> Result<(), String> {
    enter(page)?;
    for width in WIDTHS {
        page.set_width(width)?;
        each_view(page, |page, view| {
            let wide = page.ask("document.scrollingElement.scrollWidth")?.as_f64().unwrap_or(f64::MAX);
            demand(wide <= f64::from(width), || {
                format!("{view} is {wide} pixels wide in a window of {width}")
            })
        })?;
    }
    page.set_width(360)?;
    open(page, "overview")?;
    // The text of a picture keeps its size where the picture is small.
    let size = "(svg => 12 * svg.getBoundingClientRect().width / svg.viewBox.baseVal.width)(document.querySelector('.chart'))";
    wait(page, "text in pictures can be read", &format!("{size} >= 10"))
}

/// Text stands out from its ground in both schemes.
pub(super) fn contrast(page: &mut Page<'_>, _set: &Set) -> Result<(), String> {
    enter(page)?;
    for scheme in ["light", "dark"] {
        page.set_media("screen", scheme)?;
        each_view(page, |page, view| {
            layout::stands_out(page, &TEXTS, &format!("{scheme}, {view}"), scheme == "light").map(drop)
        })?;
    }
    Ok(())
}

/// Tables, pictures and fields have names, headings an order, and there is one of each landmark.
pub(super) fn tree(page: &mut Page<'_>, _set: &Set) -> Result<(), String> {
    enter(page)?;
    each_view(page, |page, view| {
        let tree = page.browser.call("Accessibility.getFullAXTree", &json!({}))?;
        let nodes = tree["nodes"].as_array().ok_or("there is no accessibility tree")?;
        for node in nodes.iter().filter(|node| node["ignored"] != true) {
            let role = node["role"]["value"].as_str().unwrap_or_default();
            let needs_name = [
                "table",
                "button",
                "link",
                "searchbox",
                "textbox",
                "combobox",
                "application",
                "navigation",
                "form",
                "columnheader",
                "heading",
            ];
            let name = node["name"]["value"].as_str().unwrap_or_default();
            demand(!needs_name.contains(&role) || !name.trim().is_empty(), || {
                format!("{view}: a {role} has no name: {}", node["name"])
            })?;
        }
        let found = page.ask(
            "(() => { const levels = Array.from(document.querySelectorAll('h1, h2, h3'))
                .filter(h => h.checkVisibility()).map(h => Number(h.tagName[1]));
                return { first: levels[0], jumps: levels.filter((level, at) => at > 0 && level > levels[at - 1] + 1).length,
                    mains: document.querySelectorAll('main').length, language: document.documentElement.lang }; })()",
        )?;
        let wanted: Value = json!({"first": 1, "jumps": 0, "mains": 1, "language": "en"});
        demand(found == wanted, || format!("{view}: {found}"))
    })
}
