//! Checks of changes from the console, at a real target: each kind is shown before it is made, and made as it was shown.

use std::path::Path;

use serde_json::{Value, json};

use super::super::demand;
use super::super::page::Page;
use super::fixture::MARKUP;
use super::real::NQN;
use super::{LIVE, Set, enter, open, show_token, wait};

const HOST: &str = "nqn.2026-01.org.example:it's<i>mine</i>";

/// A kind of change, what is typed, words of what it comes to, and its command.
struct Change {
    kind: &'static str,
    typed: &'static [(&'static str, &'static str)],
    words: &'static str,
    command: String,
}

fn changes() -> Vec<Change> {
    let change = |kind, typed, words, command: &str| Change {
        kind,
        typed,
        words,
        command: format!("selvedge {}", command.replace("NQN", NQN)),
    };
    let host = "'nqn.2026-01.org.example:it'\\''s<i>mine</i>'";
    vec![
        change("allow", &[("host", HOST)], "added to the allowed hosts", &format!("host allow NQN {host}")),
        change("deny", &[("host", HOST)], "removed from the allowed hosts", &format!("host deny NQN {host}")),
        change(
            "add",
            &[("backend", "memory"), ("size", "1m")],
            "namespace 2 is added",
            "namespace add NQN memory:1m",
        ),
        change(
            "limit",
            &[("nsid", "2"), ("iops", "500"), ("bw", "10m")],
            "namespace 2",
            "namespace set NQN 2 --iops 500 --bw 10m",
        ),
        change(
            "limit",
            &[("nsid", "2"), ("iops", "none"), ("bw", "")],
            "namespace 2",
            "namespace set NQN 2 --iops none",
        ),
        change("resize", &[("nsid", "2"), ("size", "2m")], "1 MiB → 2 MiB", "namespace resize NQN 2 2m"),
        change(
            "ana",
            &[("group", "1"), ("state", "non-optimized")],
            "ANA group 1",
            "ana set NQN 1 non-optimized",
        ),
        change("ana", &[("group", "1"), ("state", "optimized")], "ANA group 1", "ana set NQN 1 optimized"),
        change("remove", &[("nsid", "2")], "namespace 2 is removed", "namespace remove NQN 2"),
    ]
}

/// Comes in at the real target.
pub(super) fn enter_real(page: &mut Page<'_>, set: &Set, token: &str) -> Result<(), String> {
    page.open_url(&set.real.url())?;
    page.ask("sessionStorage.clear()")?;
    page.open_url(&set.real.url())?;
    show_token(page, token)?;
    wait(page, "it is live", LIVE)
}

/// Types or chooses as a person does.
fn fill(page: &mut Page<'_>, key: &str, value: &str) -> Result<(), String> {
    let field = format!("document.getElementById('change-{key}')");
    let there = format!(
        "{field} && ({field}.tagName === 'INPUT' || Array.from({field}.options).some(o => o.value === {}))",
        json!(value)
    );
    wait(page, &format!("{key} can be {value}"), &there)?;
    page.ask(&format!(
        "(() => {{ const field = {field}; field.value = {}; field.dispatchEvent(new Event('input', {{ bubbles: true }})); }})()",
        json!(value)
    ))?;
    Ok(())
}

/// All that the target serves, as the operator's token sees it.
fn served(page: &mut Page<'_>) -> Result<Value, String> {
    page.ask(
        "fetch('/v1/subsystems', { headers: { Authorization: 'Bearer ' + sessionStorage.token } }).then(answer => answer.json())",
    )
}

fn show(page: &mut Page<'_>, change: &Change) -> Result<(), String> {
    open(page, &format!("changes/{}", change.kind))?;
    for (key, value) in change.typed {
        fill(page, key, value)?;
    }
    page.ask("document.querySelector('form.change button').click()")?;
    Ok(())
}

/// A picture of one that is shown.
pub(super) fn photograph(page: &mut Page<'_>, set: &Set, folder: &Path) -> Result<(), String> {
    page.set_width(1280)?;
    page.set_media("screen", "light")?;
    enter_real(page, set, &set.real.operator)?;
    open(page, "changes/limit")?;
    for (key, value) in [("nsid", "1"), ("iops", "5000"), ("bw", "200m")] {
        fill(page, key, value)?;
    }
    page.ask("document.querySelector('form.change button').click()")?;
    wait(page, "it is shown", "document.querySelector('.outcome button')?.checkVisibility()")?;
    let file = folder.join("changes-shown.png");
    page.photograph(&file)?;
    println!("{}", file.display());
    Ok(())
}

