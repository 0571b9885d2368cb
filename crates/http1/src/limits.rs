//! Every limit of the engine: what one peer may make us store or do on one connection.

// While more output than this number of bytes waits for the socket, this engine reads no further request.
pub use leno_http2::limits::OUTPUT_HIGH_WATER_BYTES;

/// Maximum number of fields in one header or trailer section.
pub const MAX_FIELDS: usize = 128;
/// Longest name of a field, in bytes.
pub const MAX_NAME_BYTES: usize = 256;
/// Maximum number of fields that the field `Connection` may name, in addition to `close`, `keep-alive`, `upgrade` and
/// `te`.
pub const MAX_NOMINATED_FIELDS: usize = 32;
/// Maximum number of empty lines before a request line (RFC 9112 section 2.2).
pub const MAX_EMPTY_LINES: u8 = 4;

/// The limits of a connection. All connections of one kind share one `Limits`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// Largest header section, in bytes. Limits both its bytes on the wire and its size in HTTP/2's measure (RFC 9113
    /// section 6.5.2).
    pub max_header_list_bytes: u32,
    /// Longest target of a request, in bytes (RFC 9112 section 3).
    pub max_target_bytes: u32,
    /// Longest line with a chunk's size and its extensions, in bytes (RFC 9112 section 7.1).
    pub max_chunk_line_bytes: u32,
    /// Maximum total size of the chunk extensions of one message, in bytes. Extensions are read and dropped (RFC 9112
    /// section 7.1.1).
    pub max_chunk_extension_bytes: u32,
    /// Largest trailer section, measured like a header section.
    pub max_trailer_bytes: u32,
    /// Maximum number of interim responses to one request (RFC 9110 section 15.2).
    pub max_interim_responses: u32,
    /// Largest amount of content that the caller may hold unreleased, in bytes. While the caller holds this amount, the
    /// engine reads no more content.
    pub content_window_bytes: u32,
}

impl Limits {
    /// Limits for connections from clients.
    pub fn server() -> Self {
        Self {
            max_header_list_bytes: 16_384,
            max_target_bytes: 8_192,
            max_chunk_line_bytes: 256,
            max_chunk_extension_bytes: 16_384,
            max_trailer_bytes: 8_192,
            max_interim_responses: 0,
            content_window_bytes: 65_536,
        }
    }

    /// Limits for connections that we open.
    pub fn client() -> Self {
        Self { max_header_list_bytes: 65_536, max_trailer_bytes: 16_384, max_interim_responses: 32, ..Self::server() }
    }
}
