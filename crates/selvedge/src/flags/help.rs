//! How help is laid out: the commands in groups, an example before the options, and in `-h` the options that everybody needs.
//! What the texts say stands with the flags.

use clap::builder::StyledStr;
use clap::{Arg, Command, CommandFactory as _};

use super::Flags;

/// The groups of `selvedge --help`, with their commands.
const GROUPS: [(&str, &[&str]); 5] = [
    ("Serve", &["demo", "serve", "config", "import", "upgrade"]),
    ("Use a target", &["discover", "list", "identify", "attach", "connect", "disconnect", "host-nqn", "key"]),
    ("Measure", &["bench", "sweep", "report", "compare"]),
    (
        "Administer",
        &[
            "status",
            "top",
            "subsystem",
            "namespace",
            "listener",
            "host",
            "ana",
            "connection",
            "referral",
            "gateways",
            "log",
            "slow-commands",
            "token",
            "audit",
            "openapi",
        ],
    ),
    ("Tune", &["doctor", "tune"]),
];

/// The options that `-h` shows of commands that have many, by their long names; `--help` has the others. Required ones and
/// arguments without a name are always shown.
const SHOWN: [(&str, &[&str]); 18] = [
    (
        "serve",
        &[
            "namespace",
            "traddr",
            "trsvcid",
            "nqn",
            "allow-host",
            "allow-any-host",
            "config",
            "state-dir",
            "control",
            "metrics",
        ],
    ),
    ("attach", &["traddr", "trsvcid", "nqn", "nsid", "ublk", "nbd", "vhost-user"]),
    ("connect", &["traddr", "trsvcid", "nqn", "nr-io-queues", "ctrl-loss-tmo", "persistent", "dry-run"]),
    (
        "bench",
        &[
            "traddr",
            "trsvcid",
            "nqn",
            "rw",
            "bs",
            "iodepth",
            "numjobs",
            "runtime",
            "verify",
            "destroy-data",
            "output-format",
        ],
    ),
    ("sweep", &["traddr", "trsvcid", "nqn", "rw", "preset", "output", "resume", "destroy-data", "dry-run"]),
    ("discover", &["traddr", "trsvcid", "hostnqn", "tls-key-file", "output-format"]),
    ("identify", &["traddr", "trsvcid", "nqn", "nsid", "hostnqn", "tls-key-file", "output-format"]),
    ("list", &["traddr", "trsvcid", "nqn", "hostnqn", "tls-key-file", "output-format"]),
    ("doctor", &["traddr", "trsvcid", "nqn", "measure", "before", "page", "output-format"]),
    ("subsystem add", &["allow-any-host", "allow-host", "storage", "control"]),
    ("subsystem set", &["storage", "storage-max", "port", "control"]),
    ("namespace add", &["nsid", "size", "block-size", "visible-to", "control"]),
    ("namespace clone", &["snapshot", "rbd-pool", "new-nsid", "control"]),
    ("namespace set", &["iops", "bw", "visible-to", "write-protection", "control"]),
    ("host set-key", &["dhchap-secret-file", "tls-key-file", "overlap", "control"]),
    ("tune plan", &["queues", "cpus", "picture", "shell", "output-format"]),
    ("tune apply", &["dry-run", "queues", "cpus", "journal", "output-format"]),
    ("tune advise", &["traddr", "trsvcid", "bs", "outstanding", "goal", "sweep", "output-format"]),
];

/// The most lines of examples before the options.
const EXAMPLES_MAX: usize = 2;

/// All that can be typed, laid out for people.
pub(crate) fn command() -> Command {
    grouped(laid_out(Flags::command(), ""))
}

/// The root, with its commands in groups.
fn grouped(root: Command) -> Command {
    let (heading, mut groups) = (*root.get_styles().get_header(), String::new());
    for (name, members) in GROUPS {
        let of_group = members.iter().filter_map(|name| root.find_subcommand(name)).map(|command| {
            Command::new(command.get_name().to_owned())
                .about(command.get_about().cloned().unwrap_or_default())
        });
        let mut group = Command::new("group")
            .disable_help_subcommand(true)
            .max_term_width(100)
            .help_template("{subcommands}")
            .subcommands(of_group);
        let list = group.render_help().ansi().to_string();
        groups += &format!("{heading}{name}:{heading:#}\n{}\n\n", list.trim_end());
    }
    let options = format!("{heading}Options:{heading:#}");
    let template = format!(
        "{{about-with-newline}}\n{{usage-heading}} {{usage}}\n\n{groups}{options}\n{{options}}{{after-help}}"
    );
    root.help_template(StyledStr::from(template))
}

