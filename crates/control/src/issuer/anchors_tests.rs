use kube::core::Status;
use serde_json::json;

use super::*;

fn refusal((code, reason): (u16, &str), causes: &Value) -> kube::Error {
    let details = json!({ "causes": causes });
    let status = json!({ "status": "Failure", "code": code, "reason": reason, "message": "no", "details": details });
    kube::Error::Api(Box::new(serde_json::from_value::<Status>(status).expect("a status")))
}

#[test]
fn a_namespace_that_is_being_deleted_is_told_from_other_refusals() {
    let terminating = json!([{ "reason": "NamespaceTerminating", "field": "metadata.namespace" }]);
    assert!(is_terminating(&refusal((403, "Forbidden"), &terminating)));
    assert!(!is_terminating(&refusal((403, "Forbidden"), &json!([]))));
    assert!(!is_terminating(&refusal((500, "InternalError"), &terminating)));
}
