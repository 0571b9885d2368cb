//! Compares the engine with hyper. The two programs share only the parser of header sections. Each program parses the
//! output of the other program. In corrupted bytes, hyper must see every request that the engine sees.

use std::cell::RefCell;
use std::convert::Infallible;

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use leno_http1::{Limits, Role, Section};
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};

use crate::endpoint::{Endpoint, Fields, Happening};
use crate::pair::Message;

const MESSAGES: u64 = 300;
const MUTATIONS: u64 = 4_000;
/// Capacity of the pipe in each direction, in bytes: more than any test writes.
const PIPE_BYTES: usize = 1 << 20;

/// A request as hyper or the engine received it.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Seen {
    method: String,
    path: String,
    fields: Fields,
    content: Vec<u8>,
    trailers: Fields,
}

fn strings(map: &http::HeaderMap) -> Fields {
    let text = |value: &http::HeaderValue| String::from_utf8_lossy(value.as_bytes()).into_owned();
    map.iter().map(|(name, value)| (name.to_string(), text(value))).collect()
}

/// The fields that the application sent, sorted: in these tests, exactly the fields whose name begins with `x-`. hyper
/// and the engine add other fields.
fn own(fields: &Fields) -> Fields {
    let mut own: Fields = fields.iter().filter(|(name, _)| name.starts_with("x-")).cloned().collect();
    own.sort();
    own
}

fn run<T>(test: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().build().expect("a runtime needs nothing").block_on(test)
}

/// Serves the other end of `pipe` with hyper, until the pipe closes. Answers every request with `hello`.
async fn serve(pipe: DuplexStream, seen: &RefCell<Vec<Seen>>) {
    let service = service_fn(|request: http::Request<Incoming>| async {
        let (head, body) = request.into_parts();
        let Ok(collected) = body.collect().await else { return Ok(http::Response::new(Full::default())) };
        let trailers = collected.trailers().map(strings).unwrap_or_default();
        seen.borrow_mut().push(Seen {
            method: head.method.to_string(),
            path: head.uri.path_and_query().map(ToString::to_string).unwrap_or_default(),
            fields: strings(&head.headers),
            content: collected.to_bytes().to_vec(),
            trailers,
        });
        Ok::<_, Infallible>(http::Response::new(Full::new(Bytes::from_static(b"hello"))))
    });
    let served =
        hyper::server::conn::http1::Builder::new().half_close(true).serve_connection(TokioIo::new(pipe), service);
    // The result for invalid bytes does not matter here: `seen` shows the requests that hyper accepted.
    drop(served.await);
}

#[test]
fn hyper_reads_the_requests_that_the_engine_writes() {
    for seed in leno_testing::seeds(0..MESSAGES) {
        let mut rng = fastrand::Rng::with_seed(seed);
        let request = Message::request(&mut rng);
        let mut client = Endpoint::new(Role::Client, Limits::client());
        request.send(&mut client, &mut rng);
        let seen = RefCell::default();
        run(async {
            let (mut ours, theirs) = tokio::io::duplex(PIPE_BYTES);
            let client = &mut client;
            let talk = async move {
                ours.write_all(&client.written_bytes()).await.expect("the pipe is wide");
                let mut buffer = [0; 1_000];
                while client.http1.stream_count() > 0 {
                    let n = ours.read(&mut buffer).await.expect("hyper answers");
                    assert!(n > 0, "hyper closes: seed {seed}");
                    client.feed(&buffer[..n]);
                }
            };
            let ((), ()) = tokio::join!(talk, serve(theirs, &seen));
        });
        let seen = seen.into_inner();
        assert_eq!(seen.len(), 1, "seed {seed}");
        assert_eq!(seen[0].method, request.fields[0].1);
        assert_eq!(seen[0].path, request.fields[3].1);
        assert_eq!(own(&seen[0].fields), own(&request.fields), "seed {seed}");
        assert_eq!(Some(&seen[0].content), request.content.as_ref().or(Some(&Vec::new())), "seed {seed}");
        assert_eq!(seen[0].trailers, request.trailers.unwrap_or_default(), "seed {seed}");
        let response = client.take();
        assert!(
            matches!(&response[..], [Happening::Headers { section: Section::Response, .. },
            Happening::Data { bytes, end_stream: true }] if bytes == b"hello"),
            "{response:?}, seed {seed}"
        );
    }
}

#[test]
fn hyper_reads_the_responses_that_the_engine_writes() {
    for seed in leno_testing::seeds(0..MESSAGES) {
        let mut rng = fastrand::Rng::with_seed(seed);
        let response = Message::response(&mut rng);
        let mut server = Endpoint::server();
        run(async {
            let (mut ours, theirs) = tokio::io::duplex(PIPE_BYTES);
            let (mut sender, connection) =
                hyper::client::conn::http1::handshake(TokioIo::new(theirs)).await.expect("nothing is exchanged");
            let talk = async {
                let mut buffer = [0; 1_000];
                while server.key.id == 0 {
                    let n = ours.read(&mut buffer).await.expect("hyper asks");
                    server.feed(&buffer[..n]);
                }
                response.send(&mut server, &mut rng);
                ours.write_all(&server.written_bytes()).await.expect("the pipe is wide");
            };
            let ask = async {
                let request = http::Request::get("/").header("host", "a").header("te", "trailers");
                let request = request.body(Full::<Bytes>::default()).expect("a request");
                let (head, body) = sender.send_request(request).await.expect("an answer").into_parts();
                let collected = body.collect().await.expect("all of the content");
                drop(sender);
                (head, collected)
            };
            let ((), (head, collected), _) = tokio::join!(talk, ask, connection);
            assert_eq!(head.status.as_str(), response.fields[0].1, "seed {seed}");
            assert_eq!(own(&strings(&head.headers)), own(&response.fields), "seed {seed}");
            let trailers = collected.trailers().map(strings).unwrap_or_default();
            assert_eq!(trailers, response.trailers.clone().unwrap_or_default(), "seed {seed}");
            let content = response.content.clone().unwrap_or_default();
            assert!(collected.to_bytes() == content, "the content differs: seed {seed}");
        });
    }
}

