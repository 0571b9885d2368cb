use super::*;

#[test]
fn a_digest_is_the_same_in_every_build() {
    // The first 64 bits of the example in FIPS 180-2, appendix B.1.
    assert_eq!(digest(b"abc"), 0xba78_16bf_8f01_cfea);
}
