use super::*;
use crate::cluster::prometheus::tests::recorded;
use crate::cluster::source::tests::measured;

#[test]
fn callers_are_named_by_their_identity_and_the_most_frequent_is_first() {
    let web = measured(
        "request_total{direction=\"inbound\",tls=\"true\",client_id=\"spiffe://c/ns/shop/sa/cart\"} 100\n\
         response_total{direction=\"inbound\",tls=\"true\",client_id=\"spiffe://c/ns/shop/sa/cart\",classification=\"success\"} 99\n\
         response_total{direction=\"inbound\",tls=\"true\",client_id=\"spiffe://c/ns/shop/sa/cart\",classification=\"failure\"} 1\n\
         request_total{direction=\"inbound\",tls=\"no_identity\",no_tls_reason=\"no_tls_from_remote\"} 280\n\
         request_total{direction=\"inbound\",tls=\"true\",client_id=\"\"} 20\n\
         request_total{direction=\"inbound\",tls=\"no_identity\",no_tls_reason=\"probe\"} 100\n\
         request_total{direction=\"inbound\",tls=\"unknown\"} 100\n\
         inbound_http_authz_deny_total{tls=\"no_identity\",no_tls_reason=\"no_tls_from_remote\",authz_name=\"a\"} 200\n\
         inbound_http_authz_deny_total{tls=\"no_identity\",no_tls_reason=\"no_tls_from_remote\",authz_name=\"b\"} 100\n\
         inbound_http_authz_deny_total{tls=\"true\",client_id=\"spiffe://c/ns/shop/sa/cart\"} 0\n\
         inbound_tcp_authz_deny_total{tls=\"true\",client_id=\"spiffe://c/ns/shop/sa/spy\"} 5\n\
         request_total{direction=\"outbound\",tls=\"true\",server_id=\"spiffe://c/ns/shop/sa/db\"} 100",
    );
    let window = Duration::from_secs(10);
    let text = table(&rows(&web, window), window);
    assert_eq!(table(&rows(&recorded(&web, &WANTED), window), window), text);
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(
        lines[..4],
        [
            "CLIENT             NAMESPACE   NAME   MTLS   CALLS/S   SUCCESS   P50 MS   P99 MS   DENIED/S",
            "no identity   ->   shop        web    no        30.0         -        -        -       30.0",
            "shop/cart     ->   shop        web    yes       10.0   99.00 %        -        -        0.0",
            "shop/spy      ->   shop        web    yes        0.0         -        -        -        0.5",
        ]
    );
    assert!(text.contains("leno explain which line denied a call"), "{text}");
    assert!(table(&rows(&measured(""), window), window).starts_with("no workload here was called within 10 s"));
}
