//! Mirror: copies of requests, for whose answers nobody waits.
//!
//! A copy is a call without a client: it is balanced, sent and recorded as any other, and what would go to a client is
//! thrown away. Content is copied as it comes. The call itself never waits for its copies: one that does not take its
//! content is given up, and so is every one above the limits.

use leno_http2::fields::Known;
use leno_http2::{FieldSection, StreamKey};
use leno_model::route::{Filters, Mirror};

use super::Worker;
use super::call::{Call, CallId, NO_CLIENT};
use super::link::LinkId;
use super::record::Ending;
use crate::limits::ms;

/// Who gets a copy of a request, decided before the request is changed.
#[derive(Debug)]
pub(super) struct Drawn {
    clusters: Vec<usize>,
    authority: Option<Vec<u8>>,
}

/// Copies of a request that are to be sent.
#[derive(Debug)]
pub(super) struct Copies {
    /// What each is for.
    clusters: Vec<usize>,
    request: FieldSection,
}

impl Drawn {
    /// The copies: as the request is now, but for its authority, which is the one that the client named.
    pub(super) fn copy(self, request: &FieldSection) -> Box<Copies> {
        let mut request = request.clone();
        if let Some(authority) = &self.authority {
            request.set(Known::Authority, authority);
        }
        Box::new(Copies { clusters: self.clusters, request })
    }
}

impl Worker {
    /// Decides who gets a copy of a request.
    pub(super) fn draw_mirrors(&mut self, slot: u32, filters: [&Filters; 2]) -> Option<Drawn> {
        if filters.iter().all(|filters| filters.mirrors.is_empty()) {
            return None;
        }
        let mirrors = filters.into_iter().flat_map(|filters| &filters.mirrors);
        let clusters: Vec<usize> = mirrors.filter_map(|mirror| self.draw(mirror)).collect();
        let request = &self.calls.get(slot as usize)?.request;
        // What follows an upgrade is a conversation, which a copy could not lead.
        let is_copied = !clusters.is_empty() && !request.contains(Known::LenoUpgrade);
        is_copied.then(|| Drawn { clusters, authority: request.get(Known::Authority).map(<[u8]>::to_vec) })
    }

    /// The cluster that gets a copy, if there is to be one.
    fn draw(&mut self, mirror: &Mirror) -> Option<usize> {
        let random = self.next_random();
        if mirror.takes(random) { self.state_of(&mirror.to) } else { None }
    }

    /// Begins the copies of a call's request.
    pub(super) fn mirror(&mut self, original: CallId, copies: Copies) {
        let mut begun = Vec::with_capacity(copies.clusters.len());
        for cluster in copies.clusters {
            begun.extend(self.begin_mirror(original, cluster, &copies.request));
        }
        let Some(call) = self.call_mut(original) else { return };
        if let Some(route) = &mut call.route {
            route.mirrors = begun;
        }
    }

    fn begin_mirror(&mut self, original: CallId, cluster: usize, request: &FieldSection) -> Option<CallId> {
        if self.mirrors >= self.limits.relay.max_mirrors as usize {
            self.metrics.mirrors_dropped_total.add(1);
            return None;
        }
        let call = self.call_mut(original)?;
        // There may be content already, if the call had to wait until it was known what it is for.
        let (protocol, content, trailers) = (call.protocol, call.body.clone(), call.trailers.clone());
        let (is_empty, ends_with_content) = (content.is_empty(), call.request_ended && trailers.is_none());
        let serial = self.take_serial();
        let nobody = (NO_CLIENT, StreamKey::numbered(0));
        let mirror = Call::new(serial, nobody, request.clone(), protocol, is_empty && ends_with_content, self.now);
        let id = CallId { slot: self.calls.insert(mirror) as u32, serial };
        self.mirrors += 1;
        self.metrics.mirrored_total.add(1);
        self.admit(id, cluster);
        if !is_empty {
            self.feed_mirror(id, &content, ends_with_content);
        }
        if let Some(trailers) = trailers {
            self.take_request_trailers(id.slot, &trailers);
        }
        Some(id)
    }

    /// Content of a call has come: its copies get it too.
    pub(super) fn mirror_data(&mut self, slot: u32, bytes: &[u8], end_stream: bool) {
        self.for_each_mirror(slot, |worker, id| worker.feed_mirror(id, bytes, end_stream));
    }

