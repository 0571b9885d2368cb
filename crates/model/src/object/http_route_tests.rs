use std::sync::Arc;
use std::time::Duration;

use crate::fixtures::{lines, notices, objects, parse, problems};
use crate::object::{Object, Route};
use crate::route::status::Reason;
use crate::route::{
    Header, HeaderMatch, HeaderModifier, Match, PathMatch, PathRewrite, QueryMatch, Redirect, RouteKind, Scheme,
    TABLE_MAX_BYTES, ValueMatch,
};
use crate::traffic::{CallPolicy, GrpcCodes, Mode, Retry, Setting, TimeLimit};

/// A route for the Service `echo`. `rules` is the list of its rules, in YAML's flow style.
fn with_rules(rules: &str) -> String {
    let parent = "{group: '', kind: Service, name: echo}";
    format!(
        "apiVersion: gateway.networking.k8s.io/v1\nkind: HTTPRoute\nmetadata: {{name: canary}}\n\
         spec:\n  parentRefs: [{parent}]\n  rules: {rules}\n"
    )
}

/// A route with the parents `parents` and one rule.
fn with_parents(parents: &str) -> String {
    with_rules("[{}]").replace("[{group: '', kind: Service, name: echo}]", parents)
}

fn route(text: &str) -> Route {
    match objects(text).remove(0) {
        Object::Route(route) => route,
        other => panic!("{other:?}"),
    }
}

/// Returns the only mistake of a route with these rules, without its position.
fn mistake(rules: &str) -> String {
    only_mistake(&with_rules(rules))
}

fn only_mistake(text: &str) -> String {
    let mut problems = problems(text);
    assert_eq!(problems.len(), 1, "{problems:?}");
    let line = problems.remove(0);
    line.replacen("echo.yaml:", "", 1).replacen(" of HTTPRoute default/canary", "", 1)
}

/// Returns the refusals of a route's only rule, each as field, reason and text.
fn refused(rule: &str) -> Vec<(String, Reason, String)> {
    let route = route(&with_rules(&format!("[{rule}]")));
    let refusals = route.rules[0].refusals.iter();
    refusals.map(|refusal| (refusal.spot.field.to_string(), refusal.reason, refusal.what.clone())).collect()
}

/// The API server would store this route, but its patterns are too large: after compilation, they would take 10 KiB
/// each, 40 MiB in total.
#[test]
fn patterns_beyond_what_any_table_takes_are_not_compiled() {
    let named = |number: usize| format!("{{type: RegularExpression, name: x{number}, value: '[a-z]{{300}}'}}");
    let named: Vec<String> = (0..16).map(named).collect();
    let one = format!("{{headers: [{0}], queryParams: [{0}]}}", named.join(", "));
    let rule = format!("{{matches: [{}]}}", vec![one; 64].join(", "));
    let route = route(&with_rules(&format!("[{rule}, {rule}]")));
    let matches = route.rules.iter().flat_map(|rule| &rule.matches);
    let held: usize = matches.map(|one| one.size_bytes()).sum();
    // Besides the patterns, the matches also contain their names and other fields.
    assert!((1..TABLE_MAX_BYTES * 11 / 10).contains(&held), "{held} bytes of matches");
    assert!(route.size_bytes() > TABLE_MAX_BYTES, "no table takes it: {} bytes", route.size_bytes());
    assert!(route.rules.iter().all(|rule| rule.refusals.is_empty()), "its size is what is wrong with it");
}

/// Returns the duration of a time limit, in milliseconds.
fn limit_ms(limit: &Option<Setting<TimeLimit>>) -> Option<u128> {
    limit.as_ref().map(|limit| limit.value.after.as_millis())
}

