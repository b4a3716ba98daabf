//! The program's integration tests, as one program that is linked once: `cargo nextest run -p selvedge -E 'test(sweep)'`
//! runs those of one module.

mod absent_disk;
mod addresses;
mod administration;
mod attach;
mod attach_killed;
mod attach_paths;
mod attach_upgrade;
mod attached;
#[allow(dead_code, reason = "the rest is for the engine's tests")]
#[path = "../../../engine/tests/all/bad_disks/mod.rs"]
mod bad_disks;
mod bench_stages;
mod bench_top;
mod command_line;
mod compatibility;
mod confinement;
mod control_socket;
mod doctor;
mod documents;
mod exit_status;
mod faults;
mod few_descriptors;
mod file_size_limit;
mod gateways;
mod generated;
mod host_messages;
mod host_rights;
mod host_secrets;
mod identity;
mod imported;
mod job_file;
mod json_output;
mod log;
mod match_hw_queues;
mod mptcp;
mod names;
mod open_subsystem;
mod other_process;
#[allow(dead_code, reason = "the rest is for the engine's tests")]
#[path = "../../../engine/tests/all/raw_host/mod.rs"]
mod raw_host;
mod refused_host;
#[allow(dead_code, reason = "the rest is for the engine's tests")]
#[path = "../../../engine/tests/all/reservation_party/mod.rs"]
mod reservation_party;
#[allow(dead_code, reason = "the rest is for the API's tests")]
#[path = "../../../administration/src/control/schema_tests.rs"]
mod schema_tests;
mod secret_exposure;
mod service;
mod serving;
mod slow_commands;
mod storage;
mod sweep;
mod terminal_width;
mod tls_keys;
mod tune;
mod upgrade;