    /// The trailers of a call's request have come.
    pub(super) fn mirror_trailers(&mut self, slot: u32, fields: &FieldSection) {
        self.for_each_mirror(slot, |worker, id| {
            if worker.call_exists(id) {
                worker.take_request_trailers(id.slot, fields);
            }
        });
    }

    fn feed_mirror(&mut self, id: CallId, bytes: &[u8], end_stream: bool) {
        let Some(mirror) = self.call_mut(id) else { return };
        let kept_bytes = kept_bytes(mirror);
        let relay = &self.limits.relay;
        if kept_bytes + bytes.len() > relay.max_mirror_bytes_per_call as usize
            || self.mirror_bytes + bytes.len() > relay.max_mirror_bytes as usize
        {
            return self.drop_mirror(id.slot);
        }
        self.mirror_bytes += bytes.len();
        self.take_request_data(id.slot, bytes, end_stream);
    }

    fn for_each_mirror(&mut self, slot: u32, act: impl Fn(&mut Self, CallId)) {
        let route = self.calls.get_mut(slot as usize).and_then(|call| call.route.as_mut());
        let Some(mirrors) = route.map(|route| std::mem::take(&mut route.mirrors)) else { return };
        for &id in &mirrors {
            act(self, id);
        }
        let route = self.calls.get_mut(slot as usize).and_then(|call| call.route.as_mut());
        if let Some(route) = route {
            route.mirrors = mirrors;
        }
    }

    /// A call is over: copies of a request that is complete have some time left to be answered, others end with it.
    pub(super) fn release_mirrors(&mut self, request_ended: bool, mirrors: &[CallId]) {
        let at = self.now + ms(self.limits.relay.mirror_timeout_ms);
        for &id in mirrors {
            match (self.call_exists(id), request_ended) {
                (false, _) => {}
                (true, true) => self.end_by(id, at),
                (true, false) => self.drop_mirror(id.slot),
            }
        }
    }

    /// Gives a copy up.
    pub(super) fn drop_mirror(&mut self, slot: u32) {
        self.metrics.mirrors_dropped_total.add(1);
        self.end_mirror(slot, Ending::Cancelled);
    }

    /// A copy could not be delivered, or was not answered, which may be its endpoint's fault.
    pub(super) fn fail_mirror(&mut self, slot: u32, endpoint_failed: bool) {
        self.metrics.mirrors_dropped_total.add(1);
        self.end_mirror(slot, if endpoint_failed { Ending::Broken } else { Ending::Cancelled });
    }

    fn end_mirror(&mut self, slot: u32, ending: Ending) {
        if let Some(mirror) = self.calls.get_mut(slot as usize) {
            // One that no endpoint was chosen for is in nobody's numbers.
            mirror.recorded |= mirror.traffic.is_none();
        }
        self.end_call(slot, ending);
    }

    /// A copy has ended, however that was.
    pub(super) fn mirror_ended(&mut self, mirror: &Call) {
        self.mirrors = self.mirrors.saturating_sub(1);
        self.mirror_bytes_sent(kept_bytes(mirror));
    }

    /// Content of copies is out of our hands.
    pub(super) fn mirror_bytes_sent(&mut self, bytes: usize) {
        self.mirror_bytes = self.mirror_bytes.saturating_sub(bytes);
    }

    /// Content of the answer to a copy: the endpoint gets as much room again.
    pub(super) fn discard(&mut self, upstream: usize, stream: StreamKey, token: u32, bytes: usize, end_stream: bool) {
        if let Some(upstream) = self.upstreams.get_mut(upstream) {
            upstream.link.codec.release(stream, bytes);
        }
        self.mark_dirty(LinkId::endpoint(upstream));
        if end_stream {
            self.response_complete(token, Ending::Answered { grpc_status: None, pushback: None });
        }
    }

    fn call_mut(&mut self, id: CallId) -> Option<&mut Call> {
        self.calls.get_mut(id.slot as usize).filter(|call| call.serial == id.serial)
    }
}

/// Content that a copy holds.
fn kept_bytes(mirror: &Call) -> usize {
    (mirror.request_bytes as usize).saturating_sub(mirror.released)
}
