//! The API's description as an OpenAPI 3.1 document: paths from the table that serves them, schemas from the structs that requests
//! carry and answers show.

use std::collections::BTreeSet;

use engine::target::{
    FabricConfig, HostKeyConfig, PortConfig, ReferralConfig, ReservationStatus, SubsystemConfig,
};
use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, SchemaGenerator};
use serde_json::{Map, Value, json};

use super::ask::{Answer, Ask, PICTURE};
use super::audit::Tail;
use super::examples::EXAMPLES;
use super::host_keys::{ControllerKeyBody, HostKeyBody, HostKeyPatch};
use super::live::{Findings, HistoryAnswer, Roster, Seen, Tick};
use super::log_level::LogBody;
use super::namespaces::NamespaceBody;
use super::namespaces::images::{self, CloneBody, SnapshotBody, Snapshots};
use super::namespaces::snapshot_set::{SnapshotSet, SnapshotSetBody};
use super::patches::{NamespacePatch, Patch};
use super::refusal::Refusal;
use super::routes::{LIVE_PATH, METRICS_PATHS, PICTURE_PATH, ROUTES, Route};
use super::slow_commands::{Slow, ThresholdBody};
use super::subsystems::{AnaGroupBody, HostBody};
use super::sweeps::{PublishedSweep, SweepBody, SweepTitle, Sweeps};
use super::{connections, fabric, gateways, namespaces, ports, preview, subsystems};
use gateway::GroupStatus;

const SCHEMAS: &str = "#/components/schemas/";

