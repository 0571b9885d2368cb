//! Transfer: reads the bytes of all connections, passes their events to the handlers, and writes the output.

use std::io;
use std::time::Duration;

use leno_http2::{Event, FieldSection};
use mio::{Interest, event};

use super::Worker;
use super::client::ClientId;
use super::codec::CodecError;
use super::link::{Link, LinkId};
use super::tls::Tls;
use super::wire::{Buffers, Fill, WireError, WireId, token};
use crate::failure::ConnectionFailure;

impl Worker {
    pub(super) fn on_ready(&mut self, wire: WireId, event: &event::Event) {
        let Some(wire) = self.wires.get_mut(wire) else { return };
        let Some(id) = wire.link else { return };
        match id {
            LinkId::Arrival(arrival) => {
                wire.end_follows |= event.is_read_closed();
                return self.read_arrival(arrival);
            }
            LinkId::Endpoint(upstream) if !self.finish_connecting(upstream) => return,
            LinkId::Client(_) | LinkId::Endpoint(_) => {}
        }
        if event.is_error() && self.link(id).is_some_and(|link| link.paused) {
            // The connection is not read, so nothing else would report the error.
            return self.close(id, "the peer reset the connection");
        }
        if event.is_writable() {
            self.mark_dirty(id);
        }
        if event.is_read_closed() {
            self.read_to_end(id);
        }
        if event.is_readable() || event.is_read_closed() || event.is_error() {
            self.read(id);
        }
    }

    /// Handles a peer that has closed its side or reads no more. Bytes that it has sent before are still read.
    pub(super) fn read_to_end(&mut self, id: LinkId) {
        let Some((link, wires, _)) = self.link_and_wire(id) else { return };
        if let Some(wire) = wires.get_mut(link.wire) {
            wire.end_follows = true;
        }
        if let LinkId::Endpoint(upstream) = id
            && !link.codec.is_half_closable()
        {
            self.retire(upstream);
        }
        self.mark_unfinished(id);
    }

    /// Continues to read a wire that had more to read.
    pub(super) fn read_on(&mut self, wire: WireId) {
        let Some(wire) = self.wires.get_mut(wire) else { return };
        wire.unfinished = false;
        match wire.link {
            Some(LinkId::Arrival(arrival)) => self.read_arrival(arrival),
            Some(id) => self.read(id),
            None => {}
        }
    }

    /// Reads once from a connection, and handles the bytes.
    pub(super) fn read(&mut self, id: LinkId) {
        let mut buffers = std::mem::take(&mut self.buffers);
        let mut fields = std::mem::take(&mut self.fields);
        let outcome = self.read_with(id, &mut buffers, &mut fields);
        self.buffers = buffers;
        self.fields = fields;
        if let LinkId::Endpoint(upstream) = id {
            self.note_room(upstream);
        }
        match outcome {
            Ok(()) => self.mark_dirty(id),
            Err(Closed::End) => self.close(id, "the peer closed the connection"),
            Err(Closed::Wire(error)) => self.close_after_failure(id, error),
            Err(Closed::Codec(error)) => self.close_after_violation(id, &error),
        }
    }

    fn read_with(&mut self, id: LinkId, buffers: &mut Buffers, fields: &mut FieldSection) -> Result<(), Closed> {
        let is_opaque;
        let held = match self.link(id) {
            Some(link) if (link.codec.is_paused() || is_deaf_client(id, link)) && link.closing_since.is_none() => {
                link.paused = true;
                return Ok(());
            }
            Some(link) => {
                is_opaque = link.codec.is_opaque();
                std::mem::take(&mut link.held)
            }
            None => return Ok(()),
        };
        // Also without held bytes: the codec may have an event that does not come from the peer.
        self.interpret(id, &held, fields)?;
        if let LinkId::Endpoint(upstream) = id
            && is_opaque
            && !self.has_room_in_tunnel(upstream)
        {
            return Ok(());
        }
        let now = self.now;
        let Some((link, wires, _)) = self.link_and_wire(id) else { return Ok(()) };
        if !link.held.is_empty() {
            return Ok(());
        }
        let Some(wire) = wires.get_mut(link.wire) else { return Ok(()) };
        let mut fill = wire.read(link.codec.read_room(), buffers)?;
        if let Fill::Bytes { bytes, .. } = &fill
            && link.note_received(now, bytes.len())
        {
            fill = Fill::End;
        }
        if let LinkId::Endpoint(upstream) = id
            && !self.check_endpoint(upstream)
        {
            return Ok(());
        }
        match fill {
            Fill::Bytes { bytes, more } => {
                if more {
                    self.mark_unfinished(id);
                }
                if let LinkId::Client(client) = id
                    && is_opaque
                    && !bytes.is_empty()
                    && self.settle_guess(client, bytes)
                {
                    return Ok(());
                }
                self.interpret(id, bytes, fields)
            }
            Fill::End => self.read_ended(id, fields),
        }
    }

