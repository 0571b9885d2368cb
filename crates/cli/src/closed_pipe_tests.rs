use super::*;
use crate::inject;

#[test]
fn a_broken_pipe_is_found_among_the_causes_of_an_error() {
    let broken = || io::Error::from(io::ErrorKind::BrokenPipe);
    assert!(is_broken_pipe(&broken()));
    assert!(is_broken_pipe(&inject::Error::Write(broken())));
    assert!(!is_broken_pipe(&inject::Error::Write(io::ErrorKind::StorageFull.into())));
    assert!(!is_cause(&broken()), "the reader of this test's output has not closed the pipe");
}

#[test]
fn a_pipe_is_closed_when_its_reader_has_gone() {
    let (reader, writer) = io::pipe().expect("a pipe");
    assert!(!is_closed(&writer));
    drop(reader);
    assert!(is_closed(&writer));
}
