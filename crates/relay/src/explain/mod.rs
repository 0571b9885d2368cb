//! Explain: reports what the relay would do with a call, without making the call. The same functions decide about real
//! calls, so an explanation cannot contradict the relay. An explanation changes no counter, no balancer and no
//! connection. It has one effect: if the proxy does not know the destination, it asks the control plane, as it does for
//! a real call.
//!
//! | file | subject |
//! |---|---|
//! | `answer` | the answer, as JSON carries it |
//! | `outbound` | a call of our own application: its cluster, rule, limits and backends |
//! | `inbound` | a call to our own application: may its caller make it? |

pub mod answer;
mod inbound;
mod outbound;

use leno_http2::fields::Known;
use leno_http2::{FieldSection, StreamKey};
use leno_model::discovery::Subject;
use leno_model::explain::{BadQuestion, CallQuestion, CallSide};

use crate::Relay;
use crate::call::Call;
use crate::call::reply::ProxyError;
use crate::pool::hop::Protocol;
use answer::{CallAnswer, Failure, Inbound, Outbound, Outcome};

/// The outcome of a call, with the outbound part of the answer or its inbound part.
type Sides = (Outcome, Option<Outbound>, Option<Inbound>);

impl Relay {
    /// Explains what the relay would do with a call.
    ///
    /// If the relay has to ask the control plane first, it sends the question, and the outcome is [`Outcome::Unknown`].
    /// Call this function again when the control plane may have answered.
    ///
    /// # Errors
    /// [`BadQuestion`] if a text of the question cannot occur in a call, or if the question is too large.
    pub fn explain_call(&mut self, question: &CallQuestion) -> Result<CallAnswer, BadQuestion> {
        question.check()?;
        let (outcome, outbound, inbound) = match &question.side {
            CallSide::Outbound { authority, address } => {
                let call = self.imagine(question, Some(authority), Protocol::Http2);
                self.explain_outbound(call, authority, *address)
            }
            CallSide::Inbound { port, identity, address } => {
                let call = self.imagine(question, None, Protocol::Http2);
                self.explain_inbound(&call, *port, identity.as_deref(), *address)?
            }
        };
        let own = self.targets.own().map(ToString::to_string);
        Ok(CallAnswer { outcome, own, worker: self.index, outbound, inbound })
    }

    /// Creates a [`Call`] that the relay never stores, so that the functions for real calls can decide about it.
    fn imagine(&self, question: &CallQuestion, authority: Option<&str>, protocol: Protocol) -> Call {
        let mut request = FieldSection::new();
        request.push(b":method", question.method.as_bytes());
        request.push(b":scheme", b"http");
        request.push(b":path", question.path.as_bytes());
        if let Some(authority) = authority {
            request.push(b":authority", authority.as_bytes());
        }
        for (name, value) in &question.headers {
            request.push(name.as_bytes(), value.as_bytes());
        }
        request.remove(Known::LenoUpgrade);
        Call::new((None, StreamKey::numbered(0)), request, protocol, question.has_no_content(), self.now)
    }

    /// Asks the control plane about a subject, as a real call would. Returns the outcome of the call until the answer
    /// arrives.
    fn unknown(&mut self, subject: &Subject) -> Outcome {
        match self.ask(subject) {
            Ok(()) => Outcome::Unknown { subject: subject.to_string() },
            Err(error) => failed(&error),
        }
    }
}

fn failed(error: &ProxyError) -> Outcome {
    Outcome::Failed(failure(error))
}

fn failure(error: &ProxyError) -> Failure {
    let (http_status, grpc_status) = error.statuses();
    Failure { error: error.why().to_owned(), why: error.to_string(), http_status, grpc_status: grpc_status as u8 }
}

#[cfg(test)]
#[path = "explain_tests.rs"]
mod tests;