#[test]
fn a_route_is_read() {
    let read = route(&with_rules(
        "[{name: v2, matches: [{path: {value: /cart}, method: POST, headers: [{name: X-Env, value: canary}],
            queryParams: [{name: Debug, value: '1'}]}], timeouts: {request: 10s, backendRequest: 500ms},
           backendRefs: [{name: echo-v2, port: 80, weight: 9}, {name: echo, namespace: shop, port: 81}]}]",
    ));
    assert_eq!((read.kind, &*read.identity.name, &*read.identity.namespace), (RouteKind::Http, "canary", "default"));
    assert!(read.parents[0].is_service());
    let [rule] = &*read.rules else { panic!("{:?}", read.rules) };
    let one = || ValueMatch::Exact("1".into());
    assert_eq!(
        rule.matches,
        [Arc::new(Match {
            path: PathMatch::prefix("/cart"),
            method: Some("POST".into()),
            headers: [HeaderMatch { name: "x-env".into(), value: ValueMatch::Exact("canary".into()) }].into(),
            query: [QueryMatch { name: "Debug".into(), value: one() }].into(),
            ..Match::any()
        })]
    );
    assert_eq!(limit_ms(&rule.calls.request_timeout), Some(10_000));
    assert_eq!(limit_ms(&rule.calls.backend_request_timeout), Some(500));
    assert_eq!(rule.calls.request_timeout.as_ref().map(|limit| &*limit.set_by), Some("HTTPRoute default/canary"));
    let backends: Vec<_> = rule.backends.iter().map(|b| (&*b.to.name, b.to.port, b.weight)).collect();
    assert_eq!(backends, [("echo-v2", Some(80), 9), ("echo", Some(81), 1)]);
    assert_eq!(rule.name.as_deref(), Some("v2"));
    assert!(rule.refusals.is_empty());
}

#[test]
fn what_is_left_out_is_what_kubernetes_takes_it_for() {
    let whole = route(&with_rules("[{}]").replace("  rules: [{}]\n", ""));
    assert_eq!(whole.rules[0].matches, [Arc::new(Match::any())]);
    assert!(whole.rules[0].backends.is_empty());
    assert_eq!(route(&with_rules("[{matches: []}]")).rules[0].matches, [Arc::new(Match::any())]);
    assert_eq!(route(&with_rules("[{matches: [{}]}]")).rules[0].matches, [Arc::new(Match::any())]);
    // `0s` turns the limit off, and overrides the limit of a less specific policy.
    let unlimited = route(&with_rules("[{timeouts: {request: 0s}}]")).rules[0].calls.clone();
    assert_eq!(unlimited.request_timeout.as_ref().map(|limit| limit.mode), Some(Mode::Off));
    assert_eq!(unlimited.without_off(), CallPolicy::default());
}

#[test]
fn retries_are_read() {
    let retry = |text: &str| {
        route(&with_rules(&format!("[{{retry: {text}}}]"))).rules[0].calls.retry.clone().expect("one").value
    };
    let codes = GrpcCodes::like_http(&[503]);
    let written = Retry {
        http_codes: [500, 502, 503].into(),
        grpc_codes: codes.with(13),
        attempts: 3,
        backoff: Duration::from_millis(100),
    };
    assert_eq!(retry("{codes: [503, 502, 500, 503], attempts: 3, backoff: 100ms}"), written);
    let usual = Retry {
        http_codes: [].into(),
        grpc_codes: GrpcCodes::default(),
        attempts: 1,
        backoff: Duration::from_millis(25),
    };
    assert_eq!(retry("{}"), usual);
}

#[test]
fn no_retries_override_the_retries_of_a_less_specific_policy() {
    let calls = route(&with_rules("[{retry: {attempts: 0}}]")).rules[0].calls.clone();
    assert_eq!(calls.retry.as_ref().map(|retry| retry.mode), Some(Mode::Off));
    let of_policy = route(&with_rules("[{retry: {attempts: 3}}]")).rules[0].calls.clone();
    assert!(of_policy.retry.is_some());
    assert_eq!(calls.or(&of_policy).without_off(), CallPolicy::default());
}

#[test]
fn the_error_of_a_negative_number_of_retries_allows_0() {
    let rules = route(&with_rules("[{retry: {attempts: -1}}]")).rules;
    assert_eq!(rules[0].refusals[0].fix, "use 0 to 10");
}

