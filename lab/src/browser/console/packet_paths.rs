//! The packet paths of a large made-up machine, as the program itself tells and draws them, with names of hosts and interfaces
//! that are hostile, and in the picture what no picture of ours has. It keeps out how they are served.

use std::path::Path;

use serde_json::{Value, json};
use topology::sample;

use super::fixture::now_s;
use crate::answer::Answer;

/// A name that Linux lets an interface have: markup, and a character that turns the direction of text.
pub(super) const INTERFACE: &str = "e<i>\u{202e}0";
/// The I/O queues of the machine, and an admin queue.
pub(super) const FLOWS: usize = 33;

/// Parts that would run, be fetched or become text if a picture were used unchanged. The page's
/// policy refuses handlers and styles before, with a complaint that the page did not cause.
const HOSTILE_PARTS: &str = "<script>window.hurt = 1</script>\
    <image href=\"//evil.example/a\"/>\
    <foreignObject><iframe xmlns=\"http://www.w3.org/1999/xhtml\" src=\"//evil.example\"/></foreignObject>\
    <a href=\"javascript:alert(1)\"><text>x</text></a>\
    <g class=\"flow\"><title>\u{202e}a<b/></title></g>";

/// The answers to those who ask for them.
#[derive(Clone)]
pub(super) struct PacketPaths {
    pub(super) shown: Value,
    pub(super) picture: String,
}

impl PacketPaths {
    /// As `program` sees the machine.
    pub(super) fn made(program: &str, folder: &Path) -> Result<Self, String> {
        let machine = sample::cpu72(FLOWS as u32 - 1);
        let (recording, picture) = (folder.join("machine.recording"), folder.join("machine.svg"));
        let failed = |error: std::io::Error| format!("{}: {error}", folder.display());
        std::fs::write(&recording, sample::recording(&machine).to_string()).map_err(failed)?;
        let (recording, file) = (recording.display().to_string(), picture.display().to_string());
        let show = [program, "tune", "show", "--sysroot", &recording, "--picture", &file, "-o", "json"];
        let answer = Answer::of(&show)?;
        let mut shown: Value = serde_json::from_str(&answer.output)
            .map_err(|error| format!("tune show: {error}: {}", answer.errors))?;
        for flow in shown["topology"]["flows"].as_array_mut().ok_or("there are no flows")? {
            flow["owner"] = json!({ "kind": "target", "pid": 7 });
            flow["controller"] = "cntlid 1".into();
        }
        shown["time_s"] = (now_s() as u64).into();
        shown["flows_omitted"] = 0.into();
        let quoted = json!(INTERFACE).to_string();
        let shown = shown.to_string().replace("eth0", quoted.trim_matches('"'));
        let escaped = INTERFACE.replace('<', "&lt;").replace('>', "&gt;");
        let picture = bare(&std::fs::read_to_string(picture).map_err(failed)?);
        let picture = picture.replace("eth0", &escaped).replace("</svg>", &format!("{HOSTILE_PARTS}</svg>"));
        let shown = serde_json::from_str(&shown).map_err(|error| format!("tune show: {error}"))?;
        Ok(Self { shown, picture })
    }
}

/// The picture without its style, as a target gives it to a page that has it.
fn bare(picture: &str) -> String {
    let rest = picture.split_once("</style>").and_then(|(_, rest)| rest.split_once('\n'));
    let (head, rest) = (picture.split("<style>").next().unwrap_or_default(), rest.unwrap_or_default().1);
    format!("{head}{rest}")
}
