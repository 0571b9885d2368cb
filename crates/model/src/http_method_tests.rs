use super::known;

#[test]
fn only_the_exact_name_of_a_method_is_known() {
    assert_eq!(known(b"PATCH"), Some("PATCH"));
    for other in [&b""[..], b"get", b"GETS", b"PROPFIND", b"\xff"] {
        assert_eq!(known(other), None);
    }
}
