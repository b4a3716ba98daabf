//! The document's schemas, held against what is really taken and given: enough of JSON Schema to judge them.

use serde_json::Value;

/// First mistake of `value` under the schema, with its place.
pub(crate) fn mistake(document: &Value, schema: &Value, value: &Value, place: &str) -> Option<String> {
    if let Some(reference) = schema.get("$ref").and_then(Value::as_str) {
        let target = document.pointer(reference.trim_start_matches('#'));
        let target = target.unwrap_or_else(|| panic!("{reference} leads nowhere"));
        return mistake(document, target, value, place);
    }
    if let Some(choices) = schema.get("oneOf").and_then(Value::as_array) {
        let mistakes: Vec<_> = choices.iter().map(|choice| mistake(document, choice, value, place)).collect();
        let fitting = mistakes.iter().filter(|mistake| mistake.is_none()).count();
        return (fitting != 1).then(|| format!("{place}: {fitting} choices fit {value}: {mistakes:?}"));
    }
    if let Some(choices) = schema.get("anyOf").and_then(Value::as_array) {
        let mistakes: Vec<_> = choices.iter().map(|choice| mistake(document, choice, value, place)).collect();
        return (!mistakes.contains(&None)).then(|| format!("{place}: no choice fits {value}: {mistakes:?}"));
    }
    if let Some(wanted) = schema.get("const")
        && wanted != value
    {
        return Some(format!("{place}: {value} is not {wanted}"));
    }
    if let Some(values) = schema.get("enum").and_then(Value::as_array)
        && !values.contains(value)
    {
        return Some(format!("{place}: {value} is none of {values:?}"));
    }
    if let Some(kind) = schema.get("type")
        && !is_of_type(kind, value)
    {
        return Some(format!("{place}: {value} is not {kind}"));
    }
    match value {
        Value::Object(fields) => fields_mistake(document, schema, fields, place),
        Value::Array(items) => items
            .iter()
            .enumerate()
            .find_map(|(at, item)| mistake(document, schema.get("items")?, item, &format!("{place}[{at}]"))),
        _ => None,
    }
}

fn is_of_type(kind: &Value, value: &Value) -> bool {
    match kind {
        Value::Array(kinds) => kinds.iter().any(|kind| is_of_type(kind, value)),
        Value::String(kind) => match kind.as_str() {
            "object" => value.is_object(),
            "array" => value.is_array(),
            "string" => value.is_string(),
            "integer" => value.is_u64() || value.is_i64(),
            "number" => value.is_number(),
            "boolean" => value.is_boolean(),
            "null" => value.is_null(),
            other => panic!("type {other}"),
        },
        other => panic!("type {other}"),
    }
}

fn fields_mistake(
    document: &Value,
    schema: &Value,
    fields: &serde_json::Map<String, Value>,
    place: &str,
) -> Option<String> {
    let required = schema.get("required").and_then(Value::as_array).into_iter().flatten();
    let missing = required.filter_map(Value::as_str).find(|name| !fields.contains_key(*name));
    if let Some(name) = missing {
        return Some(format!("{place}: {name} is missing"));
    }
    fields.iter().find_map(|(name, value)| {
        let place = format!("{place}.{name}");
        let known = schema.pointer("/properties").and_then(|properties| properties.get(name));
        match (known, schema.get("additionalProperties")) {
            (Some(schema), _) => mistake(document, schema, value, &place),
            (None, Some(Value::Bool(false))) => Some(format!("{place} is not in the schema")),
            (None, Some(schema)) => mistake(document, schema, value, &place),
            (None, None) => None,
        }
    })
}
