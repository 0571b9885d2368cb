//! Mirror: copies of requests. The relay discards the responses to the copies.
//!
//! A copy is a call without a client: the worker balances, sends and records it like any other call, and discards its
//! response. Content is copied as it arrives. The original call never waits for its copies: the relay drops a copy
//! whose content it cannot send fast enough, and every copy above the limits.

use leno_http2::fields::Known;
use leno_http2::{FieldSection, StreamKey};
use leno_model::route::{Filters, Mirror};

use crate::Relay;
use crate::call::calls::kept_bytes;
use crate::call::record::Ending;
use crate::call::{Call, CallId};
use crate::certain::Certain;
use crate::limits::ms;
use crate::link::LinkId;
use crate::pool::upstream::UpstreamId;
use crate::target::cluster::ClusterId;

/// The clusters that get a copy of a request, selected before the filters change the request.
#[derive(Debug)]
pub(crate) struct MirrorTargets {
    clusters: Vec<ClusterId>,
    authority: Option<Vec<u8>>,
}

/// Copies of a request that are to be sent.
#[derive(Debug)]
pub(crate) struct MirrorCopies {
    /// The cluster that each copy is sent to.
    clusters: Vec<ClusterId>,
    request: FieldSection,
}

impl MirrorTargets {
    /// Returns the copies. Each copy is the request as it is now, but with the `:authority` that the client sent.
    pub(crate) fn copy(self, request: &FieldSection) -> Box<MirrorCopies> {
        let mut request = request.clone();
        if let Some(authority) = &self.authority {
            request.set(Known::Authority, authority);
        }
        Box::new(MirrorCopies { clusters: self.clusters, request })
    }
}

impl Relay {
    /// Selects the clusters that get a copy of a request.
    pub(crate) fn choose_mirrors(&mut self, id: CallId, filters: [&Filters; 2]) -> Option<MirrorTargets> {
        if filters.iter().all(|filters| filters.mirrors.is_empty()) {
            return None;
        }
        let mirrors = filters.into_iter().flat_map(|filters| &filters.mirrors);
        let clusters: Vec<ClusterId> = mirrors.filter_map(|mirror| self.draw(mirror)).collect();
        let request = &self.calls.get(id)?.request;
        // Do not copy an upgrade: after it, client and server react to each other, and a copy has no client.
        let is_copied = !clusters.is_empty() && !request.contains(Known::LenoUpgrade);
        is_copied.then(|| MirrorTargets { clusters, authority: request.get(Known::Authority).map(<[u8]>::to_vec) })
    }

    /// Decides at random whether a mirror gets a copy of this request. The probability is the mirror's share of
    /// requests. If the mirror gets a copy, returns the mirror's cluster.
    fn draw(&mut self, mirror: &Mirror) -> Option<ClusterId> {
        let random = self.random.u64(..);
        if mirror.takes(random) { self.state_of(&mirror.to) } else { None }
    }

    /// Begins the copies of a call's request.
    pub(crate) fn mirror(&mut self, original: CallId, copies: MirrorCopies) {
        // Make no copies of a call that has failed already.
        if !self.calls.contains(original) {
            return;
        }
        let mut begun = Vec::with_capacity(copies.clusters.len());
        for cluster in copies.clusters {
            begun.extend(self.begin_mirror(original, cluster, &copies.request));
        }
        let Some(call) = self.calls.get_mut(original).certain() else { return };
        if let Some(route) = &mut call.route {
            route.mirrors = begun;
        }
    }

    fn begin_mirror(&mut self, original: CallId, cluster: ClusterId, request: &FieldSection) -> Option<CallId> {
        if self.calls.copies() >= self.limits.relay.max_mirrors as usize {
            self.metrics.mirrors_dropped_total.add(1);
            return None;
        }
        let call = self.calls.get(original)?;
        // Content may have arrived already, while the call waited until its target was known.
        let (protocol, content, trailers) = (call.protocol, call.body.clone(), call.trailers.clone());
        let (is_empty, ends_with_content) = (content.is_empty(), call.request_ended && trailers.is_none());
        let nobody = (None, StreamKey::numbered(0));
        let mirror = Call::new(nobody, request.clone(), protocol, is_empty && ends_with_content, self.now);
        let id = self.calls.insert(mirror);
        self.metrics.mirrored_total.add(1);
        self.admit(id, cluster);
        if !is_empty {
            self.feed_mirror(id, &content, ends_with_content);
        }
        // A limit may have ended the copy meanwhile.
        if !self.calls.contains(id) {
            return None;
        }
        if let Some(trailers) = trailers {
            self.take_request_trailers(id, &trailers);
        }
        Some(id)
    }

