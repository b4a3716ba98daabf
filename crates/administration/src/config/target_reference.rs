//! The settings of a target.toml, as the structs that read it have them: for the documents, for the manual page, and as a
//! JSON Schema for editors. What a setting means stands at its field.

use engine::target::FabricConfig;
use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde_json::{Value, json};

use super::target_dump::LISTS;
use super::target_file::RunTable;

/// Settings that targets write for themselves, and former names. They are not documented, since
/// people should not write them.
const HIDDEN: [&str; 10] = [
    "created_by_host",
    "protected_by_host",
    "file_pin",
    "kept_hosts",
    "pinned_below",
    "standby",
    "load_balancing_group",
    "dhchap_secret_sealed",
    "dhchap_ctrl_secret_sealed",
    "tls_key_sealed",
];
/// Forms that a file takes in addition to those of the API.
const MORE: [(&str, &str, &str); 1] = [("port", "address", "A name is resolved; the default port is 4420.")];

/// All of a file: how the target runs, and what it serves.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
#[allow(dead_code, reason = "its schema is what counts")]
struct TargetFile {
    #[schemars(flatten)]
    run: RunTable,
    #[schemars(flatten)]
    fabric: FabricConfig,
}

/// A table of a file, with its settings.
#[derive(Debug)]
pub struct Table {
    /// Name in brackets, such as `subsystem.namespace`; empty for the settings before all tables.
    pub name: String,
    pub what: String,
    pub settings: Vec<Setting>,
}

/// A setting.
#[derive(Debug)]
pub struct Setting {
    pub name: String,
    pub takes: String,
    pub default: Option<String>,
    pub is_required: bool,
    pub what: String,
}

/// The schema of a file, with the names that its lists have there.
pub fn schema() -> Value {
    let mut schema = SchemaSettings::draft2020_12()
        .for_deserialize()
        .into_generator()
        .into_root_schema_for::<TargetFile>();
    schema.insert("title".into(), json!("target.toml of Selvedge"));
    let mut schema = schema.to_value();
    rename_lists(&mut schema, "");
    rename_lists(&mut schema["$defs"]["Subsystem"], "subsystems");
    schema
}

/// Gives lists of tables the name that each of them has: `[[subsystem]]` is one of `subsystems`.
fn rename_lists(schema: &mut Value, of: &str) {
    for (table, list, one) in LISTS {
        let Some(properties) = schema["properties"].as_object_mut().filter(|_| table == of) else { continue };
        if let Some(property) = properties.remove(list) {
            properties.insert(one.to_owned(), property);
        }
    }
}

/// The tables of a file, in the order in which people write them.
pub fn tables() -> Vec<Table> {
    let schema = schema();
    let mut reader = Reader { definitions: &schema["$defs"], tables: Vec::new() };
    reader.table("", &schema, "Settings of the process, before the first table.");
    reader.tables
}

struct Reader<'a> {
    definitions: &'a Value,
    tables: Vec<Table>,
}

