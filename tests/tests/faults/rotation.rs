//! Certificates are renewed, and the authority itself is replaced, while connections are made all the time.

use std::fs;
use std::path::Path;
use std::time::Duration;

use leno_tests::backend::Settings;
use leno_tests::load::{Clients, Load};
use leno_tests::manifests::ECHO;
use leno_tests::proxy::{Proxy, wait_for};

use super::sides::{Authority, ServerSide, client_side, echo};

const IN_FLIGHT: usize = 20;
/// In which anything that must happen soon has happened, on a machine with other things to do.
const SOON: Duration = Duration::from_secs(20);
/// A short life: renewals come every 7 to 9 seconds, and are looked for each second.
const LIFETIME: [&str; 2] = ["--svid-lifetime", "10s"];

/// Two servers whose connections live for a second, so that there are handshakes all the time.
async fn start(authority: &Authority, arguments: &[&str]) -> (Vec<ServerSide>, Proxy, Load) {
    let mut servers = Vec::new();
    for name in ["echo0", "echo1"] {
        let settings = Settings { delay: Duration::from_millis(5), ..Settings::default() };
        servers.push(ServerSide::start(authority, name, settings, arguments).await);
    }
    let short_lived = echo(&servers).annotated("leno.dev/max-connection-age", "1s");
    let proxy = client_side(authority, &[short_lived], arguments);
    let load = Clients::connect(proxy.outbound(), ECHO, 4).await.keep_calling(IN_FLIGHT);
    (servers, proxy, load)
}

fn refreshes(proxy: &Proxy, result: &str) -> usize {
    let labels = [format!("result=\"{result}\"")];
    proxy.scrape().sum("control_identity_cert_refreshes_total", &labels.each_ref().map(String::as_str)) as usize
}

/// Waits until all have so many more certificates.
fn wait_for_refreshes(proxies: &[&Proxy], before: &[usize], more: usize) {
    for (proxy, before) in proxies.iter().zip(before) {
        wait_for("a new certificate", SOON, || (refreshes(proxy, "ok") >= before + more).then_some(()));
    }
}

fn handshakes(servers: &[ServerSide]) -> usize {
    let inbound = [r#"direction="inbound""#, r#"peer="src""#, r#"tls="true""#];
    servers.iter().map(|server| server.proxy().scrape().sum("tcp_open_total", &inbound) as usize).sum()
}

fn assert_nothing_failed(proxies: &[&Proxy]) {
    for proxy in proxies {
        let scrape = proxy.scrape();
        assert_eq!(scrape.sum("leno_connections_failed_total", &[]), 0.0, "{}", proxy.log());
        assert_eq!(scrape.sum("leno_proxy_errors_total", &[]), 0.0, "{}", proxy.log());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn certificates_are_renewed_at_full_load_without_a_failed_call() {
    let authority = Authority::new();
    let (servers, proxy, load) = start(&authority, &LIFETIME).await;
    let proxies = [&proxy, servers[0].proxy(), servers[1].proxy()];
    wait_for_refreshes(&proxies, &[1, 1, 1], 2);
    // The first certificates have expired: whoever connects now shows one of the later ones.
    let before = handshakes(&servers);
    load.wait_for_more(100, SOON).await;
    wait_for("more handshakes", SOON, || (handshakes(&servers) > before + 2).then_some(()));
    load.finish().await.assert_nothing_lost();
    assert_nothing_failed(&proxies);
    assert!(proxies.iter().all(|proxy| refreshes(proxy, "error") == 0));
}

/// Replaces a file at once, as one who edits an authority that is in use must.
fn replace(authority: &Authority, name: &str, text: &str) {
    let aside = authority.path().join(format!("{name}.new"));
    fs::write(&aside, text).expect("the directory is ours");
    fs::rename(aside, authority.path().join(name)).expect("the directory is ours");
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).expect("it is there")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_authority_is_replaced_at_full_load_and_the_old_one_trusted_no_more() {
    let (authority, next) = (Authority::new(), Authority::new());
    let (servers, proxy, load) = start(&authority, &[]).await;
    let proxies = [&proxy, servers[0].proxy(), servers[1].proxy()];
    let of_old = authority.issue("ns/default/sa/echo", &[]);
    let [old_anchor, new_anchor] = [&authority, &next].map(|authority| read(&authority.path().join("ca.crt")));

    // As docs/identity.md says it: add the anchor, replace the authority, and remove the old anchor when all have new
    // certificates.
    load.wait_for_more(100, SOON).await;
    replace(&authority, "trust-bundle.pem", &[&old_anchor[..], &new_anchor].concat());
    replace(&authority, "ca.key", &read(&next.path().join("ca.key")));
    replace(&authority, "ca.crt", &new_anchor);
    wait_for_refreshes(&proxies, &[1, 1, 1], 1);
    load.wait_for_more(100, SOON).await;
    let trusts = |anchors: usize| {
        let line = format!("anchors={anchors}");
        proxies.iter().for_each(|proxy| drop(proxy.wait_for_log(&["trust bundle", &line])));
    };
    trusts(2);
    replace(&authority, "trust-bundle.pem", &new_anchor);
    trusts(1);
    let before = handshakes(&servers);
    load.wait_for_more(100, SOON).await;
    wait_for("more handshakes", SOON, || (handshakes(&servers) > before + 4).then_some(()));
    load.finish().await.assert_nothing_lost();
    assert_nothing_failed(&proxies);

    super::certificates::assert_client_is_refused(
        &of_old,
        &servers[0],
        "unknown-anchor",
        &["no anchor of our trust bundle"],
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_issuer_whose_files_are_spoilt_later_takes_nobody_out_of_the_mesh() {
    let authority = Authority::new();
    let (servers, proxy, load) = start(&authority, &[]).await;
    for name in ["ca.key", "ca.crt", "trust-bundle.pem"] {
        replace(&authority, name, "-----BEGIN NOTHING-----\n");
    }
    let line = proxy.wait_for_log(&["the trust bundle cannot be read; the one in use stays", "trust-bundle.pem"]);
    assert!(line.contains("write at least one trust anchor") || line.contains("it is not PEM"), "{line}");
    load.wait_for_more(100, SOON).await;
    let before = handshakes(&servers);
    wait_for("more handshakes", SOON, || (handshakes(&servers) > before + 2).then_some(()));
    load.finish().await.assert_nothing_lost();
    let told = proxy.log().lines().filter(|line| line.contains("trust bundle cannot be read")).count();
    assert_eq!(told, 1, "{}", proxy.log());
}
