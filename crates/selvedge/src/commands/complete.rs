//! Shell completion: the commands' own words, and the subsystems, namespaces and sockets of the target on this machine.
//! Errors lead to fewer words, never to a message: the shell expects only words.

use std::ffi::{OsStr, OsString};
use std::io;
use std::path::Path;
use std::time::Duration;

use clap::{Arg, Command, CommandFactory as _};
use clap_complete::engine::{ArgValueCompleter, CompletionCandidate};
use clap_complete::env::{Bash, EnvCompleter, Fish, Shells, Zsh};
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
    clap_complete::CompleteEnv::with_factory(command).var(VARIABLE).shells(SHELLS).complete();
}

/// The shells that are answered.
pub(super) const SHELLS: Shells<'static> = Shells(&[&ColonBash, &Zsh, &Fish]);

/// Bash, which breaks words at colons (COMP_WORDBREAKS): names of subsystems have some, and are put together again.
struct ColonBash;

impl EnvCompleter for ColonBash {
    fn name(&self) -> &'static str {
        Bash.name()
    }

    fn is(&self, name: &str) -> bool {
        Bash.is(name)
    }

    fn write_registration(
        &self,
        var: &str,
        name: &str,
        bin: &str,
        completer: &str,
        buf: &mut dyn io::Write,
    ) -> io::Result<()> {
        let function = format!("_{}_complete", name.replace('-', "_"));
        let completer = format!("'{}'", completer.replace('\'', "'\\''"));
        let script = SCRIPT.replace("FUNCTION", &function).replace("COMPLETER", &completer);
        buf.write_all(script.replace("VARIABLE", var).replace("PROGRAM", bin).as_bytes())
    }

    fn write_complete(
        &self,
        command: &mut Command,
        args: Vec<OsString>,
        current_dir: Option<&Path>,
        buf: &mut dyn io::Write,
    ) -> io::Result<()> {
        Bash.write_complete(command, args, current_dir, buf)
    }
}

/// Script for Bash. Replies lack the text before the last colon, which is on the line already.
const SCRIPT: &str = r#"FUNCTION() {
    local IFS=$'\013' rest="$COMP_LINE" words=() last=-1 index=0 i word before
    for ((i = 0; i < ${#COMP_WORDS[@]}; i++)); do
        word="${COMP_WORDS[i]}"
        if ((last >= 0)) && [[ $rest != [[:blank:]]* && ($word == :* || ${words[last]} == *:) ]]; then
            words[last]+="$word"
        else
            words[++last]="$word"
        fi
        rest="${rest#*"$word"}"
        ((i == COMP_CWORD)) && index=$last
    done
    local space=true
    compopt +o nospace 2>/dev/null && space=false
    COMPREPLY=($(_CLAP_IFS="$IFS" _CLAP_COMPLETE_INDEX="$index" _CLAP_COMPLETE_COMP_TYPE="$COMP_TYPE" \
        _CLAP_COMPLETE_SPACE="$space" VARIABLE=bash COMPLETER -- "${words[@]}")) || {
        unset COMPREPLY
        return
    }
    before="${words[index]%"${words[index]##*:}"}"
    if [[ $COMP_WORDBREAKS == *:* && -n $before ]]; then
        COMPREPLY=("${COMPREPLY[@]#"$before"}")
    fi
    if [[ $space == false && ${COMPREPLY-} =~ [=/:]$ ]]; then
        compopt -o nospace
    fi
}
if ((BASH_VERSINFO[0] > 4 || (BASH_VERSINFO[0] == 4 && BASH_VERSINFO[1] >= 4))); then
    complete -o nospace -o bashdefault -o nosort -F FUNCTION PROGRAM
else
    complete -o nospace -o bashdefault -F FUNCTION PROGRAM
fi
"#;

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

#[cfg(test)]
mod tests {
    use std::process::Command as Process;

    use super::*;

    /// Returns the words that the program gets, and the replies that Bash inserts for `answers`.
    fn completed(line: &str, words: &str, current: usize, answers: &str) -> String {
        let mut script = Vec::new();
        ColonBash.write_registration(VARIABLE, "selvedge", "selvedge", "answer", &mut script).unwrap();
        let script = String::from_utf8(script).unwrap();
        let run = format!(
            "answer() {{ shift; printf '%s %s' \"$_CLAP_COMPLETE_INDEX\" \"$(IFS='|'; echo \"$*\")\" >&2; \
             printf '{answers}'; }}\n{script}\n\
             COMP_LINE='{line}'; COMP_WORDS=({words}); COMP_CWORD={current}; COMP_POINT=${{#COMP_LINE}}\n\
             _selvedge_complete\nprintf '; %s' \"${{COMPREPLY[@]}}\" >&2\n"
        );
        let output = Process::new("bash").args(["-c", &run]).output().unwrap();
        String::from_utf8(output.stderr).unwrap()
    }

    #[test]
    fn names_with_colons_are_completed_in_bash() {
        let seen = completed(
            "selvedge namespace show nqn.a:e",
            "selvedge namespace show nqn.a : e",
            5,
            "nqn.a:e2e\\013nqn.a:e3",
        );
        assert_eq!(seen, "3 selvedge|namespace|show|nqn.a:e; e2e; e3");
        let seen =
            completed("selvedge namespace show nqn.a:", "selvedge namespace show nqn.a :", 4, "nqn.a:e2e");
        assert_eq!(seen, "3 selvedge|namespace|show|nqn.a:; e2e");
        let seen = completed(
            "selvedge host allow nqn.a:b nqn.c:d --control unix",
            "selvedge host allow nqn.a : b nqn.c : d --control unix",
            10,
            "unix:/run/a.sock",
        );
        assert_eq!(seen, "6 selvedge|host|allow|nqn.a:b|nqn.c:d|--control|unix; unix:/run/a.sock");
        let seen = completed("selvedge na", "selvedge na", 1, "namespace");
        assert_eq!(seen, "1 selvedge|na; namespace");
    }
}
