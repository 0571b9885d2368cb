//! SETTINGS (RFC 9113 section 6.5) of both sides.

use crate::error::{ConnectionError, ErrorCode};
use crate::frame::{self, MAX_31_BITS};
use crate::limits::Limits;

const HEADER_TABLE_SIZE: u16 = 0x1;
const ENABLE_PUSH: u16 = 0x2;
const MAX_CONCURRENT_STREAMS: u16 = 0x3;
const INITIAL_WINDOW_SIZE: u16 = 0x4;
const MAX_FRAME_SIZE: u16 = 0x5;
const MAX_HEADER_LIST_SIZE: u16 = 0x6;

/// The initial value of every window (RFC 9113 section 6.9.2).
pub(crate) const DEFAULT_WINDOW_BYTES: u32 = 65_535;
/// The initial value of SETTINGS_HEADER_TABLE_SIZE (section 6.5.2).
const DEFAULT_HEADER_TABLE_BYTES: u32 = 4_096;
/// The initial value of SETTINGS_MAX_FRAME_SIZE (section 6.5.2).
const DEFAULT_MAX_FRAME_BYTES: u32 = 16_384;
const MAX_MAX_FRAME_BYTES: u32 = (1 << 24) - 1;

/// The peer's settings. Until SETTINGS arrive, every value is the initial value of section 6.5.2.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PeerSettings {
    /// Largest dynamic table of our encoder, in bytes.
    pub header_table_bytes: u32,
    /// Maximum number of streams that we may have open at the same time.
    pub max_concurrent_streams: u32,
    /// Initial send window of each stream, in bytes.
    pub initial_window_bytes: u32,
    /// Largest frame payload that we may send, in bytes.
    pub max_frame_bytes: u32,
    /// Largest field section that the peer accepts, in bytes in the measure of section 6.5.2.
    pub max_header_list_bytes: u32,
}

impl Default for PeerSettings {
    fn default() -> Self {
        Self {
            header_table_bytes: DEFAULT_HEADER_TABLE_BYTES,
            max_concurrent_streams: u32::MAX,
            initial_window_bytes: DEFAULT_WINDOW_BYTES,
            max_frame_bytes: DEFAULT_MAX_FRAME_BYTES,
            max_header_list_bytes: u32::MAX,
        }
    }
}

impl PeerSettings {
    /// Applies a SETTINGS payload in order; unknown settings are ignored.
    pub(crate) fn apply(&mut self, payload: &[u8], peer_is_server: bool) -> Result<(), ConnectionError> {
        let (entries, rest) = payload.as_chunks::<6>();
        if !rest.is_empty() {
            return Err(ConnectionError::coded(
                ErrorCode::FRAME_SIZE_ERROR,
                "a SETTINGS frame is not a multiple of six bytes",
            ));
        }
        for [i1, i0, v3, v2, v1, v0] in entries {
            let value = u32::from_be_bytes([*v3, *v2, *v1, *v0]);
            match u16::from_be_bytes([*i1, *i0]) {
                HEADER_TABLE_SIZE => self.header_table_bytes = value,
                ENABLE_PUSH if value > 1 || (peer_is_server && value == 1) => {
                    return Err(ConnectionError::protocol("SETTINGS_ENABLE_PUSH has a value that is not allowed"));
                }
                MAX_CONCURRENT_STREAMS => self.max_concurrent_streams = value,
                INITIAL_WINDOW_SIZE if value > MAX_31_BITS => {
                    return Err(ConnectionError::coded(
                        ErrorCode::FLOW_CONTROL_ERROR,
                        "SETTINGS_INITIAL_WINDOW_SIZE is above 2^31-1",
                    ));
                }
                INITIAL_WINDOW_SIZE => self.initial_window_bytes = value,
                MAX_FRAME_SIZE if !(DEFAULT_MAX_FRAME_BYTES..=MAX_MAX_FRAME_BYTES).contains(&value) => {
                    return Err(ConnectionError::protocol("SETTINGS_MAX_FRAME_SIZE is out of range"));
                }
                MAX_FRAME_SIZE => self.max_frame_bytes = value,
                MAX_HEADER_LIST_SIZE => self.max_header_list_bytes = value,
                _ => {}
            }
        }
        Ok(())
    }
}

/// Appends the SETTINGS frame that opens a connection, with the values that differ from the initial values.
pub(crate) fn write_initial(out: &mut Vec<u8>, limits: &Limits, as_server: bool) {
    let mut payload = Vec::with_capacity(36);
    let mut put = |id: u16, value: u32| {
        payload.extend_from_slice(&id.to_be_bytes());
        payload.extend_from_slice(&value.to_be_bytes());
    };
    if as_server {
        put(MAX_CONCURRENT_STREAMS, limits.max_concurrent_streams);
    } else {
        put(ENABLE_PUSH, 0);
    }
    put(MAX_HEADER_LIST_SIZE, limits.max_header_list_bytes);
    for (id, value, initial) in [
        (HEADER_TABLE_SIZE, limits.header_table_bytes, DEFAULT_HEADER_TABLE_BYTES),
        (INITIAL_WINDOW_SIZE, limits.initial_window_bytes, DEFAULT_WINDOW_BYTES),
        (MAX_FRAME_SIZE, limits.max_frame_bytes, DEFAULT_MAX_FRAME_BYTES),
    ] {
        if value != initial {
            put(id, value);
        }
    }
    frame::write(out, frame::kind::SETTINGS, 0, 0, &payload);
}

#[cfg(test)]
#[path = "settings_tests.rs"]
mod tests;