/// Valid requests, which tests corrupt.
const SEEDS: [&str; 5] = [
    "GET /a HTTP/1.1\r\nHost: a\r\nX-A: b c\r\n\r\n",
    "POST /b HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhelloGET /c HTTP/1.1\r\nHost: a\r\n\r\n",
    "POST /d HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\nGET /e HTTP/1.1\r\nHost: a\r\n\r\n",
    "POST /f HTTP/1.1\r\nTransfer-Encoding: chunked\r\nHost: a\r\n\r\nb;x=y\r\nhello world\r\n0\r\nX-T: 1\r\n\r\n",
    "POST /g HTTP/1.0\r\nContent-Length: 3\r\nConnection: keep-alive\r\nHost: a\r\n\r\nabcGET /h HTTP/1.1\r\nHost: a\r\n\r\n",
];

const SPOILERS: [&str; 28] = [
    "\r",
    "\n",
    "\r\n",
    "\r\n\r\n",
    " ",
    "\t",
    "\0",
    "\x0b",
    "0",
    "5",
    "a",
    "+",
    "-",
    ",",
    ";",
    ":",
    "chunked",
    "identity",
    "Content-Length: 3\r\n",
    "Content-Length: 5\r\n",
    "Transfer-Encoding: chunked\r\n",
    "transfer-encoding: x\r\n",
    "Connection: close\r\n",
    "Host: b\r\n",
    "HTTP/1.0",
    "0\r\n\r\n",
    "5\r\nhello\r\n",
    "GET / HTTP/1.1\r\nHost: c\r\n\r\n",
];

fn spoil(rng: &mut fastrand::Rng) -> Vec<u8> {
    let mut bytes = rng.choice(SEEDS).unwrap_or_default().as_bytes().to_vec();
    for _ in 0..rng.u8(1..4) {
        let at = rng.usize(..=bytes.len());
        let spoiler = rng.choice(SPOILERS).unwrap_or_default().bytes();
        let end = if rng.bool() { at } else { (at + rng.usize(1..4)).min(bytes.len()) };
        if rng.u8(..4) == 0 {
            bytes.drain(at..end);
        } else {
            bytes.splice(at..end, spoiler);
        }
    }
    bytes
}

/// Returns the complete requests that the engine reports. Each is answered at once.
fn engine_sees(bytes: &[u8]) -> Vec<Seen> {
    let mut server = Endpoint::server();
    let mut seen: Vec<Seen> = Vec::new();
    let mut open: Option<Seen> = None;
    server.feed(bytes);
    loop {
        for happening in server.take() {
            let ended = match happening {
                Happening::Headers { section: Section::Request, fields, end_stream } => {
                    let value = |name| fields.iter().find(|field| field.0 == name).map(|field| field.1.clone());
                    let (method, path) = (value(":method").unwrap_or_default(), value(":path").unwrap_or_default());
                    open = Some(Seen { method, path, fields, content: Vec::new(), trailers: Vec::new() });
                    end_stream
                }
                Happening::Headers { fields, end_stream, .. } => {
                    open.iter_mut().for_each(|open| open.trailers.clone_from(&fields));
                    end_stream
                }
                Happening::Data { bytes, end_stream } => {
                    open.iter_mut().for_each(|open| open.content.extend_from_slice(&bytes));
                    end_stream
                }
                Happening::Reset { .. } => false,
            };
            if ended {
                seen.extend(open.take());
            }
        }
        if !server.http1.is_paused() || server.error.is_some() {
            return seen;
        }
        server.respond(&[(":status", "200")], true);
        server.feed(b"");
    }
}

#[test]
fn whatever_the_engine_takes_for_a_request_hyper_takes_for_the_same() {
    let (mut taken, mut refused) = (0, 0);
    for seed in leno_testing::seeds(0..MUTATIONS) {
        let bytes = spoil(&mut fastrand::Rng::with_seed(seed));
        let ours = engine_sees(&bytes);
        let seen = RefCell::default();
        run(async {
            let (mut near, far) = tokio::io::duplex(PIPE_BYTES);
            near.write_all(&bytes).await.expect("the pipe is wide");
            near.shutdown().await.expect("a pipe can be closed");
            serve(far, &seen).await;
        });
        let theirs = seen.into_inner();
        let text = bytes.escape_ascii();
        assert!(theirs.len() >= ours.len(), "seed {seed}: {text}\nwe see {ours:?}\nhyper sees {theirs:?}");
        for (ours, theirs) in ours.iter().zip(&theirs) {
            let of = |seen: &Seen| (seen.method.clone(), seen.path.clone(), seen.content.clone(), own(&seen.fields));
            assert_eq!(of(ours), of(theirs), "seed {seed}: {text}");
        }
        taken += ours.len();
        refused += usize::from(ours.is_empty());
    }
    let both = taken > 1_000 && refused > 1_000;
    assert!(both || leno_testing::is_repeated(), "both happen: {taken} taken, {refused} refused");
}
