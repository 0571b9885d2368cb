use super::*;

fn refused(text: &str) -> String {
    Options::read(text).expect_err(text).to_string()
}

#[test]
fn the_default_options_are_valid_and_a_file_changes_some_of_them() {
    assert_eq!(Options::read("{}").expect("nothing is wrong"), Options::default());
    let read = Options::read("{clusterDomain: c.local, proxy: {workers: 2}}").expect("nothing is wrong");
    let proxy = Settings { workers: 2, ..Settings::default() };
    assert_eq!(read, Options { cluster_domain: "c.local".to_owned(), proxy, ..Options::default() });
}

#[test]
fn an_unknown_field_is_an_error_unless_the_reader_leaves_it_out() {
    let text = "{new: {deep: 1}, trustDomain: corp, proxy: {workers: 2, verzion: a}}";
    assert!(refused(text).contains("unknown field"), "{}", refused(text));
    let (read, unknown) = Options::read_known(text).expect("the rest is valid");
    assert_eq!((&*read.trust_domain, read.proxy.workers), ("corp", 2));
    assert_eq!(unknown, ["new", "proxy.verzion"]);
    let known = serde_json::to_string(&Options::default()).expect("JSON is YAML");
    assert_eq!(Options::read_known(&known).expect("nothing is wrong"), (Options::default(), Vec::new()));
    let invalid = Options::read_known("{new: 1, proxy: {workers: 0}}").expect_err("a value is invalid");
    assert!(invalid.to_string().starts_with("proxy.workers: "), "{invalid}");
}

#[test]
fn spaces_that_a_proxy_could_not_parse_are_dropped() {
    let text = "{proxy: {skipInboundPorts: '22, 80', opaquePorts: ' 3306 ', skipSubnets: '10.0.0.0/8, fd00::/8'}}";
    let proxy = Options::read(text).expect("annotations may have spaces too").proxy;
    let networks = "{proxy: {clusterNetworks: ' 10.0.0.0/8, 2001:db8::/32 '}}";
    let networks = Options::read(networks).expect("nothing is wrong").proxy.cluster_networks;
    assert_eq!(networks, "10.0.0.0/8,2001:db8::/32");
    assert_eq!(proxy.skip_inbound_ports, "22,80");
    assert_eq!(proxy.opaque_ports, "3306");
    assert_eq!(proxy.skip_subnets, "10.0.0.0/8,fd00::/8");
}

#[test]
fn a_value_that_a_proxy_could_not_parse_is_refused_by_its_name_in_the_chart() {
    assert_eq!(
        refused("{proxy: {skipInboundPorts: '22;80'}}"),
        "proxy.skipInboundPorts: \"22;80\" does not work; use ports and ranges, for example 22,1000-2000"
    );
    assert_eq!(
        refused("{proxy: {shutdownGrace: 61m}}"),
        "proxy.shutdownGrace: \"61m\" does not work; use a duration, for example 500ms, 30s or 2m, at most 60m"
    );
    assert_eq!(
        refused("{proxy: {traceCollector: 'otel:70000'}}"),
        "proxy.traceCollector: \"otel:70000\" does not work; use a Service or an address and a port, as \
         otel-collector.observability:4317"
    );
    assert_eq!(
        refused("{proxy: {cpuRequest: 100m, cpuLimit: 50m}}"),
        "proxy.cpuRequest: \"100m\" does not work; use at most the value of proxy.cpuLimit, or raise proxy.cpuLimit"
    );
    for (name, options) in [
        ("trustDomain", "{trustDomain: Corp.Example}"),
        ("clusterDomain", "{clusterDomain: Cluster.Local.}"),
        ("proxy.outboundPort", "{proxy: {inboundPort: 5000, outboundPort: 5000}}"),
        ("proxy.adminPort", "{proxy: {adminPort: 4143}}"),
        ("proxy.inboundPort", "{proxy: {inboundPort: 15008}}"),
    ] {
        let refused = refused(options);
        assert!(refused.starts_with(&format!("{name}: ")) && refused.contains(" does not work; use "), "{refused}");
    }
    for (name, field) in [
        ("image.registry", "image: 'a b/leno-proxy'"),
        ("image.version", "version: ''"),
        ("image.pullPolicy", "imagePullPolicy: Sometimes"),
        ("proxy.cpuRequest", "cpuRequest: much"),
        ("proxy.memoryRequest", "memoryRequest: 129Mi"),
        ("proxy.memoryRequest", "memoryLimit: 8Mi"),
        ("proxy.memoryLimit", "memoryLimit: 128m"),
        ("proxy.workers", "workers: 65"),
        ("proxy.logLevel", "logLevel: loud"),
        ("proxy.shutdownGrace", "shutdownGrace: ''"),
        ("proxy.httpPorts", "httpPorts: 8080-80"),
        ("proxy.skipOutboundPorts", "skipOutboundPorts: '25,'"),
        ("proxy.skipSubnets", "skipSubnets: 10.0.0.1"),
        ("proxy.clusterNetworks", "clusterNetworks: 10.0.0.1"),
        ("proxy.clusterNetworks", "clusterNetworks: '10.0.0.0/8,'"),
        ("proxy.clusterNetworks", "clusterNetworks: 10.0.0.1/8"),
        ("proxy.adminPort", "adminPort: 0"),
    ] {
        let refused = refused(&format!("{{proxy: {{{field}}}}}"));
        assert!(refused.starts_with(&format!("{name}: ")) && refused.contains(" does not work; use "), "{refused}");
    }
}

#[test]
fn a_setting_that_may_be_left_out_may_be_empty() {
    let text = "{proxy: {cpuRequest: '', memoryRequest: '', memoryLimit: '', skipSubnets: '', traceCollector: ''}}";
    assert_eq!(Options::read(text).expect("nothing is wrong").proxy.memory_limit, "");
}
