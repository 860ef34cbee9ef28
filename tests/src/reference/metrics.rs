//! What programs count, as their pages for Prometheus say.

use std::collections::{BTreeMap, BTreeSet};

use super::{cell, code, head, row};

/// A metric as its program registers it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Metric {
    /// Counter, gauge or histogram.
    pub kind: String,
    /// What it means.
    pub about: String,
    /// Names of its labels.
    pub labels: BTreeSet<String>,
}

/// The metrics of a page, by name as samples have it.
pub fn read(page: &str) -> BTreeMap<String, Metric> {
    let mut all: BTreeMap<String, Metric> = BTreeMap::new();
    for line in page.lines() {
        if let Some((name, about)) =
            line.strip_prefix("# HELP ").and_then(|rest| rest.split_once(' '))
        {
            all.entry(name.to_owned()).or_default().about = about.trim_end_matches('.').to_owned();
        } else if let Some((name, kind)) =
            line.strip_prefix("# TYPE ").and_then(|rest| rest.split_once(' '))
        {
            all.entry(name.to_owned()).or_default().kind = kind.to_owned();
        } else if let Some((name, rest)) = line.split_once('{') {
            let ends = ["_total", "_bucket", "_sum", "_count", "_created", ""];
            let base = ends
                .iter()
                .filter_map(|end| name.strip_suffix(end))
                .find(|base| all.contains_key(*base));
            let labels = rest.split('}').next().unwrap_or_default();
            if let Some(metric) = base.and_then(|base| all.get_mut(base)) {
                let names =
                    labels.split("\",").filter_map(|label| label.split_once('=')).map(|(n, _)| n);
                metric.labels.extend(names.filter(|name| *name != "le").map(str::to_owned));
            }
        }
    }
    let end = |kind: &str| if kind == "counter" { "_total" } else { "" };
    all.into_iter().map(|(name, metric)| (format!("{name}{}", end(&metric.kind)), metric)).collect()
}

/// The page's text.
pub fn page(programs: &[(&str, BTreeMap<String, Metric>)]) -> String {
    let mut text = head(
        "Metrics",
        "What the pages `/metrics` show. One with labels is there as soon as it has happened once.",
    );
    for (program, metrics) in programs {
        text +=
            &format!("\n## {program}\n\n| name | type | labels | meaning |\n|---|---|---|---|\n");
        for (name, Metric { kind, about, labels }) in metrics {
            let labels: Vec<String> = labels.iter().map(|label| code(label)).collect();
            text += &row(&[code(name), kind.clone(), labels.join(", "), cell(about)]);
        }
    }
    text
}

/// The metrics that a page of ours tells of a program.
pub fn told(page: &str, program: &str) -> BTreeMap<String, Metric> {
    let heading = format!("## {program}");
    let below = page.lines().skip_while(|line| *line != heading).skip(1);
    let rows =
        below.take_while(|line| !line.starts_with("## ")).filter(|line| line.starts_with("| `"));
    rows.filter_map(|row| {
        let row = row.replace("\\|", "\u{1}");
        let cells = row.trim_matches('|').split('|');
        let mut cells = cells.map(|cell| cell.trim().replace('\u{1}', "|"));
        let (name, kind) = (cells.next()?, cells.next()?);
        let (labels, about) = (cells.next().unwrap_or_default(), cells.next().unwrap_or_default());
        let labels = labels.split(", ").map(|label| label.replace('`', ""));
        let labels = labels.filter(|label| !label.is_empty()).collect();
        Some((name.replace('`', ""), Metric { kind, about, labels }))
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_that_was_written_is_read_as_it_was() {
        let text = "# HELP a_b Things.\n# TYPE a_b counter\na_b_total{x=\"1\",y=\"2\"} 1\n# HELP c Time | more.\n\
            # TYPE c histogram\nc_bucket{le=\"1\",z=\"q\"} 1\n# HELP d Plain.\n# TYPE d gauge\nd 1\n";
        let read = read(text);
        assert_eq!(read.keys().collect::<Vec<_>>(), ["a_b_total", "c", "d"]);
        assert_eq!(read["c"].labels, BTreeSet::from(["z".to_owned()]));
        let page = page(&[("one", read.clone()), ("two", BTreeMap::new())]);
        let again = told(&page, "one");
        assert_eq!(again["a_b_total"], read["a_b_total"]);
        assert_eq!((&again["d"], &again["c"]), (&read["d"], &read["c"]));
        assert!(page.contains("Time \\| more"), "{page}");
        assert_eq!(told(&page, "two"), BTreeMap::new());
    }
}