/// The document.
pub fn document() -> Result<Value, serde_json::Error> {
    let schemas = schemas()?;
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
            "summary": "Observe and change a running NVMe/TCP target",
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

fn settings() -> SchemaSettings {
    SchemaSettings::draft2020_12().with(|settings| {
        settings.definitions_path = "/components/schemas".into();
        settings.meta_schema = None;
    })
}

/// The schemas of all that requests carry and answers show, by their names.
fn schemas() -> Result<Map<String, Value>, serde_json::Error> {
    let mut taken = settings().for_deserialize().into_generator();
    for add in [
        of::<FabricConfig>,
        of::<SubsystemConfig>,
        of::<Patch<SubsystemConfig>>,
        of::<HostBody>,
        of::<HostKeyBody>,
        of::<HostKeyPatch>,
        of::<ControllerKeyBody>,
        of::<NamespaceBody>,
        of::<NamespacePatch>,
        of::<SnapshotBody>,
        of::<SnapshotSetBody>,
        of::<CloneBody>,
        of::<AnaGroupBody>,
        of::<PortConfig>,
        of::<ReferralConfig>,
        of::<LogBody>,
        of::<ThresholdBody>,
        of::<SweepBody>,
        of::<preview::PreviewBody>,
        of::<gateways::GatewayPatch>,
    ] {
        add(&mut taken);
    }
    let mut shown = settings().for_serialize().into_generator();
    for add in [
        of::<fabric::Status>,
        of::<FabricConfig>,
        of::<fabric::Changes>,
        of::<preview::Preview>,
        of::<subsystems::Subsystems>,
        of::<subsystems::Hosts>,
        of::<subsystems::AnaGroups>,
        of::<HostKeyConfig>,
        of::<namespaces::Namespaces>,
        of::<ReservationStatus>,
        of::<Snapshots>,
        of::<SnapshotSet>,
        of::<images::Tasks>,
        of::<ports::Ports>,
        of::<ports::Referrals>,
        of::<connections::Connections>,
        of::<Roster>,
        of::<Tick>,
        of::<HistoryAnswer>,
        of::<Findings>,
        of::<Tail>,
        of::<GroupStatus>,
        of::<LogBody>,
        of::<Slow>,
        of::<Sweeps>,
        of::<PublishedSweep>,
        of::<SweepTitle>,
        of::<Refusal>,
        of::<Seen>,
    ] {
        add(&mut shown);
    }
    let (taken, mut shown) = (taken.take_definitions(true), shown.take_definitions(true));
    let taken = renamed(taken, &shown)?;
    shown.extend(taken);
    shown.iter_mut().try_for_each(|(name, schema)| furnish(name, schema))?;
    Ok(shown)
}

/// Bodies in which the ANA group may have the name that gateways give it.
const FORMERLY_GROUPED: [&str; 4] = ["NewNamespace", "AddNamespace", "NamespacePatch", "Clone"];

/// Gives a schema what its struct does not say: examples, and what a part of it was called before.
fn furnish(name: &str, schema: &mut Value) -> Result<(), serde_json::Error> {
    let examples = EXAMPLES.iter().filter(|(of, _)| *of == name);
    let examples = examples.map(|(_, text)| serde_json::from_str(text));
    let examples = examples.collect::<Result<Vec<Value>, _>>()?;
    if !examples.is_empty() {
        schema["examples"] = examples.into();
    }
    if FORMERLY_GROUPED.contains(&name) {
        schema["properties"]["load_balancing_group"] =
            json!({ "deprecated": true, "description": "The same as ana_group" });
    }
    tell_plainly(schema);
    Ok(())
}

fn of<T: JsonSchema>(generator: &mut SchemaGenerator) {
    generator.subschema_for::<T>();
}

/// Schemas that requests and answers have in different forms: the requests' form gets a name of its
/// own, and so do all schemas that contain it. The others are left out, since they are there
/// already.
fn renamed(
    taken: Map<String, Value>,
    shown: &Map<String, Value>,
) -> Result<Map<String, Value>, serde_json::Error> {
    let is_other = |name: &String, schema: &Value| shown.get(name).is_some_and(|known| known != schema);
    let mut others: BTreeSet<String> =
        taken.iter().filter(|(name, schema)| is_other(name, schema)).map(|(name, _)| name.clone()).collect();
    loop {
        let has_other = |schema: &Value| {
            let text = schema.to_string();
            others.iter().any(|other| text.contains(&reference_to(other)))
        };
        let found: Vec<String> = taken
            .iter()
            .filter(|(name, schema)| {
                shown.contains_key(*name) && !others.contains(*name) && has_other(schema)
            })
            .map(|(name, _)| name.clone())
            .collect();
        if found.is_empty() {
            break;
        }
        others.extend(found);
    }
    let mut renamed = Map::new();
    for (name, schema) in taken {
        let mut text = schema.to_string();
        for other in &others {
            text = text.replace(&reference_to(other), &reference_to(&format!("New{other}")));
        }
        let name = if others.contains(&name) { format!("New{name}") } else { name };
        renamed.insert(name, serde_json::from_str(&text)?);
    }
    Ok(renamed)
}

/// A reference as it stands in a schema.
fn reference_to(name: &str) -> String {
    format!("\"{SCHEMAS}{name}\"")
}

/// Descriptions are the structs' own, whose links lead nowhere here.
fn tell_plainly(schema: &mut Value) {
    match schema {
        Value::Object(fields) => {
            for (name, value) in fields {
                match value {
                    Value::String(text) if name == "description" => {
                        *text = text.replace("[`", "`").replace("`]", "`").replace("Self::", "");
                    }
                    value => tell_plainly(value),
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(tell_plainly),
        _ => {}
    }
}

pub(super) fn answer(_ask: &Ask<'_>) -> Result<Answer, Refusal> {
    Answer::with(&document().map_err(|error| Refusal::new(500, error))?)
}

fn reference(schema: &str) -> Value {
    json!({ "application/json": { "schema": schema_of(schema) } })
}

fn schema_of(name: &str) -> Value {
    json!({ "$ref": format!("{SCHEMAS}{name}") })
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
        (Some(schema), _) if route.path == LIVE_PATH => {
            // The data of an event, which its name tells apart.
            let data =
                json!({ "anyOf": [schema_of(schema), schema_of("LiveRoster"), schema_of("Findings")] });
            success["content"] = json!({ "text/event-stream": { "schema": data } });
        }
        (Some(schema), _) => success["content"] = reference(schema),
        (None, 204) => {}
        (None, _) if METRICS_PATHS.contains(&route.path) => success["content"] = json!({ "text/plain": {} }),
        (None, _) if route.path == PICTURE_PATH => success["content"] = json!({ PICTURE: {} }),
        (None, _) => success["content"] = json!({ "application/json": {} }),
    }
    let mut operation = json!({
        "summary": route.summary,
        "description": format!("Needs the role {}.", route.needs),
        "responses": {
            status.to_string(): success,
            "default": { "description": "Refused: nothing has changed", "content": reference("Refusal") },
        },
    });
    if route.may_leave_task() {
        let description = "Changed; a task continues the rest";
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
