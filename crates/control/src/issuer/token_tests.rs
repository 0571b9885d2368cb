use k8s_openapi::api::authentication::v1::UserInfo;
use serde_json::{Value, json};

use super::*;
use crate::issuer::fixtures;

/// The API server's answer for an accepted token.
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

#[test]
fn tokens_that_no_api_server_would_accept_are_refused_without_a_question() {
    let now = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000);
    let good = json!({
        "iss": "https://kubernetes.default.svc", "aud": ["leno.dev"], "exp": 1_003_600, "sub": "system:serviceaccount:shop:cart"
    });
    let read_with = |field: &str, value: Value| {
        let mut claims = good.clone();
        claims[field] = value;
        read(&fixtures::token(&claims), now)
    };
    assert_eq!(read(&fixtures::token(&good), now).expect("it looks right").issuer, "https://kubernetes.default.svc");
    assert!(read_with("aud", json!("leno.dev")).is_ok());
    assert!(matches!(read_with("aud", json!(["https://kubernetes.default.svc"])), Err(BadToken::WrongAudience)));
    assert!(matches!(read_with("exp", json!(900_000)), Err(BadToken::Refused(_))));
    assert!(matches!(read_with("sub", json!("system:node:node1")), Err(BadToken::NoServiceAccount(_))));
    for rubbish in ["nonsense", "a.b.c", "", "..", &"a".repeat(100_000)] {
        let error = read(rubbish, now).expect_err("rubbish").to_string();
        assert!(error.contains("is not accepted (") && error.len() < 300, "{error}");
    }
}
