//! Schemas of an OpenAPI document, read both ways: values that fit or nearly fit one, and whether a value does. It knows
//! the words of JSON Schema that the document uses, and no other.

use arbitrary::{Result, Unstructured};
use serde_json::{Map, Value, json};

/// Depth limit of generated values.
const DEPTH_MAX: usize = 6;
/// Elements of a list that is made.
const ITEMS_MAX: usize = 3;

/// Strings with a meaning, sizes and names among them.
const STRINGS: [&str; 24] = [
    "nqn.2026-01.io.selvedge:a",
    "nqn.2026-01.io.selvedge:b/c",
    "nqn.2014-08.org.nvmexpress:uuid:1b4e28ba-2fa1-11d2-883f-0016d3ccabcd",
    "nqn.2014-08.org.nvmexpress.discovery",
    "nqn.host:1",
    "1m",
    "8m",
    "4k",
    "512",
    "1t",
    "0",
    "18446744073709551615",
    "7e",
    "127.0.0.1:0",
    "[::1]:0",
    "192.168.0.1",
    "8009",
    "1b4e28ba-2fa1-11d2-883f-0016d3ccabcd",
    "/0",
    "/1",
    "reno",
    "Serial",
    "",
    "ü\u{0}\"\\",
];
const NUMBERS: [i64; 16] =
    [0, 1, 2, 3, 8, 255, 512, 1024, 1025, 4096, 65535, 65536, 1 << 20, 1 << 24, 1 << 32, i64::MAX];
const FRACTIONS: [f64; 8] = [0.0, 0.001, 0.5, 1.0, 1e3, -1.0, 1e19, f64::MAX];

/// The schema that a reference leads to, or the schema itself.
pub(crate) fn resolve<'a>(document: &'a Value, schema: &'a Value) -> &'a Value {
    match schema.get("$ref").and_then(Value::as_str) {
        Some(name) => document.pointer(name.trim_start_matches('#')).expect("a reference leads somewhere"),
        None => schema,
    }
}

/// A value that fits the schema, but for what chance says.
pub(crate) fn make(
    document: &Value,
    schema: &Value,
    input: &mut Unstructured<'_>,
    depth: usize,
) -> Result<Value> {
    let schema = resolve(document, schema);
    if depth > DEPTH_MAX || input.ratio(1, 40)? {
        return anything(input);
    }
    if let Some(examples) = schema.get("examples").and_then(Value::as_array)
        && input.ratio(1, 4)?
    {
        return Ok(input.choose(examples)?.clone());
    }
    let choices = schema.get("oneOf").or(schema.get("anyOf"));
    if let Some(choices) = choices.and_then(Value::as_array) {
        return make(document, input.choose(choices)?, input, depth + 1);
    }
    if let Some(value) = schema.get("const") {
        return Ok(value.clone());
    }
    if let Some(values) = schema.get("enum").and_then(Value::as_array) {
        return Ok(input.choose(values)?.clone());
    }
    let kinds = match schema.get("type") {
        Some(Value::Array(kinds)) => kinds.clone(),
        Some(kind) => vec![kind.clone()],
        None => return anything(input),
    };
    let kind = input.choose(&kinds)?.as_str().unwrap_or_default();
    Ok(match kind {
        "object" => object(document, schema, input, depth)?,
        "array" => {
            let none = json!({});
            let items = schema.get("items").unwrap_or(&none);
            let count = input.int_in_range(0..=ITEMS_MAX)?;
            (0..count).map(|_| make(document, items, input, depth + 1)).collect::<Result<Vec<_>>>()?.into()
        }
        "string" => text(input)?.into(),
        "integer" => (*input.choose(&NUMBERS)?).into(),
        "number" => (*input.choose(&FRACTIONS)?).into(),
        "boolean" => input.arbitrary::<bool>()?.into(),
        _ => Value::Null,
    })
}

