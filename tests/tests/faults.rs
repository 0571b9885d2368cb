//! Faults that a mesh must survive: proxies that die, certificates that are wrong, peers that send garbage or vanish.
//!
//! A [`sides::ServerSide`] is a server and the proxy in front of it, on their own loopback address. The tests check
//! numbers of events; they check times only against upper limits.

mod certificates;
mod handshakes;
mod issuers;
mod kills;
mod networks;
mod opaque;
mod rolling;
mod rotation;
pub(crate) mod sides;
mod strict;
