//! The QoS class of a Pod with a proxy. A Pod is Guaranteed if each of its containers, init containers included, has
//! limits for CPU and memory, and requests equal to these limits.

use serde_json::Value;

use super::plan::is_ours;
use super::settings::Settings;
use super::skip::containers;
use crate::annotations::{PROXY_CPU_LIMIT, PROXY_CPU_REQUEST, PROXY_MEMORY_LIMIT, PROXY_MEMORY_REQUEST};
use crate::quantity::amount;

/// Returns a warning if the Pod is Guaranteed, and its proxy would make it Burstable.
pub(super) fn warning(template: &Value, settings: &Settings) -> Option<String> {
    // Resources of the Pod as a whole decide its class, whatever its containers have.
    if template.pointer("/spec/resources").is_some_and(|resources| !resources.is_null()) {
        return None;
    }
    let mut application = containers(template).filter(|container| !is_ours(container)).peekable();
    application.peek()?;
    let proxy = [(&settings.cpu_request, &settings.cpu_limit), (&settings.memory_request, &settings.memory_limit)];
    let keeps_class = proxy.iter().all(|(request, limit)| is_equal(request, limit));
    (!keeps_class && application.all(is_guaranteed)).then(|| {
        format!(
            "the proxy's requests differ from its limits, so this Pod is Burstable instead of Guaranteed; to keep the class, \
             give {PROXY_CPU_REQUEST} the value of {PROXY_CPU_LIMIT}, and {PROXY_MEMORY_REQUEST} the value of \
             {PROXY_MEMORY_LIMIT}"
        )
    })
}

fn is_guaranteed(container: &Value) -> bool {
    let quantity = |list: &str, resource: &str| {
        let written = container.pointer(&format!("/resources/{list}/{resource}"))?;
        // A manifest may have a number here.
        Some(written.as_str().map_or_else(|| written.to_string(), str::to_owned))
    };
    ["cpu", "memory"].into_iter().all(|resource| {
        let Some(limit) = quantity("limits", resource) else { return false };
        // Without a request, the limit is the request.
        quantity("requests", resource).is_none_or(|request| is_equal(&request, &limit))
    })
}

/// Returns whether two quantities are equal. False if one of them is missing.
fn is_equal(request: &str, limit: &str) -> bool {
    amount(request).zip(amount(limit)).is_some_and(|(request, limit)| request == limit)
}

#[cfg(test)]
#[path = "qos_tests.rs"]
mod tests;
