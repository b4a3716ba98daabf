//! Checks of how the console is used: by a stranger, by keys alone, while tokens expire and targets go away.

use super::super::demand;
use super::super::page::{DOWN, ENTER, LEFT, Page, RIGHT};
use super::stage::{TOKEN, WEAK_TOKEN};
use super::views::STAGES;
use super::{LIVE, Set, VIEWS, enter, open, show_token, wait};

/// The token is asked for before the target is asked for anything: a request without one counts as a wrong try.
pub(super) fn stranger(page: &mut Page<'_>, set: &Set) -> Result<(), String> {
    wait(page, "it asks for a token", "!document.getElementById('login').hidden")?;
    let asked = set.stage.asked();
    demand(asked.is_empty(), || format!("it has asked for {asked:?}"))?;
    let focus = page.ask("document.activeElement.id")?;
    demand(focus == "token", || format!("the focus is on {focus}"))
}

/// A wrong token, one of a lesser role, and a good one.
pub(super) fn refusals(page: &mut Page<'_>, set: &Set) -> Result<(), String> {
    let reason = "document.getElementById('login-reason').textContent";
    for (token, why) in [("wrong", "is not one that is known"), (WEAK_TOKEN, "it takes the role read")] {
        show_token(page, token)?;
        wait(page, &format!("it says {why:?}"), &format!("{reason}.includes('{why}')"))?;
        let shown = page.ask("document.getElementById('view').childElementCount")?;
        demand(shown == 0, || "something is shown to a user who may not look".to_owned())?;
    }
    set.stage.asked();
    enter(page)?;
    let asked = set.stage.asked();
    demand(asked.iter().filter(|path| *path == "/v1/live").count() == 1, || {
        format!("it has asked for {asked:?}")
    })?;
    // It outlives a reload in this tab, is nowhere else, and goes when it is to.
    let kept = page.ask("[sessionStorage.token, localStorage.length, document.cookie, location.search]")?;
    demand(kept == serde_json::json!([TOKEN, 0, "", ""]), || format!("kept: {kept}"))?;
    page.open_url(&set.stage.url())?;
    wait(page, "it is live again", LIVE)?;
    page.ask("document.getElementById('forget').click()")?;
    wait(page, "it asks again", "!document.getElementById('login').hidden")?;
    let kept = page.ask("sessionStorage.length")?;
    demand(kept == 0, || "the token is kept".to_owned())
}

/// Without a pointer: each view, a table's order, a picture's moments.
pub(super) fn keys(page: &mut Page<'_>, _set: &Set) -> Result<(), String> {
    enter(page)?;
    for view in VIEWS.iter().rev() {
        page.tab_to(&format!("element.matches('header nav a[href=\"#{view}\"]')"))?;
        page.press(ENTER)?;
        wait(
            page,
            &format!("{view} is shown and has the focus"),
            &format!("location.hash === '#{view}' && document.activeElement.id === 'view'"),
        )?;
    }
    open(page, "paths")?;
    page.tab_to("element.matches('.sort') && element.textContent === 'IOPS'")?;
    for order in ["descending", "ascending"] {
        page.press(ENTER)?;
        let found = page.ask("[document.activeElement.closest('th').getAttribute('aria-sort'), document.activeElement.className]")?;
        demand(found == serde_json::json!([order, "sort"]), || format!("after a press: {found}"))?;
    }
    // Ticks come meanwhile, and the focus stays.
    page.ask("new Promise(done => setTimeout(done, 2500))")?;
    let focus = page.ask("document.activeElement.className")?;
    demand(focus == "sort", || format!("the focus is on {focus}"))?;
    // So does it on a host, whose row moves with its numbers.
    page.tab_to("element.matches('#view tbody a')")?;
    let host = page.ask("document.activeElement.textContent")?;
    let row = "Array.from(document.querySelectorAll('#view tbody tr')).indexOf(document.activeElement.closest('tr'))";
    let first = page.ask(row)?;
    wait(page, "the row moves", &format!("{row} !== {first}"))?;
    let still = page.ask("document.activeElement.textContent")?;
    demand(still == host, || format!("the focus was on {host} and is on {still}"))?;
    open(page, "latency")?;
    page.tab_to("element.matches('svg.chart')")?;
    let said = |page: &mut Page<'_>| page.ask("document.getElementById('said').textContent");
    page.press(LEFT)?;
    let first = said(page)?;
    demand(first.as_str().is_some_and(|text| text.contains("p99 ≤")), || format!("{first} is said"))?;
    page.press(LEFT)?;
    let second = said(page)?;
    demand(second != first, || format!("{second} is said again"))?;
    page.press(RIGHT)?;
    let third = said(page)?;
    demand(third != second, || format!("{third} is said again"))?;
    page.tab_to(&format!("element === {STAGES}"))?;
    page.press(DOWN)?;
    // The picture is called after the stage, and read aloud.
    wait(
        page,
        "the heat of a stage is said",
        "document.getElementById('said').textContent.startsWith('Latency over time, storage: at the storage: now: ')
            && document.querySelector('#view svg.chart').getAttribute('aria-label').startsWith('Latency over time, storage')
            && document.activeElement.value === 'storage'",
    )
}

/// The stream ends, and what was good is refused.
pub(super) fn expiry(page: &mut Page<'_>, set: &Set) -> Result<(), String> {
    enter(page)?;
    set.stage.set_expired(true);
    wait(
        page,
        "it says that the token has expired",
        "document.getElementById('login-reason').textContent.includes('has expired at 2026')",
    )?;
    let shown = page.ask("document.getElementById('view').childElementCount")?;
    demand(shown == 0, || "it still shows the target".to_owned())?;
    set.stage.set_expired(false);
    enter(page)
}

/// The target is gone for a while.
pub(super) fn absence(page: &mut Page<'_>, set: &Set) -> Result<(), String> {
    enter(page)?;
    open(page, "paths")?;
    set.stage.set_gone(true);
    wait(page, "it says so", "document.getElementById('connection').dataset.state === 'lost'")?;
    let found = page.ask(
        "[document.getElementById('connection').textContent.startsWith('Not live since '), document.body.className,
            document.getElementById('trouble').textContent, document.querySelectorAll('#view tbody tr').length]",
    )?;
    let wanted = serde_json::json!([true, "stale", "The target does not respond; retrying", 200]);
    demand(found == wanted, || format!("{found}"))?;
    set.stage.set_gone(false);
    wait(page, "it comes back", LIVE)?;
    let hidden = page.ask("document.getElementById('trouble').hidden")?;
    demand(hidden == true, || "the trouble is still shown".to_owned())
}
