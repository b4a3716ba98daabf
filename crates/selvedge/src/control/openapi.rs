//! The API's description as an OpenAPI 3.1 document: paths from the table that serves them, schemas from a file beside
//! it, which the tests hold against what is really taken and given.

use serde_json::{Map, Value, json};

use super::ask::{Answer, Ask};
use super::refusal::Refusal;
use super::routes::{METRICS_PATH, ROUTES, Route};

const SCHEMAS: &str = include_str!("schemas.json");

/// The document.
pub(crate) fn document() -> Result<Value, serde_json::Error> {
    let schemas: Value = serde_json::from_str(SCHEMAS)?;
    let mut paths = Map::new();
    for route in ROUTES {
        let path = paths.entry(route.path).or_insert_with(|| json!({}));
        if let Some(path) = path.as_object_mut() {
            path.insert(route.method.to_ascii_lowercase(), operation(route));
        }
    }
    Ok(json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Selvedge control API",
            "version": "1",
            "summary": "Looks at a running NVMe/TCP target and changes what it serves",
            "license": { "name": "MIT OR Apache-2.0" },
        },
        "paths": paths,
        "components": {
            "schemas": schemas,
            "securitySchemes": {
                "token": {
                    "type": "http",
                    "scheme": "bearer",
                    "description": "Over TCP only; a Unix socket is its owner's alone",
                },
            },
        },
        "security": [{}, { "token": [] }],
    }))
}

pub(super) fn answer(_ask: &Ask<'_>) -> Result<Answer, Refusal> {
    Answer::with(&document().map_err(|error| Refusal::new(500, error))?)
}

fn reference(schema: &str) -> Value {
    json!({ "application/json": { "schema": { "$ref": format!("#/components/schemas/{schema}") } } })
}

fn operation(route: &Route) -> Value {
    let variables = route.path.split('/').filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'));
    let mut parameters: Vec<Value> = variables
        .map(|name| {
            let kind = if matches!(name, "nsid" | "id" | "cntlid") { "integer" } else { "string" };
            json!({ "name": name, "in": "path", "required": true, "schema": { "type": kind } })
        })
        .collect();
    for (name, meaning) in route.flags {
        let schema = json!({ "type": "boolean", "default": false });
        parameters.push(json!({ "name": name, "in": "query", "description": meaning, "schema": schema }));
    }
    let (status, schema) = route.success;
    let mut success = json!({ "description": if status == 204 { "Done" } else { "As it is now" } });
    match (schema, status) {
        (Some(schema), _) => success["content"] = reference(schema),
        (None, 204) => {}
        (None, _) if route.path == METRICS_PATH => success["content"] = json!({ "text/plain": {} }),
        (None, _) => success["content"] = json!({ "application/json": {} }),
    }
    let mut operation = json!({
        "summary": route.summary,
        "responses": {
            status.to_string(): success,
            "default": { "description": "Refused: nothing has changed", "content": reference("Refusal") },
        },
    });
    if route.may_leave_task() {
        let description = "Changed, but for what a task goes on with";
        operation["responses"]["202"] = json!({ "description": description, "content": reference("Task") });
    }
    if !parameters.is_empty() {
        operation["parameters"] = parameters.into();
    }
    if let Some(body) = &route.body {
        operation["requestBody"] = json!({ "required": true, "content": reference(body.schema) });
    }
    operation
}
