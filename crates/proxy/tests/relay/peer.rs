//! A scripted client or server on an HTTP/2 connection to the proxy, frame by frame.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::{Duration, Instant};

use leno_http2::FieldSection;
use leno_http2::frame::{PREFACE, flag, kind};
use leno_http2::hpack::{DEFAULT_TABLE_SIZE, Decoder};

/// Longest wait of a test for an expected event, on a machine that may stall for seconds.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Frame {
    pub(crate) kind: u8,
    pub(crate) flags: u8,
    pub(crate) stream: u32,
    pub(crate) payload: Vec<u8>,
    /// The fields, if this is a HEADERS frame.
    pub(crate) fields: Vec<(String, String)>,
}

impl Frame {
    /// The value of a field; empty if it is missing.
    pub(crate) fn field(&self, name: &str) -> &str {
        self.fields.iter().find(|(n, _)| n == name).map_or("", |(_, value)| value)
    }

    pub(crate) fn ends_stream(&self) -> bool {
        matches!(self.kind, kind::DATA | kind::HEADERS) && self.flags & flag::END_STREAM != 0
    }
}

/// The test's end of a connection.
pub(crate) struct Peer {
    pub(crate) socket: TcpStream,
    decoder: Decoder,
}

impl Peer {
    /// A client that has sent its preface and SETTINGS.
    pub(crate) fn connect(proxy: SocketAddr) -> Self {
        let mut peer = Self::new(TcpStream::connect(proxy).expect("the proxy listens"));
        peer.send(&[PREFACE.as_slice(), &settings(&[])].concat());
        peer
    }

    fn new(socket: TcpStream) -> Self {
        socket.set_nodelay(true).expect("a TCP socket");
        socket.set_read_timeout(Some(PATIENCE)).expect("a TCP socket");
        Self { socket, decoder: Decoder::new(DEFAULT_TABLE_SIZE) }
    }

    pub(crate) fn send(&mut self, bytes: &[u8]) {
        self.socket.write_all(bytes).expect("the proxy reads");
    }

    /// Whether there is unread input.
    pub(crate) fn has_input(&self) -> bool {
        self.socket.set_nonblocking(true).expect("a TCP socket");
        let has_input = self.socket.peek(&mut [0]).is_ok();
        self.socket.set_nonblocking(false).expect("a TCP socket");
        has_input
    }

    /// The next frame; `None` at the end of the connection.
    pub(crate) fn frame(&mut self) -> Option<Frame> {
        let mut header = [0; 9];
        match self.socket.read_exact(&mut header) {
            Ok(()) => {}
            Err(error) if matches!(error.kind(), ErrorKind::UnexpectedEof | ErrorKind::ConnectionReset) => return None,
            Err(error) => panic!("no frame came: {error}"),
        }
        let [_, l2, l1, l0, kind, flags, s3, s2, s1, s0] = [&[0], header.as_slice()].concat()[..] else { return None };
        let mut payload = vec![0; u32::from_be_bytes([0, l2, l1, l0]) as usize];
        self.socket.read_exact(&mut payload).expect("a whole frame");
        let fields = if kind == kind::HEADERS { self.decode(&payload) } else { Vec::new() };
        Some(Frame { kind, flags, stream: u32::from_be_bytes([s3, s2, s1, s0]), payload, fields })
    }

    fn decode(&mut self, block: &[u8]) -> Vec<(String, String)> {
        let mut section = FieldSection::new();
        self.decoder.decode(block, usize::MAX, &mut section).expect("a header block");
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        section.iter().map(|line| (text(line.name), text(line.value))).collect()
    }

    /// Waits for the next frame of a kind, and skips frames of other kinds.
    pub(crate) fn expect(&mut self, wanted: u8) -> Frame {
        loop {
            let frame = self.frame().unwrap_or_else(|| panic!("the connection ended before a frame of kind {wanted}"));
            if frame.kind == wanted {
                return frame;
            }
        }
    }

