//! Text that Pods and the cluster wrote, made fit for a line of a terminal.

/// The same text in one line, without what a terminal would obey.
pub(crate) fn line(text: &str) -> String {
    let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
    words.chars().map(|letter| if letter.is_control() { '?' } else { letter }).collect()
}

#[cfg(test)]
#[path = "plain_tests.rs"]
mod tests;
