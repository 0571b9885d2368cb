//! Field names that an engine or a proxy examines, each as one byte.
//!
//! A name is recognised once, when it is decoded; every later check is an integer comparison. The table also lists
//! names of gRPC and of the mesh, but this crate interprets only HTTP's names.

/// Number of slots in the hash table of names: a power of two, several times the number of names, so that a search
/// rarely probes a second slot.
const SLOTS: usize = 256;

macro_rules! known_names {
    ($($variant:ident $name:literal,)*) => {
        /// A field name that the engine or a proxy examines.
        #[repr(u8)]
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        pub enum Known {
            /// A regular name that is not listed here.
            Other,
            /// A name that starts with a colon and is not listed here.
            UnknownPseudo,
            $(#[doc = concat!("`", $name, "`")] $variant,)*
        }

        /// Every variant with its name; the index is the variant's number.
        const NAMES: &[(Known, &str)] = &[
            (Known::Other, ""),
            (Known::UnknownPseudo, ""),
            $((Known::$variant, $name),)*
        ];
    };
}

known_names! {
    Authority ":authority",
    Method ":method",
    Path ":path",
    Protocol ":protocol",
    Scheme ":scheme",
    Status ":status",
    Accept "accept",
    AcceptCharset "accept-charset",
    AcceptEncoding "accept-encoding",
    AcceptLanguage "accept-language",
    AcceptRanges "accept-ranges",
    AccessControlAllowOrigin "access-control-allow-origin",
    Age "age",
    Allow "allow",
    Authorization "authorization",
    B3 "b3",
    Baggage "baggage",
    CacheControl "cache-control",
    Connection "connection",
    ContentDisposition "content-disposition",
    ContentEncoding "content-encoding",
    ContentLanguage "content-language",
    ContentLength "content-length",
    ContentLocation "content-location",
    ContentRange "content-range",
    ContentType "content-type",
    Cookie "cookie",
    Date "date",
    Etag "etag",
    Expect "expect",
    Expires "expires",
    Forwarded "forwarded",
    From "from",
    GrpcAcceptEncoding "grpc-accept-encoding",
    GrpcEncoding "grpc-encoding",
    GrpcMessage "grpc-message",
    GrpcPreviousRpcAttempts "grpc-previous-rpc-attempts",
    GrpcRetryPushbackMs "grpc-retry-pushback-ms",
    GrpcStatus "grpc-status",
    GrpcStatusDetailsBin "grpc-status-details-bin",
    GrpcTagsBin "grpc-tags-bin",
    GrpcTimeout "grpc-timeout",
    GrpcTraceBin "grpc-trace-bin",
    Host "host",
    IfMatch "if-match",
    IfModifiedSince "if-modified-since",
    IfNoneMatch "if-none-match",
    IfRange "if-range",
    IfUnmodifiedSince "if-unmodified-since",
    KeepAlive "keep-alive",
    L5dClientId "l5d-client-id",
    LastModified "last-modified",
    LenoAttempts "leno-attempts",
    LenoClientId "leno-client-id",
    LenoOrigProto "leno-orig-proto",
    LenoProxyError "leno-proxy-error",
    LenoUpgrade "leno-upgrade",
    Link "link",
    Location "location",
    MaxForwards "max-forwards",
    ProxyAuthenticate "proxy-authenticate",
    ProxyAuthorization "proxy-authorization",
    ProxyConnection "proxy-connection",
    Range "range",
    Referer "referer",
    Refresh "refresh",
    RetryAfter "retry-after",
    Server "server",
    SetCookie "set-cookie",
    StrictTransportSecurity "strict-transport-security",
    Te "te",
    Traceparent "traceparent",
    Tracestate "tracestate",
    Trailer "trailer",
    TransferEncoding "transfer-encoding",
    Upgrade "upgrade",
    UserAgent "user-agent",
    Vary "vary",
    Via "via",
    WwwAuthenticate "www-authenticate",
    XB3Flags "x-b3-flags",
    XB3ParentSpanId "x-b3-parentspanid",
    XB3Sampled "x-b3-sampled",
    XB3SpanId "x-b3-spanid",
    XB3TraceId "x-b3-traceid",
    XForwardedClientCert "x-forwarded-client-cert",
    XForwardedFor "x-forwarded-for",
    XRequestId "x-request-id",
}

/// For each slot, the index in [`NAMES`] of the name to compare, or 0 if the slot is empty. A name whose slot is
/// occupied uses the next free slot.
const LOOKUP: [u8; SLOTS] = lookup();

/// Limit the number of names: each name needs one bit in [`FieldSection`](super::FieldSection)'s mask of 128 bits. Its
/// index then also fits in one byte of [`LOOKUP`].
const _: () = assert!(NAMES.len() <= u128::BITS as usize);

impl Known {
    /// Number of variants; their numbers start at 0.
    pub(crate) const COUNT: usize = NAMES.len();

    /// Recognises `name`. Upper-case letters never match, because HTTP/2 names are lower case.
    pub fn of(name: &[u8]) -> Self {
        let (Some(&first), Some(&last)) = (name.first(), name.last()) else {
            return Self::Other;
        };
        let middle = name.get(name.len() / 2).copied().unwrap_or(first);
        let mut slot = slot(name.len(), first, middle, last);
        while let Some(&position @ 1..) = LOOKUP.get(slot) {
            match NAMES.get(usize::from(position)) {
                Some((known, candidate)) if candidate.as_bytes() == name => return *known,
                _ => slot = (slot + 1) % SLOTS,
            }
        }
        if first == b':' { Self::UnknownPseudo } else { Self::Other }
    }

    /// The name on the wire; empty for [`Known::Other`] and [`Known::UnknownPseudo`], which represent many names.
    pub fn name(self) -> &'static str {
        NAMES.get(self as usize).map_or("", |(_, name)| name)
    }

    /// Whether this is a pseudo-header field's name (RFC 9113 section 8.3), defined or not.
    pub fn is_pseudo(self) -> bool {
        use Known::{Authority, Method, Path, Protocol, Scheme, Status, UnknownPseudo};
        matches!(self, Authority | Method | Path | Protocol | Scheme | Status | UnknownPseudo)
    }

    /// Whether the field is specific to an HTTP/1.1 connection and must not appear in HTTP/2 (RFC 9113 section 8.2.2).
    pub fn is_connection_specific(self) -> bool {
        use Known::{Connection, KeepAlive, ProxyConnection, TransferEncoding, Upgrade};
        matches!(self, Connection | KeepAlive | ProxyConnection | TransferEncoding | Upgrade)
    }

    /// The bit of this name in a set of names; 0 for the variants that represent many names.
    pub(crate) fn bit(self) -> u128 {
        match self {
            Self::Other | Self::UnknownPseudo => 0,
            _ => 1 << self as u8,
        }
    }
}

/// Hashes the most distinctive parts of a name. The factors were found by experiment; lookups are correct with any
/// factors.
const fn slot(length: usize, first: u8, middle: u8, last: u8) -> usize {
    (length * 7 + first as usize * 5 + middle as usize * 11 + last as usize * 3) % SLOTS
}

#[expect(clippy::indexing_slicing, reason = "evaluated at compile time only")]
const fn lookup() -> [u8; SLOTS] {
    let mut table = [0; SLOTS];
    let mut position = 2;
    while position < NAMES.len() {
        let name = NAMES[position].1.as_bytes();
        let mut slot = slot(name.len(), name[0], name[name.len() / 2], name[name.len() - 1]);
        while table[slot] != 0 {
            slot = (slot + 1) % SLOTS;
        }
        table[slot] = position as u8;
        position += 1;
    }
    table
}

#[cfg(test)]
#[path = "known_tests.rs"]
mod tests;
