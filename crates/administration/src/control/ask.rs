//! One request, taken apart: names from the path, the query, the body; and one answer. It decides nothing.

use std::cell::RefCell;
use std::sync::Arc;

use engine::target::{Change, FabricConfig, SubsystemConfig};
use serde::Serialize;
use serde::de::{DeserializeOwned, IgnoredAny};
use serde_json::Value;

use super::access::Caller;
use super::administration::{Administration, Permissions};
use super::live::viewer::Viewer;
use super::refusal::Refusal;
use super::tasks::Task;
use super::text_pieces::TextPieces;

/// A request.
pub(super) struct Ask<'a> {
    pub(super) administration: &'a Arc<Administration>,
    /// Sender of the request, with its rights.
    pub(super) caller: &'a Caller,
    /// The variable parts of the path, decoded.
    pub(super) path: &'a [(String, String)],
    pub(super) query: &'a str,
    pub(super) body: &'a [u8],
    /// Changes made, for the audit log.
    pub(super) record: RefCell<Vec<Value>>,
    /// Set for a preview, which changes nothing: receives the change that would be made.
    pub(super) preview: Option<&'a RefCell<Option<Rehearsed>>>,
}

/// A change that was not made.
pub(super) enum Rehearsed {
    /// Changes of the configuration, the configuration after them, and effects on other objects, in
    /// words.
    Served { changes: Vec<Change>, wanted: FabricConfig, beside: Vec<String> },
    /// Effects of a change of something else, in words.
    Else(Vec<String>),
}

/// The media type of pictures.
pub(super) const PICTURE: &str = "image/svg+xml";

/// An answer to a request that was not refused.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) status: u16,
    pub(super) location: Option<String>,
    pub(super) json: Option<Value>,
    /// A text that is not JSON, with its media type.
    pub(super) text: Option<(&'static str, String)>,
    /// The same of a text that is written as the client reads it.
    pub(super) pieces: Option<(&'static str, TextPieces)>,
    /// Stream of events, for a live viewer.
    pub(super) stream: Option<Viewer>,
}

impl Ask<'_> {
    /// Changes that `edit` would make, without making them.
    pub(super) fn rehearse(
        &self,
        permissions: Permissions,
        edit: impl FnOnce(&mut FabricConfig) -> Result<(), Refusal>,
    ) -> Result<Vec<Change>, Refusal> {
        self.administration.rehearse(permissions, |fabric| self.edit(fabric, edit))
    }

    /// Changes what is served, and keeps it.
    pub(super) fn change<T>(
        &self,
        permissions: Permissions,
        edit: impl FnOnce(&mut FabricConfig) -> Result<T, Refusal>,
    ) -> Result<(T, Vec<Change>), Refusal> {
        if let Some(preview) = self.preview {
            let mut wanted = FabricConfig::default();
            let changes = self.rehearse(permissions, |fabric| {
                edit(fabric)?;
                wanted = fabric.clone();
                Ok(())
            })?;
            preview.replace(Some(Rehearsed::Served { changes, wanted, beside: Vec::new() }));
            return Err(Refusal::not_made());
        }
        let (outcome, made) = self.administration.change(permissions, |fabric| self.edit(fabric, edit))?;
        self.record.borrow_mut().extend(made.record);
        Ok((outcome, made.changes))
    }

    /// Adds effects on other objects to a preview, once the change has passed all checks of the configuration. Without a preview,
    /// `effects` is not called; its refusal refuses the preview.
    pub(super) fn beside_rehearsed(
        &self,
        effects: impl FnOnce() -> Result<Vec<String>, Refusal>,
    ) -> Result<(), Refusal> {
        let Some(preview) = self.preview else { return Ok(()) };
        let Some(Rehearsed::Served { changes, wanted, .. }) = preview.take() else { return Ok(()) };
        let beside = effects()?;
        preview.replace(Some(Rehearsed::Served { changes, wanted, beside }));
        Ok(())
    }

    /// Edits, refuses what names something outside that its sender may not name or shuts out hosts of others, and pins the files
    /// that it names.
    fn edit<T>(
        &self,
        fabric: &mut FabricConfig,
        edit: impl FnOnce(&mut FabricConfig) -> Result<T, Refusal>,
    ) -> Result<T, Refusal> {
        let before = fabric.clone();
        let outcome = edit(fabric)?;
        self.caller.check_ports(&before, fabric)?;
        self.caller.check_names(&before, fabric)?;
        self.caller.pin_files(&before, fabric)?;
        Ok(outcome)
    }

    /// The part of the path with this name.
    pub(super) fn part(&self, name: &str) -> &str {
        self.path.iter().find(|(known, _)| known == name).map_or("", |(_, value)| value)
    }

    /// The same as a number.
    pub(super) fn number<T: std::str::FromStr>(&self, name: &str) -> Result<T, Refusal> {
        let text = self.part(name);
        text.parse().map_err(|_| {
            let refusal = Refusal::new(400, format!("`{text}` in the path is not a valid {name}"));
            refusal.about(name).hint("use a whole number, as lists of these objects show it")
        })
    }

    /// The subsystem that the path names.
    pub(super) fn subsystem<'f>(&self, fabric: &'f FabricConfig) -> Result<&'f SubsystemConfig, Refusal> {
        fabric.subsystem(self.part("nqn")).ok_or_else(|| no_subsystem(self.part("nqn")))
    }

    /// The same, to be changed.
    pub(super) fn subsystem_mut<'f>(
        &self,
        fabric: &'f mut FabricConfig,
    ) -> Result<&'f mut SubsystemConfig, Refusal> {
        fabric.subsystem_mut(self.part("nqn")).ok_or_else(|| no_subsystem(self.part("nqn")))
    }

    /// True if the query sets this flag.
    pub(super) fn flag(&self, name: &str) -> Result<bool, Refusal> {
        let parts = self.query.split('&').filter(|part| !part.is_empty());
        let mut set = false;
        for part in parts {
            let (key, value) = part.split_once('=').unwrap_or((part, "true"));
            if key == name {
                set = match value {
                    "true" | "1" => true,
                    "false" | "0" => false,
                    _ => {
                        let what = format!("`{value}` in the query is invalid: {name} is true or false");
                        return Err(Refusal::new(400, what).about(name));
                    }
                };
            }
        }
        Ok(set)
    }

    /// The body as a value, or what is wrong with it and where.
    pub(super) fn body<T: DeserializeOwned>(&self) -> Result<T, Refusal> {
        read(self.body)
    }
}

