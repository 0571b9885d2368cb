use super::*;

#[test]
fn the_error_names_the_missing_services_and_what_to_do() {
    let error = missing::<()>().expect_err("nothing is here").to_string();
    assert!(error.contains("destination, policy and identity") && error.contains("leave linkerd out"), "{error}");
    assert!(!error.contains('\n'), "{error}");
}
