use std::collections::BTreeSet;
use std::sync::Arc;

use fastrand::Rng;
use leno_model::mesh::Mesh;
use leno_model::policy::{AuthorizationPolicy, Decision, DefaultInboundPolicy};
use leno_model::spiffe::{SpiffeId, TrustDomain};
use prost::Message;

use super::{Inbound, engine, filter, http_filter, read, write};
use crate::facts::{Facts, HTTP_PORTS, TRUST_DOMAIN};
use crate::fixtures::{mesh, random_policies};
use crate::pb::http::HttpConnectionManager;
use crate::pb::listener;
use crate::pb::rbac::{Permission, Policy, Principal, Rbac, principal::Identifier, rbac};
use crate::pb::{Any, RbacFilter};
use crate::proto::{any, from_any};

/// Number of random lists of policies that are tried.
const LISTS: u64 = 2_000;

const POLICIES: &str = "
apiVersion: leno.dev/v1alpha1
kind: AuthorizationPolicy
metadata: {name: cart, namespace: shop}
spec:
  targetRef: {kind: ServiceAccount, name: cart}
  ports: [8080, 9090]
  allow:
  - identities: [ns/shop/sa/web, ns/billing/sa/*, ns/*/sa/prometheus.io, 'spiffe://partner.example/ns/orders/sa/sync']
  - identities: ['*']
    networks: [10.0.0.0/8, 'fd00::/8']
  - networks: [192.168.7.20]
  healthChecks: [/healthz, /grpc.health.v1.Health/Check]
