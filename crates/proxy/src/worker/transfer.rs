//! Transfer: reads the bytes of all connections, passes their events to the handlers, and writes the output.

use std::time::Duration;

use leno_http2::{Event, FieldSection};
use mio::event;
use socket2::SockRef;

use super::Worker;
use super::codec::CodecError;
use super::link::{Buffers, Fill, Link, LinkError, LinkId, Side};
use crate::failure::ConnectionFailure;

impl Worker {
    pub(super) fn on_ready(&mut self, id: LinkId, event: &event::Event) {
        match id.side {
            Side::Arrival => {
                if event.is_read_closed()
                    && let Some(wire) = self.wire(id)
                {
                    wire.end_follows = true;
                }
                return self.read_arrival(id.index);
            }
            Side::Endpoint if !self.finish_connecting(id.index) => return,
            Side::Client | Side::Endpoint => {}
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
        let Some(link) = self.link(id) else { return };
        link.wire.end_follows = true;
        if id.side == Side::Endpoint && !link.codec.is_half_closable() {
            self.retire(id.index);
        }
        self.mark_unfinished(id);
    }

    pub(super) fn read_on(&mut self, id: LinkId) {
        if let Some(wire) = self.wire(id) {
            wire.unfinished = false;
        }
        match id.side {
            Side::Arrival => self.read_arrival(id.index),
            Side::Client | Side::Endpoint => self.read(id),
        }
    }

    /// Reads once from a connection, and handles the bytes.
    pub(super) fn read(&mut self, id: LinkId) {
        let mut buffers = std::mem::take(&mut self.buffers);
        let mut fields = std::mem::take(&mut self.fields);
        let outcome = self.read_with(id, &mut buffers, &mut fields);
        self.buffers = buffers;
        self.fields = fields;
        if id.side == Side::Endpoint {
            self.note_room(id.index);
        }
        match outcome {
            Ok(()) => self.mark_dirty(id),
            Err(Closed::End) => self.close(id, "the peer closed the connection"),
            Err(Closed::Link(error)) => self.close_after_failure(id, error),
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
        if is_opaque && id.side == Side::Endpoint && !self.has_room_in_tunnel(id.index) {
            return Ok(());
        }
        let now = self.now;
        let Some(link) = self.link(id) else { return Ok(()) };
        if !link.held.is_empty() {
            return Ok(());
        }
        let fill = link.fill(now, buffers)?;
        if id.side == Side::Endpoint && !self.check_endpoint(id.index) {
            return Ok(());
        }
        match fill {
            Fill::Bytes { bytes, more } => {
                if more {
                    self.mark_unfinished(id);
                }
                if is_opaque && id.side == Side::Client && !bytes.is_empty() && self.settle_guess(id.index, bytes) {
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
        match id.side {
            Side::Arrival => {}
            Side::Client => self.on_client_event(id.index, event, fields),
            Side::Endpoint => self.on_endpoint_event(id.index, event, fields),
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
        let Some(wire) = self.wire(id) else { return };
        if !std::mem::replace(&mut wire.unfinished, true) {
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
        let Some((link, buffers)) = self.link_and_buffers(id) else { return };
        link.dirty = false;
        let flushed = if link.closing_since.is_some() { Ok(()) } else { link.flush(now, buffers) };
        if flushed.is_err() {
            return self.read_to_end(id);
        }
        self.return_room(id);
        self.charge(id);
        if id.side == Side::Endpoint {
            self.note_room(id.index);
        }
        let Some(link) = self.link(id) else { return };
        if link.codec.is_recalled() {
            self.recalled.push(id.index);
        } else if link.codec.is_aborted() {
            // An orderly close would look like the end of the content.
            let _ = SockRef::from(&link.wire.socket).set_linger(Some(Duration::ZERO));
            self.close(id, "its call was cut");
        } else if link.codec.must_close() && !link.codec.wants_write() && !link.codec.is_drained() {
            self.close(id, "it was closed in the middle of a message");
        } else if link.codec.is_drained() && !link.codec.wants_write() {
            match id.side {
                Side::Endpoint => self.close_upstream(id.index, "its call is over"),
                Side::Arrival | Side::Client => self.finish_link(id),
            }
        } else if link.paused && !link.codec.is_paused() && !is_deaf_client(id, link) {
            link.paused = false;
            self.mark_unfinished(id);
        }
    }

    /// Removes a connection that has ended, or that must end.
    pub(super) fn close(&mut self, id: LinkId, why: &str) {
        match id.side {
            Side::Arrival => self.drop_arrival(id.index),
            Side::Client => self.close_client(id.index),
            Side::Endpoint => self.close_upstream(id.index, why),
        }
    }

    /// Begins to close a drained connection: we send nothing more, and wait for the peer to close.
    fn finish_link(&mut self, id: LinkId) {
        let now = self.now;
        if let Some((link, buffers)) = self.link_and_buffers(id) {
            link.begin_closing(now, buffers);
        }
    }

    /// Closes a connection whose socket or TLS has failed.
    fn close_after_failure(&mut self, id: LinkId, error: LinkError) {
        if let LinkError::Tls(_) = &error
            && let Some((link, buffers)) = self.link_and_buffers(id)
        {
            // Send the TLS alert. A failure does not matter, since the connection ends.
            let _ = link.wire.flush_tls(buffers);
        }
        match (id.side, error) {
            (Side::Endpoint, LinkError::Tls(error)) => {
                self.end_upstream(id.index, &ConnectionFailure::Handshake(error));
            }
            (_, error) => self.close(id, &error.to_string()),
        }
    }

    fn close_after_violation(&mut self, id: LinkId, error: &CodecError) {
        match id.side {
            Side::Arrival => {}
            Side::Endpoint => {
                if let Some(upstream) = self.upstreams.get_mut(id.index) {
                    let _ = upstream.link.flush(self.now, &mut self.buffers);
                }
                self.end_violator(id.index, error);
            }
            Side::Client => self.dismiss_client(id.index, error),
        }
    }
}

/// Returns whether we stop reading a client because it does not read its output. We never stop reading an endpoint: it
/// may not read before we have read from it.
fn is_deaf_client(id: LinkId, link: &Link) -> bool {
    id.side == Side::Client && link.is_deaf()
}

/// Why a connection cannot go on.
#[derive(Debug, thiserror::Error)]
enum Closed {
    #[error("it has ended")]
    End,
    #[error(transparent)]
    Link(#[from] LinkError),
    #[error(transparent)]
    Codec(#[from] CodecError),
}