#[test]
fn retries_above_the_limits_are_lowered_with_a_remark() {
    let text = with_rules("[{retry: {attempts: 1000, backoff: 1h}}, {retry: {attempts: 10, backoff: 10s}}]");
    let read = route(&text);
    for rule in &read.rules {
        let retry = rule.calls.retry.clone().expect("retries");
        assert_eq!((retry.mode, retry.value.attempts, retry.value.backoff.as_secs()), (Mode::Enforce, 10, 10));
        assert!(rule.refusals.is_empty());
    }
    let remarks = [
        "spec.rules[0].retry.attempts: 1000 retries of one request; the proxy sends at most 10",
        "spec.rules[0].retry.backoff: a pause of 3600s before a retry; the proxy begins with a pause of 10s",
    ];
    assert_eq!(*read.remarks, remarks.map(Box::<str>::from));
    let told = remarks.map(|remark| {
        let (field, what) = remark.split_once(": ").expect("a field");
        format!("echo.yaml:6: {field} of HTTPRoute default/canary: {what}")
    });
    assert_eq!(notices(&text), told);
}

#[test]
fn the_creation_time_is_read_and_a_status_is_passed_over() {
    let text = with_rules("[{}]").replace("{name: canary}", "{name: canary, creationTimestamp: 2026-11-22T06:00:00Z}");
    assert_eq!(route(&text).created, Some(1_795_327_200));
    assert_eq!(route(&(with_rules("[{}]") + "status: {parents: [{anything: 1}]}\n")).created, None);
}

#[test]
fn the_former_version_is_read_too() {
    assert_eq!(&*route(&with_rules("[{}]").replace("/v1", "/v1beta1")).identity.name, "canary");
}

#[test]
fn filters_are_read() {
    let read = route(&with_rules(
        "[{filters: [
            {type: RequestHeaderModifier, requestHeaderModifier: {set: [{name: X-A, value: b}, {name: x-a, value: c}],
              add: [{name: B, value: d}], remove: [C]}},
            {type: URLRewrite, urlRewrite: {hostname: cart.shop, path: {type: ReplacePrefixMatch, replacePrefixMatch: /x}}},
            {type: RequestMirror, requestMirror: {backendRef: {name: copy, port: 80}, percent: 5}},
            {type: RequestMirror, requestMirror: {backendRef: {name: copy, port: 81}, fraction: {numerator: 1, denominator: 3}}},
            {type: RequestMirror, requestMirror: {backendRef: {name: copy, port: 82}}}],
           matches: [{path: {type: PathPrefix, value: /a}}],
           backendRefs: [{name: echo, port: 80, filters: [{type: ResponseHeaderModifier, responseHeaderModifier: {remove: [Server]}}]}]}]",
    ));
    let filters = &read.rules[0].filters;
    let header = |name: &str, value: &str| Header { name: name.into(), value: value.into() };
    // If two entries have the same name, only the first applies.
    let modifier = HeaderModifier {
        set: [header("x-a", "b")].into(),
        add: [header("b", "d")].into(),
        remove: ["c".into()].into(),
    };
    assert_eq!(filters.fixed.request_headers, Some(modifier));
    let rewrite = filters.fixed.rewrite.clone().expect("a rewrite");
    assert_eq!(rewrite.hostname.as_deref(), Some("cart.shop"));
    assert_eq!(rewrite.path, Some(PathRewrite::Prefix("/x".into())));
    let shares: Vec<_> = filters.mirrors.iter().map(|m| (m.to.port, m.numerator, m.denominator)).collect();
    assert_eq!(shares, [(Some(80), 5, 100), (Some(81), 1, 3), (Some(82), 100, 100)]);
    let own = read.rules[0].backends[0].filters.fixed.response_headers.clone().expect("a modifier");
    assert_eq!(own.remove, ["server".into()].into());
}

