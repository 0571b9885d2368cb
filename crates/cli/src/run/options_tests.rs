use clap::Parser;

use super::*;

#[derive(Parser)]
struct Cli {
    #[command(flatten)]
    options: Options,
}

fn parse(words: &str) -> Result<Options, String> {
    let words = ["run"].into_iter().chain(words.split_whitespace());
    Cli::try_parse_from(words).map(|cli| cli.options).map_err(|error| error.to_string())
}

fn refused(words: &str, fix: &str) {
    let error = parse(words).expect_err(words);
    assert!(error.contains(fix), "{words}: {error}");
}

#[test]
fn a_service_and_a_program_are_enough_and_the_rest_has_defaults() {
    let options = parse("--service cart -- ./server --port 9").expect("it is enough");
    assert_eq!(options.program, ["./server", "--port", "9"]);
    assert!(options.ports.is_empty(), "those of the program are its own");
    assert_eq!(options.workload("cart").to_string(), "ns/default/sa/cart");
}

#[test]
fn the_identity_is_that_of_the_service_account_where_one_is_named() {
    let options = parse("--service cart --namespace shop --service-account till -- x").expect("all are fine");
    assert_eq!(options.workload("cart").to_string(), "ns/shop/sa/till");
}

#[test]
fn cleaning_needs_no_program() {
    assert!(parse("--clean").is_ok_and(|options| options.clean));
    refused("--service cart", "PROGRAM");
    refused("-- ./server", "--service");
}

#[test]
fn names_ports_and_networks_are_checked_with_the_fix() {
    refused("--service Cart -- x", "lower-case");
    refused("--service cart --port 0 -- x", "--port");
    refused("--service cart --bridge longer-than-nine -- x", "at most 9");
    refused("--service cart --trust-domain Example.Org -- x", "lower-case");
    refused("--service cart --subnet 10.0.0.0/8 -- x", "16 to 28");
    refused("--service cart --subnet 10.244.77.1/24 -- x", "write 10.244.77.0/24");
}

#[test]
fn the_hosts_of_a_subnet_are_numbered_from_one_and_end_before_the_broadcast_address() {
    let subnet: Subnet = "10.0.16.0/20".parse().expect("a network");
    assert_eq!(subnet.host(1), Ipv4Addr::new(10, 0, 16, 1));
    assert_eq!(subnet.hosts(), 4094);
    assert_eq!(subnet.host(subnet.hosts()), Ipv4Addr::new(10, 0, 31, 254));
    let largest: Subnet = "10.1.0.0/16".parse().expect("a network");
    assert_eq!(largest.host(largest.hosts()), Ipv4Addr::new(10, 1, 255, 254));
}