    /// Handles the events in a connection's bytes. Bytes that the codec does not accept for now are kept.
    fn interpret(&mut self, id: LinkId, bytes: &[u8], fields: &mut FieldSection) -> Result<(), Closed> {
        let now = self.now;
        let mut input = bytes;
        loop {
            let Some(link) = self.link(id) else { return Ok(()) };
            if link.closing_since.is_some() {
                return Ok(());
            }
            match link.codec.receive(now, &mut input, fields)? {
                Some(event) => self.on_event(id, &event, fields),
                None => {
                    link.held.extend_from_slice(input);
                    link.paused |= !input.is_empty() || link.codec.is_paused();
                    return Ok(());
                }
            }
        }
    }

    fn on_event(&mut self, id: LinkId, event: &Event<'_>, fields: &mut FieldSection) {
        match id {
            LinkId::Arrival(_) => {}
            LinkId::Client(client) => self.on_client_event(client, event, fields),
            LinkId::Endpoint(upstream) => self.on_endpoint_event(upstream, event, fields),
        }
    }

    /// Handles the end of the peer's bytes. In a protocol with half-close, only this direction ends.
    fn read_ended(&mut self, id: LinkId, fields: &mut FieldSection) -> Result<(), Closed> {
        let now = self.now;
        let Some(link) = self.link(id) else { return Ok(()) };
        if !link.codec.is_half_closable() || link.closing_since.is_some() {
            return Err(Closed::End);
        }
        if let Some(event) = link.codec.input_ended(now) {
            self.on_event(id, &event, fields);
        }
        match self.link(id) {
            Some(link) if link.codec.stream_count() == 0 && !link.codec.wants_write() => Err(Closed::End),
            _ => Ok(()),
        }
    }

    /// Records that a connection has more bytes to read.
    pub(super) fn mark_unfinished(&mut self, id: LinkId) {
        let Some(id) = self.wire_of_link(id) else { return };
        if let Some(wire) = self.wires.get_mut(id)
            && !std::mem::replace(&mut wire.unfinished, true)
        {
            self.unfinished.push(id);
        }
    }

    /// Records that a link has output, or room for waiting calls.
    pub(super) fn mark_dirty(&mut self, id: LinkId) {
        let Some(link) = self.link(id) else { return };
        if !std::mem::replace(&mut link.dirty, true) {
            self.dirty.push(id);
        }
    }

    /// Does the same as [`Self::mark_dirty`] for the client of a call, if the call has one.
    pub(super) fn mark_client(&mut self, client: Option<ClientId>) {
        if let Some(client) = client {
            self.mark_dirty(LinkId::Client(client));
        }
    }

    /// Writes the output of all connections, until no connection has output.
    pub(super) fn flush_all(&mut self) {
        loop {
            while let Some(id) = self.dirty.pop() {
                self.flush(id);
            }
            self.serve_waiting();
            if self.dirty.is_empty() {
                return;
            }
        }
    }

    fn flush(&mut self, id: LinkId) {
        let now = self.now;
        let Some((link, wires, buffers)) = self.link_and_wire(id) else { return };
        link.dirty = false;
        let flushed = match wires.get_mut(link.wire) {
            Some(wire) if link.closing_since.is_none() => link.flush(now, wire, buffers),
            _ => Ok(()),
        };
        if flushed.is_err() {
            return self.read_to_end(id);
        }
        self.return_room(id);
        self.charge(id);
        if let LinkId::Endpoint(upstream) = id {
            self.note_room(upstream);
        }
        let Some(link) = self.link(id) else { return };
        if let LinkId::Client(client) = id
            && link.codec.is_recalled()
        {
            self.recalled.push(client);
        } else if link.codec.is_aborted() {
            let wire = link.wire;
            if let Some(wire) = self.wires.get(wire) {
                wire.abort();
            }
            self.close(id, "its call was cut");
        } else if link.codec.must_close() && !link.codec.wants_write() && !link.codec.is_drained() {
            self.close(id, "it was closed in the middle of a message");
        } else if link.codec.is_drained() && !link.codec.wants_write() {
            match id {
                LinkId::Endpoint(upstream) => self.close_upstream(upstream, "its call is over"),
                LinkId::Arrival(_) | LinkId::Client(_) => self.begin_closing(id),
            }
        } else if link.paused && !link.codec.is_paused() && !is_deaf_client(id, link) {
            link.paused = false;
            self.mark_unfinished(id);
        }
    }

