use clap::Parser;

use super::*;

#[derive(Parser)]
struct Command {
    #[command(flatten)]
    options: Options,
}

fn options(words: &str) -> Options {
    let words = std::iter::once("run").chain(words.split_whitespace());
    Command::try_parse_from(words).unwrap_or_else(|error| panic!("{error}")).options
}

fn refused(words: &str) -> String {
    match options(words).settings() {
        Err(error) => error.to_string(),
        Ok(_) => panic!("{words} was accepted"),
    }
}

#[test]
fn the_scenarios_of_a_cluster_are_accepted() {
    for scenario in
        ["slow-pod", "connections", "fast-fail", "recover", "ladder", "crowd", "footprint", "rollout", "streams"]
    {
        let accepted = options(&format!("{scenario} --cluster --mesh none,leno")).settings();
        assert!(accepted.is_ok(), "{scenario}: {accepted:?}");
    }
}

#[test]
fn a_scenario_that_starts_proxies_itself_is_refused_with_the_scenarios_that_run() {
    let error = refused("capacity --cluster");
    assert!(error.starts_with("capacity cannot run with --cluster"), "{error}");
    assert!(error.contains("slow-pod, connections, fast-fail, recover, ladder"), "{error}");
}

#[test]
fn options_without_meaning_in_a_cluster_are_refused() {
    for (words, flag) in [
        ("slow-pod --cluster --targets leno", "--targets"),
        ("slow-pod --cluster --pin", "--pin"),
        ("slow-pod --cluster --leno-proxy /x", "--leno-proxy"),
        ("slow-pod --cluster --hedge p95,off", "--hedge"),
        ("slow-pod --cluster --mesh leno,leno", "--mesh"),
        ("rollout --cluster --duration-s 20", "--duration-s 20"),
    ] {
        let error = refused(words);
        assert!(error.starts_with(flag) && !error.contains('\n'), "{words}: {error}");
    }
}

#[test]
fn options_of_a_cluster_need_a_cluster() {
    for words in ["slow-pod --mesh leno", "slow-pod --load-pods 2", "slow-pod --context c", "slow-pod --image i"] {
        let words = std::iter::once("run").chain(words.split_whitespace());
        let error = Command::try_parse_from(words).map(|_| ()).expect_err("an error").to_string();
        assert!(error.contains("--cluster"), "{error}");
    }
}

#[test]
fn a_rollout_in_a_cluster_takes_longer_by_default() {
    assert_eq!(options("rollout --cluster").duration_s(), 120);
    assert_eq!(options("rollout --cluster --duration-s 60").duration_s(), 60);
    assert_eq!(options("rollout").duration_s(), 20);
    assert!(options("rollout --cluster --backends 20").settings().is_ok());
}
