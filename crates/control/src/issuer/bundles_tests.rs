use super::*;

fn map(data: &Value) -> ConfigMap {
    serde_json::from_value(json!({ "metadata": { "name": TRUST_BUNDLE, "namespace": "shop" }, "data": data }))
        .expect("one")
}

#[test]
fn a_bundle_that_is_missing_or_says_something_else_is_written() {
    for found in [None, Some(map(&json!({}))), Some(map(&json!({ "ca.crt": "old" })))] {
        let Some(Patch::Apply(written)) = ConfigMap::correction(found.as_ref(), "new") else {
            panic!("{found:?} is right as it is");
        };
        assert_eq!(written["data"], json!({ "ca.crt": "new" }));
    }
}

#[test]
fn a_bundle_that_says_the_anchors_is_left_alone() {
    let found = map(&json!({ "ca.crt": "new", "note": "somebody's" }));
    assert!(ConfigMap::correction(Some(&found), "new").is_none());
}
