//! Tables and texts for people: as wide as what is in them, or cut to fit a terminal.

use std::io::{self, Write};

/// How wide a terminal is taken to be.
pub(crate) const WIDTH: usize = 100;
/// What is narrower is not cut.
const NARROW: usize = 14;
/// Spaces between two columns.
const GAP: usize = 2;

/// Columns, the first ones to the left, those that are numbers to the right.
pub(crate) struct Table<const N: usize> {
    head: [&'static str; N],
    numbers: [bool; N],
    rows: Vec<[String; N]>,
}

// === impl Table ===

impl<const N: usize> Table<N> {
    /// An empty table. A name that begins with `>` is of a column of numbers.
    pub(crate) fn new(head: [&'static str; N]) -> Self {
        let numbers = head.map(|name| name.starts_with('>'));
        Self { head: head.map(|name| name.trim_start_matches('>')), numbers, rows: Vec::new() }
    }

    pub(crate) fn push(&mut self, row: [String; N]) {
        self.rows.push(row);
    }

    /// Prints it; at most `WIDTH` columns wide if it is to fit. Nothing if it has no rows.
    pub(crate) fn print(&self, fit: bool, out: &mut dyn Write) -> io::Result<()> {
        if self.rows.is_empty() {
            return Ok(());
        }
        let head = self.head.map(str::to_owned);
        let rows = || std::iter::once(&head).chain(&self.rows);
        let mut widths: [usize; N] = std::array::from_fn(|at| {
            rows().filter_map(|row| row.get(at)).map(|cell| length(cell)).max().unwrap_or(0)
        });
        while fit && widths.iter().sum::<usize>() + GAP * N.saturating_sub(1) > WIDTH {
            let Some(widest) = widths.iter_mut().max().filter(|width| **width > NARROW) else {
                break;
            };
            *widest -= 1;
        }
        for row in rows() {
            let mut line = String::new();
            for ((cell, width), number) in row.iter().zip(widths).zip(self.numbers) {
                let cell = cut(cell, width);
                let pad = " ".repeat(width.saturating_sub(length(&cell)));
                let cell = if number { format!("{pad}{cell}") } else { format!("{cell}{pad}") };
                line.push_str(&cell);
                line.push_str("  ");
            }
            writeln!(out, "{}", line.trim_end())?;
        }
        Ok(())
    }
}

fn length(text: &str) -> usize {
    text.chars().count()
}

/// Text that is at most so long; what is cut ends in an ellipsis.
fn cut(text: &str, width: usize) -> String {
    if length(text) <= width {
        return text.to_owned();
    }
    let mut short: String = text.chars().take(width.saturating_sub(1)).collect();
    short.push('…');
    short
}

/// Prints text in lines that are not too long, each after so many spaces.
pub(crate) fn paragraph(text: &str, indent: usize, out: &mut dyn Write) -> io::Result<()> {
    let space = " ".repeat(indent);
    let mut line = String::new();
    for word in text.split_whitespace() {
        if !line.is_empty() && indent + length(&line) + 1 + length(word) > WIDTH {
            writeln!(out, "{space}{line}")?;
            line.clear();
        }
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(word);
    }
    writeln!(out, "{space}{line}")
}

/// A number without needless digits; nothing for what is without end.
pub(crate) fn number(amount: f64) -> String {
    if amount == -1.0 {
        return "-".to_owned();
    }
    let rounded = (amount * 100.0).round() / 100.0;
    if rounded == 0.0 { "0".to_owned() } else { rounded.to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(print: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> String {
        let mut out = Vec::new();
        print(&mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn the_widest_column_is_cut_until_all_fit() {
        let mut table = Table::new(["NAME", ">N", "TAINTS"]);
        table.push(["a".repeat(60), "1".to_owned(), "b".repeat(90)]);
        let narrow = text(|out| table.print(true, out));
        assert!(narrow.lines().all(|line| line.chars().count() <= WIDTH), "{narrow}");
        assert!(narrow.contains('…'), "{narrow}");
        let wide = text(|out| table.print(false, out));
        assert!(wide.contains(&"b".repeat(90)), "{wide}");
    }

    #[test]
    fn paragraphs_break_between_words() {
        let shown = text(|out| paragraph(&"word ".repeat(40), 4, out));
        assert!(shown.lines().count() > 1);
        assert!(
            shown.lines().all(|line| line.starts_with("    word") && line.chars().count() <= WIDTH)
        );
    }

    #[test]
    fn numbers_have_no_needless_digits() {
        assert_eq!([-1.0, 0.0, 2.0, 0.504, 1e-12].map(number), ["-", "0", "2", "0.5", "0"]);
    }
}
