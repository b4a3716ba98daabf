//! The dashboard for Grafana as rules for Prometheus, so that Prometheus' own program parses its expressions. It keeps out their
//! metrics, which a test of the engine knows.

use std::collections::BTreeSet;

use serde_json::{Value, json};

/// Variable of Grafana's own in intervals, and an interval that it may have.
const INTERVAL: (&str, &str) = ("$__rate_interval", "5m");

/// Rules of the expressions of the dashboard with this text, as a file in JSON, which is YAML. Other variables than the
/// interval are texts in selectors.
///
/// # Errors
/// A dashboard without expressions, and one with a variable that nothing defines.
pub(crate) fn rules(dashboard: &str) -> Result<String, String> {
    let dashboard: Value =
        serde_json::from_str(dashboard).map_err(|error| format!("invalid JSON: {error}"))?;
    let mut expressions = Vec::new();
    collect(&dashboard, &mut expressions);
    let list = dashboard["templating"]["list"].as_array().map_or(&[][..], Vec::as_slice);
    let defined: BTreeSet<&str> = list.iter().filter_map(|variable| variable["name"].as_str()).collect();
    let mut rules = Vec::new();
    for (number, expression) in expressions.iter().enumerate() {
        let expression = expression.replace(INTERVAL.0, INTERVAL.1);
        if let Some(unknown) = variables(&expression).find(|name| !defined.contains(name)) {
            return Err(format!("nothing defines ${unknown} in {expression}"));
        }
        rules.push(json!({ "record": format!("dashboard:expression:{number}"), "expr": expression }));
    }
    if rules.is_empty() {
        return Err("there are no expressions".to_owned());
    }
    Ok(json!({ "groups": [{ "name": "dashboard", "rules": rules }] }).to_string())
}

/// Collects the expressions of panels, wherever they stand.
fn collect<'a>(value: &'a Value, found: &mut Vec<&'a str>) {
    match value {
        Value::Object(fields) => {
            found.extend(fields.get("expr").and_then(Value::as_str));
            fields.values().for_each(|field| collect(field, found));
        }
        Value::Array(items) => items.iter().for_each(|item| collect(item, found)),
        _ => {}
    }
}

/// Names of the variables in an expression.
fn variables(expression: &str) -> impl Iterator<Item = &str> {
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    expression
        .split('$')
        .skip(1)
        .map(move |rest| rest.split(|c: char| !is_name(c)).next().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    const DASHBOARD: &str = include_str!("../../packaging/grafana/selvedge.json");

    fn with(expression: &str) -> Result<String, String> {
        let target = json!({ "panels": [{ "targets": [{ "expr": expression }] }] });
        let mut dashboard = json!({ "templating": { "list": [{ "name": "instance" }] } });
        dashboard["rows"] = json!([target]);
        rules(&dashboard.to_string())
    }

    #[test]
    fn expressions_are_rules() {
        let made = with("rate(a{instance=~\"$instance\"}[$__rate_interval])").unwrap();
        let made: Value = serde_json::from_str(&made).unwrap();
        let rule =
            json!({ "record": "dashboard:expression:0", "expr": "rate(a{instance=~\"$instance\"}[5m])" });
        assert_eq!(made["groups"][0]["rules"], json!([rule]));
        assert_eq!(rules(DASHBOARD).map(|rules| rules.matches("\"expr\"").count() > 30), Ok(true));
    }

    #[test]
    fn variables_that_nothing_defines_are_refused() {
        let unknown = "nothing defines $host in a{host=\"$host\"}";
        assert_eq!(with("a{host=\"$host\"}"), Err(unknown.to_owned()));
        assert_eq!(rules("{}"), Err("there are no expressions".to_owned()));
        assert!(rules("{").is_err_and(|reason| reason.starts_with("invalid JSON")));
    }
}
