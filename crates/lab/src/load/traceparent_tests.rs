use super::*;

#[test]
fn each_call_has_a_trace_of_its_own_in_the_form_of_the_standard() {
    let [one, other] = [(); 2].map(|()| new_traceparent().to_str().expect("ASCII").to_owned());
    let parts: Vec<&str> = one.split('-').collect();
    assert_eq!(parts.iter().map(|part| part.len()).collect::<Vec<_>>(), [2, 32, 16, 2], "{one}");
    assert!(parts.concat().bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f')), "{one}");
    assert_eq!((parts[0], parts[3]), ("00", "00"));
    assert_ne!(parts[1], other.split('-').nth(1).expect("a trace"), "two calls with one trace");
}
