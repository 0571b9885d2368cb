//! The calls in flight of a worker, and the state that these calls share: the amount of content that is kept for
//! another attempt, spare field sections, and the timetable of the calls' due times ([`due`](super::due)).

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use leno_http2::{FieldSection, StreamKey};
use smallvec::SmallVec;

use crate::call::attempt::{Attempt, AttemptId, Stage};
use crate::call::due::{Due, Timetable};
use crate::call::policy::PolicyProgress;
use crate::call::{Call, CallId};
use crate::certain::Certain;
use crate::downstream::client::ClientId;
use crate::inventory::Entries;
use crate::pool::pools::PoolId;
use crate::pool::upstream::UpstreamId;
use crate::slots::Slots;
use crate::target::cluster::ClusterId;
use crate::target::routes::CallRoute;

/// Maximum number of field sections that are kept for later calls.
const MAX_SPARE_SECTIONS: usize = 256;
/// Maximum number of [`PolicyProgress`] boxes that are kept for later calls.
const MAX_SPARE_PROGRESS: usize = 256;
/// Maximum capacity of a spare field section, in bytes.
pub(crate) const MAX_SPARE_SECTION_BYTES: usize = 4_096;

/// The calls in flight of a worker.
///
/// Invariants: `replay_bytes` is the total size of the bodies of all replayable calls; `charged_bytes` is the sum of
/// `Call::charged_bytes` over all calls; `copies` is the number of calls without a client.
#[derive(Debug)]
pub(crate) struct Calls {
    slots: Slots<Call>,
    timetable: Timetable,
    replay_bytes: usize,
    charged_bytes: usize,
    /// Number of mirrored copies of requests in flight, and the number of bytes of content that these copies hold.
    copies: usize,
    copy_bytes: usize,
    spare_sections: Vec<FieldSection>,
    #[expect(clippy::vec_box, reason = "a call takes over the box and gives it back")]
    spare_progress: Vec<Box<PolicyProgress>>,
    /// Calls to be sent before this turn of the event loop ends. A call in this queue may have ended already.
    to_send: VecDeque<CallId>,
}

/// Data of an ended call. The call's client, cluster and pools need it to release their data of the call.
pub(crate) struct Ended {
    pub(crate) client: Option<ClientId>,
    pub(crate) client_stream: StreamKey,
    pub(crate) cluster: Option<ClusterId>,
    pub(crate) fields_bytes: u32,
    pub(crate) grown_bytes: u32,
    pub(crate) counts_as_open: bool,
    pub(crate) request_ended: bool,
    pub(crate) route: Option<CallRoute>,
    /// The pool and the stage of each attempt.
    pub(crate) attempts: SmallVec<[(PoolId, Stage); 1]>,
}

