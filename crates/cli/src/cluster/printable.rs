//! Text from Pods and the cluster for people: safe to print on one line of a terminal, and identities in their short
//! form.

/// Puts a text on one line, and replaces control characters and invisible characters with `?`.
pub(crate) fn line(text: &str) -> String {
    let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
    words.chars().map(|letter| if letter.is_control() || is_invisible(letter) { '?' } else { letter }).collect()
}

/// Whether a character is invisible, or changes the direction of the text after it.
fn is_invisible(letter: char) -> bool {
    matches!(letter, '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{2069}' | '\u{feff}')
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
