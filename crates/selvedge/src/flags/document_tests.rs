//! Command lines of documents and helps, parsed by the program's own parser: a renamed flag fails
//! here. The suite `documents` runs those that a machine by itself can run.

use std::collections::BTreeMap;

use clap::{CommandFactory as _, Parser as _};

use super::Flags;
use super::document_commands::{PLACEHOLDERS, commands, is_assignment, pages};

/// Columns of a help: `max_term_width` of the flags.
const HELP_WIDTH: usize = 100;

/// Returns the words of a command's first program, without pipes and redirections; `None` if quotes
/// do not match.
fn words(command: &str, variables: &BTreeMap<String, String>) -> Option<Vec<String>> {
    let mut text = command.to_owned();
    for (placeholder, value) in PLACEHOLDERS {
        text = text.replace(placeholder, value);
    }
    for (name, value) in variables {
        text = text.replace(&format!("${name}"), value);
    }
    let words = shlex::split(&text)?;
    let is_end = |word: &str| {
        matches!(word, "|" | "||" | "&&" | "&" | ">" | "2>" | ">>" | ";") || word.starts_with('#')
    };
    let mut kept = Vec::new();
    for word in words {
        if is_end(&word) {
            break;
        }
        match word.strip_suffix(';') {
            Some(last) => {
                kept.push(last.to_owned());
                break;
            }
            None => kept.push(word),
        }
    }
    Some(kept)
}

/// Returns the mistakes in a text's commands, and the number of commands.
fn mistakes(text: &str, is_page: bool, name: &str) -> (Vec<String>, usize) {
    let (mut mistakes, mut count) = (Vec::new(), 0);
    let mut variables = BTreeMap::new();
    for (line, command) in commands(text, is_page) {
        if is_assignment(&command) {
            if let Some((variable, value)) = command.split_once('=') {
                variables.insert(variable.to_owned(), value.trim_matches(['"', '\'']).to_owned());
            }
            continue;
        }
        count += 1;
        let mut wrong = |what: String| mistakes.push(format!("{name}:{line}: `{command}`: {what}"));
        match words(&command, &variables).map(Flags::try_parse_from) {
            None => wrong("quotes do not match".to_owned()),
            Some(Ok(_)) => {}
            // The command asks for a help or a version.
            Some(Err(error)) if !error.use_stderr() => {}
            Some(Err(error)) => wrong(error.to_string().lines().next().unwrap_or_default().to_owned()),
        }
    }
    (mistakes, count)
}

#[test]
fn every_command_of_the_documents_is_one() {
    let (mut all, mut count) = (Vec::new(), 0);
    for page in pages() {
        let text = std::fs::read_to_string(&page).unwrap();
        let name = page.file_name().unwrap().to_string_lossy().into_owned();
        let (mistakes, commands) = mistakes(&text, true, &name);
        all.extend(mistakes);
        count += commands;
    }
    assert!(all.is_empty(), "{}", all.join("\n"));
    assert!(count > 70, "{count} commands are few: are they found?");
}

fn helps(command: &clap::Command, name: &str, found: &mut Vec<(String, String)>) {
    let help = command.clone().render_long_help().to_string();
    found.push((name.to_owned(), help));
    for inner in command.get_subcommands().filter(|inner| inner.get_name() != "help" && !inner.is_hide_set())
    {
        helps(inner, &format!("{name} {}", inner.get_name()), found);
    }
}

#[test]
fn every_help_has_an_example_that_is_a_command() {
    let mut command = Flags::command();
    command.build();
    let mut found = Vec::new();
    helps(&command, "selvedge", &mut found);
    let mut all = Vec::new();
    for (name, help) in &found {
        let examples = help.find("Example").map_or("", |at| &help[at..]);
        let (mistakes, count) = mistakes(examples, false, name);
        all.extend(mistakes);
        if count == 0 {
            all.push(format!("{name} has no example"));
        }
    }
    assert!(all.is_empty(), "{}", all.join("\n"));
}

#[test]
fn no_line_of_a_help_is_longer_than_it_is_shown() {
    fn longer(command: &clap::Command, found: &mut Vec<String>) {
        let text = command.get_after_help().map(ToString::to_string).unwrap_or_default();
        let lines = text.lines().filter(|line| line.chars().count() > HELP_WIDTH);
        found.extend(lines.map(|line| format!("{}: {line}", command.get_name())));
        command.get_subcommands().for_each(|inner| longer(inner, found));
    }
    let mut found = Vec::new();
    longer(&Flags::command(), &mut found);
    assert!(found.is_empty(), "these would be broken anywhere:\n{}", found.join("\n"));
}

#[test]
fn a_wrong_command_is_found_with_its_line() {
    let page = "# A\n\nselvedge no command\n\n```\nselvedge list -a 10.0.0.1 | head\nselvedge bench \\\n  --no-such 1\n```\n\
        ```\n$ selvedge list -a 10.0.0.1\nselvedge is printed\n```\n```text\nselvedge top  a screen\n```\n";
    let (mistakes, count) = mistakes(page, true, "a.md");
    assert_eq!((mistakes.len(), count), (1, 3), "{mistakes:?}");
    assert!(mistakes[0].starts_with("a.md:7: ") && mistakes[0].contains("--no-such"), "{mistakes:?}");
}
