use super::*;

#[test]
fn each_refusal_is_told_by_its_own_words() {
    for (message, expected) in [
        ("pods is forbidden: User \"jane\" cannot list resource \"pods\" in API group \"\"", Forbidden::Rights),
        ("forbidden: User \"system:anonymous\" cannot get path \"/version\"", Forbidden::Rights),
        (
            "clusterroles.rbac.authorization.k8s.io \"a\" is forbidden: user \"jane\" (groups=[\"b\"]) is attempting to grant RBAC \
             permissions not currently held:",
            Forbidden::Escalation,
        ),
        (
            "admission webhook \"images.example\" denied the request: no tag latest",
            Forbidden::Webhook("images.example"),
        ),
        (
            "pods \"a\" is forbidden: ValidatingAdmissionPolicy 'leno-guard' with binding 'leno-guard' denied request: none",
            Forbidden::Policy("leno-guard"),
        ),
        ("pods \"a\" is forbidden: violates PodSecurity \"baseline:latest\": host namespaces", Forbidden::PodSecurity),
        ("pods \"a\" is forbidden: exceeded quota: small, requested: pods=1, used: pods=2", Forbidden::Quota),
        ("pods \"a\" is forbidden: failed quota: small: must specify limits.cpu", Forbidden::Quota),
        ("pods \"a\" is forbidden: maximum cpu usage per Container is 1, but limit is 2", Forbidden::LimitRange),
        (
            "pods \"a\" is forbidden: unable to create new content in namespace shop because it is being terminated",
            Forbidden::Other,
        ),
        ("<html>blocked</html>", Forbidden::Other),
    ] {
        assert_eq!(Forbidden::of(message), expected, "{message}");
    }
}

#[test]
fn words_that_a_webhook_quotes_do_not_make_its_refusal_one_of_rights() {
    let message = "admission webhook \"a.example\" denied the request: User \"jane\" cannot create resource \"pods\"";
    assert_eq!(Forbidden::of(message), Forbidden::Webhook("a.example"));
}

#[test]
fn a_missing_right_is_told_from_other_refusals() {
    let told = |message: &str| Forbidden::of(message).explain(message);
    let right = told("pods is forbidden: User \"jane\" cannot list resource \"pods\" in API group \"\"");
    assert!(right.what.starts_with("you may not do this: pods is forbidden"), "{right}");
    assert!(right.fix.starts_with("ask an administrator of the cluster for that right"), "{right}");
    for message in ["admission webhook \"a.example\" denied the request: no", "no"] {
        let error = told(message);
        assert_eq!(error.what, format!("the API server refused the request: {message}"));
        assert!(error.fix.starts_with("correct what the message names"), "{error}");
    }
}
