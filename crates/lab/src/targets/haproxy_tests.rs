use super::*;

#[test]
fn every_backend_is_a_server_that_speaks_http2_and_leastconn_chooses() {
    let config = config(
        "127.0.0.1:1".parse().expect("an address"),
        &["127.0.0.1:11".parse().expect("an address"), "127.0.0.1:12".parse().expect("an address")],
    );
    let has = |line: &str| config.lines().any(|l| l.trim() == line);
    assert!(has("bind 127.0.0.1:1 proto h2"), "{config}");
    assert!(has("server s0 127.0.0.1:11 proto h2") && has("server s1 127.0.0.1:12 proto h2"), "{config}");
    assert!(has("balance leastconn") && has("nbthread 1"), "{config}");
}
