//! Cells in columns.

use std::fmt;

/// Between two columns.
const GAP: usize = 2;

/// Rows of cells; every column is as wide as its widest cell.
#[derive(Clone, Debug, Default)]
pub(super) struct Grid {
    rows: Vec<Vec<String>>,
}

// === impl Grid ===

impl Grid {
    pub fn row(&mut self, cells: impl IntoIterator<Item = impl Into<String>>) {
        self.rows.push(cells.into_iter().map(Into::into).collect());
    }

    /// Cuts the cells of one column to `wide` characters, and further, though not below `least`, until a line has at
    /// most `line` characters.
    pub fn shrink(&mut self, column: usize, (wide, least): (usize, usize), line: usize) {
        let widths = self.widths();
        let all = widths.iter().sum::<usize>() + GAP * widths.len().saturating_sub(1);
        let Some(width) = widths.get(column) else { return };
        let keep = width.saturating_sub(all.saturating_sub(line)).clamp(least, wide);
        for cell in self.rows.iter_mut().filter_map(|row| row.get_mut(column)) {
            if cell.chars().count() > keep {
                *cell = cell.chars().take(keep.saturating_sub(1)).chain(['…']).collect();
            }
        }
    }

    fn widths(&self) -> Vec<usize> {
        let mut widths = Vec::new();
        for row in &self.rows {
            widths.resize(widths.len().max(row.len()), 0);
            for (width, cell) in widths.iter_mut().zip(row) {
                *width = cell.chars().count().max(*width);
            }
        }
        widths
    }
}

impl fmt::Display for Grid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let widths = self.widths();
        for row in &self.rows {
            let mut line = String::new();
            for (cell, width) in row.iter().zip(&widths) {
                line.push_str(&format!("{cell:<width$}{:GAP$}", ""));
            }
            writeln!(f, "{}", line.trim_end())?;
        }
        Ok(())
    }
}
