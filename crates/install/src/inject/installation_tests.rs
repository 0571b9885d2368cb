use super::*;

#[test]
fn a_trust_domain_is_what_certificates_may_have() {
    for domain in ["cluster.local", "corp_1.example-2"] {
        assert_eq!(parse_trust_domain(domain).as_deref(), Ok(domain));
    }
    for wrong in ["", "Corp.Example", "a b", "corp/example", &"a".repeat(256)] {
        let why = parse_trust_domain(wrong).expect_err(wrong);
        assert!(why.starts_with("use 1 to 255 lower-case letters"), "{why}");
    }
}

#[test]
fn a_cluster_domain_is_a_dns_name() {
    for domain in ["cluster.local", "c", "prod-1.k8s.example"] {
        assert_eq!(parse_cluster_domain(domain).as_deref(), Ok(domain));
    }
    for wrong in ["", "a b", "Cluster.Local", "cluster.local.", ".local", "a..b", "-a", "a-", &"a".repeat(64)] {
        parse_cluster_domain(wrong).expect_err(wrong);
    }
}

#[test]
fn an_image_and_its_tag_are_checked_as_annotations_are() {
    assert_eq!(parse_image("r.example/leno-proxy").as_deref(), Ok("r.example/leno-proxy"));
    assert_eq!(parse_image("leno-proxy:1"), Err("use an image without its tag".to_owned()));
    assert_eq!(parse_version("0.1.0@sha256:0123").as_deref(), Ok("0.1.0@sha256:0123"));
    assert_eq!(parse_version(""), Err("use a tag, for example 0.1.0".to_owned()));
}