    /// Returns every frame of a stream until the stream ends.
    pub(crate) fn rest_of(&mut self, stream: u32) -> Vec<Frame> {
        let mut frames = Vec::new();
        while let Some(frame) = self.frame() {
            if frame.stream == stream {
                let last = frame.ends_stream() || frame.kind == kind::RST_STREAM;
                frames.push(frame);
                if last {
                    return frames;
                }
            }
        }
        panic!("the connection ended before stream {stream} did: {frames:?}");
    }

    /// Reads frames until the proxy closes its side.
    pub(crate) fn until_closed(&mut self) -> Vec<Frame> {
        std::iter::from_fn(|| self.frame()).collect()
    }
}

/// The listener of one endpoint.
pub(crate) struct Server(TcpListener);

impl Server {
    pub(crate) fn start() -> Self {
        Self::start_on(SocketAddr::from(([127, 0, 0, 1], 0)))
    }

    pub(crate) fn start_on(address: SocketAddr) -> Self {
        let listener = TcpListener::bind(address).expect("a free port");
        listener.set_nonblocking(true).expect("a listener");
        Self(listener)
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.0.local_addr().expect("a bound socket")
    }

    /// Returns the proxy's next connection if it exists already. The server has sent nothing on it.
    pub(crate) fn accept_now(&self) -> Option<Peer> {
        let (socket, _) = self.0.accept().ok()?;
        socket.set_nonblocking(false).expect("a TCP socket");
        let mut peer = Peer::new(socket);
        let mut preface = [0; 24];
        peer.socket.read_exact(&mut preface).expect("a preface");
        Some(peer)
    }