/// There is none of this name.
pub(super) fn no_subsystem(nqn: &str) -> Refusal {
    Refusal::not_found(format!("there is no subsystem {nqn}"))
}

/// Reads JSON.
pub(super) fn read<T: DeserializeOwned>(body: &[u8]) -> Result<T, Refusal> {
    let mut json = serde_json::Deserializer::from_slice(body);
    let value = serde_path_to_error::deserialize(&mut json).map_err(|error| {
        let path = error.path().to_string();
        let error = error.into_inner();
        // Two keys where one names the alternative: serde_json takes the second for a fault of syntax.
        let is_ambiguous = error.to_string().starts_with("expected value")
            && serde_json::from_slice::<IgnoredAny>(body).is_ok();
        if is_ambiguous {
            return Refusal::unprocessable("it names several alternatives: keep one").about(path);
        }
        // What is JSON and not what is wanted is another mistake than what is not JSON at all.
        if error.is_data() { wrong_value(&path, &error) } else { not_json(&error) }
    })?;
    json.end().map_err(|error| not_json(&error))?;
    Ok(value)
}

/// Refusal of a text that is not JSON, with the place in it.
fn not_json(error: &serde_json::Error) -> Refusal {
    Refusal::new(400, format!("the body is not JSON: {error}"))
}

/// Refusal of a value: its field, the fault and the remedy. The place in the text is left out, which a program wrote.
pub(super) fn wrong_value(path: &str, error: &serde_json::Error) -> Refusal {
    let text = error.to_string();
    let place = format!(" at line {} column {}", error.line(), error.column());
    let fault = text.strip_suffix(&place).unwrap_or(&text);
    let refusal = Refusal::unprocessable(fault);
    let missing = fault.strip_prefix("missing field `").and_then(|name| name.strip_suffix('`'));
    match (path, missing) {
        (".", None) => refusal,
        (_, None) => refusal.about(path),
        (path, Some(name)) => {
            let field = if path == "." { name.to_owned() } else { format!("{path}.{name}") };
            refusal.about(field).hint("add the field; GET /v1/openapi.json describes all requests")
        }
    }
}

impl Answer {
    /// Answer with this status and nothing else than JSON.
    pub(super) fn of(status: u16, json: Option<Value>) -> Self {
        Self { status, location: None, json, text: None, pieces: None, stream: None }
    }

    /// Here it is.
    pub(super) fn with(value: &impl Serialize) -> Result<Self, Refusal> {
        let json = serde_json::to_value(value).map_err(|error| Refusal::new(500, error))?;
        Ok(Self::of(200, Some(json)))
    }

