use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tempfile::TempDir;
use tokio::time::timeout;

use super::{QUIET, RECHECK_INTERVAL, Watch};

/// A time within which the watch notices a change even on a slow machine.
const LONG: Duration = Duration::from_secs(20);

fn directory() -> TempDir {
    TempDir::new().expect("there is room")
}

fn watch(path: &Path) -> Watch {
    Watch::new(path).expect("it is there")
}

fn write(directory: &Path, name: &str) {
    fs::write(directory.join(name), "kind: List").expect("there is room");
}

async fn assert_changes(watch: &mut Watch) {
    timeout(LONG, watch.changed()).await.expect("a change is noticed").expect("the watch works");
}

async fn assert_does_not_change(watch: &mut Watch) {
    assert!(timeout(4 * QUIET, watch.changed()).await.is_err(), "nothing happened");
}

#[tokio::test]
async fn a_missing_directory_and_a_file_cannot_be_watched() {
    let directory = directory();
    write(directory.path(), "a.yaml");
    assert!(Watch::new(&directory.path().join("missing")).is_err());
    assert!(Watch::new(&directory.path().join("a.yaml")).is_err());
}

#[tokio::test]
async fn a_file_that_comes_changes_or_goes_is_noticed_once() {
    let directory = directory();
    let mut watch = watch(directory.path());
    assert_does_not_change(&mut watch).await;

    write(directory.path(), "a.yaml");
    assert_changes(&mut watch).await;
    assert_does_not_change(&mut watch).await;

    write(directory.path(), "a.yaml");
    assert_changes(&mut watch).await;

    fs::rename(directory.path().join("a.yaml"), directory.path().join("b.yaml")).expect("it is ours");
    assert_changes(&mut watch).await;

    fs::remove_file(directory.path().join("b.yaml")).expect("it is ours");
    assert_changes(&mut watch).await;
    assert_does_not_change(&mut watch).await;
}

#[tokio::test]
async fn the_swap_of_a_config_map_is_noticed() {
    let directory = directory();
    symlink("..1", directory.path().join("..data")).expect("there is room");
    let mut watch = watch(directory.path());
    symlink("..2", directory.path().join("..data_tmp")).expect("there is room");
    fs::rename(directory.path().join("..data_tmp"), directory.path().join("..data")).expect("it is ours");
    assert_changes(&mut watch).await;
}

#[tokio::test]
async fn a_file_that_is_being_written_is_not_taken_in_before_it_rests() {
    let directory = directory();
    let mut watch = watch(directory.path());
    let path = directory.path().to_owned();
    let writer = std::thread::spawn(move || {
        let write = |_| {
            let start = Instant::now();
            write(&path, "a.yaml");
            std::thread::sleep(QUIET / 5);
            start
        };
        (0..10).map(write).collect::<Vec<_>>()
    });
    assert_changes(&mut watch).await;
    let taken_in = Instant::now();
    let mut moments = writer.join().expect("it wrote");
    moments.push(taken_in);
    // Check the longest pause between two writes, or between the last write and the notice. On a busy machine, the
    // writer itself may pause for `QUIET`, and the notice then comes before the last write.
    let rested = moments.windows(2).map(|pair| pair[1].saturating_duration_since(pair[0])).max();
    assert!(rested >= Some(QUIET), "taken in after {rested:?}");
}

#[tokio::test]
async fn a_directory_that_never_rests_is_taken_in_all_the_same() {
    let directory = directory();
    let mut watch = watch(directory.path());
    let path = directory.path().to_owned();
    let stop = Arc::new(());
    let stopped = Arc::downgrade(&stop);
    let writer = std::thread::spawn(move || {
        while stopped.strong_count() > 0 {
            write(&path, "a.yaml");
            std::thread::sleep(Duration::from_millis(5));
        }
    });
    assert_changes(&mut watch).await;
    assert!(!writer.is_finished());
    drop(stop);
    writer.join().expect("it wrote");
}

#[tokio::test]
async fn a_directory_that_is_removed_and_made_again_is_watched_again() {
    let parent = directory();
    let path = parent.path().join("config");
    fs::create_dir(&path).expect("there is room");
    let mut watch = watch(&path);

    fs::remove_dir(&path).expect("it is ours");
    assert_changes(&mut watch).await;

    fs::create_dir(&path).expect("there is room");
    assert_changes(&mut watch).await;
    write(&path, "a.yaml");
    assert_changes(&mut watch).await;
}

#[tokio::test]
async fn a_link_that_is_pointed_elsewhere_is_noticed() {
    let parent = directory();
    for version in ["1", "2"] {
        fs::create_dir(parent.path().join(version)).expect("there is room");
    }
    let path = parent.path().join("current");
    symlink("1", &path).expect("there is room");
    let mut watch = watch(&path);

    fs::remove_file(&path).expect("it is ours");
    symlink("2", &path).expect("there is room");
    let start = Instant::now();
    assert_changes(&mut watch).await;
    assert!(start.elapsed() < 3 * RECHECK_INTERVAL);
    write(&parent.path().join("2"), "a.yaml");
    assert_changes(&mut watch).await;
}
