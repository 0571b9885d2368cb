//! Makes text from Pods and the cluster safe to print on one line of a terminal.

/// The text on one line, without control characters and invisible characters.
pub(crate) fn line(text: &str) -> String {
    let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
    words.chars().map(|letter| if letter.is_control() || is_invisible(letter) { '?' } else { letter }).collect()
}

/// Whether a character is invisible, or changes the direction of the text after it.
fn is_invisible(letter: char) -> bool {
    matches!(letter, '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{2069}' | '\u{feff}')
}

#[cfg(test)]
#[path = "printable_tests.rs"]
mod tests;
