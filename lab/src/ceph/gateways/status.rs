//! What a gateway says of its group when it is asked by its control socket. It keeps out what should be so.

use std::path::Path;

use serde_json::Value;

use super::control;

/// A group of gateways, as one of them sees it.
#[derive(Debug)]
pub(super) struct Status(Value);

impl Status {
    /// Asks the gateway behind `socket`.
    ///
    /// # Errors
    /// It does not answer, or is not a gateway.
    pub(super) fn ask(socket: &Path) -> Result<Status, String> {
        Status::parse(&control::get(socket, "/v1/gateways")?)
    }

    fn parse(body: &str) -> Result<Status, String> {
        serde_json::from_str(body).map(Status).map_err(|error| format!("no JSON ({error}): {body}"))
    }

    /// True if the gateway that was asked serves a load-balancing group to hosts.
    pub(super) fn serves(&self, group: u32) -> bool {
        self.group(group).is_some_and(|found| found["is_served_here"] == true && found["state"] == "serving")
    }

    /// True if it considers a gateway as alive, by the last reports.
    pub(super) fn is_well(&self, name: &str) -> bool {
        let gateways = self.0["gateways"].as_array();
        let found = gateways.and_then(|all| all.iter().find(|gateway| gateway["name"] == name));
        found.is_some_and(|gateway| gateway["life"] == "alive" && gateway["is_well"] == true)
    }

    /// True if the group has a gateway by this name, alive or not.
    pub(super) fn has_gateway(&self, name: &str) -> bool {
        self.0["gateways"].as_array().is_some_and(|all| all.iter().any(|gateway| gateway["name"] == name))
    }

    /// Number of connections that a gateway has reported to the others.
    pub(super) fn connections(&self, name: &str) -> Option<u64> {
        let gateways = self.0["gateways"].as_array()?;
        gateways.iter().find(|gateway| gateway["name"] == name)?["connections"].as_u64()
    }

    /// Number of namespaces in a load-balancing group, if it exists.
    pub(super) fn namespaces(&self, group: u32) -> Option<u64> {
        self.group(group)?["namespaces"].as_u64()
    }

    fn group(&self, group: u32) -> Option<&Value> {
        self.0["load_balancing_groups"].as_array()?.iter().find(|found| found["id"] == group)
    }

    /// True if it has seen since then, in milliseconds since 1970, that others served a
    /// load-balancing group and then this gateway.
    pub(super) fn has_seen_return(&self, group: u32, name: &str, since_ms: u64) -> bool {
        let is_of = |event: &&Value| {
            event["what"] == "load_balancing_group_moves"
                && event["load_balancing_group"] == group
                && event["state"] == "serving"
                && event["time_ms"].as_u64().is_some_and(|time_ms| time_ms >= since_ms)
        };
        let events = self.0["events"].as_array().into_iter().flatten().filter(is_of);
        let served: Vec<&str> = events.filter_map(|event| event["gateway"].as_str()).collect();
        served.iter().any(|gateway| *gateway != name) && served.last() == Some(&name)
    }

    /// All of it in one line.
    pub(super) fn line(&self) -> String {
        self.0.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BODY: &str = r#"{"gateways":[{"name":"a","life":"alive","is_well":true},
        {"name":"b","life":"dead","is_well":false}],
        "load_balancing_groups":[{"id":1,"state":"serving","is_served_here":true,"namespaces":2},
        {"id":2,"state":"fencing","is_served_here":true}],
        "events":[{"time_ms":5,"what":"gateway_given_up","gateway":"b"},
        {"time_ms":6,"what":"load_balancing_group_moves","load_balancing_group":2,"gateway":"a","state":"serving"},
        {"time_ms":9,"what":"load_balancing_group_moves","load_balancing_group":2,"gateway":"b","state":"serving"}]}"#;

    #[test]
    fn a_group_that_is_not_finished_is_not_served() {
        let status = Status::parse(BODY).unwrap();
        assert_eq!([1, 2, 3].map(|group| status.serves(group)), [true, false, false]);
        assert_eq!(["a", "b", "c"].map(|name| status.is_well(name)), [true, false, false]);
        assert_eq!(["a", "b", "c"].map(|name| status.has_gateway(name)), [true, true, false]);
        assert_eq!([1, 3].map(|group| status.namespaces(group)), [Some(2), None]);
        let seen = [(2, "b", 5), (2, "b", 7), (2, "a", 5), (1, "b", 5)];
        let seen = seen.map(|(group, name, since_ms)| status.has_seen_return(group, name, since_ms));
        assert_eq!(seen, [true, false, false, false]);
    }

    #[test]
    fn a_text_is_no_status() {
        assert!(Status::parse("x").is_err());
    }
}
