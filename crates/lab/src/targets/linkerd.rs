//! Linkerd: its page and the reason why it cannot run here yet.

use crate::error::{Error, Result};

/// The missing parts.
pub(super) const INSTALL: &str = "linkerd2-proxy, and a destination, policy and identity service: the lab has none yet";

/// Fails with the missing parts and the alternatives.
pub(super) fn missing<T>() -> Result<T> {
    let what = "--targets linkerd cannot run: linkerd2-proxy does not start without a destination, policy and identity \
                service, and the lab has none yet; leave linkerd out, or measure Linkerd in a cluster";
    Err(Error::Usage(what.to_owned()))
}

#[cfg(test)]
#[path = "linkerd_tests.rs"]
mod tests;
