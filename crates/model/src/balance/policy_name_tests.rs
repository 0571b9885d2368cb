use super::*;

#[test]
fn every_policy_is_read_back_from_the_name_it_shows() {
    for policy in Policy::ALL {
        assert_eq!(policy.to_string().parse(), Ok(policy));
    }
}

#[test]
fn an_unknown_name_is_told_every_allowed_one() {
    let error = "fastest".parse::<Policy>().expect_err("no such policy").to_string();
    for policy in Policy::ALL {
        assert!(error.contains(policy.name()), "{error}");
    }
}

#[test]
fn names_are_matched_exactly() {
    assert_eq!("Latency".parse::<Policy>(), Err(UnknownPolicy));
    assert_eq!("round_robin".parse::<Policy>(), Err(UnknownPolicy));
    assert_eq!("".parse::<Policy>(), Err(UnknownPolicy));
}
