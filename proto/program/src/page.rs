//! What all status pages look like.

/// Colours, tables and fonts of a page; nothing is loaded from elsewhere.
pub const STYLE: &str = "
:root { color-scheme: light dark; --line: color-mix(in srgb, currentColor 18%, transparent); }
body { font: 15px/1.5 system-ui, sans-serif; max-width: 72rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.4rem; margin: 0; } h2 { font-size: 1.05rem; margin: 2rem 0 .4rem; }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; }
th, td { text-align: left; padding: .25rem .75rem .25rem 0; border-bottom: 1px solid var(--line); vertical-align: top; }
th { font-weight: 600; } pre { overflow-x: auto; font-size: 13px; } .none { opacity: .65; }
.good { color: #1a7f37; } .bad { color: #cf222e; } .odd { color: #9a6700; }
@media (prefers-color-scheme: dark) { .good { color: #3fb950; } .bad { color: #f85149; } .odd { color: #d29922; } }
";

/// Text that cannot become markup.
pub fn escape(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            '\'' => safe.push_str("&#39;"),
            c => safe.push(c),
        }
    }
    safe
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_comes_from_outside_cannot_become_markup() {
        assert_eq!(
            escape("<a b=\"c\">'&'</a>"),
            "&lt;a b=&quot;c&quot;&gt;&#39;&amp;&#39;&lt;/a&gt;"
        );
    }
}
