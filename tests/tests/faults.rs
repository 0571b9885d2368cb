//! What a mesh must survive: proxies that die, certificates that are wrong, peers that talk nonsense or vanish.
//!
//! A [`sides::ServerSide`] is a server and the proxy in front of it, on their own loopback address. The tests count
//! events; times are only bounds.

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
