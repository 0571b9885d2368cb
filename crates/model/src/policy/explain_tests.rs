use std::net::IpAddr;

use super::*;
use crate::fixtures::translated;
use crate::policy::{DefaultInboundPolicy, Probe, Probes};
use crate::spiffe::SpiffeId;

const CART: &str = "
apiVersion: leno.dev/v1alpha1
kind: AuthorizationPolicy
metadata: {name: cart, namespace: shop}
spec:
  targetRef: {kind: ServiceAccount, name: cart}
  allow:
  - identities: [ns/shop/sa/web, ns/billing/sa/*]
  - identities: [ns/ops/sa/ops]
    networks: [10.0.0.0/8, 192.168.0.0/16]
  - networks: [192.168.7.20/32]
  healthChecks: [/healthz]
";

/// Explains the decision about a GET to port 8080 of ns/shop/sa/cart, under these policies and this default policy.
fn explain(
    policies: &str,
    default: DefaultInboundPolicy,
    (identity, address): (&str, &str),
    path: &str,
) -> PortExplanation {
    let own: SpiffeId = "spiffe://example.org/ns/shop/sa/cart".parse().expect("an id");
    let identity: Option<SpiffeId> =
        (!identity.is_empty()).then(|| format!("spiffe://example.org/{identity}").parse().expect("an id"));
    let address: IpAddr = address.parse().expect("an address");
    let caller = Caller { identity: identity.as_ref(), address };
    let request = Request { method: b"GET", path: path.as_bytes(), upgrade: false, has_content: false };
    let probes: Probes = ["8080/live".parse::<Probe>().expect("a probe")].into_iter().collect();
    let mesh = translated(&[("a.yaml", policies)]).mesh;
    mesh.inbound_policy(&own, 8080, default).with_probes(probes.on(8080)).explain(&caller, &request)
}

fn line_of(explanation: &PortExplanation) -> &str {
    explanation.policies[0].allowed_by.as_ref().map_or("no line", |line| &line.field)
}

#[test]
fn an_allowed_caller_is_allowed_by_a_named_line() {
    let of = |caller, path| explain(CART, DefaultInboundPolicy::Deny, caller, path);
    let cases = [
        (("ns/shop/sa/web", "10.0.0.1"), "/", "spec.allow[0].identities[0]"),
        (("ns/billing/sa/any", "10.0.0.1"), "/", "spec.allow[0].identities[1]"),
        (("ns/ops/sa/ops", "192.168.1.1"), "/", "spec.allow[1]"),
        (("", "192.168.7.20"), "/", "spec.allow[2].networks[0]"),
        (("", "10.0.0.1"), "/healthz?full", "spec.healthChecks[0]"),
    ];
    for (caller, path, line) in cases {
        let explanation = of(caller, path);
        assert_eq!((explanation.verdict, line_of(&explanation)), (Verdict::Allowed, line), "{caller:?}");
        assert_eq!(explanation.decided_by, DecidedBy::AuthorizationPolicy("shop/cart".to_owned()));
    }
}

#[test]
fn a_denied_caller_learns_which_policy_denies_and_whom_it_allows() {
    let explanation = explain(CART, DefaultInboundPolicy::AllUnauthenticated, ("ns/ops/sa/ops", "1.2.3.4"), "/");
    assert_eq!((explanation.verdict, line_of(&explanation)), (Verdict::Denied, "no line"));
    assert_eq!(explanation.reason.as_deref(), Some("no rule of AuthorizationPolicy shop/cart allows it"));
    let lines: Vec<_> = explanation.policies[0].lines.iter().map(|line| line.value.as_str()).collect();
    let both = "ns/ops/sa/ops from 10.0.0.0/8 or 192.168.0.0/16";
    assert_eq!(lines, ["ns/shop/sa/web", "ns/billing/sa/*", both, "192.168.7.20/32", "every caller to /healthz"]);
}

#[test]
fn probes_defaults_and_audits_are_named() {
    let deny = DefaultInboundPolicy::Deny;
    assert_eq!(explain(CART, deny, ("", "1.2.3.4"), "/live").decided_by, DecidedBy::Probe);
    let alone = explain("", deny, ("ns/shop/sa/web", "1.2.3.4"), "/");
    assert_eq!((alone.verdict, alone.decided_by), (Verdict::Denied, DecidedBy::Default("deny".to_owned())));
    let audited = CART.replace("spec:\n", "spec:\n  mode: Audit\n");
    let all = DefaultInboundPolicy::AllUnauthenticated;
    let audited = explain(&audited, all, ("", "1.2.3.4"), "/");
    assert_eq!((audited.verdict, audited.policies[0].mode.as_str()), (Verdict::Audited, "Audit"));
}

#[test]
fn a_line_is_found_exactly_for_callers_that_the_index_allows() {
    let mesh = translated(&[("a.yaml", CART)]).mesh;
    let allow = &mesh.policies()[0].allow;
    let own = "example.org".parse().expect("a trust domain");
    for account in ["ns/shop/sa/web", "ns/billing/sa/x", "ns/ops/sa/ops", "ns/ops/sa/web", ""] {
        for address in ["10.1.2.3", "192.168.7.20", "192.168.7.21", "::ffff:10.0.0.1", "8.8.8.8"] {
            let identity: Option<SpiffeId> =
                (!account.is_empty()).then(|| format!("spiffe://example.org/{account}").parse().expect("an id"));
            let caller = Caller { identity: identity.as_ref(), address: address.parse().expect("an address") };
            assert_eq!(allow.line(&caller, &own).is_some(), allow.allows(&caller, &own), "{account} {address}");
        }
    }
}

#[test]
fn a_long_policy_is_cut() {
    let many: Vec<String> = (0..100).map(|number| format!("ns/shop/sa/web-{number}")).collect();
    let policy = CART.replace("ns/shop/sa/web,", &format!("{},", many.join(", ")));
    let explanation = explain(&policy, DefaultInboundPolicy::Deny, ("ns/shop/sa/web-99", "1.2.3.4"), "/");
    assert_eq!(line_of(&explanation), "spec.allow[0].identities[99]");
    let policy = &explanation.policies[0];
    assert_eq!((policy.lines.len(), policy.omitted), (LINES_MAX, 104 - LINES_MAX));
}
