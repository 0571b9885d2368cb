use super::*;

#[test]
fn a_program_that_was_killed_ends_as_a_shell_would_say() {
    assert_eq!(exit_code(ExitStatus::from_raw(0)), 0);
    assert_eq!(exit_code(ExitStatus::from_raw(3 << 8)), 3);
    assert_eq!(exit_code(ExitStatus::from_raw(15)), 143);
    assert_eq!(exit_code_of(Signal::INT), 130);
}
