//! Constructs of the library's regular expressions that RE2 refuses, or reads as something else.
//!
//! Envoy and gRPC clients get the regular expressions of routes as text, and match them with RE2 (Envoy), Go's `regexp`
//! or RE2/J. Such a client refuses the routes of the whole mesh if it cannot read one expression, and calls would go
//! elsewhere than those of other clients if it read an expression differently. One difference is accepted: `(?i)` folds
//! only ASCII letters in the library, but all letters in RE2.

use std::iter::Peekable;
use std::str::Chars;

/// Maximum number of repetitions that RE2 and Go accept; the limit applies to the product of nested repetitions too.
const REPETITIONS_MAX: u32 = 1000;

/// Returns the first construct in `text` that RE2 refuses or reads differently, or `None`. `text` must be an expression
/// that `regex_lite` accepts; for other texts, the result has no meaning.
pub(super) fn difference(text: &str) -> Option<&'static str> {
    Scan { rest: text.chars().peekable(), groups: vec![1], last: 1, is_repeated: false }.difference().err()
}

struct Scan<'a> {
    rest: Peekable<Chars<'a>>,
    /// For each open group, and first for the whole text: the largest number of repetitions in it, nested ones
    /// multiplied.
    groups: Vec<u32>,
    /// The number of repetitions in the last item, to which a repetition that comes next applies.
    last: u32,
    /// Whether the last item is itself a repetition.
    is_repeated: bool,
}

impl Scan<'_> {
    fn difference(mut self) -> Result<(), &'static str> {
        while let Some(next) = self.rest.next() {
            match next {
                '*' | '+' | '?' => self.repeat(1)?,
                '{' => {
                    let count = self.counted()?;
                    self.repeat(count)?;
                }
                '(' => self.open()?,
                ')' => {
                    let repetitions = self.groups.pop().unwrap_or(1);
                    self.item(repetitions);
                }
                '[' => {
                    self.class()?;
                    self.item(1);
                }
                '\\' => {
                    self.escape()?;
                    self.item(1);
                }
                _ => self.item(1),
            }
        }
        Ok(())
    }

    fn item(&mut self, repetitions: u32) {
        (self.last, self.is_repeated) = (repetitions, false);
        if let Some(group) = self.groups.last_mut() {
            *group = repetitions.max(*group);
        }
    }

    fn repeat(&mut self, count: u32) -> Result<(), &'static str> {
        if self.is_repeated {
            return Err("a repetition of a repetition, such as a**: write (?:a*)*");
        }
        let repetitions = self.last.saturating_mul(count);
        if repetitions > REPETITIONS_MAX {
            return Err("more than 1000 repetitions");
        }
        self.item(repetitions);
        self.is_repeated = true;
        self.rest.next_if_eq(&'?');
        Ok(())
    }

    /// Reads the rest of `{m}`, `{m,}` or `{m,n}`. Returns the larger number, but at least 1.
    fn counted(&mut self) -> Result<u32, &'static str> {
        let text: String = self.rest.by_ref().take_while(|&next| next != '}').collect();
        let mut count = 1;
        for number in text.split(',').filter(|number| !number.is_empty()) {
            if number.contains(char::is_whitespace) || (number.starts_with('0') && number != "0") {
                return Err("a space or a leading zero in {m,n}");
            }
            count = number.parse().unwrap_or(u32::MAX).max(count);
        }
        Ok(count)
    }

    fn open(&mut self) -> Result<(), &'static str> {
        if self.rest.next_if_eq(&'?').is_none() {
            self.groups.push(1);
            return Ok(());
        }
        loop {
            match self.rest.next() {
                Some('i' | 'm' | 's' | 'U' | '-') => {}
                // These flags apply to what follows. RE2 would let `*` after them repeat what stands before them.
                Some(')') => {
                    return match self.rest.peek() {
                        Some('*' | '+' | '?' | '{') => Err("a repetition of flags, such as (?i)*"),
                        _ => Ok(()),
                    };
                }
                Some(':') => {
                    self.groups.push(1);
                    return Ok(());
                }
                Some('P') => {
                    let name = self.rest.by_ref().skip(1).take_while(|&next| next != '>');
                    // Count all, to read the name to its end.
                    let strange = name.filter(|next| !(next.is_ascii_alphanumeric() || *next == '_')).count();
                    self.groups.push(1);
                    return match strange {
                        0 => Ok(()),
                        _ => Err("a group's name with characters other than letters, digits and _"),
                    };
                }
                Some('<') => return Err("(?<name>...), which many versions of RE2 do not know: write (...)"),
                _ => return Err("flags other than i, m, s and U"),
            }
        }
    }

    /// Reads the rest of a class, to its closing bracket.
    fn class(&mut self) -> Result<(), &'static str> {
        self.rest.next_if_eq(&'^');
        if self.rest.next_if_eq(&'-').is_some() {
            if self.rest.peek() == Some(&'-') {
                return Err(r"a class that begins with --: write \-");
            }
        } else {
            self.rest.next_if_eq(&']');
        }
        while let Some(next) = self.rest.next() {
            match next {
                ']' => break,
                '\\' => self.escape()?,
                // As the end of a range, the bracket could be taken for the begin of a named class.
                '-' if self.rest.peek() == Some(&'[') => return Err(r"-[ in a class: write \-[ or -\["),
                // A named class, such as `[:alpha:]`: the library refuses any other bracket.
                '[' => while self.rest.next().is_some_and(|next| next != ']') {},
                _ => {}
            }
        }
        Ok(())
    }

    /// Reads what follows a backslash. The digits of `\x41` remain: as items, they are no different.
    fn escape(&mut self) -> Result<(), &'static str> {
        match self.rest.next() {
            Some('u' | 'U') => Err(r"\u and \U: write \x{...}"),
            Some('<' | '>') => Err(r"\< and \>: write \b"),
            Some('b') if self.rest.peek() == Some(&'{') => Err(r"\b{...}: write \b"),
            Some('x') => {
                if self.rest.next_if_eq(&'{').is_some() {
                    while self.rest.next().is_some_and(|next| next != '}') {}
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
#[path = "re2_tests.rs"]
mod tests;
