//! Makes text from Pods and the cluster safe to print on one line of a terminal.

/// The text on one line, without control characters.
pub(crate) fn line(text: &str) -> String {
    let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
    words.chars().map(|letter| if letter.is_control() { '?' } else { letter }).collect()
}

#[cfg(test)]
#[path = "printable_tests.rs"]
mod tests;
