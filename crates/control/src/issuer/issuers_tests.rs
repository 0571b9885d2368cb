use super::*;

#[test]
fn until_a_token_is_accepted_every_issuer_may_be_right() {
    let mut issuers = Issuers::default();
    assert!(issuers.may_be("https://kubernetes.default.svc") && issuers.may_be("nonsense"));
    issuers.accepted("https://kubernetes.default.svc".to_owned());
    assert!(issuers.may_be("https://kubernetes.default.svc") && !issuers.may_be("nonsense"));
}

#[test]
fn the_issuers_that_were_accepted_last_are_remembered() {
    let mut issuers = Issuers::default();
    for number in [0, 1, 2, 0, 3, 4] {
        issuers.accepted(number.to_string());
    }
    let known: Vec<_> = (0..5).filter(|number| issuers.may_be(&number.to_string())).collect();
    assert_eq!(known, [0, 2, 3, 4]);
}
