//! Faults that a mesh must survive: proxies that die, certificates that are wrong, peers that send garbage or vanish.
//!
//! Each server and the proxy in front of it ([`sides::ServerSide`]) have their own loopback address. The tests check
//! how many events happen. They check times only against upper limits, because the machine may be busy.

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
