//! Field sections: the header or trailer fields of one message.
//!
//! All names and values are in one vector of bytes. A second vector has one line for each field; the line gives the
//! positions of the field's bytes. So a section that is cleared and reused allocates nothing. Defects are recorded
//! while a section is filled. Invariant: every line's range is within `bytes`. The field's name directly precedes its
//! value, and its note, if any, directly follows the value.

mod defects;
mod known;

pub use defects::Defects;
pub(crate) use defects::Facts;
pub use known::Known;

use std::fmt;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// Bytes that each field adds to the size of a list or table, in addition to its name and value (RFC 7541 section 4.1).
pub(crate) const LINE_OVERHEAD: usize = 32;

/// The fields of one message, in the order of the wire (RFC 9113 section 8.1, RFC 9110 section 6.3).
#[derive(Clone, Default)]
pub struct FieldSection {
    bytes: Vec<u8>,
    lines: Vec<Line>,
    list_size: usize,
    /// One bit for each [`Known`] name that is present.
    names: u128,
    defects: Defects,
    has_regular: bool,
    /// A number that identifies the first `content_lines` lines: two sections with the same number begin with the same
    /// lines. 0 if the section has no number. Changing one of these lines clears the number.
    content: u64,
    /// Number of lines, from the first, that `content` identifies.
    content_lines: usize,
    /// For each of the first [`PLACES`] [`Known`] names, which include all defined pseudo-header fields: the index of
    /// the first line with this name. Valid only if the name is in `names`. `u8::MAX` if the index does not fit.
    places: [u8; PLACES],
}

/// Number of [`Known`] names for which `FieldSection::places` stores an index.
const PLACES: usize = 8;
const _: () = assert!((Known::Status as usize) < PLACES);

/// The latest number that this process gave to the content of a section.
static CONTENTS: AtomicU64 = AtomicU64::new(0);
/// The latest number that this process gave to a prepared field.
static PREPARED: AtomicU32 = AtomicU32::new(0);
/// Bits for the number that identifies a received section's content. When all numbers are used up, further sections get
/// no number.
const CONTENT_BITS: u32 = 40;
/// Bits for the number that identifies a prepared field. When all numbers are used up, further prepared fields get no
/// number. If a prepared field is appended to a received section, the section's new number combines the two numbers.
const PREPARED_BITS: u32 = u64::BITS - CONTENT_BITS;

#[derive(Clone, Copy)]
struct Line {
    start: u32,
    name_len: u32,
    value_len: u32,
    facts: Facts,
    never_indexed: bool,
    /// Bytes of the note, which follows the value ([`FieldSection::push_with_note`]); 0 without a note. This member
    /// costs no memory: its byte would otherwise be padding.
    note_len: u8,
}

/// One field of a section.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct FieldLine<'a> {
    /// The name as it was on the wire, valid or not.
    pub name: &'a [u8],
    /// The value, valid or not.
    pub value: &'a [u8],
    /// The name as a [`Known`]: [`Known::Other`] or [`Known::UnknownPseudo`] if the name is not listed there.
    pub known: Known,
    /// Whether no hop may put the field in a compression table (RFC 7541 section 7.1.3).
    pub never_indexed: bool,
    /// The name and then the value.
    pub(crate) text: &'a [u8],
    pub(crate) hash: u32,
}

/// A field that was checked once, and is then copied into many sections.
#[derive(Debug, Clone)]
pub struct PreparedField {
    /// The name and then the value.
    text: Box<[u8]>,
    name_len: usize,
    facts: Facts,
    /// Identifies the field: prepared fields with the same number have the same text. 0 without a number.
    number: u32,
}

impl PreparedField {
    /// A field with a known regular name.
    pub fn new(known: Known, value: &[u8]) -> Self {
        debug_assert!(!known.is_pseudo(), "pseudo-header fields have their place at the front");
        let name = known.name().as_bytes();
        let text = [name, value].concat().into_boxed_slice();
        let facts = Facts::of_field(Facts::of_name(name), &text, name.len());
        let before = PREPARED.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |latest| {
            Some(latest + 1).filter(|next| *next < 1 << PREPARED_BITS)
        });
        Self { text, name_len: name.len(), facts, number: before.map_or(0, |before| before + 1) }
    }
}