/// Each change is shown, is not made by that, and is what was shown when it is.
pub(super) fn all(page: &mut Page<'_>, set: &Set) -> Result<(), String> {
    enter_real(page, set, &set.real.operator)?;
    for change in changes() {
        let Change { kind, words, command, .. } = &change;
        let before = served(page)?;
        show(page, &change)?;
        let shown = format!(
            "(list => list.includes({}))(document.querySelector('.outcome:not([hidden]) ul')?.textContent ?? '')",
            json!(words)
        );
        wait(page, &format!("{kind}: it comes to {words:?}"), &shown)?;
        let found = page.ask("document.querySelector('.outcome code').textContent")?;
        demand(found == json!(command), || format!("{kind}: the command is {found}, and not {command}"))?;
        demand(served(page)? == before, || format!("{kind} was made before it was asked for"))?;
        page.ask("document.querySelector('.outcome button').click()")?;
        wait(
            page,
            &format!("{kind}: it is done"),
            "document.getElementById('outcome-title').textContent === 'Done'",
        )?;
        demand(served(page)? != before, || format!("{kind} has changed nothing"))?;
    }
    // An edit withdraws the preview of the former text.
    show(page, &changes()[0])?;
    wait(page, "it is shown", "document.querySelector('.outcome button')?.checkVisibility()")?;
    fill(page, "host", "nqn.2026-01.org.example:other")?;
    wait(page, "it is withdrawn", "!document.querySelector('.outcome button').checkVisibility()")?;
    let strays = page.ask("document.querySelectorAll('#view i').length")?;
    demand(strays == 0, || "a name has become markup".to_owned())
}

/// A gateway is let serve again from where it is shown, in a made-up group.
pub(super) fn gateways(page: &mut Page<'_>, set: &Set) -> Result<(), String> {
    enter(page)?;
    open(page, "gateways")?;
    let link = "Array.from(document.querySelectorAll('#view td a')).find(a => a.textContent === 'resume')";
    wait(page, "it can be resumed", link)?;
    page.ask(&format!("{link}.click()"))?;
    let chosen = "document.querySelector('#change-gateway')?.value === 'b<i>'";
    wait(page, "the gateway is chosen", chosen)?;
    page.ask("document.querySelector('form.change button').click()")?;
    let command = "document.querySelector('.outcome:not([hidden]) code')?.textContent";
    wait(page, "the command is shown", &format!("{command} === \"selvedge gateways resume 'b<i>'\""))?;
    let asked = set.stage.asked();
    let path = "/v1/gateways/b%3Ci%3E".to_owned();
    demand(!asked.contains(&path), || "it was resumed before it was asked for".to_owned())?;
    page.ask("document.querySelector('.outcome button').click()")?;
    wait(page, "it is done", "document.getElementById('outcome-title').textContent === 'Done'")?;
    let asked = set.stage.asked();
    demand(asked.contains(&path), || format!("what was asked for is {asked:?}"))?;
    let strays = page.ask("document.querySelectorAll('#view i').length")?;
    demand(strays == 0, || "a name has become markup".to_owned())
}

/// Checks the view of a reader without rights, and changes that the target refuses.
pub(super) fn refused(page: &mut Page<'_>, set: &Set) -> Result<(), String> {
    let says = |page: &mut Page<'_>, text: &str| {
        let alert = "document.querySelector('#view [role=alert]:not([hidden])')?.textContent ?? ''";
        wait(page, &format!("it says {text:?}"), &format!("({alert}).includes({})", json!(text)))
    };
    enter_real(page, set, &set.real.token)?;
    let before = served(page)?;
    show(page, &changes()[0])?;
    says(page, "it takes the role operate")?;
    demand(served(page)? == before, || "a reader has changed something".to_owned())?;
    enter_real(page, set, &set.real.operator)?;
    let wrong = Change { typed: &[("backend", "memory"), ("size", "1q")], ..changes().swap_remove(2) };
    show(page, &wrong)?;
    says(page, "size")?;
    let gone = Change { kind: "deny", ..changes().swap_remove(1) };
    show(page, &gone)?;
    says(page, "is not on the list")?;
    // A made-up target has a subsystem whose name is markup: it can be chosen, as text.
    page.open_url(&set.stage.url())?;
    enter(page)?;
    open(page, "changes")?;
    fill(page, "subsystem", MARKUP)?;
    let chosen = page.ask("document.querySelector('#change-subsystem').selectedOptions[0].textContent")?;
    demand(chosen == json!(MARKUP), || format!("it is shown as {chosen}"))
}
