//! One side of an opaque connection: sends content, and checks the content that it receives.
//!
//! Each side first sends a head. The head contains the id and the length of the content that follows, and which side
//! closes its direction first.

use std::time::{Duration, Instant};

use crate::content::{LONGEST_BYTES, is_part, part};
use crate::net::{CableId, End, Net, Read};
use crate::parts::Part;

/// First bytes of a head: neither HTTP nor TLS, so that a relay detects opaque bytes.
const MAGIC: [u8; 8] = [0xf5; 8];
/// Length of a head: magic, id, length and the side that ends first.
const HEAD_BYTES: usize = 8 + 8 + 4 + 1;
/// Largest number of bytes that are read or written at once.
const PIECE_BYTES: usize = 16 << 10;

/// The side that closes its direction first. The other side closes its own direction after it has read the end of the
/// stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum EndsFirst {
    Client,
    Server,
    /// Each side closes its direction as soon as it has sent everything.
    Either,
}

impl EndsFirst {
    fn chosen(net: &mut Net) -> Self {
        net.random.choice([Self::Client, Self::Server, Self::Either]).unwrap_or(Self::Either)
    }

    fn of(byte: u8) -> Option<Self> {
        [Self::Client, Self::Server, Self::Either].into_iter().find(|side| *side as u8 == byte)
    }
}

/// How a connection has ended, as one side sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fate {
    /// This side has received everything, and sent everything.
    Whole,
    /// The connection was reset, or it was closed before this side had sent everything.
    Cut,
    /// The other side has closed its direction without a reset, after its head but before the end of its content.
    Short,
    /// The other side has closed its direction without a reset, before its head was complete.
    Unheard,
    /// This side has reset the connection.
    Broken,
}

#[derive(Debug, Clone, Copy)]
struct Head {
    id: u64,
    bytes: usize,
    ends_first: EndsFirst,
}

/// One side of an opaque connection.
#[derive(Debug)]
pub(crate) struct Speaker {
    cable: CableId,
    end: End,
    own: Head,
    /// Number of bytes that this side has sent, including the head.
    said: usize,
    /// Whether this side sends nothing before it has received the other side's head.
    waits: bool,
    heard: Option<Head>,
    /// The first bytes of the other side's head.
    begun_head: Vec<u8>,
    heard_bytes: usize,
    has_ended: bool,
    has_heard_end: bool,
    /// Time of the next write.
    says_at: Instant,
    /// Whether the socket accepted no more bytes.
    is_blocked: bool,
    deaf_until: Option<Instant>,
    breaks_at: Option<Instant>,
    pub(crate) fate: Option<Fate>,
}

impl Speaker {
    pub(crate) fn new(cable: CableId, end: End, id: u64, waits: bool, net: &mut Net) -> Self {
        let bytes = match net.random.u8(..10) {
            0..2 => 0,
            2..7 => net.random.usize(1..2_000),
            7..9 => net.random.usize(1..LONGEST_BYTES),
            _ => net.random.usize(1..8 * LONGEST_BYTES),
        };
        let bytes = if net.parts.has(Part::LongContent) { bytes } else { bytes.min(10) };
        let ends_first = EndsFirst::chosen(net);
        let is_silent_at_first = net.random.u8(..4) == 0;
        let silence = if is_silent_at_first { net.random.u64(..1_500_000) } else { net.random.u64(..2_000) };
        let breaks = net.random.u8(..10) == 0 && net.parts.has(Part::Resets);
        let breaks_at = breaks.then(|| net.now + Duration::from_micros(net.random.u64(..1_500_000)));
        Self {
            cable,
            end,
            own: Head { id, bytes, ends_first },
            said: 0,
            waits,
            heard: None,
            begun_head: Vec::new(),
            heard_bytes: 0,
            has_ended: false,
            has_heard_end: false,
            says_at: net.now + Duration::from_micros(silence),
            is_blocked: false,
            deaf_until: None,
            breaks_at,
            fate: None,
        }
    }

    /// Does everything that is due. Returns an error if the other side's bytes are wrong.
    pub(crate) fn run(&mut self, net: &mut Net) -> Result<(), String> {
        if self.fate.is_some() {
            return Ok(());
        }
        if self.breaks_at.is_some_and(|at| at <= net.now) {
            net.reset(self.cable);
            self.fate = Some(Fate::Broken);
            return Ok(());
        }
        if self.deaf_until.is_none_or(|until| until <= net.now) {
            self.deaf_until = None;
            self.hear(net)?;
        }
        self.say(net);
        if self.has_ended && self.has_heard_end && self.fate.is_none() {
            self.finish(Fate::Whole, net);
        }
        Ok(())
    }

    fn finish(&mut self, fate: Fate, net: &mut Net) {
        net.close(self.cable, self.end);
        self.fate = Some(fate);
    }

    fn hear(&mut self, net: &mut Net) -> Result<(), String> {
        while !self.has_heard_end && self.fate.is_none() {
            match net.read(self.cable, self.end, PIECE_BYTES) {
                Read::Bytes(bytes) => self.take(&bytes)?,
                Read::End if net.is_reset(self.cable) => self.finish(Fate::Cut, net),
                Read::End if self.has_heard_all() => self.has_heard_end = true,
                Read::End if self.heard.is_none() => self.finish(Fate::Unheard, net),
                Read::End => self.finish(Fate::Short, net),
                Read::Nothing => return Ok(()),
            }
            if net.random.u8(..100) == 0 && net.parts.has(Part::DeafClients) {
                self.deaf_until = Some(net.now + Duration::from_millis(net.random.u64(1..700)));
                return Ok(());
            }
        }
        Ok(())
    }

