//! The JSON of commands that ask no running target, as schemas: from the structs that are printed. What the others print is
//! the control API's, whose document `selvedge openapi` prints.

use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde_json::{Value, json};

use super::{discover, identify, list, serve};
use crate::report::bench::BenchReport;

/// Fields may come at any time; when one goes or changes its meaning, this is another number.
const VERSION: u32 = 1;

/// The commands, each with the schema of what its `-o json` prints.
pub(super) fn all() -> [(&'static str, Value); 5] {
    [
        ("bench", of::<BenchReport>("bench")),
        ("discover", of::<discover::Log>("discover")),
        ("identify", of::<identify::Identity>("identify")),
        ("list", of::<list::List>("list")),
        ("serve", of::<serve::Summary>("serve")),
    ]
}

fn of<T: JsonSchema>(command: &str) -> Value {
    let settings = SchemaSettings::draft2020_12().for_serialize();
    let mut schema = settings.into_generator().into_root_schema_for::<T>();
    schema.insert("$id".into(), json!(format!("urn:selvedge:json:{command}:{VERSION}")));
    schema.insert("title".into(), json!(format!("selvedge {command} -o json")));
    schema.to_value()
}
