//! Checks of what the views say: all that the target tells, by every way through it, and nothing of it as markup.

use serde_json::json;

use super::super::demand;
use super::super::page::Page;
use super::fixture::{DISKS, HOSTILE, HOSTS, MARKUP, longest};
use super::packet_paths::{FLOWS, INTERFACE};
use super::real::NQN;
use super::{LIVE, Set, VIEWS, enter, open, show_token, wait};

/// Field with the stage that the heat map is of.
pub(super) const STAGES: &str = "Array.from(document.querySelectorAll('#view select'))
    .find(select => select.labels[0].textContent.startsWith('Time in'))";

/// Waits until the view has this text.
pub(super) fn has_text(page: &mut Page<'_>, text: &str) -> Result<(), String> {
    let shown = format!("document.getElementById('view').textContent.includes({})", json!(text));
    wait(page, &format!("{text:?} is shown"), &shown)
}

/// Checks that every view has its data.
pub(super) fn all(page: &mut Page<'_>, _set: &Set) -> Result<(), String> {
    enter(page)?;
    let health = page.ask("document.getElementById('health').dataset.level + document.title")?;
    demand(health == "criticalOverview – Selvedge console", || format!("the health is {health}"))?;
    for text in [
        "81.",
        "namespace 3 takes no writes",
        "1,000 controllers, 1,000 queues",
        "1 of the first 4 not ready",
        "p99 ≤ 1.02 ms",
    ] {
        has_text(page, text)?;
    }
    // Time without samples is a gap, not a line.
    wait(
        page,
        "a line has a gap",
        "document.querySelector('.line.s0').getAttribute('d').split('M').length >= 3",
    )?;
    open(page, "findings")?;
    for text in [
        "limits now, about 40 %",
        "iops 2.00 k",
        "Raise the limit, if the host may have more.",
        "--iops none --bw none",
        "may cost",
        "over the 10.0 s before",
        "selvedge doctor, on this machine",
    ] {
        has_text(page, text)?;
    }
    open(page, "subsystems")?;
    for text in [DISKS, MARKUP, "62.", "The first 4 of 4096 namespaces are listed"] {
        has_text(page, text)?;
    }
    latency(page)?;
    open(page, "limits")?;
    for text in ["IOPS 2.00 k, all 210 MB/s", "40 % of commands", "not allowed", "450 µs"] {
        has_text(page, text)?;
    }
    open(page, "paths")?;
    for text in ["1 of 2", "10.0.1.1:4420", &format!("200 of {HOSTS}")] {
        has_text(page, text)?;
    }
    gateways(page)?;
    locations(page)?;
    topology(page)?;
    open(page, "audit")?;
    for text in [
        "2 records, the latest; older ones",
        "refused connect, and 3 before it",
        "token team-a",
        "namespaces/2",
    ] {
        has_text(page, text)?;
    }
    // An address that names no view leads to the first one.
    page.ask("location.hash = '#constructor'")?;
    has_text(page, "Reactors")
}

/// Checks the heat map of the whole command, and of its stages.
fn latency(page: &mut Page<'_>) -> Result<(), String> {
    open(page, "latency")?;
    has_text(page, "at the storage")?;
    let shades = "Array.from(document.querySelectorAll('.cell')).filter(c => c.getAttribute('d')).length";
    wait(page, "there is heat", &format!("{shades} >= 4"))?;
    let options = page.ask(&format!("Array.from({STAGES}.options, option => option.text).join()"))?;
    demand(options == "whole command,storage,limits,receive,buffer,others", || {
        format!("the stages are {options}")
    })?;
    let choose = |page: &mut Page<'_>, stage: &str| {
        page.ask(&format!(
            "(select => {{ select.value = '{stage}'; select.dispatchEvent(new Event('change')); }})({STAGES})"
        ))
    };
    let text = |part: &str| format!("document.querySelector('#view figure {part}').textContent");
    // Limits hold back some of the commands, all for as long; in an hour their number changes.
    choose(page, "limits")?;
    wait(
        page,
        "there is heat of limits, in one row",
        &format!(
            "{} === 'Latency over time, limits: delayed by limits' && {}.includes('IOPS, p50 ≤ 256 µs, p99 ≤ 256 µs') && {shades} >= 1
                && new Set(Array.from(document.querySelectorAll('.cell'), cell => cell.getAttribute('d') ?? '')
                    .flatMap(path => Array.from(path.matchAll(/M[\\d.]+ ([\\d.]+)/g), found => found[1]))).size === 1",
            text("h3"),
            text(".reading")
        ),
    )?;
    let picture = "document.querySelector('#view figure svg')";
    page.ask(&format!("{picture}.dispatchEvent(new KeyboardEvent('keydown', {{ key: 'Home' }}))"))?;
    wait(
        page,
        "a histogram that is not kept is not called empty",
        &format!("{}.includes('not kept for this step')", text(".reading")),
    )?;
    page.ask(&format!("{picture}.dispatchEvent(new Event('blur'))"))?;
    choose(page, "buffer")?;
    wait(
        page,
        "a stage without commands has no heat",
        &format!("{}.includes('no commands in this stage') && {shades} === 0", text(".reading")),
    )?;
    choose(page, "")?;
    wait(
        page,
        "the whole command is back",
        &format!("{} === 'Latency over time' && {shades} >= 4", text("h3")),
    )
}

