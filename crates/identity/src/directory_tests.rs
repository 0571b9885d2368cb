use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use super::{
    BUNDLE_FILE, CERTIFICATE_FILE, KEY_FILE, PROGRAM_KEY_FILE, read_authority, read_bundle, write_authority,
    write_key_pair,
};
use crate::authority::{KeyPairPem, SVID_LIFETIME};
use crate::fixtures::{authority, bundle, id};
use crate::x509::Validity;

fn mode(path: &Path) -> u32 {
    fs::metadata(path).expect("the file is there").permissions().mode() & 0o777
}

fn pair() -> KeyPairPem {
    let now = std::time::SystemTime::now();
    let validity = Validity::starting(now, SVID_LIFETIME);
    authority("example.org").issue_key_pair(&id("cart"), validity, now).expect("a key pair")
}

#[test]
fn an_authority_is_read_from_where_it_was_written() {
    let (directory, ca) = (tempfile::tempdir().expect("a directory"), authority("example.org"));
    let nested = directory.path().join("a/b");
    write_authority(&nested, &ca).expect("written");
    let again = read_authority(&nested).expect("an authority");
    assert_eq!(again.certificate_pem(), ca.certificate_pem());
    assert_eq!(read_bundle(&nested).expect("a bundle"), bundle(&[&ca]));
    let names: Vec<_> =
        fs::read_dir(&nested).expect("a directory").map(|entry| entry.expect("a file").file_name()).collect();
    assert_eq!(names.len(), 3, "no temporary file is left: {names:?}");
}

#[test]
fn only_its_owner_may_read_a_private_key_though_the_file_was_open_before() {
    let directory = tempfile::tempdir().expect("a directory");
    for name in [KEY_FILE, PROGRAM_KEY_FILE, "ca.key.new"] {
        let path = directory.path().join(name);
        fs::write(&path, "old").expect("written");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o666)).expect("opened");
    }
    write_authority(directory.path(), &authority("example.org")).expect("written");
    write_key_pair(directory.path(), &pair()).expect("written");
    assert_eq!(mode(&directory.path().join(KEY_FILE)), 0o600);
    assert_eq!(mode(&directory.path().join(PROGRAM_KEY_FILE)), 0o600);
    assert_eq!(mode(&directory.path().join(CERTIFICATE_FILE)), 0o644);
}

#[test]
fn an_error_names_the_file_and_what_to_do() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = |name: &str| directory.path().join(name).display().to_string();
    let error = read_authority(directory.path()).expect_err("it is empty").to_string();
    assert!(error.starts_with(&path(CERTIFICATE_FILE)) && error.contains("leno ca init"), "{error}");

    write_authority(directory.path(), &authority("example.org")).expect("written");
    fs::write(directory.path().join(KEY_FILE), authority("example.org").key_pem()).expect("written");
    let error = read_authority(directory.path()).expect_err("the key is another's").to_string();
    assert!(error.contains("is for another key; copy both from one directory"), "{error}");

    fs::write(directory.path().join(BUNDLE_FILE), "").expect("written");
    let error = read_bundle(directory.path()).expect_err("it is empty").to_string();
    assert!(error.starts_with(&path(BUNDLE_FILE)) && error.contains("write at least one trust anchor"), "{error}");

    let error =
        write_authority(Path::new("/proc/none"), &authority("example.org")).expect_err("nobody may").to_string();
    assert!(error.contains("name a directory that this user may write"), "{error}");
}
