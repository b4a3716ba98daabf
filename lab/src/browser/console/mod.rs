//! The console in the browser: every view of a made-up target with a thousand hosts, and of a real
//! one; its messages when a user has no right to look, a token expires, or the target goes away.

mod changes;
mod fixture;
mod looks;
mod made_sweeps;
mod packet_paths;
mod real;
mod stage;
mod sweeps;
mod use_of;
mod views;

use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::devtools::Browser;
use super::page::Page;
use super::{demand, grievance};
use crate::answer::has_failed;
use packet_paths::PacketPaths;
use real::Real;
use stage::{Stage, TOKEN};

/// Time limit for actions of a page, even on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);
const LOOK: Duration = Duration::from_millis(50);

/// The views, by the names that the address has.
const VIEWS: [&str; 11] = [
    "overview",
    "findings",
    "subsystems",
    "latency",
    "limits",
    "paths",
    "gateways",
    "sweeps",
    "topology",
    "audit",
    "changes",
];

/// Shared state of the checks.
struct Set {
    stage: Stage,
    real: Real,
}

type Check = fn(&mut Page<'_>, &Set) -> Result<(), String>;

/// In the order in which they run. Each begins with a page that was just opened and knows no token.
const CHECKS: [(&str, Check); 19] = [
    ("a page without a token asks for nothing", use_of::stranger),
    ("a refused user sees the reason, and may try another token", use_of::refusals),
    ("each view shows what the target tells", views::all),
    ("a subsystem leads to its hosts, and a host to its queues", views::ways),
    ("names are text, whatever is in them", views::names),
    ("a picture is redrawn, without foreign parts", views::picture),
    ("nothing is wider than the window", looks::width),
    ("colours differ enough, light and dark", looks::contrast),
    ("everything has a name", looks::tree),
    ("keys reach every view, sort tables and move through time", use_of::keys),
    ("a token that expires is said, and another one goes on", use_of::expiry),
    ("a target that goes away is said, and comes back by itself", use_of::absence),
    ("a real target is shown live", views::real),
    ("a sweep tells how far it is, draws its points, and is not taken to run when it is silent", sweeps::all),
    ("a sweep's pictures are read by keys, and its names are text", sweeps::pictures),
    ("a sweep that is published to a real target is shown while it runs", sweeps::real),
    ("a change is shown before it is made, with its command", changes::all),
    ("a gateway is let serve again, from where it is shown", changes::gateways),
    ("a change without the right is refused, and nothing changes", changes::refused),
];

/// Looks at the console of `program`; how many checks failed.
pub(super) fn look(
    program: &str,
    folder: &Path,
    chromium: &str,
    with_pictures: bool,
) -> Result<usize, String> {
    println!("console");
    let folder = folder.join("console");
    std::fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let real = Real::start(program, &folder)?;
    let set =
        Set { stage: Stage::open(real.control, &real.version, PacketPaths::made(program, &folder)?)?, real };
    let mut browser = Browser::start(chromium, &folder)?;
    let mut page = Page { browser: &mut browser };
    page.listen()?;
    let mut problems = 0;
    for (name, check) in CHECKS {
        let before = page.browser.events().len();
        let result = fresh(&mut page, &set)
            .and_then(|()| check(&mut page, &set))
            .and_then(|()| quiet(&page.browser.events()[before..], &set));
        if has_failed(name, &result) {
            problems += 1;
            let picture = folder.join(format!("failed-{problems}.png"));
            if page.photograph(&picture).is_ok() {
                println!("        {}", picture.display());
            }
        }
    }
    if with_pictures {
        photograph(&mut page, &set, &folder)?;
    }
    Ok(problems)
}

/// Opens a page in a tab without stored data.
fn fresh(page: &mut Page<'_>, set: &Set) -> Result<(), String> {
    set.stage.set_gone(false);
    set.stage.set_expired(false);
    page.set_width(1280)?;
    page.set_media("screen", "light")?;
    page.open_url(&set.stage.url())?;
    page.ask("sessionStorage.clear()")?;
    // Only what is opened now counts.
    page.open_url("about:blank")?;
    page.open_url(&set.stage.url())?;
    set.stage.asked();
    Ok(())
}

/// Types a token where it is asked for.
fn show_token(page: &mut Page<'_>, token: &str) -> Result<(), String> {
    wait(page, "it asks for a token", "!document.getElementById('login').hidden")?;
    page.ask("document.getElementById('token').focus()")?;
    page.browser.call("Input.insertText", &json!({"text": token}))?;
    page.press(super::page::ENTER)
}

/// Comes in, and waits until there is something to see.
fn enter(page: &mut Page<'_>) -> Result<(), String> {
    show_token(page, TOKEN)?;
    wait(page, "it is live", LIVE)
}

const LIVE: &str = "document.getElementById('connection').dataset.state === 'live'
    && document.getElementById('view').getAttribute('aria-busy') === 'false'";

/// Opens a view by its address.
fn open(page: &mut Page<'_>, view: &str) -> Result<(), String> {
    page.ask(&format!("location.hash = {}", json!(format!("#{view}"))))?;
    let name = view.split('/').next().unwrap_or_default();
    let is_shown = format!(
        "document.querySelector('header nav a[aria-current]')?.getAttribute('href') === '#{name}'
            && document.getElementById('view').childElementCount === 1"
    );
    wait(page, &format!("the view {view} is shown"), &is_shown)
}

/// Waits until an expression is true.
fn wait(page: &mut Page<'_>, what: &str, expression: &str) -> Result<(), String> {
    let until = Instant::now() + PATIENCE;
    while page.ask(&format!("Boolean({expression})"))? != true {
        demand(Instant::now() < until, || format!("it does not happen that {what}: {expression}"))?;
        std::thread::sleep(LOOK);
    }
    Ok(())
}

/// Checks that the page has complained only of refusals, and has asked no other server.
fn quiet(events: &[Value], set: &Set) -> Result<(), String> {
    let own = [format!("http://{}/", set.stage.address), format!("http://{}/", set.real.control)];
    for event in events {
        if event["method"] == "Network.requestWillBeSent" {
            let url = event["params"]["request"]["url"].as_str().unwrap_or_default();
            let is_own = own.iter().any(|own| url.starts_with(own));
            demand(is_own || url == "about:blank" || url.starts_with("data:"), || {
                format!("a request for {url}")
            })?;
        } else if let Some(grievance) = grievance(event) {
            // The browser's own words about an answer that is a refusal, or that did not come.
            let is_refusal = event["params"]["entry"]["source"] == "network";
            demand(is_refusal, || grievance)?;
        }
    }
    Ok(())
}

/// Pictures of each view, light and dark, wide and narrow.
fn photograph(page: &mut Page<'_>, set: &Set, folder: &Path) -> Result<(), String> {
    fresh(page, set)?;
    enter(page)?;
    for (scheme, width) in [("light", 1280), ("dark", 1280), ("light", 360), ("dark", 360)] {
        page.set_width(width)?;
        page.set_media("screen", scheme)?;
        for view in VIEWS {
            open(page, view)?;
            page.ask("new Promise(done => setTimeout(done, 300))")?;
            let file = folder.join(format!("{view}-{scheme}-{width}.png"));
            page.photograph(&file)?;
            println!("{}", file.display());
        }
    }
    sweeps::photograph(page, set, folder)?;
    changes::photograph(page, set, folder)
}
