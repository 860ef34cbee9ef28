//! Stand-ins for vendors' tools: shell scripts that print what the real ones would.
//!
//! All of them obey `FAKE_LOG` (a file that gets their arguments), `FAKE_DELAY_MS`, `FAKE_FAIL=<id>|all`
//! (exit 1), `FAKE_HANG=<id>|all` (sleep an hour) and `FAKE_GARBAGE=1` (noise). The id is the word after `-i`.

use std::fmt::Write;

const SWITCHES: &str = r#"if [ -n "${FAKE_LOG:-}" ]; then echo "$tool $*" >> "$FAKE_LOG"; fi
id= chip= last=
for word in "$@"; do
  case "$last" in -i) id=$word ;; -c) chip=$word ;; esac
  last=$word
done
if [ -n "${FAKE_DELAY_MS:-}" ]; then
  sleep "$((FAKE_DELAY_MS / 1000)).$(printf %03d $((FAKE_DELAY_MS % 1000)))"
fi
named() { [ -n "$1" ] && { [ "$1" = all ] || [ "$1" = "$id" ]; }; }
if named "${FAKE_HANG:-}"; then exec sleep 3600; fi
if named "${FAKE_FAIL:-}"; then echo "$tool: device $id does not answer" >&2; exit 1; fi
if [ "${FAKE_GARBAGE:-}" = 1 ]; then printf '\377\376\000\001\200\033[7m|+=\n\000'; exit 0; fi
"#;

/// A script that first obeys the switches, then runs `body`.
pub(super) fn script(tool: &str, body: &str) -> String {
    format!("#!/bin/sh\n# Stands for {tool} on a simulated node.\ntool={tool}\n{SWITCHES}{body}")
}

/// A branch of a `case` that prints `text` as it is.
pub(super) fn branch(pattern: &str, text: &str) -> String {
    format!("{pattern})\ncat <<'END'\n{}\nEND\n;;\n", text.trim_end_matches('\n'))
}

/// `case "$on" in … esac`, with what happens otherwise.
pub(super) fn case(on: &str, branches: &[String], otherwise: &str) -> String {
    let mut text = format!("case \"{on}\" in\n");
    for branch in branches {
        text.push_str(branch);
    }
    // Writing into a String cannot fail.
    let _written = write!(text, "*)\n{otherwise}\n;;\nesac\n");
    text
}
