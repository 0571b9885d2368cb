use std::time::SystemTime;

use super::super::material::Material;
use super::*;

fn signing() -> Arc<Signing> {
    let trust_domain = "cluster.local".parse().expect("a trust domain");
    Arc::new(Material::create(trust_domain, SystemTime::now()).expect("an authority").signing())
}

/// Waits until the file contains the anchors of `signing`.
async fn written(path: &Path, signing: &Signing) {
    while !std::fs::read_to_string(path).is_ok_and(|text| text == signing.anchors_pem) {
        sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test]
async fn the_file_has_the_anchors_and_then_those_that_replace_them() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("ca.crt");
    let (first, second) = (signing(), signing());
    let (sender, receiver) = watch::channel(first.clone());
    let followed = async {
        written(&path, &first).await;
        sender.send_replace(second.clone());
        written(&path, &second).await;
    };
    tokio::select! {
        never = keep_bundle_file(Some(&path), receiver) => match never {},
        done = tokio::time::timeout(Duration::from_secs(10), followed) => done.expect("it is written"),
    }
    let left: Vec<_> = std::fs::read_dir(directory.path()).expect("it is there").collect();
    assert_eq!(left.len(), 1, "{left:?}");
}

#[test]
fn what_cannot_be_written_says_why_and_leaves_nothing() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("not-there/ca.crt");
    assert_eq!(write(&path, "anchors").map_err(|error| error.kind()), Err(io::ErrorKind::NotFound));
    assert!(!path.exists());
}
