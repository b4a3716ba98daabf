//! Checks of the view of sweeps: made-up ones of every state, and a real one while it is measured.

use std::path::Path;
use std::time::Duration;

use serde_json::json;

use super::super::demand;
use super::super::page::{LEFT, Page, RIGHT};
use super::changes::enter_real;
use super::made_sweeps::RUNNING;
use super::views::has_text;
use super::{Set, enter, open, wait};
use crate::answer::Answer;

/// Time for a sweep of some seconds on a busy machine.
const SWEEP: Duration = Duration::from_secs(120);

fn shown() -> String {
    RUNNING.replace('\u{202e}', "\\u202e")
}

/// The one that runs comes first; each other one is a link away, and what is silent is not said to run.
pub(super) fn all(page: &mut Page<'_>, _set: &Set) -> Result<(), String> {
    enter(page)?;
    open(page, "sweeps")?;
    for text in [
        &*shown(),
        "21 of 63 measurements; 1 failed",
        "left; measuring <i>randread</i>, depth 8, 2 queues",
        "2 lines more are in the table.",
        "3 points more are in its report.",
        "no message since",
        "70 of 70",
    ] {
        has_text(page, text)?;
    }
    let bar = page.ask("(bar => [bar.value, bar.max])(document.querySelector('progress'))")?;
    demand(bar == json!([21, 63]), || format!("the bar is at {bar}"))?;
    let state = "document.querySelector('.sweep [role=\"status\"]')";
    for (name, wanted, level) in [
        ("cut off", "no message since", "warning"),
        ("first", "complete", "ok"),
        ("nqn.2026", "failed", "critical"),
    ] {
        page.ask(&format!(
            "Array.from(document.querySelectorAll('#view tbody th a')).find(a => a.textContent.startsWith({})).click()",
            json!(name)
        ))?;
        let is_shown = format!(
            "document.querySelector('.sweep h2').textContent.startsWith({}) && {state}.textContent.startsWith('{wanted}')
                && {state}.dataset.level === '{level}' && document.querySelectorAll('.sweep .line').length > 0",
            json!(name)
        );
        wait(page, &format!("{name} is shown"), &is_shown)?;
    }
    has_text(page, "<b>connection refused</b>")?;
    open(page, "sweeps/nqn.a/gone")?;
    has_text(page, "This sweep is no longer kept")
}

/// Eight lines in colours and shapes that their legend has, moments that are said, and nothing that became markup.
pub(super) fn pictures(page: &mut Page<'_>, _set: &Set) -> Result<(), String> {
    enter(page)?;
    open(page, "sweeps")?;
    wait(page, "there are lines", "document.querySelectorAll('figure .line').length === 16")?;
    let found = page.ask(
        "(figure => [figure.querySelector('h3').textContent, figure.querySelector('.chart .label').textContent,
            figure.querySelectorAll('.legend li').length, figure.querySelectorAll('.point').length,
            new Set(Array.from(figure.querySelectorAll('.line')).map(line => getComputedStyle(line).stroke)).size])
            (document.querySelector('figure'))",
    )?;
    let wanted = json!(["IOPS by outstanding I/O", "outstanding commands", 8, 56, 8]);
    demand(found == wanted, || format!("the first picture: {found}"))?;
    // A legend has the colour and the shape of its line.
    let alike = page.ask(
        "Array.from(document.querySelectorAll('figure:first-of-type .legend li')).every((entry, at) => {
            const group = Array.from(entry.closest('figure').querySelectorAll('.chart g.s' + at)).pop();
            return getComputedStyle(entry.querySelector('svg')).fill === getComputedStyle(group.querySelector('.line')).stroke
                && entry.querySelector('path').getAttribute('d') === group.querySelector('.point').getAttribute('d'); })",
    )?;
    demand(alike == true, || "a legend is not like its line".to_owned())?;
    page.tab_to("element.matches('figure svg.chart')")?;
    let said = |page: &mut Page<'_>| page.ask("document.getElementById('said').textContent");
    page.press(RIGHT)?;
    let first = said(page)?;
    let is_first =
        first.as_str().is_some_and(|text| text.starts_with("outstanding commands 1: 1 queues<i> 20.0 k"));
    demand(is_first, || format!("{first} is said"))?;
    page.press(LEFT)?;
    page.press(RIGHT)?;
    let second = said(page)?;
    demand(second.as_str().is_some_and(|text| text.starts_with("outstanding commands 2:")), || {
        format!("{second} is said")
    })?;
    let strays = page.ask("document.querySelectorAll('#view b, #view i, #view img').length")?;
    demand(strays == 0, || "a name has become markup".to_owned())
}

/// An operator's sweep of a real target, seen by a reader, who may not publish one.
pub(super) fn real(page: &mut Page<'_>, set: &Set) -> Result<(), String> {
    enter_real(page, set, &set.real.token)?;
    open(page, "sweeps")?;
    has_text(page, "No sweep has been published here")?;
    let end = |sweep| Answer::of_program_within(sweep, &["selvedge", "sweep"], SWEEP)?.well();
    let said = end(set.real.sweep("refused", &set.real.token, ["1,4", "1,2"])?)?.errors;
    let is_warned =
        said.matches("cannot publish the sweep").count() == 1 && said.contains("it takes the role operate");
    demand(is_warned, || format!("a reader's sweep says {said}"))?;
    let sweep = set.real.sweep("<b>real</b>", &set.real.operator, ["1,4", "1,2"])?;
    for text in ["running", "of 4 measurements", "left; measuring depth"] {
        has_text(page, text)?;
    }
    let said = end(sweep)?.errors;
    demand(!said.contains("cannot publish"), || format!("an operator's sweep says {said}"))?;
    for text in ["<b>real</b>", "complete", "4 of 4 measurements", "depth 4, 2 queues"] {
        has_text(page, text)?;
    }
    wait(page, "there are lines", "document.querySelectorAll('figure .line').length === 4")?;
    let names = page.ask("document.querySelectorAll('#view tbody th a').length")?;
    demand(names == 1, || format!("{names} sweeps are shown"))
}

/// Pictures of a real sweep that has measured most of its points.
pub(super) fn photograph(page: &mut Page<'_>, set: &Set, folder: &Path) -> Result<(), String> {
    enter_real(page, set, &set.real.token)?;
    open(page, "sweeps")?;
    let sweep = set.real.sweep("nightly", &set.real.operator, ["1,4,16,64", "1,2,4"])?;
    has_text(page, "running")?;
    let is_far = "/(8|9|10|11) of 12 measurements/.test(document.getElementById('view').textContent)";
    wait(page, "most points are measured", is_far)?;
    for (scheme, width) in [("light", 1280), ("dark", 1280), ("light", 360), ("dark", 360)] {
        page.set_width(width)?;
        page.set_media("screen", scheme)?;
        let file = folder.join(format!("sweeps-real-{scheme}-{width}.png"));
        page.photograph(&file)?;
        println!("{}", file.display());
    }
    Answer::of_program_within(sweep, &["selvedge", "sweep"], SWEEP)?.well().map(drop)
}
