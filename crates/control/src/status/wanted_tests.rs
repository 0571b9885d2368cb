use std::collections::BTreeMap;

use leno_model::route::status::{Condition, ConditionKind, ParentRef, ParentStatus, Reason};
use leno_model::route::{RouteKind, RouteName};
use leno_model::traffic::PolicyKind;
use leno_model::traffic::status::{TargetKind, TargetRef, TargetStatus};

use super::{Judged, StatusContent, Wanted, wanted};
use crate::index::{Kind, Name, Observed, Revision};

fn revision() -> Revision {
    Revision { uid: "a".into(), generation: 3 }
}

fn observed(kind: Kind, name: &str, problem: Option<&str>) -> ((Kind, Name), Observed) {
    (
        (kind, Name::new("shop", name)),
        Observed { revision: revision(), problem: problem.map(str::to_owned), missing: None },
    )
}

fn at_parent(name: &str, parent: &str) -> ParentStatus {
    ParentStatus {
        route: RouteName { kind: RouteKind::Grpc, namespace: "shop".into(), name: name.into() },
        parent: ParentRef { name: parent.into(), ..ParentRef::default() },
        conditions: Vec::new(),
    }
}

fn at_target(kind: PolicyKind, policy: &str, target: &str) -> TargetStatus {
    TargetStatus {
        kind,
        namespace: "shop".into(),
        policy: policy.into(),
        target: TargetRef { kind: TargetKind::Service, name: target.into(), section_name: None },
        condition: Condition {
            kind: ConditionKind::Accepted,
            status: true,
            reason: Reason::Accepted,
            message: String::new(),
        },
    }
}

#[test]
fn every_route_and_policy_has_a_status_and_nothing_else_has() {
    let (ours, theirs) = (PolicyKind::Traffic, PolicyKind::BackendTraffic);
    let judged = Judged {
        observed: BTreeMap::from([
            observed(Kind::GrpcRoute, "canary", None),
            observed(Kind::GrpcRoute, "of-a-gateway", None),
            observed(Kind::HttpRoute, "broken", Some("no")),
            observed(Kind::AuthorizationPolicy, "good", None),
            observed(Kind::AuthorizationPolicy, "bad", Some("why")),
            observed(Kind::TrafficPolicy, "good", None),
            observed(Kind::TrafficPolicy, "bad", Some("why")),
            observed(Kind::BackendTrafficPolicy, "good", None),
            observed(Kind::BackendTrafficPolicy, "bad", Some("why")),
            observed(Kind::ReferenceGrant, "grant", None),
        ]),
        routes: vec![at_parent("canary", "a"), at_parent("canary", "b")],
        // The last valid version of the policy `bad` is still in force.
        traffic: vec![
            at_target(ours, "good", "a"),
            at_target(ours, "bad", "a"),
            at_target(theirs, "good", "a"),
            at_target(ours, "good", "b"),
        ],
    };
    let of = |kind, name: &str, content| ((kind, Name::new("shop", name)), Wanted { revision: revision(), content });
    let expected = BTreeMap::from([
        of(Kind::GrpcRoute, "canary", StatusContent::Route(vec![at_parent("canary", "a"), at_parent("canary", "b")])),
        of(Kind::GrpcRoute, "of-a-gateway", StatusContent::Route(Vec::new())),
        of(Kind::HttpRoute, "broken", StatusContent::BrokenRoute("no".to_owned())),
        of(Kind::AuthorizationPolicy, "good", StatusContent::Policy { problem: None, missing: None }),
        of(Kind::AuthorizationPolicy, "bad", StatusContent::Policy { problem: Some("why".to_owned()), missing: None }),
        of(
            Kind::TrafficPolicy,
            "good",
            StatusContent::Traffic(vec![at_target(ours, "good", "a"), at_target(ours, "good", "b")]),
        ),
        of(Kind::TrafficPolicy, "bad", StatusContent::BrokenTraffic(ours, "why".to_owned())),
        of(Kind::BackendTrafficPolicy, "good", StatusContent::Traffic(vec![at_target(theirs, "good", "a")])),
        of(Kind::BackendTrafficPolicy, "bad", StatusContent::BrokenTraffic(theirs, "why".to_owned())),
    ]);
    assert_eq!(wanted(&judged), expected);
}
