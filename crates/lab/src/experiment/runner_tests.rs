use super::*;

fn command_of(line: &str) -> String {
    command(line.split(' ').map(str::to_owned), 7)
}

#[test]
fn the_command_repeats_the_same_order_of_runs() {
    assert_eq!(command_of("target/release/leno lab run slow-pod"), "leno lab run slow-pod --seed 7");
    assert_eq!(command_of("leno lab run slow-pod --seed=3"), "leno lab run slow-pod --seed=3");
}
