//! Memory that the kernel holds for TCP sockets.

use std::time::Duration;

use crate::programs::run_well;

/// Returns the memory, in bytes, that the kernel holds for all TCP sockets that the `filter` of `ss` selects: data that
/// waits to be read or sent, and the kernel's overhead.
pub fn kernel_bytes(filter: &str) -> u64 {
    let sockets = run_well("ss", &["-Htmn", "state", "connected", filter], Duration::from_secs(60));
    sockets.split("skmem:(").skip(1).map(bytes_in).sum()
}

/// Returns the bytes in a socket's memory as `ss` prints it: `r0,rb131072,t0,tb87040,f0,w0,o0,bl0,d0)`.
fn bytes_in(memory: &str) -> u64 {
    let values = memory.split([',', ')']).take(9);
    let bytes = values.filter_map(|value| {
        let at = value.find(|letter: char| letter.is_ascii_digit())?;
        let (name, bytes) = value.split_at(at);
        ["r", "f", "w", "bl"].contains(&name).then(|| bytes.parse::<u64>().ok())?
    });
    bytes.sum()
}
