use tonic::Code;

use super::*;

#[test]
fn a_broken_connection_is_told_as_such_and_not_by_its_library() {
    let reset = io::Error::from(io::ErrorKind::ConnectionReset);
    let text = explain_status(&Status::from_error(Box::new(reset)));
    assert!(text.starts_with("the connection to the control plane broke: connection reset; if this repeats"), "{text}");
}

#[test]
fn the_control_planes_own_answer_is_kept() {
    assert_eq!(
        explain_status(&Status::new(Code::PermissionDenied, "the token has expired; mount another")),
        "the token has expired; mount another"
    );
    let silent = explain_status(&Status::new(Code::Unavailable, ""));
    assert_eq!(silent, "the control plane answered Unavailable without a reason; look at its log");
}