impl Calls {
    pub(crate) fn new(now: Instant) -> Self {
        Self {
            slots: Slots::default(),
            timetable: Timetable::new(now),
            replay_bytes: 0,
            charged_bytes: 0,
            copies: 0,
            copy_bytes: 0,
            spare_sections: Vec::new(),
            spare_progress: Vec::new(),
            to_send: VecDeque::new(),
        }
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (CallId, &Call)> {
        self.slots.iter()
    }

    pub(crate) fn len(&self) -> usize {
        self.slots.len()
    }

    pub(crate) fn contains(&self, id: CallId) -> bool {
        self.slots.contains(id)
    }

    #[inline]
    pub(crate) fn get(&self, id: CallId) -> Option<&Call> {
        self.slots.get(id)
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, id: CallId) -> Option<&mut Call> {
        self.slots.get_mut(id)
    }

    /// Returns the call on a client's stream; `None` if the call has ended. `token` is the stream's token.
    #[inline]
    pub(crate) fn of(&mut self, client: ClientId, stream: StreamKey, token: u32) -> Option<(CallId, &mut Call)> {
        let found = self.slots.at_mut(token)?;
        (found.1.client == Some(client) && found.1.client_stream == stream).then_some(found)
    }

    /// Returns the attempt on an endpoint's stream; `None` if the attempt has ended. `token` is the stream's token.
    #[inline]
    pub(crate) fn on(&mut self, upstream: UpstreamId, stream: StreamKey, token: u32) -> Option<AttemptId> {
        let (id, call) = self.slots.at_mut(token)?;
        call.attempts.on(id, upstream, stream)
    }

    #[inline]
    pub(crate) fn attempt(&self, id: AttemptId) -> Option<&Attempt> {
        self.slots.get(id.call)?.attempts.get(id)
    }

    pub(crate) fn insert(&mut self, call: Call) -> CallId {
        self.copies += usize::from(call.is_mirror());
        self.slots.insert(call)
    }

    /// Removes an attempt that has ended.
    pub(crate) fn end_attempt(&mut self, id: AttemptId) -> Option<Attempt> {
        let call = self.slots.get_mut(id.call)?;
        let ended = call.attempts.end(id);
        charge(&mut self.charged_bytes, call);
        ended
    }

    /// Returns the state that the policy of a call's route rule keeps for the call, and creates the state if needed.
    /// Returns `None` if the call matched no rule.
    pub(crate) fn progress_mut(&mut self, id: CallId) -> Option<&mut PolicyProgress> {
        let route = self.slots.get_mut(id)?.route.as_mut()?;
        let progress = route.progress.get_or_insert_with(|| {
            let mut progress = self.spare_progress.pop().unwrap_or_default();
            *progress = PolicyProgress::default();
            progress
        });
        Some(progress)
    }

    /// Removes a call that has ended, and releases its timer, its content and its field section. Returns the data with
    /// which the call's client, cluster and pools release their data of the call.
    pub(crate) fn end(&mut self, id: CallId) -> Option<Ended> {
        let call = self.slots.get_mut(id)?;
        self.timetable.clear(&mut call.due);
        if call.replayable {
            self.replay_bytes = self.replay_bytes.saturating_sub(call.body.len());
        }
        self.charged_bytes = self.charged_bytes.saturating_sub(call.charged_bytes);
        keep_section(&mut self.spare_sections, std::mem::take(&mut call.request));
        if let Some(progress) = call.route.as_mut().and_then(|route| route.progress.take())
            && self.spare_progress.len() < MAX_SPARE_PROGRESS
        {
            self.spare_progress.push(progress);
        }
        if call.is_mirror() {
            self.copies = self.copies.saturating_sub(1);
            self.copy_bytes = self.copy_bytes.saturating_sub(kept_bytes(call));
        }
        let ended = Ended {
            client: call.client,
            client_stream: call.client_stream,
            cluster: call.cluster,
            fields_bytes: call.fields_bytes,
            grown_bytes: call.grown_bytes,
            counts_as_open: call.counts_as_open,
            request_ended: call.request_ended,
            route: call.route.take(),
            attempts: call.attempts.iter().map(|attempt| (attempt.pool, attempt.stage)).collect(),
        };
        self.slots.discard(id);
        Some(ended)
    }

    /// Returns how many bytes of content all calls together hold, without the content that is part of the charge of a
    /// client's link ([`budget`](crate::budget)).
    pub(crate) fn held_bytes(&self) -> usize {
        self.charged_bytes + self.copy_bytes
    }

    /// Updates how many bytes of a call's content [`Calls::held_bytes`] counts. Must be called after an attempt was
    /// sent.
    #[inline]
    pub(crate) fn charge_body(&mut self, id: CallId) {
        if let Some(call) = self.slots.get_mut(id) {
            charge(&mut self.charged_bytes, call);
        }
    }

    /// Returns the number of entries in each table. See [`Relay::call_entries`](crate::Relay::call_entries).
    pub(crate) fn entries(&self) -> [Entries; 5] {
        [
            ("calls", self.slots.len()),
            ("due times of calls", self.timetable.entries()),
            ("bytes kept by calls", self.replay_bytes + self.held_bytes()),
            ("copies of requests", self.copies),
            ("calls to be sent", self.to_send.len()),
        ]
    }

    /// Frees memory that is no longer needed after a burst.
    pub(crate) fn shrink(&mut self) {
        self.slots.shrink_to_fit();
        self.timetable.shrink();
        self.spare_sections = Vec::new();
        self.spare_progress = Vec::new();
        self.to_send.shrink_to_fit();
    }
}

/// Calls to be sent.
impl Calls {
    /// Adds a call to the list of calls to send before this turn of the event loop ends.
    #[inline]
    pub(crate) fn list(&mut self, id: CallId) {
        self.to_send.push_back(id);
    }

    /// Removes and returns the first call on the list of calls to send. This call may have ended.
    #[inline]
    pub(crate) fn next_listed(&mut self) -> Option<CallId> {
        self.to_send.pop_front()
    }

    pub(crate) fn has_listed(&self) -> bool {
        !self.to_send.is_empty()
    }
}

/// Content that is kept for another attempt.
impl Calls {
    /// Returns whether `more_bytes` of content may be kept in addition to the content that all calls keep now.
    pub(crate) fn has_room_for_replay(&self, more_bytes: usize, max_bytes: usize) -> bool {
        self.replay_bytes + more_bytes <= max_bytes
    }

