use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use tempfile::TempDir;

use super::Directory;

fn files(word: &str) -> [(&'static str, String); 2] {
    [("tls.crt", format!("certificate {word}")), ("tls.key", format!("key {word}"))]
}

fn read(directory: &Directory, file: &str) -> String {
    fs::read_to_string(directory.path().join(file)).expect("there is such a file")
}

#[test]
fn files_are_replaced_and_old_generations_go() {
    let place = TempDir::new().expect("a directory");
    let directory = Directory::open(&place.path().join("grpc")).expect("it is made");
    for word in ["one", "two", "three"] {
        directory.replace(&files(word)).expect("there is room");
        assert_eq!(read(&directory, "tls.crt"), format!("certificate {word}"));
        assert_eq!(read(&directory, "tls.key"), format!("key {word}"));
        // Four entries: the two files as links, the link to the generation, and the generation itself.
        assert_eq!(fs::read_dir(directory.path()).expect("a directory").count(), 4);
    }
}

#[test]
fn every_user_may_read_and_only_the_owner_write() {
    let place = TempDir::new().expect("a directory");
    let directory = Directory::open(place.path()).expect("it is there");
    directory.replace(&files("one")).expect("there is room");
    let mode =
        |name: &str| fs::metadata(directory.path().join(name)).expect("it is there").permissions().mode() & 0o777;
    assert_eq!((mode("tls.key"), mode("tls.crt"), mode("..data")), (0o444, 0o444, 0o755));
}

#[test]
fn a_failure_leaves_the_old_files_and_no_half_of_the_new() {
    let place = TempDir::new().expect("a directory");
    let directory = Directory::open(place.path()).expect("it is there");
    directory.replace(&files("one")).expect("there is room");
    let wrong = [("tls.crt", "certificate two".to_owned()), ("no/such/directory", String::new())];
    directory.replace(&wrong).expect_err("it cannot be written");
    assert_eq!(
        (read(&directory, "tls.crt"), read(&directory, "tls.key")),
        ("certificate one".into(), "key one".into())
    );
    assert_eq!(fs::read_dir(directory.path()).expect("a directory").count(), 4);
}

#[test]
fn a_reader_never_sees_a_part_of_a_file() {
    let place = TempDir::new().expect("a directory");
    let directory = Directory::open(place.path()).expect("it is there");
    let long = |c: &str| [("tls.crt", c.repeat(100_000))];
    directory.replace(&long("a")).expect("there is room");
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            for turn in 0..200 {
                directory.replace(&long(if turn % 2 == 0 { "b" } else { "a" })).expect("there is room");
            }
            is_over.store(true, Ordering::Relaxed);
        });
        while !is_over.load(Ordering::Relaxed) {
            // Reading may fail, because the generation may be replaced between the resolution of the path's two links.
            // gRPC would then read again.
            if let Ok(text) = fs::read_to_string(directory.path().join("tls.crt")) {
                assert_eq!(text.len(), 100_000);
                assert!(text.bytes().all(|byte| byte == text.as_bytes()[0]));
            }
        }
    });
}

#[test]
fn a_directory_that_cannot_be_made_is_found_at_the_start() {
    let place = TempDir::new().expect("a directory");
    fs::write(place.path().join("file"), "").expect("there is room");
    Directory::open(&place.path().join("file")).expect_err("it is a file");
}