    /// Here it is, as a text of this media type.
    pub(super) fn text(kind: &'static str, text: String) -> Self {
        Self { text: Some((kind, text)), ..Self::of(200, None) }
    }

    /// The same of a long text.
    pub(super) fn pieces(kind: &'static str, pieces: TextPieces) -> Self {
        Self { pieces: Some((kind, pieces)), ..Self::of(200, None) }
    }

    /// Here it comes.
    pub(super) fn stream(viewer: Viewer) -> Self {
        Self { stream: Some(viewer), ..Self::of(200, None) }
    }

    /// Status 201: the object was created at `location`.
    pub(super) fn created(location: String, value: &impl Serialize) -> Result<Self, Refusal> {
        Ok(Self { status: 201, location: Some(location), ..Self::with(value)? })
    }

    /// Status 202: the task was started, and continues by itself.
    pub(super) fn begun(task: &Task) -> Result<Self, Refusal> {
        let location = Some(format!("/v1/tasks/{}", task.id));
        Ok(Self { status: 202, location, ..Self::with(task)? })
    }

    /// Status 204: success without content.
    pub(super) fn done() -> Self {
        Self::of(204, None)
    }
}

/// A name as a part of a path.
pub fn encode(name: &str) -> String {
    let mut encoded = String::with_capacity(name.len());
    for byte in name.bytes() {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~' | b':') {
            encoded.push(byte.into());
        } else {
            encoded += &format!("%{byte:02X}");
        }
    }
    encoded
}

/// The name that a part of a path stands for; nothing where it stands for none.
pub(super) fn decode(part: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(part.len());
    let mut rest = part.bytes();
    while let Some(byte) = rest.next() {
        let digit = |byte: Option<u8>| char::from(byte?).to_digit(16);
        bytes.push(match byte {
            b'%' => (digit(rest.next())? * 16 + digit(rest.next())?) as u8,
            byte => byte,
        });
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wrong_body_and_one_that_is_not_json_have_different_statuses() {
        #[derive(Debug, serde::Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Inner {
            #[allow(dead_code)]
            number: u8,
        }
        type Body = std::collections::BTreeMap<String, Vec<Inner>>;
        let refused = |text: &str| read::<Body>(text.as_bytes()).unwrap_err();
        assert_eq!(refused("{\"a\": [{\"number\": 1}").status, 400);
        assert_eq!(refused("{} {}").status, 400);
        let wrong = refused("{\"a\": [{\"number\": 1}, {\"number\": 256}]}");
        assert_eq!((wrong.status, wrong.field.as_deref()), (422, Some("a[1].number")));
        assert_eq!(refused("{\"a\": [{\"numbre\": 1}]}").field.as_deref(), Some("a[0].numbre"));
    }

    #[test]
    fn a_refused_value_has_its_field_and_the_fault_and_only_a_broken_text_a_place() {
        #[derive(Debug, serde::Deserialize)]
        struct Body {
            #[allow(dead_code)]
            nqn: super::super::subsystems::Name,
        }
        let refused = |text: &str| read::<Body>(text.as_bytes()).unwrap_err();
        let wrong = refused("{\n  \"nqn\": \"nqn.a nqn.b\"\n}");
        assert_eq!(
            wrong.to_string(),
            "nqn: an NQN cannot contain a comma or a space, which separate names in lists"
        );
        let wrong = refused("{\n  \"nqn\": 7\n}");
        assert_eq!(wrong.to_string(), "nqn: invalid type: integer `7`, expected a string");
        let missing = refused("{}");
        assert_eq!((missing.error.as_str(), missing.field.as_deref()), ("missing field `nqn`", Some("nqn")));
        assert!(missing.hint.is_some_and(|hint| hint.contains("openapi.json")));
        let broken = refused("{\n  \"nqn\": \"a\" \"b\"\n}").to_string();
        assert!(broken.starts_with("the body is not JSON: ") && broken.contains(" at line 2 "), "{broken}");
    }

    #[test]
    fn a_name_is_one_part_of_a_path() {
        let name = "nqn.2026-01.io.selvedge:a/b ü%";
        assert_eq!(encode(name), "nqn.2026-01.io.selvedge:a%2Fb%20%C3%BC%25");
        assert_eq!(decode(&encode(name)).as_deref(), Some(name));
        for wrong in ["%", "%2", "%2g", "%+1", "%FF"] {
            assert_eq!(decode(wrong), None, "{wrong}");
        }
    }
}
