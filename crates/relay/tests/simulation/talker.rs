//! A simulated client of an opaque protocol, with one connection.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use crate::net::{CableId, End, Net};
use crate::speaker::{Fate, Speaker};

/// Longest time of a connection over which both sides send everything. It includes the silence and the pauses of both
/// sides, the time for which two relays wait for the client's first bytes, and some reserve.
const LONGEST: Duration = Duration::from_secs(25);

#[derive(Debug)]
pub(crate) struct Talker {
    /// The address of the Service to which the client connects.
    pub(crate) to: SocketAddr,
    id: u64,
    /// Whether the client waits for the server's first bytes.
    waits: bool,
    connect_at: Instant,
    /// Before the connection: the time until which the client tries to connect. Afterwards: the time by which the
    /// connection must be over.
    ends_by: Instant,
    speaker: Option<Speaker>,
    pub(crate) is_gone: bool,
}

impl Talker {
    pub(crate) fn new(id: u64, to: SocketAddr, waits: bool, net: &mut Net) -> Self {
        let connect_at = net.now + Duration::from_micros(net.random.u64(..200_000));
        Self { to, id, waits, connect_at, ends_by: connect_at + LONGEST, speaker: None, is_gone: false }
    }

    /// Does everything that is due. `connect` opens a connection to the proxy; it returns `None` if the proxy does not
    /// listen. Returns an error if an invariant is broken.
    pub(crate) fn run(
        &mut self,
        net: &mut Net,
        connect: impl FnOnce(&mut Net) -> Option<CableId>,
    ) -> Result<(), String> {
        if self.is_gone || self.connect_at > net.now {
            return Ok(());
        }
        if self.speaker.is_none() && self.ends_by < net.now {
            self.is_gone = true;
            return Ok(());
        }
        let Some(speaker) = &mut self.speaker else {
            match connect(net) {
                Some(cable) => {
                    self.ends_by = net.now + LONGEST;
                    self.speaker = Some(Speaker::new(cable, End::Near, self.id, self.waits, net));
                }
                None => self.connect_at = net.now + Duration::from_millis(net.random.u64(1..50)),
            }
            return Ok(());
        };
        speaker.run(net)?;
        self.is_gone = speaker.fate.is_some();
        if !self.is_gone && self.ends_by < net.now {
            return Err(format!("an opaque connection hangs: {speaker:?}"));
        }
        Ok(())
    }

    /// Moves the client's time limit by the time for which the machine is suspended.
    pub(crate) fn suspend(&mut self, by: Duration) {
        self.ends_by += by;
    }

    /// Returns how the connection has ended.
    pub(crate) fn fate(&self) -> Option<Fate> {
        self.speaker.as_ref().and_then(|speaker| speaker.fate)
    }

    /// Returns whether the client has received the server's head.
    pub(crate) fn has_heard(&self) -> bool {
        self.speaker.as_ref().is_some_and(Speaker::has_heard)
    }

    /// Returns the time of the next action.
    pub(crate) fn next(&self, net: &Net) -> Option<Instant> {
        if self.is_gone {
            return None;
        }
        match &self.speaker {
            Some(speaker) => speaker.next(net).into_iter().chain([self.ends_by + Duration::from_micros(1)]).min(),
            None => Some(self.connect_at.max(net.now + Duration::from_micros(1))),
        }
    }
}