/// Checks the paths of connections' packets.
fn topology(page: &mut Page<'_>) -> Result<(), String> {
    open(page, "topology")?;
    for text in [
        &format!("{FLOWS} connections"),
        "shares its receive queue, reactor is on another CPU",
        "Free: queues",
        "nvme0 qid 7",
        &HOSTILE.replace('\u{202e}', "\\u202e"),
    ] {
        has_text(page, text)?;
    }
    Ok(())
}

/// Namespaces of a group of gateways, some of which are not served at their location.
fn locations(page: &mut Page<'_>) -> Result<(), String> {
    open(page, &format!("subsystems/{}", DISKS.replace(':', "%3A")))?;
    let cells =
        "Array.from(document.querySelectorAll('#view tbody tr')).slice(0, 3).map(row => row.cells[4])";
    let shown = format!(
        "{cells}.map(cell => cell?.textContent + (cell?.querySelector('.mark') ? '!' : '')).join() ===
            'west<i>, served from east!,east,west<i>, not served!'"
    );
    wait(page, "each namespace has its location, marked where it is served elsewhere", &shown)
}

/// A group of gateways, and what has happened there.
fn gateways(page: &mut Page<'_>) -> Result<(), String> {
    open(page, "gateways")?;
    for text in [
        "silent",
        "no gateway",
        "handing over",
        "[fd00::2]:4420",
        "shared state reachable, version 17",
        "gateway b<i> sent no heartbeat; others take over its groups",
        "group 2: served by a, takeover took 2.8 s",
        "group 2: not served",
        "gateway b<i> was drained",
        "east, not that of all its namespaces",
        "west<i>, not served",
    ] {
        has_text(page, text)?;
    }
    // Two groups, one of which moved there and back.
    wait(
        page,
        "there is a time line",
        "document.querySelectorAll('.chart rect.area').length === 4 && document.querySelectorAll('.chart rect.way').length === 2",
    )
}

/// Subsystem, host, queues, and back; and one host found among all.
pub(super) fn ways(page: &mut Page<'_>, _set: &Set) -> Result<(), String> {
    enter(page)?;
    open(page, "subsystems")?;
    has_text(page, DISKS)?;
    page.ask(&format!(
        "Array.from(document.querySelectorAll('#view a')).find(a => a.textContent === {}).click()",
        json!(DISKS)
    ))?;
    has_text(page, "failed")?;
    // A thousand hosts are not a thousand rows; words find one.
    let rows = "document.querySelectorAll('#view > div > section:last-of-type tbody tr').length";
    wait(page, "two hundred hosts are shown", &format!("{rows} === 200"))?;
    page.ask("Array.from(document.querySelectorAll('#view input')).pop().focus()")?;
    page.browser.call("Input.insertText", &json!({"text": "uuid:000003e7"}))?;
    wait(page, "one host is found", &format!("{rows} === 1"))?;
    page.ask("document.querySelector('#view > div > section:last-of-type tbody a').click()")?;
    has_text(page, "controller 1000, admin")?;
    has_text(page, "10.0.3.249:40001")?;
    page.ask("document.querySelector('.crumbs a').click()")?;
    has_text(page, MARKUP)
}

/// Names are text in places of their own, whole, and none has become an element.
pub(super) fn names(page: &mut Page<'_>, _set: &Set) -> Result<(), String> {
    enter(page)?;
    let shown = HOSTILE.replace('\u{202e}', "\\u202e");
    open(page, "findings")?;
    wait(page, "there are causes", "document.querySelectorAll('.causes li').length === 3")?;
    let causes = page.ask("document.querySelector('.causes').textContent")?;
    let is_text = |name: &str| causes.as_str().is_some_and(|causes| causes.contains(name));
    demand(is_text(&shown) && is_text("<b>controller 1</b>"), || {
        format!("a name is not shown as it is: {causes}")
    })?;
    let subsystem = format!("subsystems/{}", DISKS.replace(':', "%3A"));
    let tables = VIEWS.into_iter().filter(|view| !matches!(*view, "overview" | "changes"));
    for view in tables.chain([&*subsystem]) {
        open(page, view)?;
        wait(page, "there are tables", "document.querySelector('#view table, #view ol')")?;
        let strays = page.ask(
            "document.querySelectorAll('img, i, #view b, iframe, object').length + Number(window.hurt ?? 0)",
        )?;
        demand(strays == 0, || format!("{view}: a name has become markup"))?;
        let turned =
            page.ask("/[\\u202a-\\u202e\\u2066-\\u2069]/.test(document.documentElement.textContent)")?;
        demand(turned == false, || format!("{view}: a name turns the text beside it"))?;
    }
    open(page, "paths")?;
    for name in [&shown, &longest()] {
        page.ask("document.querySelector('#view input').value = ''")?;
        page.ask("document.querySelector('#view input').focus()")?;
        page.browser.call("Input.insertText", &json!({"text": name}))?;
        let cell = format!(
            "(cells => cells.length === 1 && cells[0].textContent === {} && cells[0].querySelector('bdi') !== null)
                (document.querySelectorAll('#view tbody th'))",
            json!(name)
        );
        wait(page, &format!("{name} is found, as text"), &cell)?;
        let style = page.ask("getComputedStyle(document.querySelector('#view tbody th bdi')).unicodeBidi")?;
        demand(style == "isolate", || format!("the direction of a name is {style}"))?;
    }
    Ok(())
}

