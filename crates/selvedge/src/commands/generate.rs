//! `selvedge generate`: man pages and completions, from the same definitions that read the command line. Packages ship what
//! it writes.

use std::fs;
use std::path::Path;

use clap::CommandFactory as _;
use clap_mangen::Man;
use roff::{Roff, bold, roman};

use super::schemas;
use crate::config::target_reference;
use crate::failure::Failure;
use crate::fio::job_manual::OPTIONS;
use crate::flags::Flags;
use crate::flags::look::GenerateFlags;

/// Shells, and where each expects the completions of a program called `selvedge`.
const SHELLS: [(&str, &str); 3] = [("bash", "selvedge"), ("zsh", "_selvedge"), ("fish", "selvedge.fish")];

/// Section about exit statuses, which all commands share.
const EXIT_STATUS: &str = ".SH \"EXIT STATUS\"\n\
    0 is success, 1 a failure whose reason is on standard error, 2 a wrong command line, 3 a difference that \
    \\fBselvedge config diff\\fR found, and 129, 130 and 143 an end by SIGHUP, SIGINT and SIGTERM.\n";

/// Section about files, on the page of the program.
const FILES: &str = ".SH FILES\n\
    .TP\n/etc/selvedge/target.toml\nConfiguration that the service serves; see selvedge\\-target.toml(5).\n\
    .TP\n/etc/selvedge/access.toml\nTokens and roles of administrators; see selvedge\\-token(1).\n\
    .TP\n/run/selvedge\nControl sockets of running targets.\n\
    .TP\n/run/selvedge\\-attach\nSockets and records of root's attached disks.\n\
    .TP\n/var/lib/selvedge\nState of the service.\n\
    .TP\n/etc/nvme/hostnqn, /etc/nvme/hostid\nNames of this host.\n";

/// Writes all of it.
pub(super) fn run(flags: &GenerateFlags) -> Result<(), Failure> {
    // Its page would be that of each command once more.
    let mut command = Flags::command().disable_help_subcommand(true);
    command.build();
    let man = flags.output.join("man");
    make(&man)?;
    pages(&command, "selvedge", &man)?;
    write(&man.join("selvedge-target.toml.5"), target_page().as_bytes())?;
    write(&man.join("selvedge-job.5"), job_page().as_bytes())?;
    let schema = serde_json::to_string_pretty(&target_reference::schema()).map_err(Failure::failed)?;
    write(&flags.output.join("target.schema.json"), format!("{schema}\n").as_bytes())?;
    let folder = flags.output.join("schema");
    make(&folder)?;
    for (command, schema) in schemas::all() {
        let schema = serde_json::to_string_pretty(&schema).map_err(Failure::failed)?;
        write(&folder.join(format!("{command}.json")), format!("{schema}\n").as_bytes())?;
    }
    write(&flags.output.join("target-toml.md"), target_reference::markdown().as_bytes())?;
    for (shell, name) in SHELLS {
        let folder = flags.output.join("completions").join(shell);
        make(&folder)?;
        write(&folder.join(name), &completion(shell)?)?;
    }
    Ok(())
}

/// Writes the pages of a command and of each command below it.
fn pages(command: &clap::Command, name: &str, folder: &Path) -> Result<(), Failure> {
    let source = format!("Selvedge {}", env!("CARGO_PKG_VERSION"));
    let usage = command.clone().render_usage().to_string();
    let usage = usage.trim_start_matches("Usage:").trim_start().to_owned();
    let page = Man::new(command.clone().override_usage(usage));
    let page = page.title(name).manual("Selvedge").source(source);
    let mut text = Vec::new();
    page.render(&mut text).map_err(Failure::failed)?;
    let text = with_usual_sections(&String::from_utf8_lossy(&text));
    write(&folder.join(format!("{name}.1")), text.as_bytes())?;
    for inner in command.get_subcommands().filter(|inner| !inner.is_hide_set()) {
        pages(inner, &format!("{name}-{}", inner.get_name()), folder)?;
    }
    Ok(())
}

/// The page of a command with the names of sections that readers of man pages look for.
fn with_usual_sections(page: &str) -> String {
    let text = page.replace(".SH EXTRA\n", ".SH \"NOTES AND EXAMPLES\"\n");
    // The version is the last section, of the first page alone.
    match text.rfind(".SH VERSION") {
        Some(at) => format!("{}{EXIT_STATUS}{FILES}{}", &text[..at], &text[at..]),
        None => format!("{text}{EXIT_STATUS}"),
    }
}

/// The first lines of a page about a file.
fn file_page(name: &str, what: &str) -> Roff {
    let source = format!("Selvedge {}", env!("CARGO_PKG_VERSION"));
    let mut page = Roff::new();
    page.control("TH", [name, "5", "", &source, "Selvedge"]);
    page.control("SH", ["NAME"]);
    page.text([roman(format!("{name} - {what}"))]);
    page
}

/// Writes one setting and its meaning, which is indented.
fn setting(page: &mut Roff, names: &[&str], rest: String, what: &str) {
    page.control("TP", []);
    let mut line = Vec::new();
    for (at, name) in names.iter().enumerate() {
        line.extend((at > 0).then(|| roman(", ")));
        line.push(bold(*name));
    }
    line.push(roman(rest));
    page.text(line);
    page.text([roman(what)]);
}