#[test]
fn a_redirect_is_read() {
    let redirect = |written: &str| {
        let rules = format!("[{{filters: [{{type: RequestRedirect, requestRedirect: {written}}}]}}]");
        route(&with_rules(&rules)).rules[0].filters.fixed.redirect.clone()
    };
    let nothing = Redirect { scheme: None, hostname: None, port: None, path: None, status: 302 };
    assert_eq!(redirect("{}"), Some(nothing));
    let all = Redirect {
        scheme: Some(Scheme::Https),
        hostname: Some("example.org".into()),
        port: Some(8443),
        path: Some(PathRewrite::Full("/new".into())),
        status: 308,
    };
    let written = "{scheme: https, hostname: example.org, port: 8443, statusCode: 308,
                    path: {type: ReplaceFullPath, replaceFullPath: /new}}";
    assert_eq!(redirect(written), Some(all));
}

#[test]
fn mistakes_are_said_with_their_line_and_a_fix() {
    for (rules, line) in [
        ("[{matchs: []}]", "6: spec.rules[0].matchs: HTTPRouteRule has no such field; did you mean matches?"),
        (
            "[{matches: [{path: {value: cart}}]}]",
            "6: spec.rules[0].matches[0].path.value: \"cart\" is not a path; begin it with /",
        ),
        (
            "[{matches: [{path: {value: /a//b}}]}]",
            "6: spec.rules[0].matches[0].path.value: \"/a//b\" has an element that servers normalize away; remove //, /./, /../ and %2f",
        ),
        (
            "[{matches: [{path: {value: /a/..}}]}]",
            "6: spec.rules[0].matches[0].path.value: \"/a/..\" has an element that servers normalize away; remove //, /./, /../ and %2f",
        ),
        (
            "[{matches: [{path: {value: '/a b'}}]}]",
            "6: spec.rules[0].matches[0].path.value: a path cannot contain ' '; write it percent-encoded",
        ),
        (
            "[{matches: [{path: {value: '/a%2'}}]}]",
            "6: spec.rules[0].matches[0].path.value: a % in \"/a%2\" without two digits after it; write %25 for a percent sign",
        ),
        (
            "[{matches: [{path: {type: Prefix, value: /a}}]}]",
            "6: spec.rules[0].matches[0].path.type: \"Prefix\" is not one of its values; use one of Exact, PathPrefix, RegularExpression",
        ),
        (
            "[{matches: [{path: {type: PathPrefx, value: /a}}]}]",
            "6: spec.rules[0].matches[0].path.type: \"PathPrefx\" is not one of its values; did you mean PathPrefix?",
        ),
        (
            "[{matches: [{method: get}]}]",
            "6: spec.rules[0].matches[0].method: \"get\" is not one of its values; did you mean GET?",
        ),
        (
            "[{matches: [{headers: [{name: 'a b', value: c}]}]}]",
            "6: spec.rules[0].matches[0].headers[0].name: \"a b\" is not the name of a header field; use letters, digits and any of !#$%&'*+-.^_`|~",
        ),
        (
            "[{matches: [{headers: [{name: a}]}]}]",
            "6: spec.rules[0].matches[0].headers[0].value: missing; write what the value has to be",
        ),
        (
            "[{matches: [{headers: [{name: a, value: b}, {name: a, value: c}]}]}]",
            "6: spec.rules[0].matches[0].headers[1].name: \"a\" is here twice; keep one of them",
        ),
        (
            "[{matches: [{queryParams: [{value: b}]}]}]",
            "6: spec.rules[0].matches[0].queryParams[0].name: missing; add it",
        ),
        (
            "[{matches: [{queryParams: [{name: a, value: 1}]}]}]",
            "6: spec.rules[0].matches[0].queryParams[0].value: 1 is not text; put it in quotes",
        ),
        ("[{backendRefs: [{name: echo}]}]", "6: spec.rules[0].backendRefs[0].port: missing; add the Service's port"),
        ("[{backendRefs: [{port: 80}]}]", "6: spec.rules[0].backendRefs[0].name: missing; name the Service"),
        (
            "[{backendRefs: [{name: echo, port: 0}]}]",
            "6: spec.rules[0].backendRefs[0].port: 0 is not a port; use 1 to 65535",
        ),
        (
            "[{backendRefs: [{name: echo, port: 80, weight: -1}]}]",
            "6: spec.rules[0].backendRefs[0].weight: -1 is not a weight; use 0 to 1000000",
        ),
        ("[{timeouts: {request: 10}}]", "6: spec.rules[0].timeouts.request: 10 is not text; put it in quotes"),
        (
            "[{timeouts: {request: 10 s}}]",
            "6: spec.rules[0].timeouts.request: \"10 s\" is not a duration; write one such as 1m30s or 500ms",
        ),
        (
            "[{retry: {codes: [404, 200]}}]",
            "6: spec.rules[0].retry.codes: 200 is not a status of a failed request; use codes from 400 to 599",
        ),
        (
            "[{retry: {backoff: soon}}]",
            "6: spec.rules[0].retry.backoff: \"soon\" is not a duration; write one such as 1m30s or 500ms",
        ),
        (
            "[{timeouts: {request: 1s, backendRequest: 2s}}]",
            "6: spec.rules[0].timeouts.backendRequest: longer than the whole request may take; make it shorter than request",
        ),
        (
            "[{name: A}]",
            "6: spec.rules[0].name: \"A\" is not a name; use at most 253 lower-case letters, digits, dashes and dots",
        ),
        (
            "[{name: a}, {name: a}]",
            "6: spec.rules[1].name: \"a\" is the name of another rule already; use another name",
        ),
        (
            "[{filters: [{}]}]",
            "6: spec.rules[0].filters[0].type: missing; write one of RequestHeaderModifier, ResponseHeaderModifier, RequestMirror, ExtensionRef, RequestRedirect, URLRewrite, CORS, ExternalAuth",
        ),
        (
            "[{filters: [{type: UrlRewrite}]}]",
            "6: spec.rules[0].filters[0].type: \"UrlRewrite\" is not one of its values; did you mean URLRewrite?",
        ),
        (
            "[{filters: [{type: URLRewrite}]}]",
            "6: spec.rules[0].filters[0].urlRewrite: missing of a URLRewrite; add it",
        ),
        (
            "[{filters: [{type: URLRewrite, urlRewrite: {}, requestMirror: {backendRef: {name: a, port: 1}}}]}]",
            "6: spec.rules[0].filters[0].requestMirror: not a field of a URLRewrite; remove it, or correct the type",
        ),
        (
            "[{filters: [{type: URLRewrite, urlRewrite: {path: {type: ReplaceFullPath, replaceFullPath: /, replacePrefixMatch: /}}}]}]",
            "6: spec.rules[0].filters[0].urlRewrite.path.replacePrefixMatch: not a field of a ReplaceFullPath; remove it, or correct the type",
        ),
        (
            "[{filters: [{type: URLRewrite, urlRewrite: {hostname: a_b}}]}]",
            "6: spec.rules[0].filters[0].urlRewrite.hostname: \"a_b\" is not the name of a host; use at most 253 lower-case letters, digits, dashes and dots, with at most 63 characters between two dots",
        ),
        (
            "[{filters: [{type: RequestRedirect, requestRedirect: {statusCode: 300}}]}]",
            "6: spec.rules[0].filters[0].requestRedirect.statusCode: \"300\" is not one of its values; did you mean 301?",
        ),
        (
            "[{filters: [{type: RequestMirror, requestMirror: {backendRef: {name: a, port: 1}, percent: 101}}]}]",
            "6: spec.rules[0].filters[0].requestMirror.percent: 101 of 100 requests; copy none, some or all of them",
        ),
        (
            "[{filters: [{type: RequestMirror, requestMirror: {backendRef: {name: a, port: 1}, percent: 1, fraction: {numerator: 1}}}]}]",
            "6: spec.rules[0].filters[0].requestMirror: both a percent and a fraction; keep one of them",
        ),
        (
            "[{filters: [{type: RequestMirror, requestMirror: {backendRef: {name: a}}}]}]",
            "6: spec.rules[0].filters[0].requestMirror.backendRef.port: missing; add the Service's port",
        ),
        (
            "[{filters: [{type: RequestHeaderModifier, requestHeaderModifier: {set: [{name: a}]}}]}]",
            "6: spec.rules[0].filters[0].requestHeaderModifier.set[0].value: missing; write the field's value, or list its name in `remove`",
        ),
        (
            "[{filters: [{type: RequestRedirect, requestRedirect: {}}], backendRefs: [{name: a, port: 1}]}]",
            "6: spec.rules[0].backendRefs: a rule that redirects cannot have backends; remove the backendRefs or the RequestRedirect",
        ),
    ] {
        assert_eq!(mistake(rules), line, "{rules}");
    }
}

