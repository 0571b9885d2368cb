use crate::fixtures::{objects, problems};
use crate::object::{Object, ReferenceGrant};

fn with_spec(spec: &str) -> String {
    format!(
        "apiVersion: gateway.networking.k8s.io/v1beta1\nkind: ReferenceGrant\n\
         metadata: {{name: grant, namespace: shop}}\nspec: {spec}\n"
    )
}

fn grant(spec: &str) -> ReferenceGrant {
    match objects(&with_spec(spec)).remove(0) {
        Object::ReferenceGrant(grant) => grant,
        other => panic!("{other:?}"),
    }
}

const GROUP: &str = "gateway.networking.k8s.io";

/// Whether an object of this group, kind and namespace may refer to a Service.
fn allows(grant: &ReferenceGrant, group: &str, kind: &str, namespace: &str, service: &str) -> bool {
    grant.referrers(group).any(|referrer| referrer == (kind, namespace))
        && grant.services().any(|name| name.is_none_or(|name| name == service))
}

#[test]
fn a_grant_allows_what_it_names_and_nothing_else() {
    let grant = grant(
        "{from: [{group: gateway.networking.k8s.io, kind: HTTPRoute, namespace: web}], to: [{group: '', kind: Service}]}",
    );
    assert!(allows(&grant, GROUP, "HTTPRoute", "web", "cart"));
    assert!(!allows(&grant, GROUP, "GRPCRoute", "web", "cart"));
    assert!(!allows(&grant, GROUP, "HTTPRoute", "default", "cart"));
    assert!(!allows(&grant, "", "HTTPRoute", "web", "cart"));
}

#[test]
fn a_grant_may_be_for_one_service() {
    let from = "from: [{group: gateway.networking.k8s.io, kind: HTTPRoute, namespace: web}]";
    let one = grant(&format!("{{{from}, to: [{{group: '', kind: Service, name: cart}}]}}"));
    assert!(allows(&one, GROUP, "HTTPRoute", "web", "cart"));
    assert!(!allows(&one, GROUP, "HTTPRoute", "web", "pay"));
    let all = grant(&format!("{{{from}, to: [{{group: '', kind: Service, name: ''}}]}}"));
    assert!(allows(&all, GROUP, "HTTPRoute", "web", "pay"));
    let secrets = grant(&format!("{{{from}, to: [{{group: '', kind: Secret}}]}}"));
    assert!(!allows(&secrets, GROUP, "HTTPRoute", "web", "cart"));
}

#[test]
fn both_versions_are_read() {
    let spec = "{from: [{group: g, kind: k, namespace: n}], to: [{kind: Service}]}";
    assert_eq!(objects(&with_spec(spec).replace("v1beta1", "v1")).len(), 1);
}

#[test]
fn mistakes_are_said_with_a_fix() {
    for (spec, line) in [
        (
            "{to: [{kind: Service}]}",
            "spec.from of ReferenceGrant shop/grant: missing; a grant needs both lists, from and to",
        ),
        (
            "{from: [{group: g, kind: k, namespace: n}]}",
            "spec.to of ReferenceGrant shop/grant: missing; a grant needs both lists, from and to",
        ),
        (
            "{from: [{group: g, kind: k}], to: [{kind: Service}]}",
            "spec.from[0].namespace of ReferenceGrant shop/grant: \"\" is not a namespace; use at most 63 lower-case letters, digits and dashes, with no dash first or last",
        ),
        (
            "{from: [{group: g, namespace: n}], to: [{kind: Service}]}",
            "spec.from[0].kind of ReferenceGrant shop/grant: missing; write the kind of the routes, as HTTPRoute",
        ),
        (
            "{from: [{group: g, kind: k, namespace: n}], to: [{kind: Service, names: a}]}",
            "spec.to[0].names of ReferenceGrant shop/grant: ReferenceGrantTo has no such field; did you mean name?",
        ),
    ] {
        assert_eq!(problems(&with_spec(spec)), [format!("echo.yaml:4: {line}")], "{spec}");
    }
}
