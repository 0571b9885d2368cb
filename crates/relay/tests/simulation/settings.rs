//! SETTINGS that a well-behaved peer changes while calls are in flight.

use std::time::{Duration, Instant};

use leno_http2::Limits;
use leno_http2::frame::{FrameHeader, kind};

use crate::net::Net;
use crate::parts::Part;

/// Identifiers of settings (RFC 9113 section 6.5.2).
const HEADER_TABLE_SIZE: u16 = 0x1;
const MAX_CONCURRENT_STREAMS: u16 = 0x3;
const INITIAL_WINDOW_SIZE: u16 = 0x4;

/// The changes that a peer still has to make on one connection.
pub(crate) struct Changes {
    window_bytes: u32,
    table_bytes: u32,
    max_streams: u32,
    next_at: Option<Instant>,
    left: u32,
}

impl Changes {
    /// Plans the changes on a connection whose first SETTINGS announced `limits`.
    pub(crate) fn new(limits: &Limits, net: &mut Net) -> Self {
        let makes_some = net.random.u8(..3) == 0 && net.parts.has(Part::SettingsChanges);
        let first_at = makes_some.then(|| net.now + pause(net));
        Self {
            window_bytes: limits.initial_window_bytes,
            table_bytes: limits.header_table_bytes,
            max_streams: limits.max_concurrent_streams,
            next_at: first_at,
            left: net.random.u32(1..6),
        }
    }

    /// Returns the time of the next change, if this time is later than now. A change that is already due needs no
    /// timer: it waits until the output is at the end of a frame.
    pub(crate) fn next(&self, net: &Net) -> Option<Instant> {
        self.next_at.filter(|at| *at > net.now)
    }

    /// Returns a SETTINGS frame if a change is due. The last frame restores the values at the connection's start.
    ///
    /// These frames bypass the engine of the peer that sends them. The engine keeps the limits of the connection's
    /// start, so no frame announces higher limits. A frame with a small window may stop a stream until the last frame:
    /// the engine returns credit only when it owes half of the initial window.
    pub(crate) fn due(&mut self, net: &mut Net) -> Option<Vec<u8>> {
        self.next_at.take_if(|at| *at <= net.now)?;
        self.left -= 1;
        let random = &mut net.random;
        let mut payload = Vec::new();
        let full = [
            (HEADER_TABLE_SIZE, self.table_bytes),
            (MAX_CONCURRENT_STREAMS, if self.left == 0 { self.max_streams } else { self.max_streams.min(20) }),
            (INITIAL_WINDOW_SIZE, self.window_bytes),
        ];
        for (setting, most) in full {
            let value = if self.left == 0 { most } else { random.u32(..=most) };
            if self.left == 0 || random.bool() {
                payload.extend(setting.to_be_bytes());
                payload.extend(value.to_be_bytes());
            }
        }
        self.next_at = (self.left > 0).then(|| net.now + pause(net));
        let header = FrameHeader { length: payload.len() as u32, kind: kind::SETTINGS, flags: 0, stream: 0 };
        Some([header.encode().as_slice(), &payload].concat())
    }
}

fn pause(net: &mut Net) -> Duration {
    Duration::from_micros(net.random.u64(..20_000))
}
