//! String matchers of xDS.

use crate::pb::matcher::{RegexMatcher, StringMatcher, string_matcher};
use crate::pb::route::{HeaderMatcher, header_matcher};

/// Matches this text only.
pub(crate) fn exactly(text: &str) -> StringMatcher {
    StringMatcher { match_pattern: Some(string_matcher::MatchPattern::Exact(text.to_owned())), ..Default::default() }
}

/// Returns a matcher for texts that the regular expression matches completely.
pub(crate) fn pattern(text: String) -> StringMatcher {
    let match_pattern = Some(string_matcher::MatchPattern::SafeRegex(regex(text)));
    StringMatcher { match_pattern, ..Default::default() }
}

/// A regular expression; in xDS it must match the whole text.
pub(crate) fn regex(regex: String) -> RegexMatcher {
    RegexMatcher { regex, ..Default::default() }
}

/// Returns a regular expression that matches this text only.
pub(crate) fn escaped(text: &str) -> String {
    let mut escaped = String::new();
    for c in text.chars() {
        if c.is_ascii_punctuation() && !matches!(c, '/' | '_' | '-') {
            escaped.push('\\');
        }
        escaped.push(c);
    }
    escaped
}

/// Matches a header field with this name and a value that `value` matches.
pub(crate) fn header(name: &str, value: StringMatcher) -> HeaderMatcher {
    HeaderMatcher {
        name: name.to_owned(),
        header_match_specifier: Some(header_matcher::HeaderMatchSpecifier::StringMatch(value)),
        ..Default::default()
    }
}
