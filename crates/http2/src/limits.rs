//! Every limit of the engine: what one peer may make us store or do on one connection.
//!
//! Counts "per period" restart every [`FLOOD_WINDOW`]. A limit of 0 forbids the event.

use std::time::Duration;

/// Period after which the flood counters restart.
pub const FLOOD_WINDOW: Duration = Duration::from_secs(10);
/// A reset of an unanswered stream is a rapid reset if the stream is younger than this. Ordinary clients reset a stream
/// later, because a deadline expires or a call is cancelled.
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

/// If a server's connection window is nearly used up, the remaining part is reserved for streams that have sent fewer
/// content bytes than this so far.
pub const SMALL_UPLOAD_BYTES: usize = 1_024;

/// The settings that a connection announces, and the limits that it enforces. All connections of one kind share one
/// `Limits`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// SETTINGS_MAX_CONCURRENT_STREAMS that we announce: the number of streams that a peer may have open at the same
    /// time. `max_held_bytes` limits their content, so this setting only limits the cost of the open streams
    /// themselves, about 2 KiB each in a relay.
    pub max_concurrent_streams: u32,
    /// SETTINGS_INITIAL_WINDOW_SIZE that we announce, in bytes; 1 to 2^31-1.
    pub initial_window_bytes: u32,
    /// Largest receive window of a stream, in bytes. A window grows up to this size while the caller releases all
    /// content.
    pub max_stream_window_bytes: u32,
    /// Largest receive window of a tunnel (CONNECT, RFC 9113 section 8.5), in bytes. A tunnel gets a larger window than
    /// other streams, because it may carry as much as a whole TCP connection.
    pub max_tunnel_window_bytes: u32,
    /// Limit on the growth of all streams' receive windows together, in bytes. The windows grow while the caller
    /// releases content quickly. If the caller then stops, the peer may still fill them, so we may have to hold this
    /// much in addition to `initial_window_bytes` of each stream.
    pub max_grown_window_bytes: u32,
    /// Largest amount of received content of all streams together that the caller has not released, in bytes. Beyond
    /// this amount, the engine does not refill the connection's window: the peer must stop until the caller releases
    /// some content.
    pub max_held_bytes: u32,
    /// The connection's receive window, in bytes; 65,535 to 2^31-1. We refill the window whenever half of it is used,
    /// unless we hold more than `max_held_bytes`. So normally only the streams' windows limit the peer.
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
    /// Maximum number of rapid resets in a burst. Each answered stream allows one more rapid reset, up to
    /// [`EARNED_RESETS_FACTOR`] times this number.
    pub max_rapid_resets: u32,
    /// Maximum number of rapid resets per second in the long run, in addition to those that answered streams allow.
    pub rapid_resets_per_second: u32,
    /// Maximum number of stream errors that the peer may cause per period.
    pub max_stream_errors: u32,
    /// Maximum number of PING frames per period, in addition to one for each DATA or HEADERS frame that we sent, and to
    /// one acknowledgement for each PING that we sent.
    pub max_pings: u32,
    /// Maximum number of SETTINGS frames per period, in addition to the acknowledgement of our SETTINGS.
    pub max_settings: u32,
    /// Maximum number per period of empty DATA, HEADERS and CONTINUATION frames and frames of unknown types, in
    /// addition to one frame for each stream opened. RST_STREAM frames on closed streams count too, in addition to one
    /// for each stream closed, and one for each DATA or HEADERS frame that we sent in this period or the period before.
    pub max_empty_frames: u32,
    /// Maximum number of GOAWAY frames per period. A correct peer sends two: the first announces the end, the second
    /// names the last stream (RFC 9113 section 6.8). A third may report an error.
    pub max_goaways: u32,
    /// Maximum number of PRIORITY frames per period.
    pub max_priority_frames: u32,
    /// Maximum number of WINDOW_UPDATE frames per period. The peer may send four more for each DATA or HEADERS frame
    /// that we sent, and two more for each 4 KiB of content that we sent.
    pub max_window_updates: u32,
    /// Maximum number of DATA frames shorter than [`DRIBBLE_BYTES`] per period, in addition to eight for each stream
    /// opened. The frames that the peer sends count, and the frames that its tiny windows make us send. Frames on
    /// CONNECT streams do not count.
    pub max_dribbled_frames: u32,
    /// Maximum number of field sections over `max_header_list_bytes` per period.
    pub max_oversize_sections: u32,
    /// Limit on the output that the peer has not read when we receive from it, in bytes: answers to control frames, and
    /// field sections, which no flow-control window limits. Above this limit, we stop receiving from a client until it
    /// reads, and close the connection to a server.
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
            max_goaways: 10,
            max_priority_frames: 1_000,
            max_window_updates: 2_000,
            max_dribbled_frames: 10_000,
            max_oversize_sections: 100,
            max_unread_output_bytes: 1 << 20,
        }
    }

    /// Limits for connections that we open. Most allow a server more than [`Self::server`] allows a client, because a
    /// server answers many clients on one connection.
    pub fn client() -> Self {
        Self {
            max_concurrent_streams: 0,
            // We may have to hold this much of each response, if its client does not read. If the client reads, the
            // window of the response soon grows.
            initial_window_bytes: 32_768,
            // No limit: many clients share the connection, and a client that does not read must not stop the other
            // clients.
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
            // Larger than in [`Limits::server`], because the connection is closed. While a server pauses, our output
            // fills with the requests of many clients. This is not a flood by the server.
            max_unread_output_bytes: 16 << 20,
            ..Self::server()
        }
    }
}
