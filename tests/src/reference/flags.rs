//! Flags of the programs, as their command lines have them.

use clap::{Arg, Command, CommandFactory};

use super::{cell, code, head, row};

/// The page's text.
pub fn page() -> String {
    let mut text = head("Flags", "Every program, every command and every flag.");
    for program in [
        muster_coordinator::args::Args::command(),
        muster_agent::args::Args::command(),
        musterctl::args::Args::command(),
    ] {
        let name = program.get_name().to_owned();
        command(&mut text, &name, &program, 2);
    }
    text
}

fn command(text: &mut String, path: &str, of: &Command, level: usize) {
    if of.is_hide_set() {
        return;
    }
    *text += &format!("\n{} {path}\n", "#".repeat(level));
    if let Some(about) = of.get_about() {
        *text +=
            &format!("\n{}\n", about.to_string().split_whitespace().collect::<Vec<_>>().join(" "));
    }
    let rows: Vec<String> = of.get_arguments().filter(|arg| !arg.is_hide_set()).map(flag).collect();
    if !rows.is_empty() {
        *text += "\n| flag | meaning | default | environment |\n|---|---|---|---|\n";
        *text += &rows.concat();
    }
    for below in of.get_subcommands() {
        command(text, &format!("{path} {}", below.get_name()), below, 3);
    }
}

/// A flag or an argument as a row.
fn flag(arg: &Arg) -> String {
    let names: Vec<&str> =
        arg.get_value_names().into_iter().flatten().map(clap::builder::Str::as_str).collect();
    let possible = arg.get_possible_values();
    let words: Vec<&str> = possible.iter().map(clap::builder::PossibleValue::get_name).collect();
    let takes = arg.get_action().takes_values();
    let value = match (takes, words.is_empty()) {
        (false, _) => String::new(),
        (true, false) => words.join("|"),
        (true, true) => names.join(" "),
    };
    let name = match (arg.get_long(), arg.get_short()) {
        (Some(long), Some(short)) => format!("-{short}, --{long} {value}"),
        (Some(long), None) => format!("--{long} {value}"),
        (None, Some(short)) => format!("-{short} {value}"),
        (None, None) => value,
    };
    let default: Vec<String> = arg
        .get_default_values()
        .iter()
        .filter(|_| takes)
        .map(|value| value.to_string_lossy().into_owned())
        .collect();
    let env = arg.get_env().map(|env| env.to_string_lossy().into_owned()).unwrap_or_default();
    let help = arg.get_help().map(ToString::to_string).unwrap_or_default();
    row(&[code(&name), cell(&help), code(&default.join(",")), code(&env)])
}
