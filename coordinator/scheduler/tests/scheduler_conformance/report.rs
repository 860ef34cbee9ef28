//! What came of the cases: a table by area, and the first misses.

use muster_scheduler::decisions::{Action, Decisions};

use crate::{DELIBERATE, case::Decision};

/// Misses that are shown per row.
const SHOWN: usize = 5;

/// What came of all cases.
#[derive(Default)]
pub struct Report {
    /// By area.
    pub rows: Vec<Row>,
    placed: usize,
    same_node: usize,
}

/// What came of the cases of an area.
pub struct Row {
    name: String,
    bar: f64,
    passed: usize,
    misses: Vec<(String, String)>,
    deliberate: usize,
}

// === impl Row ===

impl Row {
    /// No case yet; `bar` percent must pass.
    pub fn new(name: &str, bar: f64) -> Self {
        Self { name: name.to_owned(), bar, passed: 0, misses: Vec::new(), deliberate: 0 }
    }

    /// One more case.
    pub fn add(&mut self, case: &str, result: Result<(), String>) {
        match result {
            Ok(()) => self.passed += 1,
            Err(miss) => match DELIBERATE.iter().find(|(name, _)| *name == case) {
                Some((name, why)) => {
                    println!("{} {name}: deliberate: {why}", self.name);
                    self.deliberate += 1;
                }
                None => self.misses.push((case.to_owned(), miss)),
            },
        }
    }

    fn total(&self) -> usize {
        self.passed + self.deliberate + self.misses.len()
    }

    fn percent(&self) -> f64 {
        self.passed as f64 * 100.0 / self.total().max(1) as f64
    }

    /// Whether too little passes, what is deliberately different aside.
    fn is_below_bar(&self) -> bool {
        let fine = (self.passed + self.deliberate) as f64 * 100.0 / self.total().max(1) as f64;
        self.total() > 0 && fine < self.bar
    }
}

// === impl Report ===

impl Report {
    /// Counts how many placements are on the same node.
    pub fn nodes(&mut self, wanted: &[Decision], ours: &Decisions) {
        for wanted in wanted.iter().filter(|decision| decision.action == "bind") {
            let mut binds = ours.decisions.iter().filter(|ours| ours.action == Action::Bind);
            if let Some(ours) = binds.find(|ours| ours.pod == wanted.pod) {
                self.placed += 1;
                self.same_node += usize::from(ours.node == wanted.node);
            }
        }
    }

    /// All cases.
    pub fn total(&self) -> usize {
        self.rows.iter().map(Row::total).sum()
    }

    /// Rows of which too little passes.
    pub fn below_bar(&self) -> Vec<&str> {
        self.rows.iter().filter(|row| row.is_below_bar()).map(|row| row.name.as_str()).collect()
    }

    /// Shows the first misses and the table.
    pub fn print(&self) {
        let shown = if std::env::var_os("ALL_MISSES").is_some() { usize::MAX } else { SHOWN };
        for row in &self.rows {
            for (case, miss) in row.misses.iter().take(shown) {
                println!("{} {case}\n{miss}", row.name);
            }
        }
        for row in self.rows.iter().filter(|row| row.total() > 0) {
            let (passed, total) = (row.passed, row.total());
            println!("{:<46} {passed:>4} of {total:>4}  {:>6.1} %", row.name, row.percent());
        }
        println!("binds on the same node: {} of {}", self.same_node, self.placed);
        let passed: usize = self.rows.iter().map(|row| row.passed).sum();
        println!("conformance scheduler: {passed} of {}", self.total());
    }
}