/// A command and those below it.
fn laid_out(command: Command, path: &str) -> Command {
    let heading = *command.get_styles().get_header();
    let command = command.mut_subcommands(|inner| {
        let path = format!("{path} {}", inner.get_name());
        laid_out(inner, path.trim_start())
    });
    let Some(help) = command.get_after_help().map(ToString::to_string).filter(|_| !path.is_empty()) else {
        return command;
    };
    let examples = examples(&help);
    if examples.is_empty() {
        return command;
    }
    let name = if examples.len() == 1 { "Example" } else { "Examples" };
    let examples = examples.join("\n");
    let command = command.help_template(StyledStr::from(format!(
        "{{before-help}}{{about-with-newline}}\n{{usage-heading}} {{usage}}\n\n{heading}{name}:{heading:#}\n{examples}\n\n\
         {{all-args}}{{after-help}}"
    )));
    let command = command.after_help("").after_long_help(help);
    match SHOWN.iter().find(|(known, _)| *known == path) {
        Some((_, shown)) => command.mut_args(|arg| {
            let is_shown = is_one_of(&arg, shown);
            arg.hide_short_help(!is_shown)
        }),
        None => command,
    }
}

fn is_one_of(arg: &Arg, shown: &[&str]) -> bool {
    arg.is_required_set()
        || arg.is_positional()
        || arg.get_long().is_some_and(|long| shown.contains(&long) || matches!(long, "help" | "version"))
}

/// The first command lines of the examples in a help text, each on one line. Examples may share a variable, `T='...'`.
fn examples(help: &str) -> Vec<String> {
    let lines = || help.lines().skip_while(|line| !matches!(*line, "Example:" | "Examples:")).skip(1);
    let shared = lines().find_map(|line| line.trim().strip_prefix("T='")?.strip_suffix('\''));
    let mut lines_left = lines();
    let whole = std::iter::from_fn(|| {
        let mut whole = lines_left.find(|line| line.starts_with("  selvedge "))?.to_owned();
        while let Some(begun) = whole.strip_suffix('\\') {
            whole = format!("{} {}", begun.trim_end(), lines_left.next()?.trim());
        }
        Some(whole)
    });
    whole.take(EXAMPLES_MAX).map(|line| line.replace("$T", shared.unwrap_or("$T"))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The most lines of `-h`.
    const LINES_MAX: usize = 40;

    fn each(command: &Command, path: &str, look: &mut dyn FnMut(&Command, &str)) {
        look(command, path);
        for inner in command.get_subcommands().filter(|inner| inner.get_name() != "help") {
            each(inner, format!("{path} {}", inner.get_name()).trim_start(), look);
        }
    }

    #[test]
    fn every_command_is_in_one_group() {
        let root = Flags::command();
        let visible: Vec<&str> =
            root.get_subcommands().filter(|inner| !inner.is_hide_set()).map(Command::get_name).collect();
        let mut grouped: Vec<&str> = GROUPS.iter().flat_map(|(_, members)| members.iter().copied()).collect();
        for name in &visible {
            assert_eq!(grouped.iter().filter(|member| *member == name).count(), 1, "{name}");
        }
        grouped.retain(|name| !visible.contains(name));
        assert!(grouped.is_empty(), "{grouped:?}");
        let help = command().render_long_help().to_string();
        for (name, members) in GROUPS {
            assert!(
                help.contains(&format!("\n{name}:\n")) && members.iter().all(|name| help.contains(name)),
                "{help}"
            );
        }
    }

    #[test]
    fn short_help_is_short_and_begins_with_an_example() {
        let mut root = command();
        root.build();
        each(&root, "", &mut |command, path| {
            let help = command.clone().render_help().to_string();
            let lines = help.lines().count();
            assert!(path.is_empty() || lines <= LINES_MAX, "selvedge {path} -h has {lines} lines:\n{help}");
            if command.get_subcommands().next().is_none() && !path.is_empty() {
                let (before, _) = help.split_once("Options:").unwrap_or((&help, ""));
                assert!(before.contains(&format!("\n  selvedge {path}")), "selvedge {path} -h:\n{help}");
            }
        });
    }

    #[test]
    fn long_help_has_all_of_it() {
        let (mut laid_out, mut plain) = (command(), Flags::command());
        laid_out.build();
        plain.build();
        let mut texts = Vec::new();
        each(&plain, "", &mut |command, _| {
            let longs = command.get_arguments().filter(|arg| !arg.is_hide_set()).filter_map(Arg::get_long);
            texts.push(longs.map(|long| format!("--{long}")).collect::<Vec<_>>());
        });
        let mut texts = texts.into_iter();
        each(&laid_out, "", &mut |command, path| {
            let help = command.clone().render_long_help().to_string();
            for long in texts.next().expect("as many commands") {
                assert!(help.contains(&long), "selvedge {path} --help has no {long}");
            }
        });
    }

    #[test]
    fn options_that_are_shown_are_there() {
        let mut root = command();
        root.build();
        each(&root, "", &mut |command, path| {
            let Some((_, shown)) = SHOWN.iter().find(|(known, _)| *known == path) else { return };
            for long in *shown {
                let is_there = command.get_arguments().any(|arg| arg.get_long() == Some(long));
                assert!(is_there, "{path} has no --{long}");
            }
        });
    }
}
