//! Errors with their causes: many say what was tried, and leave to their source why it failed.

use std::error::Error;

/// What an error says and, behind colons, what its causes add to it.
pub fn causes(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        let added = cause.to_string();
        if !text.contains(&added) {
            text = format!("{text}: {added}");
        }
        next = cause.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cause_is_said_once_and_only_if_it_adds_something() {
        let failed = |what: &'static str| anyhow::anyhow!("connection refused").context(what);
        assert_eq!(causes(failed("connect").as_ref()), "connect: connection refused");
        assert_eq!(causes(failed("oh: connection refused").as_ref()), "oh: connection refused");
    }
}