    /// Waits for the proxy's next connection. The server has sent nothing on it.
    pub(crate) fn accept_silently(&self) -> Peer {
        let began = Instant::now();
        loop {
            if let Some(peer) = self.accept_now() {
                return peer;
            }
            assert!(began.elapsed() < PATIENCE, "the proxy did not connect");
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Waits for the proxy's next connection and sends SETTINGS on it.
    pub(crate) fn accept(&self) -> Peer {
        let mut peer = self.accept_silently();
        peer.send(&settings(&[]));
        peer
    }
}

/// Several endpoints, and the proxy's connections to them.
pub(crate) struct Servers(Vec<(Server, Option<Peer>)>);

impl Servers {
    pub(crate) fn of<const N: usize>(servers: [Server; N]) -> Self {
        Self(servers.into_iter().map(|server| (server, None)).collect())
    }

    /// Waits until a server receives the header section of a request. Returns the server's index, and the frame.
    pub(crate) fn next_request(&mut self) -> (usize, Frame) {
        self.next_frame(kind::HEADERS)
    }

    /// Waits until a server receives a frame of this kind. Returns the server's index, and the frame.
    pub(crate) fn next_frame(&mut self, wanted: u8) -> (usize, Frame) {
        let began = Instant::now();
        loop {
            for (place, (server, peer)) in self.0.iter_mut().enumerate() {
                if peer.is_none()
                    && let Some(mut accepted) = server.accept_now()
                {
                    accepted.send(&settings(&[]));
                    *peer = Some(accepted);
                }
                while let Some(open) = peer.as_mut().filter(|peer| peer.has_input()) {
                    match open.frame() {
                        Some(frame) if frame.kind == wanted => return (place, frame),
                        Some(_) => {}
                        None => *peer = None,
                    }
                }
            }
            assert!(began.elapsed() < PATIENCE, "no server got a frame of kind {wanted}");
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Sends `bytes` on the proxy's connection to the server with the index `place`.
    pub(crate) fn send(&mut self, place: usize, bytes: &[u8]) {
        self.0[place].1.as_mut().expect("the proxy has a connection").send(bytes);
    }

    /// Closes the proxy's connection to the server with the index `place`.
    pub(crate) fn close(&mut self, place: usize) {
        self.0[place].1 = None;
    }
}

pub(crate) fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = (payload.len() as u32).to_be_bytes();
    [&length[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
}

pub(crate) fn settings(values: &[(u16, u32)]) -> Vec<u8> {
    let entries: Vec<u8> =
        values.iter().flat_map(|(id, value)| [&id.to_be_bytes()[..], &value.to_be_bytes()].concat()).collect();
    frame(kind::SETTINGS, 0, 0, &entries)
}

pub(crate) fn rst_stream(stream: u32, code: u32) -> Vec<u8> {
    frame(kind::RST_STREAM, 0, stream, &code.to_be_bytes())
}

pub(crate) fn goaway(last_stream: u32, code: u32) -> Vec<u8> {
    frame(kind::GOAWAY, 0, 0, &[last_stream.to_be_bytes(), code.to_be_bytes()].concat())
}

pub(crate) fn data(stream: u32, bytes: &[u8], end_stream: bool) -> Vec<u8> {
    frame(kind::DATA, if end_stream { flag::END_STREAM } else { 0 }, stream, bytes)
}

/// A gRPC message with this many bytes of content.
pub(crate) fn message(bytes: u32) -> Vec<u8> {
    [&[0], &bytes.to_be_bytes()[..], &vec![7; bytes as usize]].concat()
}

/// Encodes fields as literals without indexing, in one HEADERS frame and as many CONTINUATION frames as needed.
pub(crate) fn headers(stream: u32, fields: &[(&str, &str)], end_stream: bool) -> Vec<u8> {
    const MAX_FRAME_BYTES: usize = 16_384;
    let mut block = Vec::new();
    for (name, value) in fields {
        block.push(0);
        put_string(&mut block, name);
        put_string(&mut block, value);
    }
    let mut frames = Vec::new();
    let last = block.len().div_ceil(MAX_FRAME_BYTES) - 1;
    for (i, fragment) in block.chunks(MAX_FRAME_BYTES).enumerate() {
        let end = if i == 0 && end_stream { flag::END_STREAM } else { 0 };
        let end_headers = if i == last { flag::END_HEADERS } else { 0 };
        let kind = if i == 0 { kind::HEADERS } else { kind::CONTINUATION };
        frames.extend(frame(kind, end | end_headers, stream, fragment));
    }
    frames
}

/// Writes a string without Huffman coding. Its length is an integer with a prefix of seven bits (RFC 7541 section 5.1).
fn put_string(block: &mut Vec<u8>, string: &str) {
    match string.len().checked_sub(127) {
        None => block.push(string.len() as u8),
        Some(mut rest) => {
            block.push(127);
            while rest >= 128 {
                block.push(0x80 | (rest & 0x7f) as u8);
                rest >>= 7;
            }
            block.push(rest as u8);
        }
    }
    block.extend_from_slice(string.as_bytes());
}

/// The header section of a gRPC call to the Service `echo`.
pub(crate) const CALL: [(&str, &str); 6] = [
    (":method", "POST"),
    (":scheme", "http"),
    (":path", "/a.B/C"),
    (":authority", "echo.default:80"),
    ("content-type", "application/grpc"),
    ("te", "trailers"),
];

/// A call without content.
pub(crate) fn call(stream: u32) -> Vec<u8> {
    headers(stream, &CALL, true)
}

/// A call whose content is still to come.
pub(crate) fn open_call(stream: u32) -> Vec<u8> {
    headers(stream, &CALL, false)
}

/// A request other than gRPC, with content still to come.
pub(crate) fn open_post(stream: u32) -> Vec<u8> {
    let fields = [(":method", "POST"), (":scheme", "http"), (":path", "/"), (":authority", "echo.default:80")];
    headers(stream, &fields, false)
}

/// A call without content, with one additional field.
pub(crate) fn call_with(stream: u32, name: &str, value: &str) -> Vec<u8> {
    headers(stream, &[CALL.as_slice(), &[(name, value)]].concat(), true)
}

/// The fields of a trailers-only answer with this `grpc-status`.
pub(crate) fn grpc(status: &str) -> [(&str, &str); 3] {
    [(":status", "200"), ("content-type", "application/grpc"), ("grpc-status", status)]
}

/// A complete trailers-only answer; `from` identifies its server.
pub(crate) fn answer(stream: u32, from: &str) -> Vec<u8> {
    let fields = [(":status", "200"), ("content-type", "application/grpc"), ("grpc-status", "0"), ("from", from)];
    headers(stream, &fields, true)
}
