//! Netlink messages and attributes: length, type, payload, padded to four bytes.

/// The alignment of every message and attribute.
const ALIGNMENT_BYTES: usize = 4;
/// Size of a message's header: length, type, flags, sequence number, port.
const HEADER_BYTES: usize = 16;
/// Position of the flags in a message's header.
const FLAGS_AT: usize = 6;
/// Marks an attribute that contains attributes.
const NESTED: u16 = 0x8000;

const REQUEST: u16 = 0x1;
const ACK: u16 = 0x4;

const BATCH_BEGIN: u16 = 0x10;
const BATCH_END: u16 = 0x11;
/// The number that identifies nf_tables among netfilter's subsystems.
const SUBSYSTEM: u8 = 10;

/// Messages that take effect together or not at all. The kernel answers only the last message and every message that it
/// refuses: answers to all messages might not fit into the socket's buffer.
pub(crate) struct Batch {
    bytes: Vec<u8>,
    /// Position of the latest message.
    last: usize,
    sequence: u32,
}

impl Batch {
    pub(crate) fn new() -> Self {
        let mut batch = Self { bytes: Vec::new(), last: 0, sequence: 0 };
        batch.edge(BATCH_BEGIN);
        batch
    }

    /// Adds a message of nf_tables for `family`.
    pub(crate) fn add(&mut self, kind: u8, flags: u16, family: u8, attributes: &Attributes) {
        self.last = self.bytes.len();
        self.message(nf_tables(kind), REQUEST | flags, [family, 0, 0, 0], &attributes.0);
    }

    /// Returns the bytes of the batch.
    pub(crate) fn finish(mut self) -> Vec<u8> {
        if let Some(flags) = self.bytes.get_mut(self.last + FLAGS_AT..).and_then(|rest| rest.first_chunk_mut()) {
            *flags = (u16::from_ne_bytes(*flags) | ACK).to_ne_bytes();
        }
        self.edge(BATCH_END);
        self.bytes
    }

    fn edge(&mut self, kind: u16) {
        self.message(kind, REQUEST, [0, 0, 0, SUBSYSTEM], &[]);
    }

    fn message(&mut self, kind: u16, flags: u16, netfilter: [u8; 4], attributes: &[u8]) {
        message(&mut self.bytes, kind, flags, self.sequence, netfilter, attributes);
        self.sequence += 1;
    }
}

/// Makes a message of nf_tables that changes nothing and needs no batch. The kernel sends one answer to it.
pub(crate) fn request(kind: u8, family: u8, attributes: &Attributes) -> Vec<u8> {
    let mut bytes = Vec::new();
    message(&mut bytes, nf_tables(kind), REQUEST, 0, [family, 0, 0, 0], &attributes.0);
    bytes
}

fn nf_tables(kind: u8) -> u16 {
    u16::from(SUBSYSTEM) << 8 | u16::from(kind)
}

fn message(bytes: &mut Vec<u8>, kind: u16, flags: u16, sequence: u32, netfilter: [u8; 4], attributes: &[u8]) {
    let length = u32::try_from(HEADER_BYTES + netfilter.len() + attributes.len()).unwrap_or(u32::MAX);
    bytes.extend(length.to_ne_bytes());
    bytes.extend(kind.to_ne_bytes());
    bytes.extend(flags.to_ne_bytes());
    bytes.extend(sequence.to_ne_bytes());
    // The netlink port id, the last field of the header: 0.
    bytes.extend([0; 4]);
    bytes.extend(netfilter);
    bytes.extend(attributes);
}

/// Attributes in sequence.
#[derive(Clone, Default)]
pub(crate) struct Attributes(Vec<u8>);

impl Attributes {
    pub(crate) fn text(self, kind: u16, text: &str) -> Self {
        let mut bytes = text.as_bytes().to_vec();
        bytes.push(0);
        self.bytes(kind, &bytes)
    }

    /// Appends a number in network byte order, as nf_tables requires.
    pub(crate) fn number(self, kind: u16, number: u32) -> Self {
        self.bytes(kind, &number.to_be_bytes())
    }

    pub(crate) fn nested(self, kind: u16, inner: &Attributes) -> Self {
        self.bytes(kind | NESTED, &inner.0)
    }

    pub(crate) fn bytes(mut self, kind: u16, payload: &[u8]) -> Self {
        const HEADER_BYTES: usize = 4;
        let length = u16::try_from(HEADER_BYTES + payload.len()).unwrap_or(u16::MAX);
        self.0.extend(length.to_ne_bytes());
        self.0.extend(kind.to_ne_bytes());
        self.0.extend(payload);
        self.0.resize(self.0.len().next_multiple_of(ALIGNMENT_BYTES), 0);
        self
    }
}

#[cfg(test)]
#[path = "message_tests.rs"]
mod tests;