fn object(document: &Value, schema: &Value, input: &mut Unstructured<'_>, depth: usize) -> Result<Value> {
    let mut made = Map::new();
    let required: Vec<&str> = list(schema, "required").filter_map(Value::as_str).collect();
    for (name, schema) in schema.get("properties").and_then(Value::as_object).into_iter().flatten() {
        // What is required is left out now and then, and what is not is there now and then.
        let is_wanted =
            if required.contains(&name.as_str()) { !input.ratio(1, 30)? } else { input.ratio(1, 3)? };
        if is_wanted {
            made.insert(name.clone(), make(document, schema, input, depth + 1)?);
        }
    }
    if let Some(others) = schema.get("additionalProperties").filter(|others| others.is_object()) {
        for _ in 0..input.int_in_range(0..=2)? {
            let name = input.choose(&NUMBERS)?.to_string();
            made.insert(name, make(document, others, input, depth + 1)?);
        }
    } else if input.ratio(1, 60)? {
        made.insert("more".to_owned(), anything(input)?);
    }
    Ok(made.into())
}

/// Any text: mostly one that means something.
pub(crate) fn text(input: &mut Unstructured<'_>) -> Result<String> {
    if input.ratio(1, 6)? {
        return Ok(input.arbitrary::<&str>()?.to_owned());
    }
    Ok((*input.choose(&STRINGS)?).to_owned())
}

fn anything(input: &mut Unstructured<'_>) -> Result<Value> {
    Ok(match input.int_in_range(0..=7)? {
        0 => Value::Null,
        1 => true.into(),
        2 => input.arbitrary::<i64>()?.into(),
        3 => input.arbitrary::<u64>()?.into(),
        4 => json!(1.5),
        5 => json!([]),
        6 => json!({}),
        _ => text(input)?.into(),
    })
}

fn list<'a>(schema: &'a Value, name: &str) -> impl Iterator<Item = &'a Value> + use<'a> {
    schema.get(name).and_then(Value::as_array).into_iter().flatten()
}

/// First deviation of a value from the schema, with its place.
pub(crate) fn mistake(document: &Value, schema: &Value, value: &Value, place: &str) -> Option<String> {
    let schema = resolve(document, schema);
    if let Some(choices) = schema.get("oneOf").and_then(Value::as_array) {
        let fit = choices.iter().filter(|choice| mistake(document, choice, value, place).is_none()).count();
        return (fit != 1).then(|| format!("{place}: {fit} choices fit {value}"));
    }
    if let Some(choices) = schema.get("anyOf").and_then(Value::as_array) {
        let fits = choices.iter().any(|choice| mistake(document, choice, value, place).is_none());
        return (!fits).then(|| format!("{place}: no choice fits {value}"));
    }
    if schema.get("const").is_some_and(|wanted| wanted != value) {
        return Some(format!("{place}: {value} is not the one that there is"));
    }
    if schema.get("enum").is_some() && !list(schema, "enum").any(|known| known == value) {
        return Some(format!("{place}: {value} is none of those there are"));
    }
    if let Some(kind) = schema.get("type")
        && !is_of(kind, value)
    {
        return Some(format!("{place}: {value} is not {kind}"));
    }
    match value {
        Value::Array(items) => {
            let schema = schema.get("items")?;
            let mut places = items.iter().enumerate();
            places.find_map(|(at, item)| mistake(document, schema, item, &format!("{place}[{at}]")))
        }
        Value::Object(fields) => {
            let mut required = list(schema, "required").filter_map(Value::as_str);
            if let Some(name) = required.find(|name| !fields.contains_key(*name)) {
                return Some(format!("{place}: {name} is missing"));
            }
            fields.iter().find_map(|(name, value)| {
                let place = format!("{place}.{name}");
                let known = schema.get("properties").and_then(|known| known.get(name));
                match known.or(schema.get("additionalProperties"))? {
                    Value::Bool(true) => None,
                    Value::Bool(false) => Some(format!("{place} is not in the schema")),
                    schema => mistake(document, schema, value, &place),
                }
            })
        }
        _ => None,
    }
}

fn is_of(kind: &Value, value: &Value) -> bool {
    match kind.as_str() {
        None => kind.as_array().into_iter().flatten().any(|kind| is_of(kind, value)),
        Some("object") => value.is_object(),
        Some("array") => value.is_array(),
        Some("string") => value.is_string(),
        Some("integer") => value.is_u64() || value.is_i64(),
        Some("number") => value.is_number(),
        Some("boolean") => value.is_boolean(),
        Some("null") => value.is_null(),
        Some(other) => panic!("the document has a type {other}"),
    }
}