    /// Keeps content of a request, because the content is sent later or may have to be sent again.
    #[inline]
    pub(crate) fn keep(&mut self, id: CallId, bytes: &[u8]) {
        if let Some(call) = self.slots.get_mut(id) {
            call.body.extend_from_slice(bytes);
            self.replay_bytes += bytes.len();
            charge(&mut self.charged_bytes, call);
        }
    }

    /// Drops the stored content and trailers of a request, so that its call can no longer be sent to another endpoint.
    /// If `keeps_fields` is false, also drops the request's fields. Returns the call, or `None` if its request was not
    /// stored.
    pub(crate) fn stop_replay(&mut self, id: CallId, keeps_fields: bool) -> Option<&Call> {
        let call = self.slots.get_mut(id)?;
        if !std::mem::replace(&mut call.replayable, false) {
            return None;
        }
        self.replay_bytes = self.replay_bytes.saturating_sub(call.body.len());
        call.body = Vec::new();
        call.trailers = None;
        // A health check keeps its request: when policies change, the request's path decides whether the call is still
        // allowed.
        if !keeps_fields && !call.is_health_check {
            let request = std::mem::take(&mut call.request);
            keep_section(&mut self.spare_sections, request);
        }
        charge(&mut self.charged_bytes, call);
        Some(call)
    }

    /// Returns an empty field section for the next request.
    pub(crate) fn take_section(&mut self) -> FieldSection {
        self.spare_sections.pop().unwrap_or_default()
    }
}

/// Updates the part of `charged_bytes` that counts a call's content. Must be called after an attempt was sent or has
/// ended, and after the stored content has changed.
#[inline]
fn charge(charged_bytes: &mut usize, call: &mut Call) {
    let after = call.extra_body_bytes();
    let before = std::mem::replace(&mut call.charged_bytes, after);
    *charged_bytes = (*charged_bytes + after).saturating_sub(before);
}

/// Keeps a request's field section for later calls, once the request is no longer needed.
fn keep_section(spare_sections: &mut Vec<FieldSection>, mut section: FieldSection) {
    if spare_sections.len() < MAX_SPARE_SECTIONS && section.capacity_bytes() > 0 {
        section.clear();
        section.shrink(MAX_SPARE_SECTION_BYTES);
        spare_sections.push(section);
    }
}

/// Copies of requests.
impl Calls {
    pub(crate) fn copies(&self) -> usize {
        self.copies
    }

    /// Counts `bytes` of content for a copy, unless all copies together would then hold more than `max_bytes`. Returns
    /// whether the content was counted.
    pub(crate) fn hold_copied_content(&mut self, bytes: usize, max_bytes: usize) -> bool {
        let fits = self.copy_bytes + bytes <= max_bytes;
        self.copy_bytes += if fits { bytes } else { 0 };
        fits
    }

    /// Subtracts `bytes` of content that a copy no longer holds.
    pub(crate) fn copied_content_sent(&mut self, bytes: usize) {
        self.copy_bytes = self.copy_bytes.saturating_sub(bytes);
    }
}

/// Returns how many bytes of content a copy of a request holds.
pub(crate) fn kept_bytes(copy: &Call) -> usize {
    (copy.request_bytes as usize).saturating_sub(copy.released)
}

/// The due times of calls.
impl Calls {
    /// Returns a call, and the timetable that sets its due times.
    #[inline]
    pub(crate) fn timed(&mut self, id: CallId) -> Option<(&mut Call, &mut Timetable)> {
        Some((self.slots.get_mut(id)?, &mut self.timetable))
    }

    /// Sets the time at which `due` happens for a call: `now` plus `after`. Replaces the time that was set before.
    pub(crate) fn wait_for(&mut self, id: CallId, due: Due, after: Duration, now: Instant) {
        if let Some((call, timetable)) = self.timed(id).certain() {
            timetable.wait_for(id, &mut call.due, due, now, after);
        }
    }

    /// Clears all due times of a call.
    pub(crate) fn wait_for_nothing(&mut self, id: CallId) {
        if let Some((call, timetable)) = self.timed(id) {
            timetable.clear(&mut call.due);
        }
    }

    /// Returns the time until something may become due for a call; `None` if no call waits for anything.
    pub(crate) fn next_due_in(&self, now: Instant) -> Option<Duration> {
        self.timetable.next_in(now)
    }

    /// Returns every [`Due`] whose time has passed, with its call, the earliest first. Clears these due times.
    pub(crate) fn expire(&mut self, now: Instant) -> Vec<(CallId, Due)> {
        self.timetable.expire(&mut self.slots, now)
    }
}