#[test]
fn a_route_and_its_rules_may_have_long_names_and_a_host_may_not() {
    let long = "a".repeat(70);
    let text = with_rules(&format!("[{{name: {long}}}]")).replace("name: canary", &format!("name: {long}"));
    let route = route(&text);
    assert_eq!((&*route.identity.name, route.rules[0].name.as_deref()), (&*long, Some(&*long)));
    let line = mistake(&format!("[{{filters: [{{type: URLRewrite, urlRewrite: {{hostname: {long}}}}}]}}]"));
    assert!(line.contains("is not the name of a host"), "{line}");
}

#[test]
fn what_must_not_be_there_twice_is_a_mistake() {
    let modifier = "{type: RequestHeaderModifier, requestHeaderModifier: {remove: [a]}}";
    assert_eq!(
        mistake(&format!("[{{filters: [{modifier}, {modifier}]}}]")),
        "6: spec.rules[0].filters[1]: a second RequestHeaderModifier; make one of the two"
    );
    let both = "{type: RequestRedirect, requestRedirect: {}}, {type: URLRewrite, urlRewrite: {}}";
    assert_eq!(
        mistake(&format!("[{{filters: [{both}]}}]")),
        "6: spec.rules[0].filters: a request is either redirected or sent on; remove the RequestRedirect or the URLRewrite"
    );
}

