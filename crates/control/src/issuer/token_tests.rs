use k8s_openapi::api::authentication::v1::UserInfo;

use super::*;

/// What the API server says of a token that it accepts.
fn accepted(user: &str, audiences: &[&str]) -> TokenReviewStatus {
    TokenReviewStatus {
        authenticated: Some(true),
        audiences: Some(audiences.iter().map(|&audience| audience.to_owned()).collect()),
        user: Some(UserInfo { username: Some(user.to_owned()), ..UserInfo::default() }),
        error: None,
    }
}

#[test]
fn a_service_accounts_token_names_its_workload() {
    let found = workload(accepted("system:serviceaccount:shop:cart", &["leno.dev"])).expect("a workload");
    assert_eq!(found.to_string(), "ns/shop/sa/cart");
}

#[test]
fn a_token_that_is_not_accepted_or_for_another_audience_is_refused() {
    let refused = TokenReviewStatus { error: Some("expired".to_owned()), ..TokenReviewStatus::default() };
    assert!(workload(refused).is_err_and(|error| error.to_string().contains("(expired)")));
    for audiences in [&[][..], &["https://kubernetes.default.svc"]] {
        let found = workload(accepted("system:serviceaccount:shop:cart", audiences));
        assert!(matches!(found, Err(BadToken::WrongAudience)), "{audiences:?}");
    }
}

#[test]
fn a_user_that_is_no_service_account_is_refused() {
    for user in ["system:node:node1", "admin", "", "system:serviceaccount:shop", "system:serviceaccount:shop:a/b"] {
        let found = workload(accepted(user, &["leno.dev"]));
        assert!(matches!(found, Err(BadToken::NoServiceAccount(_))), "{user:?}");
    }
}
