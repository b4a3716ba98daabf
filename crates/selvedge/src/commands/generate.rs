//! `selvedge generate`: man pages and completions, from the same definitions that read the command line. Packages ship what
//! it writes.

use std::fs;
use std::path::Path;

use clap::CommandFactory as _;
use clap_mangen::Man;

use crate::failure::Failure;
use crate::flags::Flags;
use crate::flags::look::GenerateFlags;

/// Shells, and where each expects the completions of a program called `selvedge`.
const SHELLS: [(&str, &str); 3] = [("bash", "selvedge"), ("zsh", "_selvedge"), ("fish", "selvedge.fish")];

/// Writes all of it.
pub(super) fn run(flags: &GenerateFlags) -> Result<(), Failure> {
    let mut command = Flags::command();
    command.build();
    let man = flags.output.join("man");
    make(&man)?;
    pages(&command, "selvedge", &man)?;
    for (shell, name) in SHELLS {
        let folder = flags.output.join("completions").join(shell);
        make(&folder)?;
        write(&folder.join(name), &completion(shell)?)?;
    }
    Ok(())
}

/// One page for a command and each command below it.
fn pages(command: &clap::Command, name: &str, folder: &Path) -> Result<(), Failure> {
    let source = format!("Selvedge {}", env!("CARGO_PKG_VERSION"));
    let page = Man::new(command.clone()).title(name).manual("Selvedge").source(source);
    let mut text = Vec::new();
    page.render(&mut text).map_err(Failure::failed)?;
    write(&folder.join(format!("{name}.1")), &text)?;
    for inner in command.get_subcommands().filter(|inner| inner.get_name() != "help" && !inner.is_hide_set())
    {
        pages(inner, &format!("{name}-{}", inner.get_name()), folder)?;
    }
    Ok(())
}

/// What a shell reads once: it has the program itself complete each line, so that names come from what runs.
fn completion(shell: &str) -> Result<Vec<u8>, Failure> {
    let shells = clap_complete::env::Shells::builtins();
    let completer = shells.completer(shell).ok_or_else(|| Failure::failed(format!("{shell} is unknown")))?;
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
