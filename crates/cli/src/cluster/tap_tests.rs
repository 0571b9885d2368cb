use clap::Parser;

use super::*;

#[derive(Parser)]
struct Cli {
    #[command(flatten)]
    tap: Options,
}

#[test]
fn without_a_running_proxy_the_error_says_so() {
    let Cli { tap } = Cli::parse_from(["leno"]);
    let none = Proxies::on_this_machine(Vec::new());
    let error = block_on(tap.read(&none, &Shown::default())).expect("a runtime").expect_err("nothing to watch");
    assert_eq!(error.what, "no Pod that is selected has a running proxy");
}
