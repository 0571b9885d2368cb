//! Free addresses for the programs of an experiment.

use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::ops::Range;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::error::{Result, io as io_error};

/// Ports that the kernel does not assign to outgoing connections. Otherwise, an outgoing connection could take a port
/// after we have chosen it and before the program listens on it.
const PORTS: Range<u16> = 16_000..32_000;

/// Returns a loopback address on which no program listens now; each call returns a new address. If two programs got the
/// same address, the second program would not start, or would get some of the first program's connections.
///
/// # Errors
/// If no port is free, or the system rejects a port for another reason.
pub fn free_address() -> Result<SocketAddr> {
    static GIVEN: AtomicU32 = AtomicU32::new(0);
    // Concurrent processes start their search at different ports.
    let start = std::process::id().wrapping_mul(97);
    let count = u32::from(PORTS.end - PORTS.start);
    for _ in 0..count {
        let step = start.wrapping_add(GIVEN.fetch_add(1, Ordering::Relaxed)) % count;
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, PORTS.start + step as u16));
        match TcpListener::bind(address) {
            Ok(_) => return Ok(address),
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => {}
            Err(error) => return Err(io_error("finding a free port on 127.0.0.1")(error)),
        }
    }
    let source = io::ErrorKind::AddrInUse.into();
    Err(io_error(format!("finding a free port on 127.0.0.1, from {} to {}", PORTS.start, PORTS.end - 1))(source))
}
