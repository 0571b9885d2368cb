//! A GET of one small page of an admin endpoint.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

const TIMEOUT: Duration = Duration::from_secs(2);
/// Longest answer that is read.
const MAX_ANSWER_BYTES: u64 = 4 << 20;

/// Whether `GET <path>` returns 200.
pub(crate) fn is_ok(address: SocketAddr, path: &str) -> bool {
    get(address, path).is_ok_and(|answer| answer.split(' ').nth(1) == Some("200"))
}

/// The whole answer to `GET <path>`, including the header section.
fn get(address: SocketAddr, path: &str) -> io::Result<String> {
    let mut stream = TcpStream::connect_timeout(&address, TIMEOUT)?;
    stream.set_read_timeout(Some(TIMEOUT))?;
    write!(stream, "GET {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n")?;
    let mut answer = String::new();
    stream.take(MAX_ANSWER_BYTES).read_to_string(&mut answer)?;
    Ok(answer)
}
