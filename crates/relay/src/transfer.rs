//! Transfer: takes the bytes that connections have received, passes their events to the handlers, and provides the
//! bytes to be written.

use std::time::{Duration, Instant};

use leno_http2::{Event, FieldSection};

use crate::Relay;
use crate::downstream::client::ClientId;
use crate::downstream::downstreams::Downstreams;
use crate::effect::Effect;
use crate::link::codec::CodecError;
use crate::link::{Link, LinkId};
use crate::pool::pools::Pools;
use crate::pool::upstream::Upstream;

/// Returns a link. Borrows only the tables with links, so that the other parts of the relay can be used meanwhile.
fn link_of<'a>(downstreams: &'a mut Downstreams, pools: &'a mut Pools, id: LinkId) -> Option<&'a mut Link> {
    match id {
        LinkId::Client(id) => downstreams.get_mut(id).map(|client| &mut client.link),
        LinkId::Endpoint(id) => pools.upstream_mut(id).map(|upstream| &mut upstream.link),
    }
}

impl Relay {
    pub fn link(&mut self, id: LinkId) -> Option<&mut Link> {
        link_of(&mut self.downstreams, &mut self.pools, id)
    }

    /// Returns how long the peer of a connection may leave its socket unread; `None` for an unlimited time. The answer
    /// changes when an HTTP/1 exchange becomes a tunnel, and when the tunnel ends.
    pub fn unread_limit(&mut self, id: LinkId) -> Option<Duration> {
        let link = link_of(&mut self.downstreams, &mut self.pools, id)?;
        link.codec.unread_limit(&self.limits.relay)
    }

    /// Handles the input that the relay has kept for a connection. Returns the maximum number of bytes that the
    /// connection accepts now; `None` if the event loop must not read the connection.
    pub fn begin_read(&mut self, id: LinkId) -> Option<usize> {
        let mut fields = std::mem::take(&mut self.fields);
        let room = self.take_held(id, &mut fields);
        self.fields = fields;
        match room {
            Ok(Some(room)) => Some(room),
            Ok(None) if self.is_gone(id) => self.end_input(id, Err(Closed::End)),
            Ok(None) => self.end_input(id, Ok(())),
            Err(closed) => self.end_input(id, Err(closed)),
        }
    }

    fn take_held(&mut self, id: LinkId, fields: &mut FieldSection) -> Result<Option<usize>, Closed> {
        let now = self.now;
        let Some(link) = self.link(id) else { return Ok(None) };
        if must_wait(id, link, now) && link.closing_since.is_none() {
            link.paused = true;
            return Ok(None);
        }
        let has_windows = link.codec.has_windows();
        let held = std::mem::take(&mut link.pending_input);
        // Call `interpret` even if the link has kept no input: the codec may have an event that does not come from the
        // peer.
        self.interpret(id, &held, fields)?;
        if let LinkId::Endpoint(upstream) = id
            && !has_windows
            && !(self.has_room_in_tunnel(upstream) && self.has_room_in_share(upstream))
        {
            return Ok(None);
        }
        let Some(link) = self.link(id) else { return Ok(None) };
        // A closing connection drops the bytes that it reads.
        let room = if link.is_closing() { usize::MAX } else { link.codec.read_room() };
        Ok(link.pending_input.is_empty().then_some(room))
    }

    /// Handles bytes that a connection has received.
    pub fn receive(&mut self, id: LinkId, bytes: &[u8]) {
        let mut fields = std::mem::take(&mut self.fields);
        let outcome = self.receive_with(id, bytes, &mut fields);
        self.fields = fields;
        self.end_input::<()>(id, outcome);
    }

    fn receive_with(&mut self, id: LinkId, bytes: &[u8], fields: &mut FieldSection) -> Result<(), Closed> {
        let now = self.now;
        let Some(link) = self.link(id) else { return Ok(()) };
        if link.note_received(now, bytes.len()) {
            return Err(Closed::End);
        }
        if let LinkId::Client(client) = id
            && link.codec.is_opaque()
            && !bytes.is_empty()
            && self.settle_guess(client, bytes)
        {
            return Ok(());
        }
        self.interpret(id, bytes, fields)
    }

    /// Handles the end of the peer's bytes.
    pub fn receive_end(&mut self, id: LinkId) {
        let mut fields = std::mem::take(&mut self.fields);
        let outcome = self.read_ended(id, &mut fields);
        self.fields = fields;
        self.end_input::<()>(id, outcome);
    }

    /// Finishes the handling of input: adds the link to the list of links to flush, or closes the connection. Always
    /// returns `None`, as the result of [`Self::begin_read`].
    fn end_input<T>(&mut self, id: LinkId, outcome: Result<(), Closed>) -> Option<T> {
        if let LinkId::Endpoint(upstream) = id {
            self.pools.note_room(upstream);
        }
        match outcome {
            Ok(()) => self.mark_dirty(id),
            Err(Closed::End) => self.close(id, "the peer closed the connection"),
            Err(Closed::Codec(error)) => self.close_after_violation(id, &error),
        }
        None
    }

