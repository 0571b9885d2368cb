//! Error codes, and errors that end a connection (RFC 9113 sections 5.4 and 7).

use std::fmt;

/// An error code of RST_STREAM and GOAWAY (RFC 9113 section 7). Unknown codes are kept.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct ErrorCode(pub u32);

impl ErrorCode {
    /// Graceful end, or "stop sending, the response is complete".
    pub const NO_ERROR: Self = Self(0x0);
    /// The peer violated the protocol.
    pub const PROTOCOL_ERROR: Self = Self(0x1);
    /// The sender of the code has an internal error.
    pub const INTERNAL_ERROR: Self = Self(0x2);
    /// A peer sent more than a window allows, or made a window larger than 2^31-1.
    pub const FLOW_CONTROL_ERROR: Self = Self(0x3);
    /// SETTINGS were not acknowledged in time.
    pub const SETTINGS_TIMEOUT: Self = Self(0x4);
    /// The peer sent a frame for a closed stream.
    pub const STREAM_CLOSED: Self = Self(0x5);
    /// The peer sent a frame of a wrong size.
    pub const FRAME_SIZE_ERROR: Self = Self(0x6);
    /// The stream was not processed at all, so its request may be sent again (section 8.7).
    pub const REFUSED_STREAM: Self = Self(0x7);
    /// The response is no longer needed.
    pub const CANCEL: Self = Self(0x8);
    /// The field compression context is lost.
    pub const COMPRESSION_ERROR: Self = Self(0x9);
    /// The tunnel of a CONNECT request broke.
    pub const CONNECT_ERROR: Self = Self(0xa);
    /// The peer causes too much load.
    pub const ENHANCE_YOUR_CALM: Self = Self(0xb);
    /// The transport does not meet minimum requirements.
    pub const INADEQUATE_SECURITY: Self = Self(0xc);
    /// HTTP/1.1 is required for this request.
    pub const HTTP_1_1_REQUIRED: Self = Self(0xd);

    /// The registered name, or `UNKNOWN`.
    pub fn name(self) -> &'static str {
        const NAMES: [&str; 14] = [
            "NO_ERROR",
            "PROTOCOL_ERROR",
            "INTERNAL_ERROR",
            "FLOW_CONTROL_ERROR",
            "SETTINGS_TIMEOUT",
            "STREAM_CLOSED",
            "FRAME_SIZE_ERROR",
            "REFUSED_STREAM",
            "CANCEL",
            "COMPRESSION_ERROR",
            "CONNECT_ERROR",
            "ENHANCE_YOUR_CALM",
            "INADEQUATE_SECURITY",
            "HTTP_1_1_REQUIRED",
        ];
        NAMES.get(self.0 as usize).copied().unwrap_or("UNKNOWN")
    }
}

impl fmt::Display for ErrorCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (0x{:x})", self.name(), self.0)
    }
}

impl fmt::Debug for ErrorCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The peer violated the protocol: a GOAWAY with `code` is queued; flush the output and close the connection (RFC 9113
/// section 5.4.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{why}: {code}")]
pub struct ConnectionError {
    /// The code in the GOAWAY.
    pub code: ErrorCode,
    /// The violation, for logs and metrics.
    pub why: Violation,
}

/// The violation for which a connection is closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Violation {
    /// The first bytes are not the client's preface (RFC 9113 section 3.4).
    #[error("the connection does not begin with the HTTP/2 preface")]
    BadPreface,
    /// A violation of the protocol; the text names the rule.
    #[error("{0}")]
    Protocol(&'static str),
    /// More events of a kind than a correct peer causes ([`Flood`]).
    #[error("{}", .0.explanation())]
    Flood(Flood),
}

/// Kinds of floods. Each kind has a limit in [`crate::limits::Limits`]. If a peer exceeds a limit, we close its
/// connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Flood {
    /// The peer opens streams and resets them immediately (CVE-2023-44487).
    RapidReset,
    /// The peer sends frames that make us reset streams (CVE-2025-8671).
    MadeYouReset,
    /// The peer sends a header block that does not end (CVE-2024-27316).
    Continuation,
    /// PING frames (CVE-2019-9512), and acknowledgements of PING frames that we did not send.
    Ping,
    /// SETTINGS frames (CVE-2019-9515), and acknowledgements of SETTINGS frames that we did not send.
    Settings,
    /// Frames without content (CVE-2019-9518), and RST_STREAM frames on closed streams.
    EmptyFrames,
    /// PRIORITY frames (CVE-2019-9513).
    Priority,
    /// The peer sends more WINDOW_UPDATE frames than the DATA that we sent can explain.
    WindowUpdate,
    /// The connection carries content in frames of a few bytes: the peer splits its content, or its tiny windows make
    /// us split ours (CVE-2019-9511).
    DataDribble,
    /// The server sends frames and does not read our output (CVE-2019-9517). A client that does this is not read
    /// ([`Connection::is_paused`](crate::Connection::is_paused)).
    UnreadOutput,
    /// The peer repeatedly sends field sections above the size limit.
    HeaderList,
    /// GOAWAY frames.
    GoAway,
}

impl Flood {
    /// Number of kinds of floods.
    pub const COUNT: usize = 12;

    /// The name in metrics of this kind of flood.
    pub fn label(self) -> &'static str {
        match self {
            Self::RapidReset => "rapid_reset",
            Self::MadeYouReset => "made_you_reset",
            Self::Continuation => "continuation",
            Self::Ping => "ping",
            Self::Settings => "settings",
            Self::EmptyFrames => "empty_frames",
            Self::Priority => "priority",
            Self::WindowUpdate => "window_update",
            Self::DataDribble => "data_dribble",
            Self::UnreadOutput => "unread_output",
            Self::HeaderList => "header_list",
            Self::GoAway => "goaway",
        }
    }

    fn explanation(self) -> &'static str {
        match self {
            Self::RapidReset => "too many streams opened and reset at once",
            Self::MadeYouReset => "too many stream errors",
            Self::Continuation => "a header block of too many frames or bytes",
            Self::Ping => "too many PING frames",
            Self::Settings => "too many SETTINGS frames",
            Self::EmptyFrames => "too many empty frames",
            Self::Priority => "too many PRIORITY frames",
            Self::WindowUpdate => "too many WINDOW_UPDATE frames",
            Self::DataDribble => "too many DATA frames of a few bytes",
            Self::UnreadOutput => "frames are sent, our output is not read",
            Self::HeaderList => "too many field sections over the size limit",
            Self::GoAway => "too many GOAWAY frames",
        }
    }
}

impl ConnectionError {
    pub(crate) fn protocol(why: &'static str) -> Self {
        Self { code: ErrorCode::PROTOCOL_ERROR, why: Violation::Protocol(why) }
    }

    pub(crate) fn coded(code: ErrorCode, why: &'static str) -> Self {
        Self { code, why: Violation::Protocol(why) }
    }

    pub(crate) fn flood(flood: Flood) -> Self {
        Self { code: ErrorCode::ENHANCE_YOUR_CALM, why: Violation::Flood(flood) }
    }
}
