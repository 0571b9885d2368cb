use std::net::IpAddr;

use super::{Allow, Caller, Decision, DefaultInboundPolicy, Request, Rule};
use crate::fixtures::{lines, translated};
use crate::mesh::Mesh;
use crate::spiffe::SpiffeId;

const PLAIN: &str = "plain";
const WEB: &str = "spiffe://example.org/ns/shop/sa/web";
const BATCH: &str = "spiffe://example.org/ns/shop/sa/batch";
const OTHER: &str = "spiffe://other.org/ns/shop/sa/web";

/// Policies of the namespace shop, each given as its name and spec.
fn mesh(policies: &[(&str, &str)]) -> Mesh {
    translated(&[("a.yaml", &manifest(policies))]).mesh
}

fn manifest(policies: &[(&str, &str)]) -> String {
    let object = |(name, spec): &(&str, &str)| {
        format!(
            "---\napiVersion: leno.dev/v1alpha1\nkind: AuthorizationPolicy\n\
             metadata: {{name: {name}, namespace: shop}}\nspec: {spec}\n"
        )
    };
    policies.iter().map(object).collect()
}

fn id(text: &str) -> Option<SpiffeId> {
    (text != PLAIN).then(|| text.parse().expect("an id"))
}

/// Returns the decision for port 8080 of the workload ns/shop/sa/cart: `allow`, `audit: <reason>` or `deny: <reason>`.
fn decide(mesh: &Mesh, default: DefaultInboundPolicy, caller: (&str, &str), request: Option<&Request<'_>>) -> String {
    let own = "spiffe://example.org/ns/shop/sa/cart".parse().expect("an id");
    let identity = id(caller.0);
    let address: IpAddr = caller.1.parse().expect("an address");
    let caller = Caller { identity: identity.as_ref(), address };
    match mesh.inbound_policy(&own, 8080, default).authorize(&caller, request) {
        Decision::Allow => "allow".to_owned(),
        Decision::AllowAudited(reason) => format!("audit: {reason}"),
        Decision::Deny(reason) => format!("deny: {reason}"),
    }
}

fn allows(mesh: &Mesh, caller: (&str, &str)) -> bool {
    decide(mesh, DefaultInboundPolicy::AllUnauthenticated, caller, None) == "allow"
}

#[test]
fn without_a_policy_the_default_decides() {
    use DefaultInboundPolicy::{AllAuthenticated, AllUnauthenticated, Audit, ClusterAuthenticated, Deny};
    let all_authenticated =
        "deny: the default inbound policy is all-authenticated, which requires a client certificate";
    let cluster_authenticated = "deny: the default inbound policy is cluster-authenticated, which requires a client certificate of this trust domain";
    let deny = "deny: the default inbound policy is deny, which allows only callers that an AuthorizationPolicy allows";
    let audit = "audit: the default inbound policy is audit, which reports callers that no AuthorizationPolicy allows";
    for (default, plain, own, other) in [
        (AllUnauthenticated, "allow", "allow", "allow"),
        (AllAuthenticated, all_authenticated, "allow", "allow"),
        (ClusterAuthenticated, cluster_authenticated, "allow", cluster_authenticated),
        (Deny, deny, deny, deny),
        (Audit, audit, audit, audit),
    ] {
        for (caller, expected) in [(PLAIN, plain), (WEB, own), (OTHER, other)] {
            assert_eq!(decide(&Mesh::empty(), default, (caller, "10.0.0.1"), None), expected, "{default} {caller}");
        }
    }
}

#[test]
fn the_names_of_the_defaults_are_read_and_others_refused_with_the_names() {
    for default in DefaultInboundPolicy::ALL {
        assert_eq!(default.name().parse(), Ok(default));
    }
    let error = "allow".parse::<DefaultInboundPolicy>().expect_err("no such policy").to_string();
    for default in DefaultInboundPolicy::ALL {
        assert!(error.contains(default.name()), "{error}");
    }
    assert_eq!(DefaultInboundPolicy::default(), DefaultInboundPolicy::AllUnauthenticated);
}

