//! The JSON of commands that ask no running target, as schemas: from the structs that are printed. What the others print is
//! the control API's, whose document `selvedge openapi` prints.

use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde_json::{Value, json};
use tuning::commands::tune;
use tuning::doctor::Report;
use tuning::tune::PlanReport;
use tuning::tune::advice::Recommendations;

use super::{connect, demo, disconnect, host_nqn, identify, import, key, list, serve, token, top, upgrade};
use crate::control::audit::Verified;
use crate::discovery;
use crate::packet_path::Survey;
use crate::report::bench::BenchReport;

/// Fields may come at any time; when one goes or changes its meaning, this is another number.
const VERSION: u32 = 1;

/// The commands, with hyphens, each with the schema of what its `-o json` prints.
pub(super) fn all() -> [(String, Value); 32] {
    [
        of::<attachment::Attached>("attach"),
        of::<attachment::Detached>("attach detach"),
        of::<attachment::AttachedDisks>("attach list"),
        of::<attachment::Attached>("attach recover"),
        of::<attachment::UpgradedProcesses>("attach upgrade"),
        of::<Verified>("audit verify"),
        of::<BenchReport>("bench"),
        of::<Either<connect::Connected, connect::Planned>>("connect"),
        of::<demo::Facts>("demo"),
        of::<disconnect::Disconnected>("disconnect"),
        of::<discovery::Log>("discover"),
        of::<Report>("doctor"),
        of::<host_nqn::HostNames>("host-nqn"),
        of::<identify::Identity>("identify"),
        of::<import::Imported<'_>>("import ceph-nvmeof"),
        of::<import::Imported<'_>>("import nvmet"),
        of::<key::Shown>("key check"),
        of::<key::Shown>("key generate"),
        of::<key::Identity>("key identity"),
        of::<key::Shown>("key inspect"),
        of::<list::List>("list"),
        of::<serve::Summary>("serve"),
        of::<token::Entry>("token create"),
        of::<token::Entries>("token list"),
        of::<token::Entry>("token revoke"),
        of::<top::Shown<'_>>("top"),
        of::<Recommendations>("tune advise"),
        of::<Either<tune::Applied, PlanReport>>("tune apply"),
        of::<PlanReport>("tune plan"),
        of::<tune::Reverted>("tune revert"),
        of::<Survey>("tune show"),
        of::<Either<upgrade::Upgraded, upgrade::Unchanged>>("upgrade"),
    ]
}

/// Schema of a command with two kinds of output: `tune apply` prints a plan if it changes nothing,
/// for one.
#[derive(JsonSchema)]
#[schemars(untagged)]
#[expect(dead_code, reason = "only its schema is wanted")]
enum Either<A, B> {
    One(A),
    Other(B),
}

fn of<T: JsonSchema>(command: &str) -> (String, Value) {
    let settings = SchemaSettings::draft2020_12().for_serialize();
    let mut schema = settings.into_generator().into_root_schema_for::<T>();
    let name = command.replace(' ', "-");
    schema.insert("$id".into(), json!(format!("urn:selvedge:json:{name}:{VERSION}")));
    schema.insert("title".into(), json!(format!("selvedge {command} -o json")));
    (name, schema.to_value())
}
