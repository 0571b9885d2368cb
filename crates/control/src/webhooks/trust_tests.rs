use super::*;

fn validator(bundles: &[Option<&str>]) -> ValidatingWebhookConfiguration {
    let webhooks: Vec<Value> = bundles
        .iter()
        .enumerate()
        .map(|(index, bundle)| {
            json!({
                "name": format!("{index}.validate.leno.dev"),
                "clientConfig": { "caBundle": bundle.map(|text| ByteString(text.as_bytes().to_vec())) },
                "admissionReviewVersions": ["v1"],
                "sideEffects": "None",
            })
        })
        .collect();
    serde_json::from_value(json!({ "webhooks": webhooks })).expect("a configuration")
}

fn changed(found: &ValidatingWebhookConfiguration) -> Option<Value> {
    match ValidatingWebhookConfiguration::correction(Some(found), "anchors")? {
        Patch::Strategic(patch) => Some(patch),
        other => panic!("{other:?} would own more than the anchors"),
    }
}

#[test]
fn webhooks_with_other_anchors_or_none_are_corrected_and_nothing_else_is_named() {
    let patch = changed(&validator(&[None, Some("anchors"), Some("old")])).expect("a change");
    let expected = |name: &str| json!({ "name": name, "clientConfig": { "caBundle": "YW5jaG9ycw==" } });
    assert_eq!(patch, json!({ "webhooks": [expected("0.validate.leno.dev"), expected("2.validate.leno.dev")] }));
}

#[test]
fn a_configuration_that_is_right_or_is_not_there_is_left_alone() {
    assert_eq!(changed(&validator(&[Some("anchors"), Some("anchors")])), None);
    assert_eq!(changed(&validator(&[])), None);
    assert!(ValidatingWebhookConfiguration::correction(None, "anchors").is_none());
    assert!(MutatingWebhookConfiguration::correction(None, "anchors").is_none());
}
