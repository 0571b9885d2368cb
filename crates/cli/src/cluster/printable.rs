//! Makes texts from Pods and from the cluster safe to print in a single line of a terminal, and shortens identities
//! and lists.

use std::borrow::Borrow;

/// Puts a text on one line, and replaces control characters and invisible characters with `?`.
pub(crate) fn line(text: &str) -> String {
    let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
    words.chars().map(|letter| if letter.is_control() || is_invisible(letter) { '?' } else { letter }).collect()
}

/// Whether a character is invisible, or changes the direction of the text after it.
fn is_invisible(letter: char) -> bool {
    matches!(letter, '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{2069}' | '\u{feff}')
}

/// Joins the texts that a list shows, and adds the number of omitted texts: `a, b and 3 more`.
pub(crate) fn listed<S: Borrow<str>>(shown: &[S], omitted: usize) -> String {
    let shown = shown.join(", ");
    if omitted == 0 { shown } else { format!("{shown} and {omitted} more") }
}

/// Cuts a list to at most `max` items, and returns the number of omitted items.
pub(crate) fn cut<T>(items: &mut Vec<T>, max: usize) -> usize {
    let omitted = items.len().saturating_sub(max);
    items.truncate(max);
    omitted
}

/// Counts proxies: `1 proxy`, `2 proxies`.
pub(crate) fn proxies(count: usize) -> String {
    format!("{count} {}", if count == 1 { "proxy" } else { "proxies" })
}

/// Returns the service account in a SPIFFE id, in the form `namespace/name`; `None` for other text.
pub(crate) fn service_account(id: &str) -> Option<String> {
    let (_, workload) = id.rsplit_once("/ns/")?;
    let (namespace, account) = workload.split_once("/sa/")?;
    Some(format!("{namespace}/{account}"))
}

#[cfg(test)]
#[path = "printable_tests.rs"]
mod tests;
