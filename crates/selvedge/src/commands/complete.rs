//! Shell completion: the commands' own words, and the subsystems, namespaces and sockets of the target on this machine.
//! Errors lead to fewer words, never to a message: the shell expects only words.

use std::ffi::OsStr;
use std::time::Duration;

use clap::{Arg, Command, CommandFactory as _};
use clap_complete::engine::{ArgValueCompleter, CompletionCandidate};
use serde_json::Value;

use super::ask::items;
use crate::control::client::Client;
use crate::control::socket::{default_folders, living_sockets};
use crate::flags::Flags;

/// Set by the script that the shell has read, to the shell's name.
pub(crate) const VARIABLE: &str = "SELVEDGE_COMPLETE";
/// Time-out of requests: a person waits for the completion.
const PATIENCE: Duration = Duration::from_millis(500);

/// Answers the shell and ends, if it is the shell that asks.
pub(crate) fn answer() {
    clap_complete::CompleteEnv::with_factory(command).var(VARIABLE).complete();
}

/// Returns the commands with their completers.
fn command() -> Command {
    with_names(Flags::command())
}

fn with_names(command: Command) -> Command {
    let command = command.mut_args(|arg| match completer(&arg) {
        Some(completer) => arg.add(completer),
        None => arg,
    });
    command.mut_subcommands(with_names)
}

/// By an argument's name: what it is called is what it is.
fn completer(arg: &Arg) -> Option<ArgValueCompleter> {
    match arg.get_id().as_str() {
        "subsystem" | "nqn" => Some(ArgValueCompleter::new(subsystems)),
        "nsid" => Some(ArgValueCompleter::new(namespaces)),
        "control" => Some(ArgValueCompleter::new(sockets)),
        _ => None,
    }
}

fn subsystems(typed: &OsStr) -> Vec<CompletionCandidate> {
    let answer = ask();
    let names = items(&answer, "subsystems").iter().filter_map(|subsystem| subsystem["nqn"].as_str());
    starting(typed, names.map(|name| (name.to_owned(), String::new())))
}

/// Of all subsystems: which one is meant stands elsewhere on the line.
fn namespaces(typed: &OsStr) -> Vec<CompletionCandidate> {
    let answer = ask();
    let of = |subsystem: &Value| {
        let nqn = subsystem["nqn"].as_str().unwrap_or_default().to_owned();
        let numbers: Vec<u64> = items(subsystem, "namespaces")
            .iter()
            .filter_map(|namespace| namespace["nsid"].as_u64())
            .collect();
        numbers.into_iter().map(move |nsid| (nsid.to_string(), nqn.clone()))
    };
    starting(typed, items(&answer, "subsystems").iter().flat_map(of))
}

fn sockets(typed: &OsStr) -> Vec<CompletionCandidate> {
    let sockets = default_folders().into_iter().flat_map(|folder| living_sockets(&folder));
    starting(typed, sockets.map(|socket| (format!("unix:{}", socket.display()), String::new())))
}

/// Returns the subsystems of the only target on this machine; null without one, or with several.
fn ask() -> Value {
    let client = Client::of_only_target().map(|client| client.patient_for(PATIENCE));
    client.and_then(|client| client.get("/v1/subsystems")).unwrap_or_default()
}

fn starting(typed: &OsStr, words: impl Iterator<Item = (String, String)>) -> Vec<CompletionCandidate> {
    let typed = typed.to_string_lossy();
    let fitting = words.filter(|(word, _)| word.starts_with(&*typed));
    fitting
        .map(|(word, help)| {
            let candidate = CompletionCandidate::new(word);
            if help.is_empty() { candidate } else { candidate.help(Some(help.into())) }
        })
        .collect()
}
