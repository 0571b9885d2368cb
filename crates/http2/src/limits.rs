//! Every limit of the engine: what one peer may make us store or do on one connection.
//!
//! Counts "per period" restart every [`FLOOD_WINDOW`]. A limit of 0 forbids the event.

use std::time::Duration;

/// Period after which the flood counters restart.
pub const FLOOD_WINDOW: Duration = Duration::from_secs(10);
/// A reset of an unanswered stream is a rapid reset if the stream is younger than this. Ordinary resets, for a deadline
/// or a cancellation, come later.
pub const RAPID_RESET_AGE: Duration = Duration::from_millis(10);
/// Maximum number of rapid resets that a peer can earn by answered streams, as a multiple of `max_rapid_resets`.
pub const EARNED_RESETS_FACTOR: u32 = 10;
/// A DATA frame shorter than this counts as a dribble, unless the frame ends its stream. A frame with only the prefix
/// of a gRPC message has exactly this length, and does not count.
pub const DRIBBLE_BYTES: usize = 5;
/// The collected content of a stream is sent as soon as it has this size. For a receiver, a frame with this much
/// content is worth the cost of the frame.
pub const COLLECTED_ENOUGH_BYTES: usize = 256;
/// While more output than this waits for the socket, streams keep their DATA in their own queues.
pub const OUTPUT_HIGH_WATER_BYTES: usize = 128 * 1024;

/// While a server's connection window is nearly used up, a stream may send no more than this number of bytes in total.
pub const SMALL_UPLOAD_BYTES: usize = 1_024;

/// The settings that a connection announces, and the limits that it enforces. All connections of one kind share one
/// `Limits`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// SETTINGS_MAX_CONCURRENT_STREAMS that we announce: streams that a peer may have open at once. `max_held_bytes`
    /// limits their content, so this setting only limits the cost of the open streams themselves, about 2 KiB each in a
    /// relay.
    pub max_concurrent_streams: u32,
    /// SETTINGS_INITIAL_WINDOW_SIZE that we announce, in bytes; 1 to 2^31-1.
    pub initial_window_bytes: u32,
    /// Largest receive window of a stream, in bytes; the window grows while the owner releases all content.
    pub max_stream_window_bytes: u32,
    /// Largest receive window of a tunnel (CONNECT, RFC 9113 section 8.5), in bytes: one tunnel may carry as much as a
    /// connection of its own.
    pub max_tunnel_window_bytes: u32,
    /// Largest total growth of all streams' receive windows, in bytes. If the readers of the content first read
    /// everything and then stop, we may have to hold this much beyond `initial_window_bytes` of each stream.
    pub max_grown_window_bytes: u32,
    /// Largest amount of received content of all streams together that the owner has not released, in bytes. Beyond
    /// this amount, the engine does not refill the connection's window: the peer must stop until the owner releases
    /// some content.
    pub max_held_bytes: u32,
    /// The connection's receive window, in bytes; 65,535 to 2^31-1. While no more than `max_held_bytes` are held, the
    /// window is refilled whenever half of it is used, so that only the streams' windows limit the peer.
    pub connection_window_bytes: u32,
    /// SETTINGS_MAX_FRAME_SIZE that we announce, in bytes; 16,384 to 16,777,215 (RFC 9113 section 6.5.2).
    pub max_frame_bytes: u32,
    /// SETTINGS_MAX_HEADER_LIST_SIZE that we announce, in bytes in the measure of section 6.5.2.
    pub max_header_list_bytes: u32,
    /// SETTINGS_HEADER_TABLE_SIZE that we announce, in bytes; 0 to 65,536.
    pub header_table_bytes: u32,
    /// Largest encoded header block, with all CONTINUATION frames, in bytes.
    pub max_header_block_bytes: u32,
    /// Maximum number of CONTINUATION frames after one HEADERS frame.
    pub max_continuation_frames: u32,
    /// Rapid resets allowed in a burst. Each answered stream allows one more rapid reset, up to
    /// [`EARNED_RESETS_FACTOR`] times this number.
    pub max_rapid_resets: u32,
    /// Rapid resets per second allowed in the long run, independent of answered streams.
    pub rapid_resets_per_second: u32,
    /// Stream errors that the peer causes, per period.
    pub max_stream_errors: u32,
    /// PING frames per period, in addition to one for each DATA or HEADERS frame that we sent.
    pub max_pings: u32,
    /// SETTINGS frames per period.
    pub max_settings: u32,
    /// Empty DATA, HEADERS and CONTINUATION frames, and frames of unknown types, per period, in addition to one for
    /// each stream opened.
    pub max_empty_frames: u32,
    /// PRIORITY frames per period.
    pub max_priority_frames: u32,
    /// WINDOW_UPDATE frames per period, in addition to four for each DATA or HEADERS frame that we sent, and to two for
    /// each 4 KiB of content.
    pub max_window_updates: u32,
    /// DATA frames of a few bytes, per period, in addition to eight for each stream opened. Two kinds of frames count:
    /// the frames that the peer sends, and the frames that its tiny windows make us send. Frames on CONNECT streams do
    /// not count.
    pub max_dribbled_frames: u32,
    /// Field sections over `max_header_list_bytes`, per period.
    pub max_oversize_sections: u32,
    /// Largest output that may wait when the peer sends, in bytes. If more waits, the peer sends but does not read, so
    /// we close the connection.
    pub max_unread_output_bytes: u32,
}

impl Limits {
    /// Limits for connections from clients.
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

    /// Limits for connections that we open. A server answers many clients on one connection, so we allow a server more
    /// than a client.
    pub fn client() -> Self {
        Self {
            max_concurrent_streams: 0,
            // If a client does not read, we hold this much of each of its responses. If a client reads, the window of
            // its response soon grows.
            initial_window_bytes: 32_768,
            // Many clients share the connection: a client that does not read must not stop the other clients.
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
            // While a server pauses, the output holds requests of many clients. Such output is no flood of control
            // frames.
            max_unread_output_bytes: 16 << 20,
            ..Self::server()
        }
    }
}