#[test]
fn a_prefix_is_replaced_only_where_one_prefix_is_matched() {
    let filter = "filters: [{type: URLRewrite, urlRewrite: {path: {type: ReplacePrefixMatch, replacePrefixMatch: /}}}]";
    let line = "6: spec.rules[0].filters: ReplacePrefixMatch needs exactly one match, a PathPrefix; \
                write one rule for each PathPrefix, or use ReplaceFullPath";
    for matches in ["[{path: {value: /a}}, {path: {value: /b}}]", "[{path: {type: Exact, value: /a}}]"] {
        assert_eq!(mistake(&format!("[{{matches: {matches}, {filter}}}]")), line);
        let backend = format!("backendRefs: [{{name: echo, port: 80, {filter}}}]");
        assert_eq!(mistake(&format!("[{{matches: {matches}, {backend}}}]")), line);
    }
    assert_eq!(problems(&with_rules(&format!("[{{{filter}}}]"))), [""; 0]);
}

#[test]
fn lists_are_bounded() {
    let repeated = |item: &str, count: usize| vec![item; count].join(", ");
    for (rules, line) in [
        (format!("[{}]", repeated("{}", 17)), "6: spec.rules: 17 items; use at most 16"),
        (format!("[{{matches: [{}]}}]", repeated("{}", 65)), "6: spec.rules[0].matches: 65 items; use at most 64"),
        (
            format!("[{}]", repeated(&format!("{{matches: [{}]}}", repeated("{}", 43)), 3)),
            "6: spec.rules: 129 matches in all rules; use at most 128, or several routes",
        ),
        (
            format!("[{{backendRefs: [{}]}}]", repeated("{name: echo, port: 80}", 17)),
            "6: spec.rules[0].backendRefs: 17 items; use at most 16",
        ),
    ] {
        assert_eq!(mistake(&rules), line);
    }
}

