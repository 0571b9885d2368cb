use super::*;

#[test]
fn a_program_that_is_not_there_is_named_with_its_package() {
    let error = run("iptables-of-another-planet", &["-L"], "").expect_err("there is none").to_string();
    assert!(error.contains("iptables-of-another-planet") && error.contains("apt-get install iptables"), "{error}");
}

#[test]
fn a_program_that_fails_is_told_by_its_arguments_and_the_first_thing_that_it_said() {
    let error = run("sh", &["-c", "echo what >&2; echo advice >&2; exit 3"], "").expect_err("it fails").to_string();
    assert!(error.starts_with("sh -c ") && error.ends_with(": what"), "{error}");
    assert_eq!(first_line(b"program v1:\n\n line 3: bad\nadvice\n").as_deref(), Some("program v1: line 3: bad"));
    let silent = run("sh", &["-c", "exit 3"], "").expect_err("it fails").to_string();
    assert!(silent.ends_with("exit status: 3"), "{silent}");
    let none: [&str; 0] = [];
    let bare = run("false", &none, "").expect_err("it fails").to_string();
    assert_eq!(bare, "false: exit status: 1");
}

#[test]
fn a_program_reads_its_input_and_its_output_comes_back() {
    assert_eq!(run("cat", &["-"], "in and out").expect("cat runs"), "in and out");
}
