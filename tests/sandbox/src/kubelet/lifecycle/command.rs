//! Commands that a simulated container can play: `sleep`, `true` and `false`, and `exit` of a shell.

use std::time::Duration;

use serde_json::Value;

use super::list;

/// A command and its arguments that mean the same in every image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Played {
    /// How long it runs; `None`: until stopped.
    pub run: Option<Duration>,
    /// Its exit code.
    pub code: i32,
}

/// What the container's command and arguments say, where they are such a command, alone or as the only one of a shell.
pub(super) fn read(container: &Value) -> Option<Played> {
    let words = ["command", "args"].into_iter().flat_map(|field| list(container, field));
    let words: Vec<&str> = words.map(|word| word.as_str().unwrap_or_default()).collect();
    match &words[..] {
        [shell, flags, script] if is_shell(shell, flags) => {
            let script = script.trim_end().trim_end_matches(';');
            let words: Vec<&str> = script.split_whitespace().collect();
            match &words[..] {
                ["exec", words @ ..] => of_words(words),
                ["exit", code] => {
                    let code = code.parse::<u8>().ok()?;
                    Some(Played { run: Some(Duration::ZERO), code: code.into() })
                }
                words => of_words(words),
            }
        }
        words => of_words(words),
    }
}

fn is_shell(program: &str, flags: &str) -> bool {
    matches!(base(program), "sh" | "bash" | "ash" | "dash")
        && flags.starts_with('-')
        && flags.ends_with('c')
}

fn of_words(words: &[&str]) -> Option<Played> {
    let (program, arguments) = words.split_first()?;
    match (base(program), arguments) {
        ("true", []) => Some(Played { run: Some(Duration::ZERO), code: 0 }),
        ("false", []) => Some(Played { run: Some(Duration::ZERO), code: 1 }),
        ("sleep", ["infinity" | "inf"]) => Some(Played { run: None, code: 0 }),
        ("sleep", [time]) => seconds(time).map(|run| Played { run: Some(run), code: 0 }),
        _ => None,
    }
}

/// `2`, `0.5`, `2s`, `3m`, `1h`, `1d`.
fn seconds(time: &str) -> Option<Duration> {
    let units = [('s', 1.0), ('m', 60.0), ('h', 3_600.0), ('d', 86_400.0)];
    let found = units.iter().find_map(|(unit, length)| Some((time.strip_suffix(*unit)?, *length)));
    let (number, length) = found.unwrap_or((time, 1.0));
    let number: f64 = number.parse().ok()?;
    Duration::try_from_secs_f64(number * length).ok()
}

fn base(program: &str) -> &str {
    program.rsplit('/').next().unwrap_or(program)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn sleep_true_false_and_exit_are_played_and_nothing_else() {
        let for_seconds = |seconds: f64| Some((Some(Duration::from_secs_f64(seconds)), 0));
        for (command, args, expected) in [
            (json!(["sleep", "2"]), json!(null), for_seconds(2.0)),
            (json!(["/bin/sleep"]), json!(["0.5"]), for_seconds(0.5)),
            (json!(null), json!(["sleep", "3m"]), for_seconds(180.0)),
            (json!(["sleep", "infinity"]), json!([]), Some((None, 0))),
            (json!(["sh", "-c", "sleep 7"]), json!([]), for_seconds(7.0)),
            (json!(["/bin/bash", "-euc"]), json!(["exec sleep inf"]), Some((None, 0))),
            (json!(["true"]), json!([]), for_seconds(0.0)),
            (json!(["sh", "-c", "false"]), json!([]), Some((Some(Duration::ZERO), 1))),
            (json!(["sh", "-c", "exit 3"]), json!([]), Some((Some(Duration::ZERO), 3))),
            (json!(["sh", "-c", "sleep 3;\n"]), json!([]), for_seconds(3.0)),
            (json!(["exit", "3"]), json!([]), None),
            (json!(["sh", "-c", "exit 300"]), json!([]), None),
            (json!(["sleep"]), json!([]), None),
            (json!(["sleep", "-1"]), json!([]), None),
            (json!(["sleep", "soon"]), json!([]), None),
            (json!(["sleep", "1", "2"]), json!([]), None),
            (json!(["sh", "-c", "sleep 1; train"]), json!([]), None),
            (json!(["python", "train.py"]), json!([]), None),
            (json!(null), json!(null), None),
        ] {
            let container = json!({ "name": "c", "command": command, "args": args });
            let played = read(&container).map(|played| (played.run, played.code));
            assert_eq!(played, expected, "{container}");
        }
    }
}
