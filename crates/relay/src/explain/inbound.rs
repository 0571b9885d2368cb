//! Explains the decision about a call to our own application.

use std::net::IpAddr;

use leno_model::explain::BadQuestion;
use leno_model::policy::{Caller, Verdict};
use leno_model::spiffe::SpiffeId;

use super::answer::{Inbound, Outcome};
use super::{Sides, failed};
use crate::Relay;
use crate::call::Call;
use crate::call::reply::ProxyError;
use crate::downstream::authorize::request;

impl Relay {
    /// Explains whether a caller may make a call to a port of our application.
    pub(super) fn explain_inbound(
        &mut self,
        call: &Call,
        port: u16,
        identity: Option<&str>,
        address: IpAddr,
    ) -> Result<Sides, BadQuestion> {
        let parse = |text: &str| text.parse::<SpiffeId>().map_err(|_| BadQuestion::Identity(text.to_owned()));
        let identity = identity.map(parse).transpose()?;
        if let Some(subject) = self.targets.mesh().unanswered_inbound() {
            return Ok((self.unknown(&subject), None, None));
        }
        let policy = self
            .port_policy(port)
            .map(|policy| policy.explain(&Caller { identity: identity.as_ref(), address }, &request(call)));
        let caller = match &identity {
            Some(id) => id.to_string(),
            None => format!("{address} without an identity"),
        };
        let denied = policy.as_ref().filter(|policy| policy.verdict == Verdict::Denied);
        let outcome = match denied {
            Some(policy) => {
                let reason = policy.reason.as_deref().unwrap_or_default();
                let own = self.targets.own().map_or_else(String::new, |own| format!(" of {own}"));
                failed(&ProxyError::Denied(format!("{caller} may not call port {port}{own}: {reason}")))
            }
            None => Outcome::Sent,
        };
        Ok((outcome, None, Some(Inbound { port, caller, policy })))
    }
}
