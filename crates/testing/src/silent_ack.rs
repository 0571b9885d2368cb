//! A packet that makes the kernel track a connection, and that TCP ignores without an answer.

use std::fmt::Write as _;
use std::iter;
use std::net::{IpAddr, SocketAddr};

const TCP: u8 = 6;
/// Position of the checksum in the TCP header.
const CHECKSUM_AT: usize = 16;

/// Returns a shell command that sends an ACK with an option for TCP-MD5 from `client`, an address of the shell's network
/// namespace, to `server`. The command needs socat and CAP_NET_RAW.
///
/// A server without a key for TCP-MD5 ignores the packet. The kernel's connection tracking takes the packet for a part
/// of a connection from before the tracking, and tracks this connection from now on.
///
/// # Panics
/// If one address is an IPv4 address and the other an IPv6 address.
pub fn silent_ack(client: SocketAddr, server: SocketAddr) -> String {
    assert_eq!(client.is_ipv4(), server.is_ipv4(), "addresses of one family");
    let mut bytes = String::new();
    for byte in segment(client, server) {
        // Writing to a String cannot fail.
        let _ = write!(bytes, "\\{byte:03o}");
    }
    let (family, host) = match server.ip() {
        IpAddr::V4(host) => ("IP4", host.to_string()),
        IpAddr::V6(host) => ("IP6", format!("[{host}]")),
    };
    format!("printf '{bytes}' | socat -u - {family}-SENDTO:{host}:{TCP}")
}

fn segment(client: SocketAddr, server: SocketAddr) -> Vec<u8> {
    const HEADER_WORDS: u8 = 10;
    const ACK: u8 = 0x10;
    const MD5: [u8; 2] = [19, 18];
    const NO_OPERATION: u8 = 1;
    let mut segment = [client.port().to_be_bytes(), server.port().to_be_bytes()].concat();
    // The sequence number and the acknowledged number. Any numbers do.
    segment.extend([0, 0, 4, 0, 0, 0, 8, 0]);
    // The length, the flags, the window, the checksum and the urgent pointer.
    segment.extend([HEADER_WORDS << 4, ACK, 255, 255, 0, 0, 0, 0]);
    segment.extend(MD5);
    segment.extend([0; 16]);
    segment.extend([NO_OPERATION; 2]);
    let sum = checksum(client.ip(), server.ip(), &segment);
    segment[CHECKSUM_AT..CHECKSUM_AT + 2].copy_from_slice(&sum.to_be_bytes());
    segment
}

/// The Internet checksum (RFC 1071) of the segment and its pseudo-header. The segment's length must be even.
fn checksum(source: IpAddr, destination: IpAddr, segment: &[u8]) -> u16 {
    let octets = |ip| match ip {
        IpAddr::V4(ip) => ip.octets().to_vec(),
        IpAddr::V6(ip) => ip.octets().to_vec(),
    };
    let bytes = [octets(source), octets(destination), segment.to_vec()].concat();
    let words = bytes.chunks_exact(2).map(|word| u32::from(word[0]) << 8 | u32::from(word[1]));
    let length = u32::try_from(segment.len()).expect("a segment is short");
    let sum: u32 = words.chain(iter::once(u32::from(TCP) + length)).sum();
    // The sum of so few words needs at most two carries.
    let sum = (sum & 0xffff) + (sum >> 16);
    let sum = (sum & 0xffff) + (sum >> 16);
    !u16::try_from(sum).expect("the carries are added")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_checksum_of_the_finished_segment_is_zero() {
        for [client, server] in [["192.0.2.2:1", "192.0.2.1:8080"], ["[fd00:2::2]:65535", "[fd00:2::1]:8080"]] {
            let [client, server]: [SocketAddr; 2] = [client, server].map(|text| text.parse().expect("an address"));
            let segment = segment(client, server);
            assert_eq!(segment.len(), 40);
            assert_eq!(checksum(client.ip(), server.ip(), &segment), 0);
        }
    }
}
