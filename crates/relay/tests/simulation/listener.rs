//! A simulated server of an opaque protocol.

use std::net::{IpAddr, SocketAddr};
use std::time::Instant;

use crate::mesh::OPAQUE_PORTS;
use crate::net::{CableId, End, Net};
use crate::parts::Part;
use crate::speaker::{Fate, Speaker};

#[derive(Debug)]
pub(crate) struct Listener {
    ip: IpAddr,
    /// Whether the server speaks first.
    speaks_first: bool,
    /// Probability, in 256ths, that the server refuses a connection.
    refuses: u8,
    speakers: Vec<Speaker>,
    next_id: u64,
    /// For each connection that has ended: how it ended, as the server saw it.
    pub(crate) fates: Vec<Fate>,
}

impl Listener {
    /// Creates a server. The ids of the content that it sends are larger than `first_id`.
    pub(crate) fn new(ip: IpAddr, speaks_first: bool, first_id: u64, net: &mut Net) -> Self {
        let has_faults = !net.random.bool() && net.parts.has(Part::ServerFaults);
        let refuses = if has_faults { net.random.u8(1..100) } else { 0 };
        Self { ip, speaks_first, refuses, speakers: Vec::new(), next_id: first_id, fates: Vec::new() }
    }

    pub(crate) fn has_faults(&self) -> bool {
        self.refuses > 0
    }

    /// Does everything that is due. Returns an error if an invariant is broken.
    pub(crate) fn run(&mut self, net: &mut Net) -> Result<(), String> {
        self.speakers.iter_mut().try_for_each(|speaker| speaker.run(net))?;
        self.fates.extend(self.speakers.iter().filter_map(|speaker| speaker.fate));
        self.speakers.retain(|speaker| speaker.fate.is_none());
        Ok(())
    }

    /// Returns the time of the next action.
    pub(crate) fn next(&self, net: &Net) -> Option<Instant> {
        self.speakers.iter().filter_map(|speaker| speaker.next(net)).min()
    }

    /// Accepts a client's connection to `address`. Returns `false` if the server does not listen there, or refuses the
    /// connection.
    pub(crate) fn accept(&mut self, address: SocketAddr, cable: CableId, net: &mut Net) -> bool {
        if address.ip() != self.ip || !OPAQUE_PORTS.contains(&address.port()) || net.random.u8(..) < self.refuses {
            return false;
        }
        self.next_id += 2;
        self.speakers.push(Speaker::new(cable, End::Far, self.next_id, !self.speaks_first, net));
        true
    }
}