/// The tuner's picture is there with all its lines, by shape and colour, and nothing in it that runs or is fetched.
pub(super) fn picture(page: &mut Page<'_>, _set: &Set) -> Result<(), String> {
    enter(page)?;
    open(page, "topology")?;
    // Each leads to a queue and to a worker, but for the admin queue, whose worker is unknown.
    let flows = format!("document.querySelectorAll('svg.courses .flow .line').length >= {}", 2 * FLOWS - 1);
    wait(page, "the picture is drawn", &flows)?;
    let parts = page.ask(
        "Array.from(new Set(Array.from(document.querySelectorAll('svg.courses, svg.courses *'), part => part.localName))).sort().join()",
    )?;
    demand(parts == "g,path,rect,svg,text,title", || format!("the picture has {parts}"))?;
    let strays = page.ask(
        "Array.from(document.querySelectorAll('svg.courses *')).flatMap(part => part.getAttributeNames())
            .filter(name => name.startsWith('on') || ['style', 'href', 'id'].includes(name)).length + Number(window.hurt ?? 0)",
    )?;
    demand(strays == 0, || format!("{strays} attributes that do not belong there"))?;
    let shown = INTERFACE.replace('\u{202e}', "\\u202e");
    for place in ["svg.courses", "#view tbody", ".findings"] {
        let content = page.ask(&format!("document.querySelector('{place}').textContent"))?;
        demand(content.as_str().is_some_and(|content| content.contains(&shown)), || {
            format!("{place} does not tell {shown}")
        })?;
    }
    // What is bad is so for those who see no colours, too.
    let crosses = "document.querySelectorAll('svg.courses .cross').length";
    let bad = "document.querySelectorAll('svg.courses .line.bad').length";
    demand(page.ask(&format!("{bad} > 30 && {crosses} === {bad}"))? == true, || {
        "bad lines have no cross".to_owned()
    })
}

/// The console of a real target with a host that reads and writes.
pub(super) fn real(page: &mut Page<'_>, set: &Set) -> Result<(), String> {
    let _host = set.real.host()?;
    page.open_url(&set.real.url())?;
    show_token(page, &set.real.token)?;
    wait(page, "it is live", LIVE)?;
    for tile in ["Read", "Write"] {
        let reads = format!(
            "parseFloat(Array.from(document.querySelectorAll('.tile')).find(t => t.querySelector('dt').textContent === '{tile}')
                .querySelector('.value').textContent) > 0"
        );
        wait(page, &format!("{tile} has IOPS"), &reads)?;
    }
    let level = page.ask("document.getElementById('health').dataset.level")?;
    demand(level == "ok", || format!("the health is {level}"))?;
    // What it has seen becomes a picture.
    wait(page, "there is a line", "document.querySelector('.line.s0').getAttribute('d').length > 20")?;
    // It is looked at twice, a second apart, and nothing is wrong with it.
    open(page, "findings")?;
    has_text(page, "0 findings")?;
    for text in ["Nothing found.", "selvedge doctor, on this machine"] {
        has_text(page, text)?;
    }
    open(page, &format!("subsystems/{}", NQN.replace(':', "%3A")))?;
    has_text(page, "memory")?;
    wait(
        page,
        "a host is connected",
        "document.querySelectorAll('#view > div > section:last-of-type tbody tr').length === 1",
    )?;
    open(page, "latency")?;
    // Memory answers at once: all is in the first bucket, and no stage takes time.
    wait(page, "there is heat", "document.querySelector('.cell.h7').getAttribute('d').length > 0")?;
    has_text(page, "commands on memory complete at once")?;
    open(page, "topology")?;
    for text in ["their packets use the loopback", "queue 1", "the sender's", "on this machine"] {
        has_text(page, text)?;
    }
    open(page, "gateways")?;
    has_text(page, "not in a gateway group")?;
    // This token may read, and no more.
    open(page, "audit")?;
    has_text(page, "it takes the role admin")
}
