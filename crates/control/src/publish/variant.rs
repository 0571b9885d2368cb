//! The two ways in which xDS is spoken, over one [`Session`].

use envoy_types::pb::envoy::config::core::v3::Node;
use leno_wire::Kind;
use prost::Message;

use super::session::{Answer, Batch, Context, Refusal, Session, Variant};

/// A way in which xDS is spoken.
pub(crate) trait Exchange: 'static {
    /// What a client sends.
    type Request: Message + Default + 'static;
    /// What it gets.
    type Response: Message + 'static;

    /// Which way this is.
    const VARIANT: Variant;

    /// Who the client says it is, in its first request at least.
    fn node(request: &Self::Request) -> Option<&Node>;

    /// How many names are in a request.
    fn names(request: &Self::Request) -> usize;

    /// Takes in a request; says what it acknowledged. `None` if it is of a kind that we have nothing of, which stays
    /// unanswered, as the protocol has it.
    ///
    /// # Errors
    /// [`Refusal`] if the client asks for too much.
    fn take(
        session: &mut Session,
        request: &Self::Request,
        context: Context<'_>,
    ) -> Result<Option<(Kind, Answer)>, Refusal>;

    /// Writes a response.
    fn respond(batch: Batch) -> Self::Response;
}
