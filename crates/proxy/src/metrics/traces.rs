//! Metrics of traced calls.

use std::fmt;

use leno_relay::metrics::{counter, encode_count};
use leno_relay::trace::{Dropped, Outbox};
use prometheus_client::encoding::DescriptorEncoder;

pub(super) fn encode(traces: &Outbox, encoder: &mut DescriptorEncoder) -> fmt::Result {
    let help = "Traced calls whose spans the collector has taken";
    encode_count(counter(encoder, "leno_traced_calls_exported", help)?, traces.exported())?;
    let help = "Traced calls whose spans were lost, by reason";
    let mut dropped = counter(encoder, "leno_traced_calls_dropped", help)?;
    Dropped::ALL
        .into_iter()
        .try_for_each(|why| encode_count(dropped.encode_family(&[("reason", why.label())])?, traces.dropped(why)))
}
