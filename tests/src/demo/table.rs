//! Tables and device ids in 80 columns.

/// Columns of a terminal that everybody has.
pub(super) const WIDTH: usize = 80;

const GAP: usize = 2;

/// A table with a header; the widest column is cut until all fit into `width`.
pub(super) fn table(header: &[&str], rows: &[Vec<String>], width: usize) -> Vec<String> {
    let mut widths: Vec<usize> = header.iter().map(|cell| length(cell)).collect();
    for row in rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(length(cell));
        }
    }
    let room = width.saturating_sub(GAP * widths.len().saturating_sub(1));
    while widths.iter().sum::<usize>() > room {
        let Some(widest) = widths.iter_mut().max().filter(|width| **width > 1) else { break };
        *widest -= 1;
    }
    let header = header.iter().map(|cell| (*cell).to_owned()).collect();
    [header].iter().chain(rows).map(|row| line(row, &widths)).collect()
}

fn line(row: &[String], widths: &[usize]) -> String {
    let cells = row.iter().zip(widths).map(|(cell, width)| {
        let cell = cut(cell, *width);
        let pad = width.saturating_sub(length(&cell));
        format!("{cell}{}", " ".repeat(pad))
    });
    cells.collect::<Vec<String>>().join(&" ".repeat(GAP)).trim_end().to_owned()
}

/// The text, or its beginning and `…`.
pub(super) fn cut(text: &str, width: usize) -> String {
    if length(text) <= width {
        return text.to_owned();
    }
    let kept: String = text.chars().take(width.saturating_sub(1)).collect();
    format!("{kept}…")
}

fn length(text: &str) -> usize {
    text.chars().count()
}

/// Ids in short: those that count up become one, `Ascend910-[0-7]`.
pub(super) fn short_ids(ids: &[String]) -> Vec<String> {
    let mut split: Vec<(&str, &str, u64)> = ids.iter().map(|id| number(id)).collect();
    split.sort_by(|a, b| (a.0, a.2).cmp(&(b.0, b.2)));
    let mut out = Vec::new();
    let mut rest = split.as_slice();
    while let Some(first) = rest.first() {
        let follows = |(at, id): &(usize, &(&str, &str, u64))| {
            id.0 == first.0 && id.2.checked_sub(first.2) == Some(*at as u64)
        };
        let run = rest.iter().enumerate().take_while(follows).count().max(1);
        let (now, later) = rest.split_at(run);
        rest = later;
        out.push(match now {
            [one] => format!("{}{}", one.0, one.1),
            [one, .., last] => range(one.0, one.1, last.1),
            [] => continue,
        });
    }
    out
}

/// `(before, digits, value)` of an id that ends in a number.
fn number(id: &str) -> (&str, &str, u64) {
    let digits = id.len() - id.trim_end_matches(|c: char| c.is_ascii_digit()).len();
    let (before, digits) = id.split_at(id.len() - digits);
    (before, digits, digits.parse().unwrap_or_default())
}

fn range(before: &str, from: &str, to: &str) -> String {
    // Numbers with leading zeros have one width: what they share stands once.
    let padded = from.starts_with('0') && from.len() == to.len() && from.len() > 1;
    let same = from.bytes().zip(to.bytes()).take_while(|(a, b)| padded && a == b).count();
    let (shared, from) = from.split_at(same);
    let to = to.get(same..).unwrap_or(to);
    format!("{before}{shared}[{from}-{to}]")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_that_count_up_become_one() {
        let cases: [(&[&str], &[&str]); 5] = [
            (&["Ascend910-0", "Ascend910-1", "Ascend910-2"], &["Ascend910-[0-2]"]),
            (&["Ascend910-10", "Ascend910-9", "Ascend910-3"], &["Ascend910-3", "Ascend910-[9-10]"]),
            (&["GPU-44-00060000", "GPU-44-00060001"], &["GPU-44-0006000[0-1]"]),
            (&["GPU-44-0006000a"], &["GPU-44-0006000a"]),
            (&[], &[]),
        ];
        for (ids, expected) in cases {
            let ids: Vec<String> = ids.iter().map(|id| (*id).to_owned()).collect();
            assert_eq!(short_ids(&ids), expected, "{ids:?}");
        }
    }

    #[test]
    fn the_widest_column_is_cut_until_the_table_fits() {
        let rows = vec![vec!["a".repeat(30), "b".repeat(10)], vec!["x".into(), "y".into()]];
        let lines = table(&["NAME", "NODE"], &rows, 24);
        let widest = lines.iter().map(|line| line.chars().count()).max();
        assert_eq!(widest, Some(24));
        assert_eq!(lines[1], format!("{}…  {}", "a".repeat(11), "b".repeat(10)));
        assert_eq!(lines[2], "x             y");
    }
}
