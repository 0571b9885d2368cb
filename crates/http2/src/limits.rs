//! Every limit of the engine: what one peer may make us hold or do on one connection.
//!
//! Counts "per window" start anew every [`FLOOD_WINDOW`]. A limit of 0 forbids the thing altogether.

use std::time::Duration;

/// How long the flood counters count before they start anew.
pub const FLOOD_WINDOW: Duration = Duration::from_secs(10);
/// A stream reset younger than this, unanswered, is a rapid one. Older resets are deadlines and changed minds.
pub const RAPID_RESET_AGE: Duration = Duration::from_millis(10);
/// How many times `max_rapid_resets` a peer whose streams are answered may save up.
pub const EARNED_RESETS_FACTOR: u32 = 10;
/// A DATA frame shorter than this, that does not end its stream, dribbles: a gRPC message has a prefix as long as this.
pub const DRIBBLE_BYTES: usize = 5;
/// So much collected content of a stream leaves at once: a frame of this size carries more than it costs its receiver.
pub const COLLECTED_ENOUGH_BYTES: usize = 256;
/// While this much output waits for the socket, streams keep their DATA in their own queues.
pub const OUTPUT_HIGH_WATER_BYTES: usize = 128 * 1024;

/// What a stream may send while a server's connection window is nearly used up.
pub const SMALL_UPLOAD_BYTES: usize = 1_024;

/// What a connection announces and enforces. One value is shared by all connections of a kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// SETTINGS_MAX_CONCURRENT_STREAMS that we announce: streams a peer may have open at once. What they hold is bounded in
    /// bytes by `max_held_bytes`, so that this only bounds what an open stream itself costs, about 2 KiB in a relay.
    pub max_concurrent_streams: u32,
    /// SETTINGS_INITIAL_WINDOW_SIZE that we announce, in bytes; 1 to 2^31-1.
    pub initial_window_bytes: u32,
    /// How far a stream's receive window grows while the far side takes all that comes, in bytes.
    pub max_stream_window_bytes: u32,
    /// The same for a tunnel (CONNECT, RFC 9113 section 8.5), in bytes: one stream may carry as much as a connection of its own.
    pub max_tunnel_window_bytes: u32,
    /// By how much the receive windows of all streams together grow, in bytes: what peers that take everything and then
    /// stop can make us hold, beyond `initial_window_bytes` of each stream.
    pub max_grown_window_bytes: u32,
    /// Received content, of all streams together, that the owner has not released, in bytes. Beyond it the connection's window
    /// is not refilled: the peer sends nothing more until some of it has gone on.
    pub max_held_bytes: u32,
    /// The connection's receive window, in bytes; 65,535 to 2^31-1. It is refilled at once up to `max_held_bytes`: streams hold
    /// data back, not the connection.
    pub connection_window_bytes: u32,
    /// SETTINGS_MAX_FRAME_SIZE that we announce, in bytes; 16,384 to 16,777,215 (RFC 9113 section 6.5.2).
    pub max_frame_bytes: u32,
    /// SETTINGS_MAX_HEADER_LIST_SIZE that we announce, in bytes as section 6.5.2 counts them.
    pub max_header_list_bytes: u32,
    /// SETTINGS_HEADER_TABLE_SIZE that we announce, in bytes; 0 to 65,536.
    pub header_table_bytes: u32,
    /// Bytes of one encoded header block, all CONTINUATION frames together.
    pub max_header_block_bytes: u32,
    /// CONTINUATION frames after one HEADERS frame.
    pub max_continuation_frames: u32,
    /// Rapid resets that are allowed in a burst. Each stream that we have answered allows one more, up to
    /// [`EARNED_RESETS_FACTOR`] times this number.
    pub max_rapid_resets: u32,
    /// Rapid resets per second that are allowed in the long run, whatever else the peer does.
    pub rapid_resets_per_second: u32,
    /// Stream errors per window that the peer caused.
    pub max_stream_errors: u32,
    /// PING frames per window beyond one for each frame of DATA or HEADERS sent.
    pub max_pings: u32,
    /// SETTINGS frames per window.
    pub max_settings: u32,
    /// Empty DATA, HEADERS, CONTINUATION and unknown frames per window beyond one for each stream opened.
    pub max_empty_frames: u32,
    /// PRIORITY frames per window.
    pub max_priority_frames: u32,
    /// WINDOW_UPDATE frames per window beyond four for each frame of DATA or HEADERS sent.
    pub max_window_updates: u32,
    /// DATA frames of a few bytes per window, received or forced on us by tiny windows, beyond eight for each stream opened.
    pub max_dribbled_frames: u32,
    /// Field sections over `max_header_list_bytes` per window.
    pub max_oversize_sections: u32,
    /// Output waiting for a peer that keeps sending without reading, in bytes; beyond it the connection is closed.
    pub max_unread_output_bytes: u32,
}

impl Limits {
    /// For connections that clients opened.
    pub fn server() -> Self {
        Self {
            max_concurrent_streams: 10_000,
            initial_window_bytes: 65_535,
            max_stream_window_bytes: 256 << 10,
            max_tunnel_window_bytes: 1 << 20,
            max_grown_window_bytes: 64 << 20,
            max_held_bytes: 96 << 20,
            connection_window_bytes: 4 << 20,
            max_frame_bytes: 16_384,
            max_header_list_bytes: 16_384,
            header_table_bytes: 4_096,
            max_header_block_bytes: 32_768,
            max_continuation_frames: 8,
            max_rapid_resets: 100,
            rapid_resets_per_second: 500,
            max_stream_errors: 100,
            max_pings: 100,
            max_settings: 100,
            max_empty_frames: 100,
            max_priority_frames: 1_000,
            max_window_updates: 2_000,
            max_dribbled_frames: 10_000,
            max_oversize_sections: 100,
            max_unread_output_bytes: 1 << 20,
        }
    }

    /// For connections that we opened. A server answers many clients on it, so it may send more than a client.
    pub fn client() -> Self {
        Self {
            max_concurrent_streams: 0,
            // What a client that does not read can make us hold of each response; one that reads soon has more.
            initial_window_bytes: 32_768,
            // Many clients share the connection: one that does not read must not stop the others.
            max_held_bytes: u32::MAX,
            max_header_list_bytes: 65_536,
            max_header_block_bytes: 131_072,
            max_stream_errors: 1_000,
            max_pings: 1_000,
            max_settings: 1_000,
            max_empty_frames: 100_000,
            max_window_updates: 100_000,
            max_dribbled_frames: 10_000_000,
            max_oversize_sections: 1_000,
            // Requests of many clients gather here while a server pauses; what answers them is no flood.
            max_unread_output_bytes: 16 << 20,
            ..Self::server()
        }
    }
}
