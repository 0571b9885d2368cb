//! Reads choices from the fuzzer's bytes. When the bytes are used up, every choice is 0.

use leno_http2::FieldSection;

pub struct Script<'a>(&'a [u8]);

impl<'a> Script<'a> {
    pub fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    pub fn is_over(&self) -> bool {
        self.0.is_empty()
    }

    pub fn byte(&mut self) -> u8 {
        let Some((&byte, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        byte
    }

    /// Returns one of `choices`, if there are any.
    pub fn choose<T: Copy>(&mut self, choices: &[T]) -> Option<T> {
        let choice = usize::from(self.byte());
        choices.get(choice % choices.len().max(1)).copied()
    }

    pub fn bytes(&mut self, n: usize) -> &'a [u8] {
        let (bytes, rest) = self.0.split_at(n.min(self.0.len()));
        self.0 = rest;
        bytes
    }

    /// Returns a size from 0 to 65,025. Small sizes are more likely.
    pub fn size(&mut self) -> usize {
        let byte = usize::from(self.byte());
        byte * byte
    }

    /// Returns a section of the pseudo-header fields and up to seven other fields. Some fields recur from section to
    /// section, and some do not.
    pub fn fields(&mut self, pseudo: &[(&str, &str)]) -> FieldSection {
        let mut fields = FieldSection::new();
        for (name, value) in pseudo {
            fields.push(name.as_bytes(), value.as_bytes());
        }
        for _ in 0..self.byte() % 8 {
            let choice = self.byte();
            let (name, value) = (format!("x-{}", choice % 16), vec![b'a' + choice % 26; usize::from(self.byte()) * 8]);
            match choice % 5 {
                0 => fields.push_never_indexed(name.as_bytes(), &value),
                _ => fields.push(name.as_bytes(), &value),
            }
        }
        fields
    }
}

pub const REQUEST: &[(&str, &str)] = &[(":method", "POST"), (":scheme", "http"), (":path", "/a.B/C")];
pub const RESPONSE: &[(&str, &str)] = &[(":status", "200")];
pub const INTERIM: &[(&str, &str)] = &[(":status", "103")];