    /// Handles the events in a connection's bytes. Bytes that the codec does not accept for now are kept.
    fn interpret(&mut self, id: LinkId, bytes: &[u8], fields: &mut FieldSection) -> Result<(), Closed> {
        let now = self.now;
        let mut input = bytes;
        loop {
            let link = link_of(&mut self.downstreams, &mut self.pools, id);
            let Some(link) = link.filter(|link| link.closing_since.is_none()) else { return Ok(()) };
            match link.codec.receive(now, &mut input, fields, &mut self.heads)? {
                Some(event) => self.on_event(id, &event, fields),
                None => {
                    link.pending_input.extend_from_slice(input);
                    link.paused |= !input.is_empty() || link.codec.is_paused();
                    return Ok(());
                }
            }
        }
    }

    fn on_event(&mut self, id: LinkId, event: &Event<'_>, fields: &mut FieldSection) {
        match id {
            LinkId::Client(client) => self.on_client_event(client, event, fields),
            LinkId::Endpoint(upstream) => self.on_endpoint_event(upstream, event, fields),
        }
    }

    /// Handles the end of the peer's bytes. In a protocol with half-close, the connection can still send. For an HTTP/1
    /// client whose response is not complete, the end of the bytes cancels the call.
    fn read_ended(&mut self, id: LinkId, fields: &mut FieldSection) -> Result<(), Closed> {
        let now = self.now;
        let Some(link) = self.link(id) else { return Ok(()) };
        if link.closing_since.is_some() && link.codec.refuses_rest() && !link.is_unwritable() {
            // The close would reset the connection, and the kernel would drop the output that the client has not read.
            // A sweep closes the connection after the client has read the output, or has read nothing for too long.
            return Ok(());
        }
        if !link.codec.is_half_closable() || link.closing_since.is_some() || link.is_unwritable() {
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

    /// Returns whether a client's socket has failed while the relay has paused reading it. The caller must then close
    /// the connection. Otherwise, the relay might never read again and notice the end: reading resumes only after
    /// output was written, and a failed socket may never accept output.
    fn is_gone(&mut self, id: LinkId) -> bool {
        let is_gone = |link: &mut Link| link.paused && link.is_unwritable() && link.closing_since.is_none();
        matches!(id, LinkId::Client(_)) && self.link(id).is_some_and(is_gone)
    }

    /// Handles an error of a connection's socket: the peer has reset the connection, or does not answer any more. The
    /// event loop then reads on, because the kernel may still hold bytes that the peer has sent before.
    pub fn socket_failed(&mut self, id: LinkId) {
        let Some(link) = self.link(id) else { return };
        link.note_unwritable();
        // The relay does not read this endpoint now, because the client does not read. Close an opaque connection
        // nevertheless: otherwise, a client that only sends would never learn of the end. Keep any other connection
        // until the client has read the response.
        if matches!(id, LinkId::Endpoint(_)) && link.paused && link.codec.is_opaque() {
            self.close(id, "the peer reset the connection");
        }
    }

    /// Notes that a peer has closed its sending side or reads no more. Bytes that the peer has sent earlier may still
    /// arrive. If the peer is a server, it gets no new calls: it would not answer them. The calls in flight go on. The
    /// first call of an opaque connection still gets the connection, because the server may have sent bytes for it.
    ///
    /// A connection that is not ready stays in its pool until the relay has read its end. Otherwise, the pool would
    /// open the next connection before this connection has counted as failed.
    pub fn end_follows(&mut self, id: LinkId) {
        let LinkId::Endpoint(id) = id else { return };
        let Some(upstream) = self.pools.upstream_mut(id) else { return };
        if upstream.link.codec.is_opaque() {
            return;
        }
        match upstream.ready {
            true => self.retire(id),
            // The event loop reads the SETTINGS of an HTTP/2 server only after this call. A retired connection may
            // still become ready: it only shows our certificate to the server (`open_beside`).
            false => upstream.has_left = !upstream.retired,
        }
    }

    /// Requests that the event loop reads a connection, even if its socket does not report that it is readable.
    pub(crate) fn read_on(&mut self, id: LinkId) {
        let wire = self.link(id).and_then(|link| link.wire);
        self.effects.extend(wire.map(Effect::ReadOn));
    }

    /// Records that a link has output, or room for waiting calls.
    pub fn mark_dirty(&mut self, id: LinkId) {
        let Some(link) = self.link(id) else { return };
        if !std::mem::replace(&mut link.dirty, true) {
            self.dirty.push(id);
        }
    }

    /// Records that the link to a call's client has output, if the call has a client.
    pub(crate) fn mark_client(&mut self, client: Option<ClientId>) {
        if let Some(client) = client {
            self.mark_dirty(LinkId::Client(client));
        }
    }

    pub fn has_dirty(&self) -> bool {
        !self.dirty.is_empty()
    }

    /// Returns a link whose output must be written now. The caller must then call [`Self::flushed`], unless the link
    /// ends.
    pub fn next_dirty(&mut self) -> Option<LinkId> {
        while let Some(id) = self.dirty.pop() {
            if let Some(link) = self.link(id) {
                link.dirty = false;
                return Some(id);
            }
        }
        None
    }

    /// Must be called after a link's output was written, as far as the socket accepts it. Does the following:
    ///
    /// - Returns flow-control window to the senders of the written content.
    /// - Updates the memory that the worker's budget counts for the link.
    /// - Ends the connection if it is no longer needed.
    pub fn flushed(&mut self, id: LinkId) {
        self.return_room(id);
        self.charge(id);
        let mut is_rest_useless = false;
        if let LinkId::Endpoint(upstream) = id {
            self.pools.note_room(upstream);
            is_rest_useless = self.pools.upstream(upstream).is_some_and(Upstream::has_useless_rest);
        }
        let now = self.now;
        let Some(link) = self.link(id) else { return };
        if let LinkId::Client(client) = id
            && link.codec.is_recalled()
        {
            self.downstreams.recall(client);
        } else if link.codec.is_aborted() {
            self.close(id, "its call was cut");
        } else if link.codec.must_close()
            && !link.codec.wants_write()
            && !link.codec.is_drained()
            // Do not close a link that has begun to close ([`Link::begin_closing`]). The client may still send, and a
            // TCP reset could then discard our last output before the client reads it.
            && !link.is_closing()
        {
            self.close(id, "it was closed in the middle of a message");
        } else if link.codec.is_drained() && (!link.codec.wants_write() || is_rest_useless) {
            match id {
                LinkId::Endpoint(upstream) => self.close_upstream(upstream, "its call is over"),
                LinkId::Client(_) => self.begin_closing(id),
            }
        } else if link.paused && !must_wait(id, link, now) {
            link.resume(now);
            self.read_on(id);
        }
    }

    /// Removes a connection that has ended, or that must end.
    pub fn close(&mut self, id: LinkId, why: &str) {
        match id {
            LinkId::Client(client) => self.close_client(client),
            LinkId::Endpoint(upstream) => self.close_upstream(upstream, why),
        }
    }

    /// Releases the resources of a removed link: its part of the budget, and its socket. Resets the socket if the content
    /// of a call was cut, because the peer would take the end of the connection for the end of the content. Also resets it
    /// if [`Link::frees_port`] is true.
    pub(crate) fn release(&mut self, link: &Link) {
        self.discharge(link);
        let Some(wire) = link.wire else { return };
        if link.codec.hides_cut() || link.frees_port {
            self.effects.push(Effect::Abort(wire));
        }
        self.effects.push(Effect::Close(wire));
    }

    /// See [`Link::begin_closing`].
    pub(crate) fn begin_closing(&mut self, id: LinkId) {
        let now = self.now;
        let Some(link) = self.link(id) else { return };
        if link.closing_since.is_none() {
            link.begin_closing(now);
            // Reading may have been paused. It must resume, so that the relay notices the peer's close.
            self.mark_dirty(id);
            self.read_on(id);
        }
    }

    /// Hands the last output of a connection to the event loop. The caller closes the connection directly afterwards.
    pub(crate) fn write_last(&mut self, id: LinkId) {
        let Some(link) = self.link(id) else { return };
        if let Some(wire) = link.wire {
            let last = link.codec.output().to_vec();
            self.effects.push(Effect::WriteLast(wire, last));
        }
    }

    fn close_after_violation(&mut self, id: LinkId, error: &CodecError) {
        match id {
            LinkId::Endpoint(upstream) => {
                // An HTTP/1 client has no last words. Its output may be a request that is sent again elsewhere.
                if self.link(id).is_some_and(|link| link.codec.has_windows()) {
                    self.write_last(id);
                }
                self.end_violator(upstream, error);
            }
            LinkId::Client(client) => self.dismiss_client(client, error),
        }
    }
}

/// Returns whether the relay must not read a link for now:
///
/// - The codec is paused.
/// - The codec does not take the input that the link has kept.
/// - The link's client does not read our output. We never stop reading an endpoint for this reason, because some servers
///   do not read before we have read their output.
fn must_wait(id: LinkId, link: &Link, now: Instant) -> bool {
    let is_deaf_client = matches!(id, LinkId::Client(_)) && link.is_deaf(now);
    link.codec.is_paused() || !link.takes_pending_input() || is_deaf_client
}

/// Reason why a connection must be closed.
#[derive(Debug, thiserror::Error)]
enum Closed {
    #[error("it has ended")]
    End,
    #[error(transparent)]
    Codec(#[from] CodecError),
}

#[cfg(test)]
#[path = "transfer_tests.rs"]
mod tests;
