//! What a mesh must survive: proxies that die, certificates that are wrong, peers that talk nonsense or vanish.
//!
//! A [`sides::ServerSide`] is a server and the proxy before it, on a loopback address of their own. What is counted is what
//! happened; times are only bounds.

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
