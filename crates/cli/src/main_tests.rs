use super::*;

fn parse(line: &str) -> Result<Cli, String> {
    Cli::try_parse_from(line.split_whitespace()).map_err(|error| error.to_string())
}

#[test]
fn the_options_of_every_command_are_consistent() {
    Cli::command().debug_assert();
}

#[test]
fn prometheus_replaces_proxies_and_the_cluster() {
    const URL: &str = "--prometheus http://127.0.0.1:9090";
    for table in ["stat", "stat deploy/web", "stat methods", "stat edges -A", "stat routes -n shop"] {
        parse(&format!("leno {table} {URL} --window 7d")).unwrap_or_else(|why| panic!("{table}: {why}"));
        for other in ["--admin 127.0.0.1:4191", "--context kind"] {
            let refused = parse(&format!("leno {table} {URL} {other}")).err().unwrap_or_default();
            assert!(refused.contains("cannot be used with"), "{table} {other}: {refused}");
        }
    }
    for live in ["stat streams", "stat top", "tap"] {
        assert!(parse(&format!("leno {live} {URL}")).is_err_and(|why| why.contains("unexpected argument")), "{live}");
    }
    assert!(parse("leno stat --prometheus-token-file token").is_err_and(|why| why.contains("--prometheus <URL>")));
    assert!(
        parse("leno stat --prometheus 127.0.0.1:9090").is_err_and(|why| why.contains("write the URL of Prometheus"))
    );
}

#[test]
fn a_namespace_does_not_apply_to_a_directory_of_manifests() {
    let refused = parse("leno explain a.B/C cart:80 --config shop -n shop").err().unwrap_or_default();
    assert!(refused.contains("cannot be used with"), "{refused}");
    parse("leno explain a.B/C cart:80 --config shop --from shop/web").expect("it is allowed");
}

#[test]
fn the_options_of_inject_are_checked_as_annotations_are() {
    for (option, value) in [
        ("--proxy-image", "leno-proxy:1"),
        ("--proxy-version", ""),
        ("--trust-domain", "Corp.Example"),
        ("--cluster-domain", "a b"),
    ] {
        let refused = Cli::try_parse_from(["leno", "inject", "web.yaml", option, value]).err();
        let refused = refused.expect(option).to_string();
        assert!(refused.contains(&format!("for '{option}")) && refused.contains(": use "), "{refused}");
    }
}