impl FieldSection {
    /// Creates an empty section, without an allocation.
    pub fn new() -> Self {
        Self::default()
    }

    /// Removes all fields and defects, and keeps the memory; see [`FieldSection::shrink`].
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.lines.clear();
        self.list_size = 0;
        self.names = 0;
        self.defects = Defects::NONE;
        self.has_regular = false;
        self.forget_content();
    }

    /// Number of stored fields.
    pub fn len(&self) -> usize {
        self.lines.len()
    }

    /// Whether no field is stored.
    pub fn is_empty(&self) -> bool {
        self.lines.is_empty()
    }

    /// The size in bytes: names, values and 32 per field (RFC 9113 section 6.5.2).
    ///
    /// With [`Defects::OVERSIZE`], the size includes the fields that were not stored.
    pub fn list_size(&self) -> usize {
        self.list_size
    }

    /// The defects found while fields were decoded or pushed. Removing a field does not remove its defect.
    pub fn defects(&self) -> Defects {
        self.defects
    }

    /// Appends a field.
    pub fn push(&mut self, name: &[u8], value: &[u8]) {
        self.push_with(name, value, false);
    }

    /// Appends a field with a note about its original spelling. Only [`FieldSection::iter_with_notes`] returns the
    /// note. Notes of more than 255 bytes are omitted. The section's size does not include notes, since the peer's
    /// input bounds them: each is a name or phrase that the peer sent.
    pub fn push_with_note(&mut self, name: &[u8], value: &[u8], note: &[u8]) {
        let count = self.lines.len();
        self.push(name, value);
        let Ok(note_len) = u8::try_from(note.len()) else { return };
        if let Some(line) = self.lines.get_mut(count) {
            line.note_len = note_len;
            self.bytes.extend_from_slice(note);
        }
    }

    /// Appends a field that no hop may put in a compression table (RFC 7541 section 7.1.3).
    pub fn push_never_indexed(&mut self, name: &[u8], value: &[u8]) {
        self.push_with(name, value, true);
    }

    /// Appends a field that is already checked. If the section is unchanged since it was received and has a content
    /// number, the result gets another content number. Otherwise, the result has none.
    pub fn push_prepared(&mut self, field: &PreparedField) {
        let (content, count) = (self.content(), self.lines.len());
        self.append(&field.text, field.name_len, field.facts, usize::MAX);
        let is_received = content != 0 && content < 1 << CONTENT_BITS;
        if is_received && field.number != 0 && self.lines.len() > count {
            self.content = u64::from(field.number) << CONTENT_BITS | content;
            self.content_lines = count + 1;
        }
    }

    /// The fields in order.
    #[inline]
    pub fn iter(&self) -> impl Iterator<Item = FieldLine<'_>> {
        self.lines.iter().map(|line| self.line(line))
    }

    /// The first `count` fields and the other fields, as two iterators, in order.
    #[inline]
    pub(crate) fn iter_split(
        &self,
        count: usize,
    ) -> (impl Iterator<Item = FieldLine<'_>>, impl Iterator<Item = FieldLine<'_>>) {
        let (first, rest) = self.lines.split_at_checked(count).unwrap_or((&self.lines, &[]));
        (first.iter().map(|line| self.line(line)), rest.iter().map(|line| self.line(line)))
    }

    /// The fields in order, each with its note; most notes are empty.
    #[inline]
    pub fn iter_with_notes(&self) -> impl Iterator<Item = (FieldLine<'_>, &[u8])> {
        self.lines.iter().map(|line| (self.line(line), self.note_of(line)))
    }

    /// The value of the first field of that name; `None` for [`Known::Other`] and [`Known::UnknownPseudo`].
    #[inline]
    pub fn get(&self, known: Known) -> Option<&[u8]> {
        if !self.contains(known) {
            return None;
        }
        let place = self.places.get(known as usize).filter(|place| **place < u8::MAX);
        match place.and_then(|place| self.lines.get(usize::from(*place))) {
            Some(line) => Some(self.line(line).value),
            None => self.find(known),
        }
    }

    fn find(&self, known: Known) -> Option<&[u8]> {
        let line = self.lines.iter().find(|line| line.facts.known == known)?;
        Some(self.line(line).value)
    }

    /// Whether there is a field of that name; false for [`Known::Other`] and [`Known::UnknownPseudo`].
    #[inline]
    pub fn contains(&self, known: Known) -> bool {
        self.names & known.bit() != 0
    }

    /// Replaces the value of the first field of that name, or adds the field: a pseudo-header field after the other
    /// pseudo-header fields, a regular field at the end.
    ///
    /// Does nothing for [`Known::Other`] and [`Known::UnknownPseudo`], which each stand for many names.
    pub fn set(&mut self, known: Known, value: &[u8]) {
        let name = known.name().as_bytes();
        if name.is_empty() {
            return;
        }
        let (start, facts) = self.write(name, value);
        if !self.admit(start, name.len() + value.len(), usize::MAX) {
            self.bytes.truncate(start);
            return;
        }
        let mut line = Line::new(start, name.len(), value.len(), facts);
        self.defects |= facts.defects;
        self.names |= known.bit();
        let mut lines = self.lines.iter_mut().enumerate();
        if let Some((place, old)) = lines.find(|(_, line)| line.facts.known == known) {
            self.list_size = self.list_size.saturating_sub(old.list_size());
            line.never_indexed = old.never_indexed;
            *old = line;
            if place < self.content_lines {
                self.forget_content();
            }
        } else if known.is_pseudo() {
            self.forget_content();
            let pseudo_count = self.lines.iter().take_while(|line| line.facts.known.is_pseudo()).count();
            self.lines.insert(pseudo_count, line);
            self.find_places();
        } else {
            self.has_regular = true;
            self.lines.push(line);
        }
    }

    /// Removes every field of that name; does nothing for [`Known::Other`] and [`Known::UnknownPseudo`].
    #[inline]
    pub fn remove(&mut self, known: Known) {
        if self.contains(known) {
            self.remove_lines(|line, _| line.facts.known == known);
            self.names &= !known.bit();
        }
    }

    /// Removes every field whose name has exactly these bytes, whether [`Known`] lists the name or not.
    pub fn remove_named(&mut self, name: &[u8]) {
        match Known::of(name) {
            Known::Other | Known::UnknownPseudo => self.remove_lines(|_, found| found == name),
            known => self.remove(known),
        }
    }

    /// Removes the lines for which `is_removed` returns true. `is_removed` also gets the line's name.
    fn remove_lines(&mut self, is_removed: impl Fn(&Line, &[u8]) -> bool) {
        let (bytes, mut removed_size) = (&self.bytes, 0);
        let (mut place, mut first_removed) = (0, usize::MAX);
        self.lines.retain(|line| {
            let start = line.start as usize;
            let name = bytes.get(start..start + line.name_len as usize).unwrap_or_default();
            let is_removed = is_removed(line, name);
            if is_removed {
                removed_size += line.list_size();
                first_removed = first_removed.min(place);
            }
            place += 1;
            !is_removed
        });
        if first_removed < self.content_lines {
            self.forget_content();
        }
        if first_removed < usize::MAX {
            self.find_places();
        }
        self.list_size = self.list_size.saturating_sub(removed_size);
    }

    /// Copies another section into this section, and reuses this section's memory.
    pub fn copy_from(&mut self, other: &Self) {
        self.bytes.clear();
        self.bytes.extend_from_slice(&other.bytes);
        self.lines.clear();
        self.lines.extend_from_slice(&other.lines);
        self.list_size = other.list_size;
        self.names = other.names;
        self.defects = other.defects;
        self.has_regular = other.has_regular;
        self.content = other.content;
        self.content_lines = other.content_lines;
        self.places = other.places;
    }

    /// Gives the section's fields a number that no other fields have or will have, as long as there are numbers left.
    pub fn number_content(&mut self) {
        let number = CONTENTS.fetch_add(1, Ordering::Relaxed) + 1;
        if number < 1 << CONTENT_BITS {
            (self.content, self.content_lines) = (number, self.lines.len());
        }
    }

    /// The number of the section's content; 0 if it has no number. Sections with the same number have the same fields.
    pub fn content(&self) -> u64 {
        if self.content_lines == self.lines.len() { self.content } else { 0 }
    }

    /// The content number, and the number of fields that it identifies, from the first. Sections with the same content
    /// number begin with the same fields. Both are 0 without a content number.
    pub(crate) fn beginning(&self) -> (u64, usize) {
        (self.content, self.content_lines)
    }

    /// Finds the indexes of the pseudo-header fields again, after lines have moved.
    fn find_places(&mut self) {
        for (place, line) in self.lines.iter().enumerate().rev() {
            if let Some(known) = self.places.get_mut(line.facts.known as usize) {
                *known = place.try_into().unwrap_or(u8::MAX);
            }
        }
    }

    fn forget_content(&mut self) {
        (self.content, self.content_lines) = (0, 0);
    }

    /// The memory that the fields need, in bytes.
    pub fn used_bytes(&self) -> usize {
        self.bytes.len() + self.lines.len() * size_of::<Line>()
    }

    /// The memory allocated for fields, in bytes.
    #[inline]
    pub fn capacity_bytes(&self) -> usize {
        self.bytes.capacity() + self.lines.capacity() * size_of::<Line>()
    }

    /// Frees unused memory if more than `max_capacity_bytes` is allocated; stored fields stay.
    #[inline]
    pub fn shrink(&mut self, max_capacity_bytes: usize) {
        if self.capacity_bytes() > max_capacity_bytes {
            self.bytes.shrink_to_fit();
            self.lines.shrink_to_fit();
        }
    }

    /// Appends a copy of a field that is already checked, unless the list would exceed `max_list_size`.
    // Inline: in the decoder's loop, a function call for each field would add a twentieth to the cost of a request.
    #[inline(always)]
    pub(crate) fn append(&mut self, text: &[u8], name_len: usize, facts: Facts, max_list_size: usize) {
        let start = self.bytes.len();
        if self.admit(start, text.len(), max_list_size) {
            self.bytes.extend_from_slice(text);
            self.add_line(start, name_len, facts, false);
        }
    }

    /// Removes white space at the ends of the values of regular fields. Such white space makes a message malformed (RFC
    /// 9113 section 8.2.1). But we accept it: gRPC libraries send it (for example at the end of `grpc-message`), other
    /// proxies accept it, and HTTP/1 ignores it.
    #[cold]
    pub(crate) fn trim_values(&mut self) {
        self.defects = self.defects.without(Defects::PADDED_VALUE);
        for line in &mut self.lines {
            if !line.facts.defects.contains(Defects::PADDED_VALUE) {
                continue;
            }
            if line.facts.known.is_pseudo() {
                self.defects |= Defects::BAD_VALUE;
                continue;
            }
            let (start, name_len) = (line.start as usize, line.name_len as usize);
            let text = start..start + name_len + line.value_len as usize;
            let value = self.bytes.get(text).and_then(|text| text.get(name_len..)).unwrap_or_default();
            let kept = defects::trimmed(value);
            let (leading, value_len) = (kept.start, kept.len());
            self.list_size = self.list_size.saturating_sub(value.len() - value_len);
            // The name directly precedes the value.
            self.bytes.copy_within(start..start + name_len, start + leading);
            let name = Facts { defects: line.facts.defects.without(Defects::PADDED_VALUE), ..line.facts };
            let text = self.bytes.get(start + leading..start + leading + name_len + value_len).unwrap_or_default();
            let facts = Facts::of_field(name, text, name_len);
            *line =
                Line { never_indexed: line.never_indexed, ..Line::new(start + leading, name_len, value_len, facts) };
        }
    }

    /// The buffer to which the decoder appends a literal's name and value. [`FieldSection::commit`] turns these bytes
    /// into a field.
    pub(crate) fn tail(&mut self) -> &mut Vec<u8> {
        &mut self.bytes
    }

    /// The bytes of [`FieldSection::tail`] from `start` on.
    pub(crate) fn tail_from(&self, start: usize) -> &[u8] {
        self.bytes.get(start..).unwrap_or_default()
    }

    /// Turns the bytes of [`FieldSection::tail`] from `start` on into a field. Drops these bytes instead if the list
    /// would exceed `max_list_size`.
    pub(crate) fn commit(
        &mut self,
        start: usize,
        name_len: usize,
        facts: Facts,
        never_indexed: bool,
        max_list_size: usize,
    ) {
        let text_len = self.bytes.len().saturating_sub(start);
        if self.admit(start, text_len, max_list_size) {
            self.add_line(start, name_len, facts, never_indexed);
        } else {
            self.bytes.truncate(start);
        }
    }

    fn push_with(&mut self, name: &[u8], value: &[u8], never_indexed: bool) {
        let (start, facts) = self.write(name, value);
        self.commit(start, name.len(), facts, never_indexed, usize::MAX);
    }

    /// Appends the bytes of a field and checks the field. Returns the position of its first byte, and the results of
    /// the check.
    fn write(&mut self, name: &[u8], value: &[u8]) -> (usize, Facts) {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(name);
        self.bytes.extend_from_slice(value);
        (start, Facts::of_field(Facts::of_name(name), self.tail_from(start), name.len()))
    }

    /// Adds a field of `text_len` bytes at `start` to the list's size. Returns whether the field fits and may be
    /// stored.
    fn admit(&mut self, start: usize, text_len: usize, max_list_size: usize) -> bool {
        self.list_size = self.list_size.saturating_add(text_len).saturating_add(LINE_OVERHEAD);
        let addressable = start.saturating_add(text_len) <= u32::MAX as usize;
        let admitted = addressable && self.list_size <= max_list_size;
        if !admitted {
            self.defects |= Defects::OVERSIZE;
            self.forget_content();
        }
        admitted
    }

    /// Adds a line for the admitted bytes from `start` to the end.
    fn add_line(&mut self, start: usize, name_len: usize, facts: Facts, never_indexed: bool) {
        self.note(facts);
        let value_len = self.bytes.len().saturating_sub(start).saturating_sub(name_len);
        self.lines.push(Line { never_indexed, ..Line::new(start, name_len, value_len, facts) });
    }

    /// Records the name and the defects of a field that is added at the end.
    fn note(&mut self, facts: Facts) {
        self.defects |= facts.defects;
        let bit = facts.known.bit();
        if !facts.known.is_pseudo() {
            self.has_regular = true;
        } else if self.has_regular {
            self.defects |= Defects::PSEUDO_AFTER_REGULAR;
        } else if self.names & bit != 0 {
            self.defects |= Defects::DUPLICATE_PSEUDO;
        }
        if self.names & bit == 0
            && let Some(place) = self.places.get_mut(facts.known as usize)
        {
            *place = self.lines.len().try_into().unwrap_or(u8::MAX);
        }
        self.names |= bit;
    }

    #[inline]
    fn note_of(&self, line: &Line) -> &[u8] {
        let start = line.start as usize + line.name_len as usize + line.value_len as usize;
        self.bytes.get(start..start + usize::from(line.note_len)).unwrap_or_default()
    }

    #[inline]
    fn line(&self, line: &Line) -> FieldLine<'_> {
        let start = line.start as usize;
        let name_len = line.name_len as usize;
        let text = self.bytes.get(start..start + name_len + line.value_len as usize).unwrap_or_default();
        let (name, value) = text.split_at_checked(name_len).unwrap_or_default();
        FieldLine {
            name,
            value,
            known: line.facts.known,
            never_indexed: line.never_indexed,
            text,
            hash: line.facts.hash,
        }
    }
}

impl Line {
    /// `FieldSection::admit` ensures that positions fit in 32 bits.
    fn new(start: usize, name_len: usize, value_len: usize, facts: Facts) -> Self {
        Self {
            start: start as u32,
            name_len: name_len as u32,
            value_len: value_len as u32,
            facts,
            never_indexed: false,
            note_len: 0,
        }
    }

    fn list_size(&self) -> usize {
        self.name_len as usize + self.value_len as usize + LINE_OVERHEAD
    }
}

impl fmt::Debug for FieldSection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

impl fmt::Debug for FieldLine<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.name.escape_ascii(), self.value.escape_ascii())
    }
}

#[cfg(test)]
#[path = "fields_tests.rs"]
mod tests;
