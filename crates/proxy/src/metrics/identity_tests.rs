use std::fmt;
use std::time::{Duration, UNIX_EPOCH};

use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;
use prometheus_client::registry::Registry;

use super::{IdentityMetrics, encode};

#[derive(Debug)]
struct Only(IdentityMetrics);

impl Collector for Only {
    fn encode(&self, mut encoder: DescriptorEncoder) -> fmt::Result {
        encode(&self.0, &mut encoder)
    }
}

#[test]
fn an_expiring_certificate_is_seen_by_the_names_that_linkerd_gives() {
    let at = |seconds| UNIX_EPOCH + Duration::from_secs(seconds);
    let metrics = IdentityMetrics::default()
        .after_refresh(at(1_000), at(5_000))
        .after_failure()
        .after_refresh(at(3_000), at(7_000));
    let metrics = IdentityMetrics { anchors_expiration_since_1970: Some(Duration::from_secs(9_000)), ..metrics };
    let mut registry = Registry::default();
    registry.register_collector(Box::new(Only(metrics)));
    let mut text = String::new();
    prometheus_client::encoding::text::encode(&mut text, &registry).expect("writing to a String cannot fail");
    for line in [
        "control_identity_cert_refreshes_total{result=\"ok\"} 2",
        "control_identity_cert_refreshes_total{result=\"error\"} 1",
        "control_identity_cert_expiration_timestamp_seconds 7000.0",
        "control_identity_cert_refresh_timestamp_seconds 3000.0",
        "leno_trust_anchor_expiration_timestamp_seconds 9000.0",
    ] {
        assert!(text.lines().any(|found| found == line), "{line} is not in\n{text}");
    }
}