#[test]
fn a_rule_wants_identity_and_network_and_one_rule_is_enough() {
    let rules = "{allow: [
        {identities: [ns/shop/sa/web]},
        {identities: [ns/shop/sa/batch], networks: [10.1.0.0/16, 'fd00::/8']},
        {networks: [192.168.0.7]}]}";
    let mesh = mesh(&[("cart", rules)]);
    for (identity, address, expected) in [
        (WEB, "10.9.0.1", true),
        (WEB, "::1", true),
        (OTHER, "10.9.0.1", false),
        (BATCH, "10.1.2.3", true),
        (BATCH, "::ffff:10.1.2.3", true),
        (BATCH, "fd00::1", true),
        (BATCH, "10.2.0.1", false),
        (PLAIN, "10.1.2.3", false),
        (PLAIN, "192.168.0.7", true),
        (OTHER, "192.168.0.7", true),
        (PLAIN, "192.168.0.8", false),
    ] {
        assert_eq!(allows(&mesh, (identity, address)), expected, "{identity} from {address}");
    }
}

#[test]
fn a_rule_that_names_nothing_allows_nobody() {
    let own = "example.org".parse().expect("a trust domain");
    let address = IpAddr::from([10, 0, 0, 1]);
    let empty =
        |list: bool| Allow::from(vec![Rule { identities: list.then(Box::default), networks: list.then(Box::default) }]);
    for caller in [PLAIN, WEB] {
        let identity = id(caller);
        let caller = Caller { identity: identity.as_ref(), address };
        assert!(!empty(false).allows(&caller, &own) && !empty(true).allows(&caller, &own));
    }
}

#[test]
fn an_enforced_policy_takes_the_place_of_every_default() {
    let mesh = mesh(&[("cart", "{allow: [{identities: [ns/shop/sa/web]}]}")]);
    for default in DefaultInboundPolicy::ALL {
        assert_eq!(decide(&mesh, default, (WEB, "::1"), None), "allow", "{default}");
        let denied = "deny: no rule of AuthorizationPolicy shop/cart allows it";
        assert_eq!(decide(&mesh, default, (BATCH, "::1"), None), denied, "{default}");
        assert_eq!(decide(&mesh, default, (PLAIN, "::1"), None), denied, "{default}");
    }
}

#[test]
fn a_policy_is_about_the_workloads_and_ports_that_it_names() {
    for (spec, selects) in [
        ("{allow: []}", true),
        ("{targetRef: {kind: Namespace, name: shop}, allow: []}", true),
        ("{targetRef: {kind: ServiceAccount, name: cart}, allow: []}", true),
        ("{targetRef: {kind: ServiceAccount, name: cart2}, allow: []}", false),
        ("{ports: [8080], allow: []}", true),
        ("{ports: [1, 8080], allow: []}", true),
        ("{ports: [80], allow: []}", false),
    ] {
        assert_eq!(allows(&mesh(&[("p", spec)]), (WEB, "::1")), !selects, "{spec}");
    }
    for namespace in ["shoo", "shop2", "shop-2", "default"] {
        let text = manifest(&[("p", "{allow: []}")]).replace("namespace: shop", &format!("namespace: {namespace}"));
        let elsewhere = translated(&[("a.yaml", &text)]).mesh;
        assert!(allows(&elsewhere, (WEB, "::1")), "{namespace}");
    }
}

#[test]
fn the_rules_of_all_policies_of_a_port_count() {
    let mesh = mesh(&[
        ("c", "{allow: []}"),
        ("a", "{ports: [8080], allow: [{identities: [ns/shop/sa/web]}]}"),
        ("b", "{targetRef: {kind: ServiceAccount, name: cart}, allow: [{identities: [ns/shop/sa/batch]}]}"),
        ("d", "{ports: [9090], allow: [{networks: ['::/0', 0.0.0.0/0]}]}"),
    ]);
    assert!(allows(&mesh, (WEB, "::1")) && allows(&mesh, (BATCH, "::1")));
    assert_eq!(
        decide(&mesh, DefaultInboundPolicy::Audit, (PLAIN, "::1"), None),
        "deny: no rule of AuthorizationPolicy shop/a nor of 2 others allows it"
    );
}

#[test]
fn a_policy_in_audit_mode_changes_nothing_but_the_log() {
    use DefaultInboundPolicy::{AllAuthenticated, AllUnauthenticated, Audit, Deny};
    let mesh = mesh(&[("cart", "{mode: Audit, allow: [{identities: [ns/shop/sa/web]}]}")]);
    let told = "audit: no rule of AuthorizationPolicy shop/cart allows it";
    for (default, plain, web, batch) in [
        (AllUnauthenticated, told, "allow", told),
        (AllAuthenticated, "deny", "allow", told),
        (Deny, "deny", "deny", "deny"),
        (Audit, told, "allow", told),
    ] {
        for (caller, expected) in [(PLAIN, plain), (WEB, web), (BATCH, batch)] {
            let decision = decide(&mesh, default, (caller, "::1"), None);
            assert!(decision.starts_with(expected), "{default} {caller}: {decision}");
        }
    }
}

