//! Check of a new document of schemas against an earlier one: old fields have to be there, and new
//! ones must be optional.

use serde_json::{Map, Value};

/// Adds what has gone between two schemas, or documents of schemas, by its place.
pub(super) fn compare(place: &str, before: &Value, now: &Value, lost: &mut Vec<String>) {
    match (before, now) {
        (Value::Object(before), Value::Object(now)) => object(place, before, now, lost),
        (Value::Array(before), Value::Array(now)) => {
            // Alternatives, types and values may become more, in any order.
            for alternative in before {
                let is_kept = |other: &Value| {
                    let mut missing = Vec::new();
                    compare(place, alternative, other, &mut missing);
                    missing.is_empty()
                };
                if !now.iter().any(is_kept) {
                    lost.push(format!("{place}: {alternative}"));
                }
            }
        }
        (_, Value::Array(now)) if now.contains(before) => {}
        _ if before == now => {}
        _ => lost.push(format!("{place}: {before} is {now}")),
    }
}

fn object(place: &str, before: &Map<String, Value>, now: &Map<String, Value>, lost: &mut Vec<String>) {
    // Objects that refuse other fields are requests; all else is answers.
    let is_sent = before.get("additionalProperties") == Some(&Value::Bool(false));
    let none = Value::Array(Vec::new());
    let are_fields = place.ends_with("/properties");
    for (name, before) in before {
        let place = format!("{place}/{name}");
        match name.as_str() {
            // Words for people, and the version of the program.
            "description" | "title" | "examples" | "example" | "version" | "summary" if !are_fields => {}
            "required" if is_sent && !are_fields => {}
            // A value may be larger, as alternatives may become more.
            "maximum" if !are_fields && rises(before, now.get(name)) => {}
            // A field that is as it was, or more.
            _ => match now.get(name) {
                Some(now) => compare(&place, before, now, lost),
                None => lost.push(place),
            },
        }
    }
    if is_sent {
        let [before, now] = [before, now].map(|one| one.get("required").unwrap_or(&none));
        compare(&format!("{place}/required, which is new"), now, before, lost);
    }
}

/// True if both are numbers, and the later one is not smaller.
fn rises(before: &Value, now: Option<&Value>) -> bool {
    before.as_f64().zip(now.and_then(Value::as_f64)).is_some_and(|(before, now)| before <= now)
}

#[test]
fn what_goes_or_is_asked_for_is_found() {
    let lost = |before: &str, now: &str| {
        let [before, now] = [before, now].map(|text| serde_json::from_str(text).expect("JSON"));
        let mut lost = Vec::new();
        compare("", &before, &now, &mut lost);
        lost
    };
    let answer = r#"{"properties": {"a": {"type": "string"}}, "required": ["a"]}"#;
    let more = r#"{"properties": {"a": {"type": "string"}, "b": {}}, "required": ["b", "a"]}"#;
    assert!(lost(answer, more).is_empty(), "a new field of an answer");
    assert_eq!(lost(more, answer).len(), 2, "a field and that it is always there");
    assert_eq!(lost(answer, &answer.replace("string", "number")).len(), 1, "another type");
    let [answer, more] =
        [answer, more].map(|text| text.replacen('{', r#"{"additionalProperties": false, "#, 1));
    assert_eq!(lost(&answer, &more), ["/required, which is new: \"b\""], "more is asked for");
    let either = r#"{"oneOf": [{"const": "x"}, {"const": "y"}]}"#;
    let third = r#"{"oneOf": [{"const": "z"}, {"const": "y"}, {"const": "x"}]}"#;
    assert!(lost(either, third).is_empty());
    assert_eq!(lost(third, either).len(), 1);
    let [low, high] = [r#"{"maximum": 1024}"#, r#"{"maximum": 4096}"#];
    assert!(lost(low, high).is_empty(), "a limit that is raised");
    assert_eq!(lost(high, low), ["/maximum: 4096 is 1024"], "a limit that is lowered");
    assert_eq!(lost(high, "{}").len(), 1, "no limit that is known");
}