    /// Removes a connection that has ended, or that must end.
    pub(super) fn close(&mut self, id: LinkId, why: &str) {
        match id {
            LinkId::Arrival(arrival) => self.drop_arrival(arrival),
            LinkId::Client(client) => self.close_client(client),
            LinkId::Endpoint(upstream) => self.close_upstream(upstream, why),
        }
    }

    /// See [`Link::begin_closing`].
    pub(super) fn begin_closing(&mut self, id: LinkId) {
        let now = self.now;
        if let Some((link, wires, buffers)) = self.link_and_wire(id)
            && let Some(wire) = wires.get_mut(link.wire)
        {
            link.begin_closing(now, wire, buffers);
        }
    }

    /// Writes what the socket takes of the last output of a connection that is closed directly afterwards.
    pub(super) fn flush_last(&mut self, id: LinkId) {
        let now = self.now;
        if let Some((link, wires, buffers)) = self.link_and_wire(id)
            && let Some(wire) = wires.get_mut(link.wire)
        {
            // A failure does not matter, since the connection ends.
            let _ = link.flush(now, wire, buffers);
        }
    }

    /// Records whose bytes a wire carries from now on.
    pub(super) fn attach(&mut self, wire: WireId, link: LinkId) {
        if let Some(wire) = self.wires.get_mut(wire) {
            wire.link = Some(link);
        }
    }

    /// Begins to poll a wire's socket.
    pub(super) fn watch(&mut self, id: WireId) -> io::Result<()> {
        let Some(wire) = self.wires.get_mut(id) else { return Ok(()) };
        self.poll.registry().register(&mut wire.socket, token(id), Interest::READABLE | Interest::WRITABLE)
    }

    /// Returns the TLS on a wire, if it has any.
    pub(super) fn tls_on(&self, wire: WireId) -> Option<&Tls> {
        self.wires.get(wire).and_then(|wire| wire.tls.as_deref())
    }

    /// Limits how long a peer may leave its socket unread, if its protocol is known. Opaque bytes may stay unread for as
    /// long as their receiver likes.
    pub(super) fn limit_unread(&self, link: &Link, limit: Duration) {
        if let Some(wire) = self.wires.get(link.wire).filter(|_| !link.codec.is_opaque()) {
            wire.limit_unread(limit);
        }
    }

    /// Closes a wire whose link has ended.
    pub(super) fn drop_wire(&mut self, wire: WireId) {
        if let Some(mut wire) = self.wires.remove(wire) {
            wire.meter.close(self.now);
        }
    }

    /// Closes a connection whose socket or TLS has failed.
    fn close_after_failure(&mut self, id: LinkId, error: WireError) {
        if let WireError::Tls(_) = &error
            && let Some((link, wires, buffers)) = self.link_and_wire(id)
            && let Some(wire) = wires.get_mut(link.wire)
        {
            // Send the TLS alert. A failure does not matter, since the connection ends.
            let _ = wire.flush_tls(buffers);
        }
        match (id, error) {
            (LinkId::Endpoint(upstream), WireError::Tls(error)) => {
                self.end_upstream(upstream, &ConnectionFailure::Handshake(error));
            }
            (_, error) => self.close(id, &error.to_string()),
        }
    }

    fn close_after_violation(&mut self, id: LinkId, error: &CodecError) {
        match id {
            LinkId::Arrival(_) => {}
            LinkId::Endpoint(upstream) => {
                self.flush_last(id);
                self.end_violator(upstream, error);
            }
            LinkId::Client(client) => self.dismiss_client(client, error),
        }
    }
}

/// Returns whether we stop reading a client because it does not read its output. We never stop reading an endpoint: it
/// may not read before we have read from it.
fn is_deaf_client(id: LinkId, link: &Link) -> bool {
    matches!(id, LinkId::Client(_)) && link.is_deaf()
}

/// Why a connection cannot go on.
#[derive(Debug, thiserror::Error)]
enum Closed {
    #[error("it has ended")]
    End,
    #[error(transparent)]
    Wire(#[from] WireError),
    #[error(transparent)]
    Codec(#[from] CodecError),
}
