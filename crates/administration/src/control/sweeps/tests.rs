//! Sweeps that are published: who may, who sees them, what each tells, and whose have to go when there are many.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::super::access::Identity;
use super::super::access_tests::{House, MINE, OTHER, sha256, token};
use super::super::limits::{
    SWEEP_BYTES_MAX, SWEEP_POINTS_MAX, SWEEP_TEXT_BYTES_MAX, SWEEPS_MAX, SWEEPS_PER_CALLER_MAX,
};
use super::super::openapi;
use super::super::schema_tests::mistake;
use super::sweep_board::{HeardState, SweepBoard, Title};
use super::{Along, Interval, SweepBody, SweepPoint, SweepState};

const QUIET: Duration = Duration::from_secs(40);
const BEGAN: &str = "2026-11-28T22:30:00Z";

fn body(state: SweepState) -> SweepBody {
    SweepBody {
        began: BEGAN.to_owned(),
        machine: None,
        nsid: 1,
        state,
        reason: None,
        done: 1,
        failed: 0,
        planned: 4,
        left_s: Some(9.0),
        measuring: None,
        quiet_s: QUIET.as_secs_f64(),
        along: Along::Outstanding,
        points: vec![point("depth 8")],
        points_omitted: 0,
    }
}

fn point(label: &str) -> SweepPoint {
    let interval = |mean| Interval { mean, low: None, high: None };
    SweepPoint {
        label: label.to_owned(),
        workload: "randread, 4 KiB".to_owned(),
        line: String::new(),
        x: Some(8.0),
        runs: 1,
        iops: interval(1000.0),
        bytes_per_s: 4_096_000.0,
        mean_ns: 8e6,
        p99_ns: interval(2e7),
    }
}

/// A board, and callers who publish on it.
struct Wall {
    board: SweepBoard,
    began: Instant,
}

impl Wall {
    fn new() -> Self {
        Self { board: SweepBoard::default(), began: Instant::now() }
    }

    /// Publishes `after` so long; the status of a refusal.
    fn publish(&self, caller: &str, name: &str, state: SweepState, after: Duration) -> Result<bool, u16> {
        let owner = Identity::Token(caller.to_owned());
        let title = Title { subsystem: MINE, name, owner: &owner };
        let published = self.board.publish(title, body(state), self.began + after);
        published.map_err(|refusal| refusal.status)
    }

    fn names(&self) -> Vec<String> {
        self.board.list(self.began).into_iter().map(|found| found.name).collect()
    }
}

fn second(number: usize) -> Duration {
    Duration::from_secs(number as u64)
}

#[test]
fn a_sweep_that_says_nothing_more_is_silent_and_comes_back() {
    let wall = Wall::new();
    assert_eq!(wall.publish("a", "one", SweepState::Running, second(0)), Ok(true));
    let state = |after| wall.board.list(wall.began + after)[0].state;
    assert_eq!(state(QUIET), HeardState::Running);
    let late = QUIET + second(1);
    assert_eq!(state(late), HeardState::Silent);
    assert_eq!(wall.publish("a", "one", SweepState::Running, late), Ok(false));
    assert_eq!(state(late), HeardState::Running);
    wall.publish("a", "one", SweepState::Complete, late).unwrap();
    assert_eq!(state(late * 9), HeardState::Complete, "one that has ended has nothing more to say");
}

#[test]
fn a_name_is_its_publishers_and_of_one_sweep_at_a_time() {
    let wall = Wall::new();
    wall.publish("a", "one", SweepState::Running, second(0)).unwrap();
    assert_eq!(wall.publish("b", "one", SweepState::Running, second(1)), Err(409));
    let other = SweepBody { began: "2026-11-29T01:00:00Z".to_owned(), ..body(SweepState::Running) };
    let publish_other = |after| {
        let owner = Identity::Token("a".to_owned());
        let title = Title { subsystem: MINE, name: "one", owner: &owner };
        wall.board.publish(title, other.clone(), wall.began + after).map_err(|refusal| refusal.status)
    };
    assert_eq!(publish_other(second(1)), Err(409), "two that run would take turns");
    // The silent one may or may not go on.
    assert_eq!(publish_other(QUIET + second(1)), Ok(true));
}

