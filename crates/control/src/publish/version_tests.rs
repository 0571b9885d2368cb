use super::*;

#[test]
fn a_version_is_the_same_in_every_build() {
    // From sha256sum.
    assert_eq!(Version::of(b"leno").to_string(), "1bed8f8a486852b2");
    assert_eq!(Version::of(b"").to_string(), "e3b0c44298fc1c14");
    let resources = [("a", Version::of(b"leno")), ("b", Version::of(b""))];
    assert_eq!(Version::of_resources(resources.into_iter()).to_string(), "5ec3a061fbc3dda1");
}

#[test]
fn a_version_of_a_client_is_read_as_it_was_written() {
    let version = Version::of(b"leno");
    assert_eq!(Version::parse(&version.to_string()), Some(version));
    assert_eq!(["", "x", "e3b0c44298fc1c14e3"].map(Version::parse), [None; 3]);
}
