//! The interface that both xDS variants implement, over one [`Session`].

use envoy_types::pb::envoy::config::core::v3::Node;
use leno_xds::Kind;
use prost::Message;

use super::refused::RefusedNames;
use super::session::{Answer, Batch, Context, Refusal, Session, Variant};

/// A variant of xDS.
pub(crate) trait Exchange: 'static {
    type Request: Message + Default + 'static;
    type Response: Message + 'static;

    const VARIANT: Variant;

    /// The client's description of itself. The first request of a stream must contain it.
    fn node(request: &Self::Request) -> Option<&Node>;

    /// The number of names in a request.
    fn names(request: &Self::Request) -> usize;

    /// Processes a request. Returns the request's kind, and the client's answer to the last response. `None` if we have
    /// no resources of this type: the protocol leaves such a request unanswered.
    ///
    /// # Errors
    /// [`Refusal`] if the stream must end. If only names of the request exceed a limit, the other names are taken, and
    /// [`Session::take_refused`] returns the refused names.
    fn take(
        session: &mut Session,
        request: &Self::Request,
        context: Context<'_>,
    ) -> Result<Option<(Kind, Answer)>, Refusal>;

    fn respond(batch: Batch) -> Self::Response;

    /// The answer about names that the client may not subscribe to; `None` if the variant has no such answer. If the
    /// client acknowledges the answer, nothing happens.
    fn refuse(refused: &RefusedNames, nonce: String) -> Option<Self::Response>;
}