impl<'a> Reader<'a> {
    /// Schema that a reference leads to, or the one choice that is not null.
    fn resolved(&self, schema: &'a Value) -> &'a Value {
        if let Some(reference) = schema["$ref"].as_str() {
            let name = reference.rsplit('/').next().unwrap_or_default();
            return self.resolved(&self.definitions[name]);
        }
        let choices = schema["anyOf"].as_array().map_or(&[][..], Vec::as_slice);
        choices.iter().find(|choice| choice["type"] != "null").map_or(schema, |choice| self.resolved(choice))
    }

    fn table(&mut self, name: &str, schema: &'a Value, what: &str) {
        let at = self.tables.len();
        self.tables.push(Table { name: name.to_owned(), what: what.to_owned(), settings: Vec::new() });
        let mut settings = Vec::new();
        self.properties(name, "", self.resolved(schema), true, &mut settings);
        self.tables[at].settings = settings;
    }

    fn properties(
        &mut self,
        table: &str,
        way: &str,
        schema: &'a Value,
        needed: bool,
        into: &mut Vec<Setting>,
    ) {
        let required = schema["required"].as_array().map_or(&[][..], Vec::as_slice);
        for (key, property) in schema["properties"].as_object().into_iter().flatten() {
            if HIDDEN.contains(&key.as_str()) || property["deprecated"] == true {
                continue;
            }
            let name = if way.is_empty() { key.clone() } else { format!("{way}.{key}") };
            let is_required = needed && required.iter().any(|required| required == key);
            self.setting((table, key), name, property, is_required, into);
        }
    }

    fn setting(
        &mut self,
        (table, key): (&str, &str),
        name: String,
        property: &'a Value,
        is_required: bool,
        into: &mut Vec<Setting>,
    ) {
        let schema = self.resolved(property);
        let what =
            plain(property["description"].as_str().or(schema["description"].as_str()).unwrap_or_default());
        let items = self.resolved(&schema["items"]);
        if items["properties"].is_object() {
            let name = if table.is_empty() { name } else { format!("{table}.{name}") };
            let what = plain(items["description"].as_str().unwrap_or(&what));
            return self.table(&name, items, &what);
        }
        if schema["properties"].is_object() {
            // Needed where the table that it is in is there at all.
            return self.properties(table, &name, schema, true, into);
        }
        let choices = schema["oneOf"].as_array().map_or(&[][..], Vec::as_slice);
        if choices.iter().any(|choice| choice["properties"].is_object()) {
            for choice in choices {
                self.choice(&name, choice, into);
            }
            return;
        }
        let more = MORE.iter().find(|(of, setting, _)| (*of, *setting) == (table, key));
        let what = more.map_or(what.clone(), |(_, _, more)| format!("{what} {more}"));
        let default = property.get("default").filter(|default| !default.is_null()).map(toml_of);
        // A number that is still to be given is 0.
        let is_given_later = ["without it", "the lowest free one"].iter().any(|words| what.contains(words));
        let default = default.filter(|default| default != "[]" && !(default == "0" && is_given_later));
        let (what, default) = match what.split_once(" [default: ") {
            Some((what, default)) => (what.to_owned(), Some(default.trim_end_matches(']').to_owned())),
            None => (what, default),
        };
        into.push(Setting { name, takes: self.takes(schema), default, is_required, what });
    }

    /// Adds one of several forms of a setting, each a table with one key.
    fn choice(&mut self, name: &str, choice: &'a Value, into: &mut Vec<Setting>) {
        for (kind, inner) in choice["properties"].as_object().into_iter().flatten() {
            let schema = self.resolved(inner);
            let what = plain(choice["description"].as_str().unwrap_or_default());
            let name = format!("{name}.{kind}");
            if schema["properties"].is_object() {
                let at = into.len();
                self.properties("", &name, schema, true, into);
                if let Some(first) = into.get_mut(at) {
                    first.what = format!("{what} {}", first.what);
                }
            } else {
                let takes = self.takes(schema);
                into.push(Setting { name, takes, default: None, is_required: false, what });
            }
        }
    }

    /// Description of the values that a setting takes.
    fn takes(&self, schema: &'a Value) -> String {
        if schema["oneOf"]
            .as_array()
            .is_some_and(|choices| choices.iter().any(|choice| choice["type"] == "integer"))
        {
            return "size".to_owned();
        }
        let words: Vec<&str> = schema["oneOf"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(|choice| choice["const"].as_str())
            .chain(schema["enum"].as_array().into_iter().flatten().filter_map(Value::as_str))
            .collect();
        if !words.is_empty() {
            return words.iter().map(|word| format!("\"{word}\"")).collect::<Vec<_>>().join(", ");
        }
        let kinds: Vec<&str> = match &schema["type"] {
            Value::Array(kinds) => {
                kinds.iter().filter_map(Value::as_str).filter(|kind| *kind != "null").collect()
            }
            kind => kind.as_str().into_iter().collect(),
        };
        match (kinds.as_slice(), schema["minimum"].as_u64(), schema["maximum"].as_u64()) {
            (["integer"], Some(least), Some(most)) => format!("{least} to {most}"),
            (["integer"], ..) => "number".to_owned(),
            (["boolean"], ..) => "true, false".to_owned(),
            (["string"], ..) => "text".to_owned(),
            (["array"], ..) => match self.resolved(&schema["items"])["type"].as_str() {
                Some("integer") => "list of numbers".to_owned(),
                _ => "list of texts".to_owned(),
            },
            (["object"], ..) => "table".to_owned(),
            (kinds, ..) => kinds.join(" or ").replace("integer", "number").replace("string", "text"),
        }
    }
}

/// A description, whose links lead nowhere here, on one line.
fn plain(text: &str) -> String {
    text.replace("[`", "`").replace("`]", "`").replace("Self::", "").replace('\n', " ")
}

fn toml_of(value: &Value) -> String {
    match value {
        Value::Object(fields) => {
            let fields: Vec<String> =
                fields.iter().map(|(name, value)| format!("{name} = {}", toml_of(value))).collect();
            format!("{{ {} }}", fields.join(", "))
        }
        other => other.to_string(),
    }
}

/// The reference as a page of the documents.
pub fn markdown() -> String {
    let mut page = "# target.toml, setting by setting\n\n\
        `selvedge serve -c target.toml` reads it, and `selvedge config check`, `diff` and `apply` do.\n\
        [serve.md](serve.md#targettoml) has examples. A size is a number of bytes, or text such as `\"10g\"`:\n\
        `k`, `m`, `g`, `t` and `p` count in 1,024s. This page is made from what the program reads\n\
        (`selvedge generate`); the same is in `selvedge-target.toml(5)`, and as a JSON Schema for editors in\n\
        `target.schema.json` of the packages.\n"
        .to_owned();
    for table in tables() {
        let heading = if table.name.is_empty() {
            "Before all tables".to_owned()
        } else {
            format!("[[{}]]", table.name)
        };
        page += &format!(
            "\n## {heading}\n\n{}\n\n| setting | takes | default | meaning |\n|---|---|---|---|\n",
            table.what
        );
        for setting in &table.settings {
            let default = match (&setting.default, setting.is_required) {
                (_, true) if setting.name.contains('.') => "required with it".to_owned(),
                (_, true) => "required".to_owned(),
                (Some(default), false) => format!("`{default}`"),
                (None, false) => String::new(),
            };
            page += &format!("| `{}` | {} | {default} | {} |\n", setting.name, setting.takes, setting.what);
        }
    }
    page
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_of_the_documents_is_what_the_program_reads() {
        let kept = include_str!("../../../../docs/target-toml.md");
        assert!(
            kept == markdown(),
            "out of date: selvedge generate --output DIR; cp DIR/target-toml.md docs/"
        );
    }

    #[test]
    fn every_table_and_setting_has_a_meaning() {
        let tables = tables();
        let names: Vec<&str> = tables.iter().map(|table| table.name.as_str()).collect();
        let inner = ["subsystem.ana_group", "subsystem.host_key", "subsystem.namespace"];
        let expected = [&["", "port", "referral", "subsystem"][..], &inner].concat();
        assert_eq!(names.iter().collect::<std::collections::BTreeSet<_>>(), expected.iter().collect());
        for table in &tables {
            for setting in &table.settings {
                assert!(
                    !setting.what.trim().is_empty() && !setting.takes.is_empty(),
                    "{}: {setting:?}",
                    table.name
                );
            }
        }
    }

    /// A schema that says too little takes what the program refuses, and one that says too much is ignored by editors.
    #[test]
    fn the_schema_has_the_names_that_a_file_has() {
        let schema = schema();
        let has = |pointer: &str| assert!(schema.pointer(pointer).is_some(), "{pointer}: {schema}");
        has("/properties/subsystem");
        has("/properties/port");
        has("/properties/quotas");
        has("/$defs/Subsystem/properties/namespace");
        has("/$defs/Subsystem/properties/ana_group");
    }
}
