//! Header sections that repeat. Clients mostly send the same requests again and again, and servers the same responses,
//! on all of their connections. For such a section, the engine only compares and copies bytes. It does not parse the
//! section again, and does not write its fields again.
//!
//! The meaning of a header section depends only on its bytes and on the limits. So connections with the same limits can
//! share the sections that they have read.

use std::hash::Hasher;

use leno_http2::FieldSection;
use leno_http2::fields::Known;
use rustc_hash::FxHasher;

use crate::head::Head;
use crate::write::Form;

/// Number of sections that are remembered in each direction; a power of two.
const PLACES: usize = 16;
/// Longest section that is remembered, in bytes on the wire.
const SECTION_MAX_BYTES: usize = 1024;
/// Maximum memory of a remembered section's fields, in bytes.
const FIELDS_MAX_BYTES: usize = 3072;

/// Fields whose values are secrets of one client. The engine remembers no section that has such a field. Otherwise,
/// another client could guess the section, and the time until the answer would show whether the guess is right.
const SECRETS: [Known; 4] = [Known::Authorization, Known::ProxyAuthorization, Known::Cookie, Known::SetCookie];

/// The header sections that were read or written more than once, on any of the connections that share this value. All
/// of these connections must have the same [`Limits`](crate::Limits) for their role. Holds at most 96 KiB.
#[derive(Debug, Default)]
pub struct Heads {
    read: Option<Box<[ReadHead; PLACES]>>,
    written: Option<Box<[WrittenHead; PLACES]>>,
    /// For each index of `read`, 16 bits of the hash of the section that was last parsed there. If the same hash
    /// follows, the section is remembered in `read`.
    seen: [u16; PLACES],
    is_saving: bool,
}

/// The kind of header section that a connection reads. The same bytes can have different meanings for different
/// readers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Reader {
    /// Reads a request.
    #[default]
    Server,
    /// Reads the response to a request other than HEAD and CONNECT.
    Client,
    /// Reads the response to HEAD.
    ClientOfHead,
}

/// A header section that was read.
#[derive(Debug, Default)]
pub(crate) struct ReadHead {
    /// The bytes of the section; empty if this entry of `Heads::read` is unused.
    section: Box<[u8]>,
    reader: Reader,
    fields: FieldSection,
    head: Head,
}

/// An index of `Heads::read`: where a connection last found a remembered section. It is only a hint: the section there
/// may have been replaced.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Place(u8);

/// The hash of a section that may be remembered.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SectionHash(u32);

impl SectionHash {
    /// Hashes a section. Returns `None` if the section is too long to be remembered. The hash depends on the reader,
    /// because the same bytes can have different meanings for different readers.
    pub(crate) fn of(section: &[u8], reader: Reader) -> Option<Self> {
        if section.len() > SECTION_MAX_BYTES {
            return None;
        }
        let mut hasher = FxHasher::default();
        hasher.write(section);
        hasher.write_u8(reader as u8);
        Some(Self(hasher.finish() as u32))
    }

    fn place(self) -> Place {
        Place((self.0 as usize % PLACES) as u8)
    }

    fn tag(self) -> u16 {
        (self.0 >> 16) as u16
    }
}

/// Everything that determines the bytes of a written header section.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Written {
    /// The number that identifies the fields' content ([`FieldSection::content`]); 0 if the content has no number.
    pub(crate) content: u64,
    pub(crate) is_request: bool,
    pub(crate) form: Form,
}

#[derive(Debug, Default)]
struct WrittenHead {
    /// `None` if this entry of `Heads::written` is unused.
    written: Option<Written>,
    section: Box<[u8]>,
}

impl Heads {
    /// If `input` begins with the section that is remembered at the index `place`, returns this section and the rest of
    /// `input`.
    #[inline]
    pub(crate) fn at<'a>(&self, place: Place, reader: Reader, input: &'a [u8]) -> Option<(&ReadHead, &'a [u8])> {
        let known = self.read.as_ref()?.get(usize::from(place.0)).filter(|known| known.reader == reader)?;
        if known.section.is_empty() {
            return None;
        }
        Some((known, input.strip_prefix(&*known.section)?))
    }

    /// Returns the remembered form of `section` and its index, if the section is remembered.
    pub(crate) fn find(&self, hash: SectionHash, reader: Reader, section: &[u8]) -> Option<(&ReadHead, Place)> {
        let (known, rest) = self.at(hash.place(), reader, section)?;
        rest.is_empty().then_some((known, hash.place()))
    }

    /// Records a section that was read. Remembers the section if it has occurred before.
    pub(crate) fn note_read(
        &mut self,
        hash: SectionHash,
        reader: Reader,
        section: &[u8],
        fields: &FieldSection,
        head: &Head,
    ) {
        let place = usize::from(hash.place().0);
        let Some(seen) = self.seen.get_mut(place) else { return };
        let is_again = std::mem::replace(seen, hash.tag()) == hash.tag();
        let is_secret = SECRETS.iter().any(|known| fields.contains(*known));
        if !is_again || self.is_saving || is_secret || fields.used_bytes() > FIELDS_MAX_BYTES {
            return;
        }
        if let Some(known) = self.read.get_or_insert_default().get_mut(place) {
            known.fields.clone_from(fields);
            known.fields.number_content();
            (known.section, known.reader, known.head) = (section.into(), reader, head.clone());
        }
    }

    /// Returns the bytes of a header section that was written before.
    #[inline]
    pub(crate) fn written(&self, written: Written) -> Option<&[u8]> {
        if written.content == 0 {
            return None;
        }
        let known = self.written.as_ref()?.get(written.place())?;
        (known.written == Some(written)).then_some(&*known.section)
    }

    /// Remembers the bytes of a header section that was written.
    pub(crate) fn note_written(&mut self, written: Written, section: &[u8]) {
        if self.is_saving || written.content == 0 || section.len() > SECTION_MAX_BYTES {
            return;
        }
        if let Some(known) = self.written.get_or_insert_default().get_mut(written.place()) {
            *known = WrittenHead { written: Some(written), section: section.into() };
        }
    }

    /// Forgets all sections. If `on`, memory is short: no section is remembered until a call with `false`.
    pub fn save_memory(&mut self, on: bool) {
        *self = Self { is_saving: on, ..Self::default() };
    }

    /// The memory of the remembered sections, in bytes.
    pub fn memory_bytes(&self) -> usize {
        let read = self.read.iter().flat_map(|places| places.iter());
        let read = read.map(|known| size_of_val(known) + known.section.len() + known.fields.capacity_bytes());
        let written = self.written.iter().flat_map(|places| places.iter());
        read.sum::<usize>() + written.map(|known| size_of_val(known) + known.section.len()).sum::<usize>()
    }
}

impl ReadHead {
    /// Writes the section's fields to `fields`, and returns the section's other properties.
    pub(crate) fn read_again(&self, fields: &mut FieldSection) -> Head {
        fields.copy_from(&self.fields);
        self.head.clone()
    }
}

impl Written {
    fn place(self) -> usize {
        self.content as usize % PLACES
    }
}
