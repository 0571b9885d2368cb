use super::*;

#[test]
fn members_are_trimmed_and_empty_ones_left_out() {
    let all: Vec<&[u8]> = members(b" a,\tb ,, c d ,").collect();
    assert_eq!(all, [&b"a"[..], b"b", b"c d"]);
    assert_eq!(members(b"").count(), 0);
}

#[test]
fn a_member_is_found_in_whatever_case_and_never_as_a_part() {
    assert!(contains(b"close, TE", b"te"));
    assert!(!contains(b"closed, note", b"close"));
}
