use super::*;

#[test]
fn the_head_of_a_request_is_what_its_fields_say() {
    let mut request = FieldSection::new();
    for (name, value) in
        [(":method", "GET"), (":path", "/a?b"), (":authority", "h"), ("x", "1"), ("y", "2"), ("x", "3")]
    {
        request.push(name.as_bytes(), value.as_bytes());
    }
    let head = Head(&request);
    assert_eq!((head.method(), head.path(), head.authority()), (&b"GET"[..], &b"/a?b"[..], &b"h"[..]));
    assert_eq!(head.values("x").collect::<Vec<_>>(), [b"1", b"3"]);
    assert_eq!(head.values("z").count(), 0);
}