#[test]
fn parents_are_checked() {
    for (parents, line) in [
        (
            "[{group: 'A b', kind: Gateway, name: a}]",
            "5: spec.parentRefs[0].group: \"A b\" is not an API group; use at most 253 lower-case letters, digits, dashes and dots",
        ),
        ("[{kind: 'a b', name: a}]", "5: spec.parentRefs[0].kind: \"a b\" is not a kind; write Service"),
        ("[{group: '', kind: Service}]", "5: spec.parentRefs[0].name: missing; name the Service"),
        (
            "[{group: '', kind: Service, name: echo, port: 65536}]",
            "5: spec.parentRefs[0].port: 65536 is not a port; use 1 to 65535",
        ),
        (
            "[{group: '', kind: Service, name: a, namespace: B}]",
            "5: spec.parentRefs[0].namespace: \"B\" is not a name; use at most 63 lower-case letters, digits and dashes, with no dash first or last",
        ),
        (
            "[{group: '', kind: Service, name: a}, {group: '', kind: Service, name: a, port: 80}]",
            "5: spec.parentRefs[1]: the same as spec.parentRefs[0]; remove it, or give both a port or a sectionName",
        ),
        (
            "[{group: '', kind: Service, name: a}, {group: core, kind: Service, name: a}]",
            "5: spec.parentRefs[1]: the same as spec.parentRefs[0]; remove it, or give both a port or a sectionName",
        ),
    ] {
        assert_eq!(only_mistake(&with_parents(parents)), line, "{parents}");
    }
    let two_ports = "[{group: '', kind: Service, name: a, port: 81}, {group: '', kind: Service, name: a, port: 80}]";
    assert_eq!(problems(&with_parents(two_ports)), [""; 0]);
}

#[test]
fn what_the_mesh_does_not_have_is_refused_and_not_a_mistake() {
    for (rule, field, what) in [
        (
            "{filters: [{type: ExtensionRef, extensionRef: {group: a.b, kind: C, name: d}}]}",
            "filters[0].type",
            "Leno does not support the filter ExtensionRef; requests that match the rule are rejected",
        ),
        (
            "{filters: [{type: CORS, cors: {allowOrigins: ['*']}}]}",
            "filters[0].type",
            "Leno does not support the filter CORS; requests that match the rule are rejected",
        ),
        ("{retry: {attempts: -1}}", "retry.attempts", "-1 retries of one request"),
        (
            "{sessionPersistence: {type: Cookie}}",
            "sessionPersistence",
            "an experimental field that Leno does not support; requests that match the rule are rejected",
        ),
        (
            "{matches: [{path: {type: RegularExpression, value: '/(a'}}]}",
            "matches[0].path.value",
            "\"/(a\" is not a supported regular expression: found open group without closing ')'",
        ),
        (
            "{filters: [{type: RequestHeaderModifier, requestHeaderModifier: {set: [{name: Host, value: a}]}}]}",
            "filters[0].requestHeaderModifier.set[0].name",
            "a header modifier does not change the host",
        ),
        (
            "{filters: [{type: ResponseHeaderModifier, responseHeaderModifier: {remove: [Transfer-Encoding]}}]}",
            "filters[0].responseHeaderModifier.remove[0]",
            "transfer-encoding is set by the proxies",
        ),
        (
            "{filters: [{type: RequestHeaderModifier, requestHeaderModifier: {add: [{name: leno-x, value: a}]}}]}",
            "filters[0].requestHeaderModifier.add[0].name",
            "leno-x is set by the proxies",
        ),
        (
            "{filters: [{type: RequestHeaderModifier, requestHeaderModifier: {add: [{name: x, value: \"a\\nb\"}]}}]}",
            "filters[0].requestHeaderModifier.add[0].value",
            "\"a\\nb\" is not the value of a header field",
        ),
        (
            "{filters: [{type: URLRewrite, urlRewrite: {path: {type: ReplaceFullPath, replaceFullPath: new}}}]}",
            "filters[0].urlRewrite.path.replaceFullPath",
            "\"new\" is not a path",
        ),
    ] {
        let refused = refused(rule);
        let reason = Reason::UnsupportedValue;
        assert_eq!(refused, [(format!("spec.rules[0].{field}"), reason, what.to_owned())], "{rule}");
    }
}

