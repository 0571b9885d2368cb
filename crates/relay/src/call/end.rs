//! End: a call ends when both its request and its response are complete, or when one of the two cannot go on.

use crate::Relay;
use crate::call::attempt::Stage;
use crate::call::record::Ending;
use crate::call::{Call, CallId, Response};
use crate::certain::Certain;

impl Relay {
    /// Records a call whose response was relayed completely. The call ends when its request is complete, too.
    pub(crate) fn response_complete(&mut self, id: CallId, ending: Ending) {
        self.record(id, ending);
        let Some(call) = self.calls.get_mut(id).certain() else { return };
        call.response = Response::Ended;
        let (client, stream) = (call.client, call.client_stream);
        let has_no_content = call.awaits_continue && call.request_bytes == 0;
        if call.request_ended {
            self.end_call(id, Ending::Complete);
        } else if has_no_content
            && self.downstreams.get(client).is_some_and(|client| client.link.codec.has_announced_end(stream))
        {
            // The client expected a 100 response, so it need not send the content any more. Its next bytes may be
            // another request, which must not reach the server as content. So both connections end. If the client had
            // begun to send the content when the response began, the response has not announced the end.
            self.stop_client(client, stream);
            self.end_call(id, Ending::Complete);
        } else {
            self.calls.wait_for_nothing(id);
            self.expect_content(id);
        }
    }

    /// Ends a call if both its request and its response are complete.
    pub(crate) fn end_call_if_complete(&mut self, id: CallId) {
        if self.calls.get(id).is_some_and(Call::is_complete) {
            self.end_call(id, Ending::Complete);
        }
    }

    /// Ends a call in any state: removes it from both streams, records it, and releases its memory.
    pub(crate) fn end_call(&mut self, id: CallId, ending: Ending) {
        self.note_unanswered(id, ending);
        self.record(id, ending);
        // Count the messages that the client has sent after its call was answered and recorded.
        if self.calls.get(id).is_some_and(|call| call.request_messages.has_new()) {
            self.count_messages(id);
        }
        let is_complete = self.calls.get(id).is_some_and(Call::is_complete);
        let Some(call) = self.calls.end(id).certain() else { return };
        let charged = (call.fields_bytes, call.grown_bytes);
        self.downstreams.call_ended(call.client, call.client_stream, charged, call.counts_as_open);
        // If the client is charged for a call with several attempts, count only one of the cancelled streams against
        // the client: it has cancelled only one call.
        let mut canceller = call.client.filter(|_| ending.is_caused_by_client());
        for (pool, stage) in call.attempts {
            match stage {
                Stage::Waiting(turn) => self.give_up_turn(call.client, pool, turn),
                Stage::Sent(upstream, stream) if is_complete => self.finish_upstream(upstream, stream),
                Stage::Sent(upstream, stream) => self.cancel_upstream(upstream, stream, canceller.take()),
                Stage::Chosen | Stage::Lost => {}
            }
        }
        if let Some(cluster) = call.cluster {
            self.call_left_cluster(cluster);
        }
        if let Some(route) = &call.route {
            self.release_mirrors(call.request_ended, &route.mirrors);
        }
    }
}