---
apiVersion: leno.dev/v1alpha1
kind: AuthorizationPolicy
metadata: {name: everything, namespace: shop}
spec:
  mode: Audit
  allow: [{identities: [ns/*/sa/*, 'spiffe://cluster.local/ns/shop/sa/web']}]
";

fn own() -> TrustDomain {
    "cluster.local".parse().expect("a trust domain")
}

fn written(policies: &[Arc<AuthorizationPolicy>]) -> listener::Listener {
    write(policies.iter().map(Arc::as_ref), &[], &own())
}

/// The filter written for these manifests.
fn filter_of(text: &str) -> RbacFilter {
    filter(&written(mesh(text).policies())).expect("ours")
}

/// Returns an encoded Listener `inbound` whose RBAC filter has this configuration.
fn with_filter(config: Any) -> Vec<u8> {
    let mut resource = written(mesh(POLICIES).policies());
    let Some(listener::filter::ConfigType::TypedConfig(manager)) =
        &mut resource.filter_chains[0].filters[0].config_type
    else {
        panic!("no HTTP");
    };
    let mut changed: HttpConnectionManager = from_any(manager).expect("HTTP");
    changed.http_filters[0].config_type = Some(http_filter::ConfigType::TypedConfig(config));
    *manager = any(&changed);
    resource.encode_to_vec()
}

fn cart(filter: &mut RbacFilter) -> &mut Policy {
    filter.rules.as_mut().expect("rules").policies.get_mut("shop/cart").expect("the policy")
}

fn refused(bytes: &[u8]) -> String {
    read(bytes).expect_err("it is not as Leno writes it").to_string()
}

#[test]
fn policies_are_the_same_after_their_way_over_the_wire() {
    let mesh = mesh(POLICIES);
    assert_eq!(mesh.policies().len(), 2);
    let inbound = read(&written(mesh.policies()).encode_to_vec()).expect("ours");
    assert_eq!((&*inbound.policies, &*inbound.http_ports), (mesh.policies(), &[][..]));
    assert_eq!(read(&written(&[]).encode_to_vec()), Ok(Inbound::default()));
}

#[test]
fn ports_that_speak_http_are_the_same_after_their_way_over_the_wire() {
    let bytes = write([], &[80, 8080, 65_535], &own()).encode_to_vec();
    assert_eq!(read(&bytes), Ok(Inbound { policies: Vec::new(), http_ports: vec![80, 8080, 65_535] }));
    let told = |ports: &str| {
        let mut resource = write([], &[], &own());
        resource.metadata = Facts::default().with(TRUST_DOMAIN, &own()).with(HTTP_PORTS, &ports).metadata();
        read(&resource.encode_to_vec()).map_err(|error| error.to_string())
    };
    assert_eq!(told("80,x"), Err("inbound: http-ports: x is no port".to_owned()));
    assert_eq!(told(&["1"; 257].join(",")), Err("inbound: http-ports: are more than 256".to_owned()));
}

#[test]
fn any_policies_are_the_same_after_their_way_over_the_wire_and_equal_ones_are_equal_bytes() {
    for seed in leno_testing::seeds(0..LISTS) {
        let policies = random_policies(&mut Rng::with_seed(seed));
        let bytes = written(&policies).encode_to_vec();
        assert_eq!(read(&bytes), Ok(Inbound { policies: policies.clone(), http_ports: Vec::new() }), "seed {seed}");
        assert_eq!(bytes, written(&policies).encode_to_vec(), "seed {seed}");
    }
}

#[test]
fn bytes_that_were_changed_on_their_way_are_read_or_refused_in_one_line() {
    for seed in leno_testing::seeds(0..LISTS) {
        let mut random = Rng::with_seed(seed);
        let mut bytes = written(&random_policies(&mut random)).encode_to_vec();
        for _ in 0..4 {
            let place = random.usize(..bytes.len());
            bytes[place] = random.u8(..);
        }
        if let Err(error) = read(&bytes) {
            assert!(!error.to_string().contains('\n'), "seed {seed}: {error}");
        }
    }
}

#[test]
fn each_policy_is_an_entry_and_ports_that_none_is_about_are_left_to_the_default() {
    let RbacFilter { rules, shadow_rules, .. } = filter_of(POLICIES);
    let names = |set: &Rbac| set.policies.keys().cloned().collect::<BTreeSet<_>>();
    let (rules, shadow_rules) = (rules.expect("an enforced policy"), shadow_rules.expect("an audited one"));
    assert_eq!(names(&rules), ["default", "shop/cart"].map(str::to_owned).into());
    assert_eq!(names(&shadow_rules), ["default", "shop/everything"].map(str::to_owned).into());
    assert_eq!(rules.action, i32::from(rbac::Action::Allow));
    let default = &rules.policies["default"];
    assert!(engine::has_permission(default, 80) && !engine::has_permission(default, 8080));
    // On a port with an enforced policy, audited policies have no effect.
    let default = &shadow_rules.policies["default"];
    assert!(engine::has_permission(default, 8080) && !engine::has_permission(default, 80));
}

#[test]
fn an_engine_of_rbac_decides_as_the_mesh_does() {
    let workload: SpiffeId = "spiffe://cluster.local/ns/shop/sa/cart".parse().expect("an id");
    let mut met = [0_u32; 3];
    for seed in leno_testing::seeds(0..LISTS) {
        let mut random = Rng::with_seed(seed);
        let mut policies = random_policies(&mut random);
        policies.retain(|policy| policy.selects_account("cart"));
        let filter = filter(&written(&policies)).expect("ours");
        let mesh = Mesh::new("shop", Vec::new(), Vec::new(), policies, Vec::new());
        for _ in 0..20 {
            let call = engine::Call::random(&mut random);
            let port = mesh.inbound_policy(&workload, call.port, DefaultInboundPolicy::AllUnauthenticated);
            let decision = port.authorize(&call.caller(), Some(&call.request()));
            let allows = |rules: &Option<Rbac>| rules.as_ref().is_none_or(|rules| call.is_in(rules));
            let (kind, expected) = match decision {
                Decision::Deny(_) => (0, (false, true)),
                Decision::AllowAudited(_) => (1, (true, false)),
                Decision::Allow => (2, (true, true)),
            };
            met[kind] += 1;
            assert_eq!((allows(&filter.rules), allows(&filter.shadow_rules)), expected, "seed {seed}: {call:?}");
        }
    }
    assert!(met.iter().all(|met| *met > 1_000) || leno_testing::is_repeated(), "{met:?}");
}

#[test]
fn what_is_not_understood_is_refused_and_not_left_out() {
    let changed = |change: fn(&mut RbacFilter)| {
        let mut filter = filter_of(POLICIES);
        change(&mut filter);
        refused(&with_filter(any(&filter)))
    };
    let deny = changed(|filter| filter.rules.as_mut().expect("rules").action = rbac::Action::Deny.into());
    assert_eq!(deny, "inbound: action: is not ALLOW");
    let matcher = changed(|filter| filter.matcher = Some(Default::default()));
    assert_eq!(matcher, "inbound: matcher: is none that Leno writes");
    let not_ours = "inbound: policies: shop/cart: is no policy that Leno writes";
    assert_eq!(changed(|filter| cart(filter).condition = Some(Default::default())), not_ours);
    assert_eq!(changed(|filter| cart(filter).principals.clear()), not_ours);
    assert_eq!(changed(|filter| cart(filter).permissions.clear()), not_ours);
    assert_eq!(changed(|filter| cart(filter).permissions.push(Permission::default())), not_ours);
    assert_eq!(changed(|filter| cart(filter).principals.push(Principal::default())), not_ours);
    let renamed = changed(|filter| {
        let policy = cart(filter).clone();
        filter.rules.as_mut().expect("rules").policies.insert("shop/Cart".to_owned(), policy);
    });
    assert_eq!(renamed, "inbound: policies: shop/Cart: is no policy that Leno writes");
    let twice = changed(|filter| {
        let policy = cart(filter).clone();
        filter.shadow_rules.as_mut().expect("rules").policies.insert("shop/cart".to_owned(), policy);
    });
    assert_eq!(twice, "inbound: policies: are enforced and audited at once");
}

#[test]
fn an_identity_that_is_compared_in_another_way_is_refused() {
    let mut filter = filter_of(POLICIES);
    let principals = &mut cart(&mut filter).principals;
    let Some(Identifier::AndIds(rule)) = &mut principals[0].identifier else { panic!("no rule") };
    let Some(Identifier::OrIds(identities)) = &mut rule.ids[0].identifier else { panic!("no identities") };
    let Some(Identifier::Authenticated(web)) = &mut identities.ids[0].identifier else { panic!("no identity") };
    web.principal_name.as_mut().expect("a name").ignore_case = true;
    let error = refused(&with_filter(any(&filter)));
    assert_eq!(error, "inbound: policies: shop/cart: is no policy that Leno writes");
}

#[test]
fn a_listener_that_does_not_say_which_policies_there_are_is_refused() {
    let whole = written(mesh(POLICIES).policies());
    let none = "inbound: http_filters: are not one RBAC filter and a router";
    let empty = listener::Listener { filter_chains: Vec::new(), ..whole.clone() };
    assert_eq!(refused(&empty.encode_to_vec()), none);
    assert_eq!(refused(b""), none);
    let another = Any {
        type_url: "type.googleapis.com/envoy.extensions.filters.http.cors.v3.Cors".to_owned(),
        value: Vec::new(),
    };
    assert_eq!(refused(&with_filter(another)), none);
    let without = listener::Listener { metadata: None, ..whole };
    assert_eq!(refused(&without.encode_to_vec()), "inbound: trust-domain: is missing in the metadata");
}

#[test]
fn a_policy_of_which_nobody_says_whom_it_is_about_is_refused() {
    let mut resource = written(mesh(POLICIES).policies());
    resource.metadata = crate::facts::Facts::default().with(crate::facts::TRUST_DOMAIN, &own()).metadata();
    assert!(refused(&resource.encode_to_vec()).ends_with("is no policy that Leno writes"));
}
