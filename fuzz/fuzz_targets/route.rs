//! Fuzzes route matching with requests, which a peer chooses: any bytes match a rule or none, a rewrite makes a path,
//! and a redirect makes a location.
#![no_main]

use std::sync::LazyLock;

use leno_model::manifest::{SourceFile, parse_file};
use leno_model::mesh::{ClusterKey, Mesh};
use leno_model::route::{PathMatch, RequestHead, Scheme};
use leno_model::translate::translate;
use libfuzzer_sys::fuzz_target;

const ROUTES: &str = "
apiVersion: v1
kind: Service
metadata: {name: web}
spec: {ports: [{port: 80}]}
---
apiVersion: v1
kind: Service
metadata: {name: grpc}
spec: {ports: [{port: 80}]}
---
apiVersion: v1
kind: Service
metadata: {name: tls}
spec: {ports: [{port: 80}]}
---
apiVersion: gateway.networking.k8s.io/v1
kind: TLSRoute
metadata: {name: tls}
spec:
  parentRefs: [{group: '', kind: Service, name: tls}]
  hostnames: [a.b, '*.b', '*.c.b', d]
  rules: [{backendRefs: [{name: tls, port: 80}]}]
---
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: web}
spec:
  parentRefs: [{group: '', kind: Service, name: web}]
  rules:
  - matches: [{path: {type: Exact, value: /a}}, {method: POST, headers: [{name: host, value: a}]}]
    filters: [{type: RequestRedirect, requestRedirect: {path: {type: ReplaceFullPath, replaceFullPath: /b}}}]
  - matches: [{path: {type: PathPrefix, value: /a}}]
    filters: [{type: RequestRedirect, requestRedirect: {path: {type: ReplacePrefixMatch, replacePrefixMatch: /}}}]
  - matches: [{queryParams: [{name: a+b, value: c}, {name: d, type: RegularExpression, value: '(e|f)*g'}]}]
    backendRefs: [{name: web, port: 80}]
  - matches: [{path: {type: PathPrefix, value: /c}}]
    filters: [{type: URLRewrite, urlRewrite: {path: {type: ReplacePrefixMatch, replacePrefixMatch: /d}}}]
    backendRefs: [{name: web, port: 80}]
  - matches: [{path: {type: RegularExpression, value: '/(x*)*y'}, headers: [{name: a, type: RegularExpression, value: '[^b]+'}]}]
    backendRefs: [{name: web, port: 80}, {name: grpc, port: 80}]
---
apiVersion: gateway.networking.k8s.io/v1
kind: GRPCRoute
metadata: {name: grpc}
spec:
  parentRefs: [{group: '', kind: Service, name: grpc}]
  rules:
  - matches: [{method: {service: a.B, method: C}}, {method: {type: RegularExpression, service: '[a-c.]+'}}]
    backendRefs: [{name: grpc, port: 80}]
";

static MESH: LazyLock<Mesh> = LazyLock::new(|| {
    let file = SourceFile { path: "routes.yaml".to_owned(), text: ROUTES.to_owned() };
    let manifest = parse_file(&file, "default").expect("the routes have no mistake");
    let translation = translate(&manifest.objects, "default");
    assert!(translation.problems.is_empty(), "{:?}", translation.problems);
    translation.mesh
});

/// A request made of the lines of the input: the method, the path, the authority, and then values. Every header field
/// has all these values.
struct Head<'a>(Vec<&'a [u8]>);

impl Head<'_> {
    fn line(&self, number: usize) -> &[u8] {
        self.0.get(number).copied().unwrap_or_default()
    }
}

impl RequestHead for Head<'_> {
    fn method(&self) -> &[u8] {
        self.line(0)
    }

    fn path(&self) -> &[u8] {
        self.line(1)
    }

    fn authority(&self) -> &[u8] {
        self.line(2)
    }

    fn values<'a>(&'a self, _name: &'a str) -> impl Iterator<Item = &'a [u8]> {
        self.0.iter().skip(3).copied()
    }
}

/// Checks that a rule matches exactly the server names in its patterns. A ClientHello may contain any text as the name.
fn check_server(name: &str) {
    let key = ClusterKey { namespace: "default".into(), service: "tls".into(), port: 80 };
    let table = MESH.routes(&key, "default").expect("a table");
    let name = name.to_ascii_lowercase();
    let is_known = name == "d" || name.len() > 2 && name.ends_with(".b");
    assert_eq!(table.find_server(Some(&name)).is_some(), is_known, "{name:?}");
}

fuzz_target!(|input: &[u8]| {
    if let Ok(name) = std::str::from_utf8(input) {
        check_server(name);
    }
    let head = Head(input.split(|byte| *byte == b'\n').collect());
    for service in ["web", "grpc"] {
        let key = ClusterKey { namespace: "default".into(), service: service.into(), port: 80 };
        let table = MESH.routes(&key, "default").expect("a table");
        let Some(found) = table.find(&head) else { continue };
        let first = table.entries().iter().find(|entry| entry.matches.is_match(&head)).expect("the one that was found");
        assert!(std::ptr::eq(found.path, &first.matches.path));
        let rule = found.rule;
        assert_eq!(rule.choose(input.len() as u64).is_some(), !rule.backends.is_empty());
        if let Some(rewrite) = &rule.filters.rewrite {
            let PathMatch::Prefix(_) = found.path else { panic!("{found:?}") };
            assert!(rewrite.path(head.path(), found.path).starts_with(b"/d"));
        }
        if let Some(redirect) = &rule.filters.redirect {
            let (status, location) = redirect.location(&head, Scheme::Http, 80, found.path);
            assert_eq!(status, 302);
            assert!(location.starts_with(b"http://"));
            // The location contains only the scheme, parts of the request, and `/b`, so its length is limited.
            assert!(location.len() <= b"http:///b".len() + head.authority().len() + head.path().len());
        }
    }
});
