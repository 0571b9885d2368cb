use std::time::Duration;

use super::super::mesh::tests::readings;
use super::*;

#[test]
fn a_row_says_what_is_wrong_and_has_the_level_of_the_worst() {
    let now = UNIX_EPOCH + Duration::from_secs(1_000_000);
    let of = |page: &str| {
        let readings = readings(&[("web", page)]);
        readings.proxies().map(|(member, growth)| row(member, growth, now)).next().expect("a row")
    };
    let good = of("control_identity_cert_expiration_timestamp_seconds 1086400\n\
                   control_identity_cert_refresh_timestamp_seconds 1000000\n\
                   leno_build_info{version=\"1.2.3\"} 1\nleno_control_plane_connected 1\n");
    assert_eq!(
        (good.level, good.state, good.is_connected, &*good.version),
        (Level::Good, "answers", Some(true), "1.2.3")
    );
    let certificate = good.certificate.expect("a certificate");
    assert_eq!((&*certificate.text, certificate.end.as_deref()), ("in 24 h", Some("1970-01-13T13:46:40Z")));

    let cut = of("leno_control_plane_connected 0\n");
    assert_eq!((cut.level, cut.is_connected, cut.certificate.is_none()), (Level::Warning, Some(false), true));
    let ending = of("control_identity_cert_expiration_timestamp_seconds 1000600\n\
                     control_identity_cert_refresh_timestamp_seconds 1000000\n");
    assert_eq!((ending.level, ending.certificate.map(|shown| shown.level)), (Level::Error, Some(Level::Error)));
    assert_eq!(ending.why, ["its certificate ends with its authority: renew the authority"]);
    let worse = of("leno_config_problems 2\nleno_control_plane_connected 0\n");
    assert_eq!(worse.level, Level::Error);
    assert_eq!(worse.why, ["it is not connected to the control plane", "mistakes in its configuration files: 2"]);
    assert_eq!(of("").is_connected, None);
}