#[test]
fn what_runs_stays_and_the_oldest_that_has_ended_goes() {
    let wall = Wall::new();
    for number in 0..SWEEPS_PER_CALLER_MAX {
        let state = if number == 0 { SweepState::Running } else { SweepState::Complete };
        wall.publish("a", &format!("a{number}"), state, second(number)).unwrap();
    }
    wall.publish("a", "more", SweepState::Running, second(20)).unwrap();
    let names = wall.names();
    assert_eq!(names.len(), SWEEPS_PER_CALLER_MAX);
    assert!(names.contains(&"a0".to_owned()) && !names.contains(&"a1".to_owned()), "{names:?}");
    // A caller that has only running sweeps has to wait.
    for number in 0..SWEEPS_PER_CALLER_MAX {
        wall.publish("b", &format!("b{number}"), SweepState::Running, second(20)).unwrap();
    }
    assert_eq!(wall.publish("b", "another", SweepState::Running, second(21)), Err(503));
    assert_eq!(
        wall.publish("b", "b0", SweepState::Complete, second(21)),
        Ok(false),
        "what is known is no more"
    );
}

#[test]
fn the_caller_with_most_sweeps_makes_room_for_others() {
    let wall = Wall::new();
    // The oldest of all belongs to a caller that has no other.
    wall.publish("few", "first", SweepState::Complete, second(0)).unwrap();
    let mut count = 1;
    for caller in ["a", "b", "c"] {
        for number in 0..SWEEPS_PER_CALLER_MAX.min(SWEEPS_MAX - count) {
            wall.publish(caller, &format!("{caller}{number}"), SweepState::Complete, second(count)).unwrap();
            count += 1;
        }
    }
    assert_eq!(wall.names().len(), SWEEPS_MAX);
    for number in 0..3 {
        wall.publish("new", &format!("new{number}"), SweepState::Running, second(60)).unwrap();
    }
    let names = wall.names();
    assert_eq!(names.len(), SWEEPS_MAX);
    let has = |name: &str| names.contains(&name.to_owned());
    assert!(has("first") && has("c0") && has("new2"), "{names:?}");
    assert!(!has("a0") && !has("b0") && !has("a1"), "{names:?}");
}

#[test]
fn what_no_sweep_is_is_refused_with_its_field() {
    let good = body(SweepState::Running);
    assert_eq!(good.check(), Ok(()));
    let wrong = |change: &dyn Fn(&mut SweepBody)| {
        let mut body = good.clone();
        change(&mut body);
        let refusal = body.check().unwrap_err();
        (refusal.status, refusal.field.unwrap())
    };
    assert_eq!(wrong(&|body| body.began = "yesterday".to_owned()), (422, "began".to_owned()));
    assert_eq!(wrong(&|body| body.done = 5), (422, "done".to_owned()));
    assert_eq!(wrong(&|body| body.failed = 2), (422, "done".to_owned()));
    assert_eq!(wrong(&|body| body.quiet_s = 1e9), (422, "quiet_s".to_owned()));
    assert_eq!(wrong(&|body| body.points[0].p99_ns.mean = -1.0), (422, "points".to_owned()));
    assert_eq!(
        wrong(&|body| body.points = vec![point("x"); SWEEP_POINTS_MAX + 1]),
        (422, "points".to_owned())
    );
    let long = "x".repeat(SWEEP_TEXT_BYTES_MAX + 1);
    assert_eq!(wrong(&|body| body.points[0].line = long.clone()), (422, "points[0].line".to_owned()));
    assert_eq!(wrong(&|body| body.machine = Some(long.clone())), (422, "machine".to_owned()));
}

#[test]
fn what_is_too_much_is_cut_before_it_is_sent() {
    let mut large = body(SweepState::Running);
    // Each of these characters takes six bytes in JSON.
    large.points = vec![point(&"\u{1}".repeat(SWEEP_TEXT_BYTES_MAX)); SWEEP_POINTS_MAX + 7];
    large.points[0].workload = "ä".repeat(SWEEP_TEXT_BYTES_MAX);
    let all = large.points.len() as u32;
    let cut = large.within_limits();
    cut.check().unwrap();
    assert!(serde_json::to_string(&cut).unwrap().len() <= SWEEP_BYTES_MAX);
    assert!(!cut.points.is_empty());
    assert_eq!(cut.points_omitted + cut.points.len() as u32, all);
    assert_eq!(body(SweepState::Running).within_limits(), body(SweepState::Running));
}