    /// Passes content of a call's request on to the copies.
    pub(crate) fn mirror_data(&mut self, id: CallId, bytes: &[u8], end_stream: bool) {
        self.for_each_mirror(id, |worker, id| worker.feed_mirror(id, bytes, end_stream));
    }

    /// Passes the trailers of a call's request on to the copies.
    pub(crate) fn mirror_trailers(&mut self, id: CallId, fields: &FieldSection) {
        self.for_each_mirror(id, |worker, id| {
            if worker.calls.contains(id) {
                worker.take_request_trailers(id, fields);
            }
        });
    }

    fn feed_mirror(&mut self, id: CallId, bytes: &[u8], end_stream: bool) {
        let Some(mirror) = self.calls.get_mut(id) else { return };
        let kept_bytes = kept_bytes(mirror);
        let relay = &self.limits.relay;
        if kept_bytes + bytes.len() > relay.max_mirror_bytes_per_call as usize
            || !self.calls.hold_copied_content(bytes.len(), relay.max_mirror_bytes as usize)
        {
            return self.drop_mirror(id);
        }
        self.take_request_data(id, bytes, end_stream);
    }

    fn for_each_mirror(&mut self, id: CallId, act: impl Fn(&mut Self, CallId)) {
        let route = self.calls.get_mut(id).and_then(|call| call.route.as_mut());
        let Some(mirrors) = route.map(|route| std::mem::take(&mut route.mirrors)) else { return };
        for &id in &mirrors {
            act(self, id);
        }
        let route = self.calls.get_mut(id).and_then(|call| call.route.as_mut());
        if let Some(route) = route {
            route.mirrors = mirrors;
        }
    }

    /// Handles the end of a call that has copies. If the call's request is complete, the copies have at most
    /// `mirror_timeout_ms` left to be answered. If the request is incomplete, drops the copies.
    pub(crate) fn release_mirrors(&mut self, request_ended: bool, mirrors: &[CallId]) {
        let left = ms(self.limits.relay.mirror_timeout_ms);
        for &id in mirrors {
            match (self.calls.contains(id), request_ended) {
                (false, _) => {}
                (true, true) => self.end_within(id, left),
                (true, false) => self.drop_mirror(id),
            }
        }
    }

    /// Ends a copy, and counts it as dropped.
    pub(crate) fn drop_mirror(&mut self, id: CallId) {
        self.metrics.mirrors_dropped_total.add(1);
        self.end_mirror(id, Ending::Cancelled);
    }

    /// Ends a copy that could not be delivered or was not answered, and counts it as dropped. If `endpoint_failed`, the
    /// metrics of calls count a failed response.
    pub(crate) fn fail_mirror(&mut self, id: CallId, endpoint_failed: bool) {
        self.metrics.mirrors_dropped_total.add(1);
        self.end_mirror(id, if endpoint_failed { Ending::Broken } else { Ending::Cancelled });
    }

    fn end_mirror(&mut self, id: CallId, ending: Ending) {
        if let Some(mirror) = self.calls.get_mut(id) {
            // If no endpoint was selected for the copy, no metrics have counted the beginning of the copy. So its end
            // is not recorded either.
            mirror.recorded |= mirror.traffic.is_none();
        }
        self.end_call(id, ending);
    }

    /// Discards content of the response to a copy, and lets the endpoint send as many bytes again.
    pub(crate) fn discard(
        &mut self,
        (upstream, stream): (UpstreamId, StreamKey),
        id: CallId,
        bytes: usize,
        end_stream: bool,
    ) {
        if let Some(upstream) = self.pools.upstream_mut(upstream) {
            upstream.link.codec.release(stream, bytes);
        }
        self.mark_dirty(LinkId::Endpoint(upstream));
        if end_stream {
            self.response_complete(id, Ending::Answered { grpc_status: None, pushback: None });
        }
    }
}