#[test]
fn filters_that_do_not_go_together_are_refused() {
    let backend = |filters: &str| format!("backendRefs: [{{name: echo, port: 80, filters: [{filters}]}}]");
    let redirect = backend("{type: RequestRedirect, requestRedirect: {}}");
    let what = "a backend receives the request and cannot redirect it".to_owned();
    let field = "spec.rules[0].backendRefs[0].filters".to_owned();
    assert_eq!(refused(&format!("{{{redirect}}}")), [(field, Reason::IncompatibleFilters, what)]);

    let rewrite = "{type: URLRewrite, urlRewrite: {hostname: a}}";
    let what = "both the rule and a backend have a URLRewrite".to_owned();
    let field = "spec.rules[0].filters".to_owned();
    let both = format!("{{filters: [{rewrite}], {}}}", backend(rewrite));
    assert_eq!(refused(&both), [(field, Reason::IncompatibleFilters, what)]);
}

#[test]
fn a_match_with_an_unsupported_pattern_is_dropped() {
    let rule = "{matches: [{headers: [{name: a, type: RegularExpression, value: '('}]}, {method: GET}]}";
    let matches = route(&with_rules(&format!("[{rule}]"))).rules[0].matches.clone();
    assert_eq!(matches, [Arc::new(Match { method: Some("GET".into()), ..Match::any() })]);
}

#[test]
fn a_route_without_a_parent_is_valid_and_applies_to_no_call() {
    let text = with_rules("[{}]").replace("parentRefs: [{group: '', kind: Service, name: echo}]", "parentRefs: []");
    assert!(route(&text).parents.is_empty());
    let told = "echo.yaml:5: spec.parentRefs of HTTPRoute default/canary: a route without a parent matches no call; name the \
                Service: `parentRefs: [{group: \"\", kind: Service, name: echo}]`";
    assert_eq!(notices(&text), [told]);
}

#[test]
fn hostnames_are_told_to_mean_nothing() {
    let text = with_rules("[{}]") + "  hostnames: [example.org]\n";
    assert_eq!(
        notices(&text),
        [
            "echo.yaml:7: spec.hostnames of HTTPRoute default/canary: ignored: a Service's routes apply to all calls to it; \
          to distinguish names, match the header host"
        ]
    );
}

#[test]
fn a_mirror_of_a_rule_that_redirects_is_told_to_have_no_effect() {
    let mirror = "{type: RequestMirror, requestMirror: {backendRef: {name: echo, port: 80}}}";
    let text = with_rules(&format!("[{{filters: [{{type: RequestRedirect, requestRedirect: {{}}}}, {mirror}]}}]"));
    let told = "echo.yaml:6: spec.rules[0].filters of HTTPRoute default/canary: the RequestMirror has no effect: a rule \
                that redirects sends no requests that could be copied";
    assert_eq!(notices(&text), [told]);
}

#[test]
fn routes_of_other_protocols_are_not_taken_for_misspelt_ones() {
    for kind in ["UDPRoute", "Gateway"] {
        let text = format!("apiVersion: gateway.networking.k8s.io/v1\nkind: {kind}\nmetadata: {{name: a}}\n");
        let manifest = parse(&text).expect("no mistake");
        assert!(lines(&manifest.notices)[0].contains("ignored"), "{kind}");
    }
    let misspelt = "apiVersion: gateway.networking.k8s.io/v1\nkind: HttpRoute\nmetadata: {name: a}\n";
    assert!(problems(misspelt)[0].ends_with("did you mean HTTPRoute?"));
    for kind in ["TcpRoute", "TlsRoute"] {
        let meant = kind.replace("Tcp", "TCP").replace("Tls", "TLS");
        let misspelt = misspelt.replace("HttpRoute", kind);
        assert!(problems(&misspelt)[0].ends_with(&format!("did you mean {meant}?")), "{kind}");
    }
    let version = "apiVersion: gateway.networking.k8s.io/v1alpha2\nkind: GRPCRoute\nmetadata: {name: a}\n";
    assert!(problems(version)[0].ends_with("use gateway.networking.k8s.io/v1"));
}
