//! `/v1/preview`: what a change would come to, without making it. The change is a request like any other, which goes as far as to
//! where it would be made; who asks needs the role for it.

use std::cell::RefCell;

use engine::target::{Change, FabricConfig};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::ask::{Answer, Ask, Rehearsed, decode};
use super::preview_words;
use super::refusal::Refusal;

/// A change that is to be previewed.
#[derive(Debug, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "PlannedChange")]
pub(super) struct PreviewBody {
    /// Method of the request, such as `POST`.
    pub(super) method: String,
    /// Path of the request, with its query.
    pub(super) path: String,
    /// Body of the request, if it has one.
    #[serde(default)]
    pub(super) body: Option<Value>,
}

/// Effects of the change.
#[derive(Serialize, schemars::JsonSchema)]
#[schemars(rename = "Preview")]
pub(super) struct Preview {
    /// Changes of the configuration; empty if there would be none.
    changes: Vec<Change>,
    /// The same in words, with settings before and after, and effects on keys, images and gateways.
    words: Vec<String>,
    /// Controllers that would end, since their hosts may no longer use the subsystem.
    controllers_ending: usize,
}

/// Request of a preview: the variable parts of its path, decoded, and its query.
pub(super) struct Planned<'a> {
    pub(super) path: Vec<(String, String)>,
    pub(super) query: &'a str,
}

/// Matches a path with its query against a pattern; `None` if it differs.
pub(super) fn planned<'a>(pattern: &str, path: &'a str) -> Option<Planned<'a>> {
    let (path, query) = path.split_once('?').unwrap_or((path, ""));
    if path.split('/').count() != pattern.split('/').count() {
        return None;
    }
    let mut parts = Vec::new();
    for (wanted, part) in pattern.split('/').zip(path.split('/')) {
        match wanted.strip_prefix('{').and_then(|name| name.strip_suffix('}')) {
            Some(name) => {
                parts.push((name.to_owned(), decode(part)?));
            }
            None if wanted == part => {}
            None => return None,
        }
    }
    Some(Planned { path: parts, query })
}

/// Goes on with a change until it would be made.
pub(super) fn of(
    ask: &Ask<'_>,
    planned: &Planned<'_>,
    body: &[u8],
    handler: fn(&Ask<'_>) -> Result<Answer, Refusal>,
) -> Result<Answer, Refusal> {
    let found = RefCell::new(None);
    let inner = Ask {
        administration: ask.administration,
        caller: ask.caller,
        path: &planned.path,
        query: planned.query,
        body,
        record: RefCell::default(),
        preview: Some(&found),
    };
    // It ends by a refusal where it would be made.
    let outcome = handler(&inner);
    match found.take() {
        Some(Rehearsed::Served { changes, wanted, beside }) => {
            let mut words = preview_words::of(&changes, &ask.administration.fabric(), &wanted);
            words.extend(beside);
            let controllers_ending = ending(ask, &wanted);
            Answer::with(&Preview { changes, words, controllers_ending })
        }
        Some(Rehearsed::Else(words)) => {
            Answer::with(&Preview { changes: Vec::new(), words, controllers_ending: 0 })
        }
        None => outcome.and(Err(Refusal::new(500, "what it would change is not known"))),
    }
}

/// Number of controllers that end with the change, since their hosts may no longer use the subsystems. Discovery
/// controllers are not counted, since every host may use them.
fn ending(ask: &Ask<'_>, wanted: &FabricConfig) -> usize {
    let (served, controllers) = (ask.administration.fabric(), ask.administration.status().controllers);
    let may = |fabric: &FabricConfig, nqn: &str, host: &String| {
        fabric.subsystem(nqn).is_some_and(|subsystem| subsystem.lets_stay(host))
    };
    let ends = |nqn: &str, host: &String| may(&served, nqn, host) && !may(wanted, nqn, host);
    controllers.iter().filter(|controller| ends(&controller.subsystem, &controller.host_nqn)).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_taken_apart_as_a_request_would_be() {
        let pattern = "/v1/subsystems/{nqn}/hosts/{host}";
        let found = planned(pattern, "/v1/subsystems/nqn.a%2Fb/hosts/nqn.c?with_key=true").unwrap();
        let parts =
            [("nqn", "nqn.a/b"), ("host", "nqn.c")].map(|(name, part)| (name.to_owned(), part.to_owned()));
        assert_eq!((found.path, found.query), (parts.to_vec(), "with_key=true"));
        for other in [
            "/v1/subsystems/a/hosts",
            "/v1/subsystems/a/hosts/b/c",
            "/v1/subsystems/a/keys/b",
            "/v1/subsystems/%FF/hosts/a",
        ] {
            assert!(planned(pattern, other).is_none(), "{other}");
        }
    }
}
