//! Two transcripts of one case, line by line.

use std::fmt::Write as _;

use super::transcript::{Entry, Transcript};

/// Equal lines shown around a difference.
const AROUND: usize = 3;

/// The differences of two transcripts as text (`-` only left, `+` only right), or nothing if they are equal.
pub fn difference(left: &Transcript, right: &Transcript) -> Option<String> {
    let mut out = String::new();
    let steps = left.entries.len().max(right.entries.len());
    for index in 0..steps {
        match (left.entries.get(index), right.entries.get(index)) {
            (Some(left), Some(right)) => {
                let (a, b) = (lines(left), lines(right));
                if a != b {
                    let _ = writeln!(out, "  step {}: {}", index + 1, left.title);
                    hunks(&a, &b, &mut out);
                }
            }
            (Some(entry), None) => {
                let _ = writeln!(out, "  step {}: only left: {}", index + 1, entry.title);
            }
            (None, Some(entry)) => {
                let _ = writeln!(out, "  step {}: only right: {}", index + 1, entry.title);
            }
            (None, None) => {}
        }
    }
    (!out.is_empty()).then_some(out)
}

fn lines(entry: &Entry) -> Vec<String> {
    let text = serde_json::to_string_pretty(&entry.answer).unwrap_or_default();
    std::iter::once(entry.title.clone()).chain(text.lines().map(str::to_owned)).collect()
}

/// Marks each line as common, only left or only right, by the longest common subsequence.
fn marked<'a>(a: &'a [String], b: &'a [String]) -> Vec<(char, &'a str)> {
    let mut longest = vec![vec![0_u32; b.len() + 1]; a.len() + 1];
    for i in (0..a.len()).rev() {
        for j in (0..b.len()).rev() {
            longest[i][j] = if a[i] == b[j] {
                longest[i + 1][j + 1] + 1
            } else {
                longest[i + 1][j].max(longest[i][j + 1])
            };
        }
    }
    let (mut i, mut j, mut out) = (0, 0, Vec::new());
    while i < a.len() || j < b.len() {
        if i < a.len() && j < b.len() && a[i] == b[j] {
            out.push((' ', a[i].as_str()));
            (i, j) = (i + 1, j + 1);
        } else if j == b.len() || (i < a.len() && longest[i + 1][j] >= longest[i][j + 1]) {
            out.push(('-', a[i].as_str()));
            i += 1;
        } else {
            out.push(('+', b[j].as_str()));
            j += 1;
        }
    }
    out
}

fn hunks(a: &[String], b: &[String], out: &mut String) {
    let all = marked(a, b);
    let mut skipped = false;
    for (index, (mark, line)) in all.iter().enumerate() {
        let from = index.saturating_sub(AROUND);
        let to = (index + AROUND + 1).min(all.len());
        if all[from..to].iter().any(|(mark, _)| *mark != ' ') {
            let _ = writeln!(out, "  {mark} {line}");
            skipped = false;
        } else if !skipped {
            let _ = writeln!(out, "    ...");
            skipped = true;
        }
    }
}
