//! The interface of the two xDS variants, over one [`Session`].

use envoy_types::pb::envoy::config::core::v3::Node;
use leno_xds::Kind;
use prost::Message;

use super::session::{Answer, Batch, Context, Refusal, Session, Variant};

/// A variant of xDS.
pub(crate) trait Exchange: 'static {
    type Request: Message + Default + 'static;
    type Response: Message + 'static;

    const VARIANT: Variant;

    /// The client's description of itself; its first request must have one.
    fn node(request: &Self::Request) -> Option<&Node>;

    /// The number of names in a request.
    fn names(request: &Self::Request) -> usize;

    /// Processes a request. Returns the request's kind, and the client's answer to the last response. `None` if we have
    /// no resources of this type: the protocol leaves such a request unanswered.
    ///
    /// # Errors
    /// [`Refusal`] if the client asks for too much.
    fn take(
        session: &mut Session,
        request: &Self::Request,
        context: Context<'_>,
    ) -> Result<Option<(Kind, Answer)>, Refusal>;

    fn respond(batch: Batch) -> Self::Response;
}