fn path(nqn: &str, name: &str) -> String {
    format!("/v1/subsystems/{nqn}/sweeps/{name}")
}

#[test]
fn a_reader_sees_what_an_operator_of_the_subsystem_publishes() {
    let house = House::with_tokens(&format!(
        "[[token]]\nname = \"second\"\nrole = \"operate\"\nsubsystems = [\"{MINE}\"]\nsha256 = \"{}\"\n",
        sha256("second")
    ));
    let sweep = serde_json::to_string(&body(SweepState::Running)).unwrap();
    let put = |by: &str, path: &str, body: &str| house.ask("PUT", path, Some(&token(by)), body).status;
    let read = |path: &str| {
        let response = house.ask("GET", path, Some(&token("read")), "");
        (response.status, serde_json::from_str::<Value>(&response.body).unwrap())
    };
    let mine = path(MINE, "%3Cb%3Enight%E2%80%AE");
    assert_eq!(put("read", &mine, &sweep), 403);
    assert_eq!(put("operate", &path(OTHER, "night"), &sweep), 403, "not of another subsystem");
    assert_eq!(read("/v1/sweeps"), (200, json!({ "sweeps": [] })));
    assert_eq!((put("operate", &mine, &sweep), put("operate", &mine, &sweep)), (200, 200));
    assert_eq!(put("second", &mine, &sweep), 409, "it is another's");
    let document = openapi::document().unwrap();
    let (_, list) = read("/v1/sweeps");
    let schema = json!({ "$ref": "#/components/schemas/Sweeps" });
    assert_eq!(mistake(&document, &schema, &list, "list"), None);
    let found = &list["sweeps"][0];
    assert_eq!((&found["name"], &found["state"]), (&json!("<b>night\u{202e}"), &json!("running")));
    assert!(found.get("points").is_none() && !list.to_string().contains("operate"), "{list}");
    let (status, one) = read(&mine);
    assert_eq!((status, &one["points"][0]["label"], &one["done"]), (200, &json!("depth 8"), &json!(1)));
    assert_eq!(read(&path(MINE, "other")).0, 404);
    // Who has begun it stands in the audit log once, and not how it goes on.
    let changes = house.recorded();
    let changes: Vec<_> = changes.iter().filter(|record| record["event"] == "change").collect();
    assert_eq!((changes.len(), &changes[0]["who"]), (1, &json!({ "token": "operate" })));
}

#[test]
fn what_cannot_be_published_leaves_nothing() {
    let house = House::with_tokens("");
    let put = |path: &str, body: &str| house.ask("PUT", path, Some(&token("admin")), body);
    let sweep = |change: &dyn Fn(&mut SweepBody)| {
        let mut body = body(SweepState::Running);
        change(&mut body);
        serde_json::to_string(&body).unwrap()
    };
    let good = sweep(&|_| {});
    for (path, body, status, word) in [
        (path("nqn.none", "x"), good.clone(), 404, "nqn.none"),
        (path(MINE, "x"), sweep(&|body| body.nsid = 7), 422, "namespace 7"),
        (path(MINE, "x"), good.replace("\"done\"", "\"did\""), 422, "done"),
        (path(MINE, "x"), good.clone() + &" ".repeat(SWEEP_BYTES_MAX), 413, "bytes"),
        (path(MINE, &"x".repeat(224)), good.clone(), 422, "223"),
        (path(MINE, "a%0Ab"), good.clone(), 422, "line"),
        (path(MINE, "x"), good.replace("\"done\":1", "\"done\":1e999"), 400, "number"),
    ] {
        let response = put(&path, &body);
        assert_eq!(response.status, status, "{}", response.body);
        assert!(response.body.contains(word), "{}", response.body);
    }
    let list = house.ask("GET", "/v1/sweeps", Some(&token("read")), "").body;
    assert_eq!(serde_json::from_str::<Value>(&list).unwrap(), json!({ "sweeps": [] }));
}
