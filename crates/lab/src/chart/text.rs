//! Text in SVG and HTML: escaping, and its approximate width.

/// Makes text safe between tags and in quoted attributes of SVG and HTML. Control characters, which XML
/// does not allow, become spaces.
pub fn escape(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            '\'' => safe.push_str("&#39;"),
            '\n' | '\t' => safe.push(c),
            c if c.is_control() || matches!(c, '\u{fffe}' | '\u{ffff}') => safe.push(' '),
            c => safe.push(c),
        }
    }
    safe
}

/// Approximate width of a line in a sans-serif font of `size`. The result is more often too large than too small.
pub(super) fn width(text: &str, size: f64) -> f64 {
    let em: f64 = text.chars().map(em).sum();
    em * size
}

fn em(c: char) -> f64 {
    match c {
        'i' | 'j' | 'l' | '.' | ',' | ':' | '\'' | '|' | ' ' => 0.31,
        'f' | 'r' | 't' | '(' | ')' | '-' => 0.4,
        'm' | 'w' | 'M' | 'W' | '%' => 0.88,
        c if c.is_uppercase() => 0.69,
        c if c.is_ascii() => 0.58,
        _ => 1.0,
    }
}

/// Breaks `text` between words into lines that are at most `room` wide. A word that is wider gets its own line.
pub(super) fn wrap(text: &str, size: f64, room: f64) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if width(line, size) + width(word, size) + width(" ", size) <= room => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

/// Returns `text`, shortened with an ellipsis if it is wider than `room`.
pub(super) fn fitted(text: &str, size: f64, room: f64) -> String {
    if width(text, size) <= room {
        return text.to_owned();
    }
    let mut kept = text.to_owned();
    while kept.pop().is_some() && width(&kept, size) + size > room {}
    kept.push('\u{2026}');
    kept
}

#[cfg(test)]
#[path = "text_tests.rs"]
mod tests;