#[test]
fn a_policy_in_audit_mode_adds_no_rule_to_those_in_force() {
    let both = [
        ("a", "{mode: Audit, allow: [{identities: ['*']}], healthChecks: [/healthz]}"),
        ("b", "{allow: [{identities: [ns/shop/sa/web]}]}"),
    ];
    let mesh = mesh(&both);
    let probe = Request { method: b"GET", path: b"/healthz", upgrade: false, has_content: false };
    let denied = "deny: no rule of AuthorizationPolicy shop/b allows it";
    for default in DefaultInboundPolicy::ALL {
        assert_eq!(decide(&mesh, default, (BATCH, "::1"), None), denied);
        assert_eq!(decide(&mesh, default, (PLAIN, "::1"), Some(&probe)), denied);
    }
    assert_eq!(
        lines(&translated(&[("a.yaml", &manifest(&both))]).notices),
        ["a.yaml:4: AuthorizationPolicy shop/a: nothing is audited where AuthorizationPolicy shop/b is enforced"]
    );
}

#[test]
fn only_policies_that_can_be_about_the_same_port_are_told_to_overlap() {
    let notices = |audited: &str, enforced: &str| {
        let text = manifest(&[("a", audited), ("b", enforced)]);
        translated(&[("a.yaml", &text)]).notices.len()
    };
    for (audited, enforced, overlaps) in [
        ("{mode: Audit, ports: [1, 2], allow: []}", "{ports: [2], allow: []}", 1),
        ("{mode: Audit, ports: [1], allow: []}", "{ports: [2], allow: []}", 0),
        ("{mode: Audit, allow: []}", "{targetRef: {kind: ServiceAccount, name: x}, ports: [2], allow: []}", 1),
        (
            "{mode: Audit, targetRef: {kind: ServiceAccount, name: y}, allow: []}",
            "{targetRef: {kind: ServiceAccount, name: x}, allow: []}",
            0,
        ),
        ("{mode: Audit, allow: []}", "{mode: Audit, allow: []}", 0),
    ] {
        assert_eq!(notices(audited, enforced), overlaps, "{audited} {enforced}");
    }
}

#[test]
fn of_two_policies_with_one_name_the_first_counts() {
    let twice = [("p", "{allow: [{identities: [ns/shop/sa/web]}]}"), ("p", "{allow: [{identities: ['*']}]}")];
    let translation = translated(&[("a.yaml", &manifest(&twice))]);
    assert_eq!(
        lines(&translation.problems),
        [
            "a.yaml:9: metadata.name of AuthorizationPolicy shop/p: already defined in a.yaml:4; that definition is used; remove or rename one of them"
        ]
    );
    assert!(!allows(&translation.mesh, (BATCH, "::1")));
    assert_eq!(translation.mesh.policies().len(), 1);
}

#[test]
fn health_checks_are_open_to_everybody_on_a_connection_that_is_otherwise_closed() {
    let mesh = mesh(&[("p", "{allow: [{identities: [ns/shop/sa/web]}], healthChecks: [/healthz]}")]);
    let default = DefaultInboundPolicy::Deny;
    let get =
        |path: &'static str| Request { method: b"GET", path: path.as_bytes(), upgrade: false, has_content: false };
    let probe = get("/healthz");
    assert_eq!(decide(&mesh, default, (PLAIN, "::1"), Some(&probe)), "allow");
    for denied in [None, Some(&get("/admin")), Some(&Request { upgrade: true, ..probe })] {
        assert!(decide(&mesh, default, (PLAIN, "::1"), denied).starts_with("deny"), "{denied:?}");
        assert_eq!(decide(&mesh, default, (WEB, "::1"), denied), "allow", "{denied:?}");
    }
}