    fn has_heard_all(&self) -> bool {
        self.heard.is_some_and(|head| head.bytes == self.heard_bytes)
    }

    fn take(&mut self, mut bytes: &[u8]) -> Result<(), String> {
        if self.heard.is_none() {
            let more = bytes.len().min(HEAD_BYTES - self.begun_head.len());
            self.begun_head.extend(&bytes[..more]);
            bytes = &bytes[more..];
            if self.begun_head.len() < HEAD_BYTES {
                return Ok(());
            }
            self.heard = Some(parse(&self.begun_head)?);
        }
        let Some(head) = self.heard else { return Ok(()) };
        if self.heard_bytes + bytes.len() > head.bytes || !is_said(head.id, self.heard_bytes, bytes) {
            return Err(format!("wrong bytes at {} of {head:?}, said to {:?}", self.heard_bytes, self.own));
        }
        self.heard_bytes += bytes.len();
        Ok(())
    }

    fn say(&mut self, net: &mut Net) {
        if self.is_waiting() {
            return;
        }
        self.is_blocked = false;
        while self.fate.is_none() && !self.has_ended && self.says_at <= net.now {
            if self.has_said_all() {
                return self.end_if_due(net);
            }
            let piece = if net.random.u8(..4) == 0 { net.random.usize(1..40) } else { PIECE_BYTES };
            let piece: Vec<u8> = self.next_piece(piece);
            match net.write(self.cable, self.end, &piece) {
                None => return self.finish(Fate::Cut, net),
                Some(0) => return self.is_blocked = true,
                Some(written) => self.said += written,
            }
            let pause = if net.random.u8(..20) == 0 { net.random.u64(..20_000) } else { 0 };
            self.says_at = net.now + Duration::from_micros(pause);
        }
    }

    /// Returns whether this side still waits for the other side's head before it sends.
    fn is_waiting(&self) -> bool {
        self.waits && self.heard.is_none()
    }

    fn has_said_all(&self) -> bool {
        self.said == HEAD_BYTES + self.own.bytes
    }

    fn next_piece(&self, most: usize) -> Vec<u8> {
        match self.said.checked_sub(HEAD_BYTES) {
            None => head_bytes(&self.own)[self.said..].to_vec(),
            Some(offset) => {
                let (block, within) = (offset / LONGEST_BYTES, offset % LONGEST_BYTES);
                let length = most.min(self.own.bytes - offset).min(LONGEST_BYTES - within);
                part(block_id(self.own.id, block), within, length).to_vec()
            }
        }
    }

    /// Closes this side's direction, unless this side must first read the end of the other direction. The client
    /// decides which side closes first.
    fn end_if_due(&mut self, net: &mut Net) {
        let (ends_first, is_first) = match self.end {
            End::Near => (Some(self.own.ends_first), EndsFirst::Client),
            End::Far => (self.heard.map(|head| head.ends_first), EndsFirst::Server),
        };
        let may_end =
            self.has_heard_end || ends_first.is_some_and(|side| side == EndsFirst::Either || side == is_first);
        if may_end {
            net.close_write(self.cable, self.end);
            self.has_ended = true;
        }
    }

    /// Returns whether this side has received the other side's head.
    pub(crate) fn has_heard(&self) -> bool {
        self.heard.is_some()
    }

    /// Returns the time of the next action that needs no event of the network.
    pub(crate) fn next(&self, net: &Net) -> Option<Instant> {
        if self.fate.is_some() {
            return None;
        }
        let says = !self.is_blocked && !self.has_said_all() && !self.is_waiting();
        let says = says.then_some(self.says_at);
        // The network has no event for a socket that accepts bytes again, so try again after 5 ms.
        let retries = self.is_blocked.then(|| net.now + Duration::from_millis(5));
        let due = says.into_iter().chain(retries).chain(self.deaf_until).chain(self.breaks_at);
        due.map(|at| at.max(net.now + Duration::from_micros(1))).min()
    }
}

fn head_bytes(head: &Head) -> [u8; HEAD_BYTES] {
    let mut bytes = [0; HEAD_BYTES];
    bytes[..8].copy_from_slice(&MAGIC);
    bytes[8..16].copy_from_slice(&head.id.to_be_bytes());
    bytes[16..20].copy_from_slice(&(head.bytes as u32).to_be_bytes());
    bytes[20] = head.ends_first as u8;
    bytes
}

fn parse(bytes: &[u8]) -> Result<Head, String> {
    let ends_first = EndsFirst::of(bytes[20]).filter(|_| bytes.starts_with(&MAGIC));
    let ends_first = ends_first.ok_or_else(|| format!("a wrong head: {bytes:?}"))?;
    let id = u64::from_be_bytes(bytes[8..16].try_into().expect("eight bytes"));
    let length = u32::from_be_bytes(bytes[16..20].try_into().expect("four bytes"));
    Ok(Head { id, bytes: length as usize, ends_first })
}

/// Long content consists of blocks, each with an id of its own.
fn block_id(id: u64, block: usize) -> u64 {
    id + ((block as u64) << 32)
}

/// Returns whether these bytes are the content with this id from `offset` on.
fn is_said(id: u64, mut offset: usize, mut bytes: &[u8]) -> bool {
    while !bytes.is_empty() {
        let (block, within) = (offset / LONGEST_BYTES, offset % LONGEST_BYTES);
        let (now, later) = bytes.split_at(bytes.len().min(LONGEST_BYTES - within));
        if !is_part(block_id(id, block), within, now) {
            return false;
        }
        offset += now.len();
        bytes = later;
    }
    true
}