/// The page with what every such page ends with: a file, and the commands that read it.
fn ended(mut page: Roff, example: &str, commands: [&str; 2]) -> String {
    page.control("SH", ["EXAMPLE"]);
    page.control("nf", []);
    for line in example.lines() {
        page.text([roman(line)]);
    }
    page.control("fi", []);
    page.control("SH", ["SEE ALSO"]);
    let [first, second] = commands;
    page.text([bold(first), roman("(1), "), bold(second), roman("(1)")]);
    page.render()
}

/// `selvedge-target.toml(5)`.
fn target_page() -> String {
    let mut page = file_page("selvedge-target.toml", "configuration of a Selvedge target");
    page.control("SH", ["DESCRIPTION"]);
    page.text([roman("A file in TOML that "), bold("selvedge serve -c"), roman(" reads and ")]);
    page.text([bold("selvedge config"), roman(" checks, compares and applies. A size is a number of bytes, or text such as \"10g\", where units count in 1,024s.")]);
    for table in target_reference::tables() {
        let heading =
            if table.name.is_empty() { "SETTINGS".to_owned() } else { format!("[[{}]]", table.name) };
        page.control("SH", [heading.as_str()]);
        page.text([roman(&table.what)]);
        for known in &table.settings {
            let default = match (&known.default, known.is_required) {
                (_, true) => "; required".to_owned(),
                (Some(default), false) => format!("; {default} by default"),
                (None, false) => String::new(),
            };
            setting(&mut page, &[&known.name], format!(" = {}{default}", known.takes), &known.what);
        }
    }
    ended(page, TARGET_EXAMPLE, ["selvedge-serve", "selvedge-config"])
}

/// A file that serves one disk to one host.
const TARGET_EXAMPLE: &str = r#"[[port]]
address = "192.168.0.10:4420"

[[subsystem]]
nqn = "nqn.2026-01.org.example:disks"
hosts = ["nqn.2014-08.org.nvmexpress:uuid:1b4e28ba-2fa1-11d2-883f-0016d3ccabcd"]

[[subsystem.namespace]]
backend.file = { path = "/srv/disk.img", size = "100g" }"#;

/// A file that reads for ten seconds.
const JOB_EXAMPLE: &str = "[global]\nbs=4k\nruntime=10\ntime_based\n[reads]\nrw=randread\niodepth=32";

/// `selvedge-job(5)`.
fn job_page() -> String {
    let mut page = file_page("selvedge-job", "a job file of fio, for selvedge bench");
    page.control("SH", ["DESCRIPTION"]);
    page.text([
        roman("A section in brackets is a job; "),
        bold("[global]"),
        roman(" applies to all sections after it; ; and # begin comments. Options of fio about files, the kernel and its own "),
        roman("output have no effect here, and are listed. Any other option stops the run, since it could change the result."),
    ]);
    page.control("SH", ["OPTIONS"]);
    for (names, what) in OPTIONS {
        setting(&mut page, names, String::new(), what);
    }
    ended(page, JOB_EXAMPLE, ["selvedge-bench", "fio"])
}

/// Returns the script that a shell reads once; the shell then calls the program for each
/// completion, which knows current names.
fn completion(shell: &str) -> Result<Vec<u8>, Failure> {
    let completer = super::complete::SHELLS
        .completer(shell)
        .ok_or_else(|| Failure::failed(format!("{shell} is unknown")))?;
    let mut text = Vec::new();
    completer
        .write_registration(super::complete::VARIABLE, "selvedge", "selvedge", "selvedge", &mut text)
        .map_err(Failure::failed)?;
    Ok(text)
}

fn make(folder: &Path) -> Result<(), Failure> {
    fs::create_dir_all(folder).map_err(|error| Failure::failed(format!("{}: {error}", folder.display())))
}

fn write(path: &Path, text: &[u8]) -> Result<(), Failure> {
    fs::write(path, text).map_err(|error| Failure::failed(format!("{}: {error}", path.display())))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::config::target_file;
    use crate::fio::job_file;

    #[test]
    fn pages_of_commands_have_the_usual_sections() {
        let page = with_usual_sections(".SH OPTIONS\nall\n.SH EXTRA\nExample\n.SH VERSION\nv1\n");
        let at = |part: &str| page.find(part).unwrap_or_else(|| panic!("{part} is not in {page}"));
        assert!(at(".SH OPTIONS") < at(".SH \"NOTES AND EXAMPLES\"\nExample"));
        assert!(at("Example") < at(".SH \"EXIT STATUS\"\n0 is success") && at("SIGTERM.\n.SH FILES") > 0);
        assert!(at("/run/selvedge\n") < at(".SH VERSION"));
        assert!(!page.contains("EXTRA"));
        let page = with_usual_sections(".SH NAME\nselvedge\n");
        assert!(page.starts_with(".SH NAME") && page.ends_with("SIGTERM.\n"), "{page}");
    }

    #[test]
    fn examples_of_the_pages_about_files_are_right() {
        assert!(target_file::read_text(TARGET_EXAMPLE, Path::new("target.toml")).is_ok());
        assert!(job_file::JobFile::read(JOB_EXAMPLE, &|_| None).is_ok());
    }
}