#[test]
fn a_connection_may_be_read_if_some_request_of_its_caller_may_be_allowed() {
    let may_allow = |spec: Option<&str>, default: DefaultInboundPolicy, caller: &str| {
        let mesh = spec.map_or_else(Mesh::empty, |spec| mesh(&[("p", spec)]));
        let own = "spiffe://example.org/ns/shop/sa/cart".parse().expect("an id");
        let identity = id(caller);
        let caller = Caller { identity: identity.as_ref(), address: IpAddr::from([10, 0, 0, 1]) };
        mesh.inbound_policy(&own, 8080, default).may_allow(&caller)
    };
    use DefaultInboundPolicy::{AllAuthenticated, AllUnauthenticated, Audit, Deny};
    let web = Some("{allow: [{identities: [ns/shop/sa/web]}]}");
    let probes = Some("{allow: [{identities: [ns/shop/sa/web]}], healthChecks: [/healthz]}");
    let audited = Some("{mode: Audit, allow: [], healthChecks: [/healthz]}");
    for (spec, default, caller, expected) in [
        (None, AllUnauthenticated, PLAIN, true),
        (None, Audit, PLAIN, true),
        (None, AllAuthenticated, PLAIN, false),
        (None, AllAuthenticated, WEB, true),
        (web, AllUnauthenticated, PLAIN, false),
        (web, Deny, WEB, true),
        (probes, Deny, PLAIN, true),
        (audited, Deny, PLAIN, false),
        (audited, AllUnauthenticated, PLAIN, true),
    ] {
        assert_eq!(may_allow(spec, default, caller), expected, "{spec:?} {default} {caller}");
    }
}

#[test]
fn a_port_with_private_data_opens_only_to_identities_of_a_policy_that_names_the_port() {
    let own = "spiffe://example.org/ns/shop/sa/cart".parse().expect("an id");
    let decide = |policies: &[(&str, &str)], caller: &str| {
        let identity = id(caller);
        let caller = Caller { identity: identity.as_ref(), address: "10.0.0.9".parse().expect("an address") };
        let check = Request { method: b"GET", path: b"/calls", upgrade: false, has_content: false };
        match mesh(policies).private_policy(&own, 4190).authorize(&caller, Some(&check)) {
            Decision::Allow => "allow".to_owned(),
            Decision::AllowAudited(reason) => format!("audit: {reason}"),
            Decision::Deny(reason) => format!("deny: {reason}"),
        }
    };
    let web = "spiffe://example.org/ns/shop/sa/web";
    let other = "spiffe://example.org/ns/shop/sa/other";
    let private = "deny: this port serves private data of the proxy: only an AuthorizationPolicy whose ports name it lets \
                   callers in, by their identities";
    for (policy, of_web, of_other, of_plain) in [
        ("{allow: [{identities: ['*']}]}", private, private, private),
        ("{ports: [8080], allow: [{identities: ['*']}]}", private, private, private),
        ("{mode: Audit, ports: [4190], allow: [{identities: ['*']}]}", private, private, private),
        ("{ports: [4190], allow: [{identities: [ns/shop/sa/web]}]}", "allow", "deny: no rule", "deny: no rule"),
        ("{ports: [4190], allow: [{networks: [10.0.0.0/8]}]}", "deny: no rule", "deny: no rule", "deny: no rule"),
        ("{ports: [4190], healthChecks: [/calls], allow: [{identities: ['*']}]}", "allow", "allow", "deny: no rule"),
    ] {
        for (caller, expected) in [(web, of_web), (other, of_other), (PLAIN, of_plain)] {
            let decided = decide(&[("taps", policy)], caller);
            assert!(decided.starts_with(expected), "{policy} {caller}: {decided}");
        }
    }
    assert_eq!(decide(&[], web), private);
}

#[test]
fn the_example_of_a_policy_for_taps_in_the_documentation_lets_the_watcher_in() {
    let page = include_str!("../../../../docs/observability.md");
    let mut examples = page.split("```").filter_map(|block| block.strip_prefix("yaml\n"));
    let example = examples.find(|example| example.contains("AuthorizationPolicy")).expect("an example");
    let own = "spiffe://example.org/ns/shop/sa/web".parse().expect("an id");
    let watcher: SpiffeId = "spiffe://example.org/ns/watch/sa/watcher".parse().expect("an id");
    let caller = Caller { identity: Some(&watcher), address: "10.0.0.9".parse().expect("an address") };
    let mesh = translated(&[("a.yaml", example)]).mesh;
    assert_eq!(mesh.private_policy(&own, crate::proxy::TAP_PORT).authorize(&caller, None), Decision::Allow);
}
