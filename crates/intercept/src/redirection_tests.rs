use clap::Parser;

use super::*;

#[derive(Parser)]
struct Cli {
    #[command(flatten)]
    redirection: Redirection,
}

fn parse(words: &str) -> Result<Redirection, String> {
    let words = ["up"].into_iter().chain(words.split_whitespace());
    Cli::try_parse_from(words).map(|cli| cli.redirection).map_err(|error| error.to_string())
}

fn refused(words: &str, fix: &str) {
    let error = parse(&format!("--proxy-uid 2102 {words}")).expect_err(words);
    assert!(error.contains(fix), "{words}: {error}");
}

#[test]
fn ports_are_single_or_ranges_from_low_to_high() {
    let options = parse("--proxy-uid 2102 --skip-inbound-ports 22,1000-2000").expect("both are fine");
    let ends: Vec<_> = options.skip_inbound_ports.iter().map(|r| (r.first.get(), r.last.get())).collect();
    assert_eq!(ends, [(22, 22), (1000, 2000)]);
    for words in ["0", "65536", "http", "2000-1000", "1-", "-1", "1-2-3"] {
        refused(&format!("--skip-outbound-ports={words}"), "for example 22 or 1000-2000");
    }
}

#[test]
fn subnets_have_a_prefix_that_their_family_allows() {
    let options = parse("--proxy-uid 2102 --skip-subnets 10.0.0.0/8,::/0,fd00::1/128").expect("all are fine");
    let shown: Vec<_> = options.skip_subnets.iter().map(Subnet::to_string).collect();
    assert_eq!(shown, ["10.0.0.0/8", "::/0", "fd00::1/128"]);
    for words in ["10.0.0.0", "10.0.0.0/33", "fd00::/129", "10.0/8", "example.org/8"] {
        refused(&format!("--skip-subnets {words}"), "such as 192.168.0.0/16");
    }
}

#[test]
fn the_proxys_user_must_be_named() {
    let error = parse("").expect_err("there is none");
    assert!(error.contains("--proxy-uid"), "{error}");
}

#[test]
fn both_sides_on_one_port_are_refused_with_the_fix() {
    let options = parse("--proxy-uid 2102 --inbound-port 4140").expect("each is fine");
    let error = options.check().expect_err("they are the same").to_string();
    assert!(error.contains("4140") && error.contains("different ports"), "{error}");
}
