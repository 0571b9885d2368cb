use super::*;

fn retry() -> Retry {
    Retry {
        http_codes: [502, 503].into(),
        grpc_codes: GrpcCodes::like_http(&[502, 503]),
        attempts: 5,
        backoff: Duration::from_millis(20),
    }
}

#[test]
fn a_grpc_call_fails_by_its_own_status() {
    let retry = retry();
    assert!(retry.applies_to(503, None) && !retry.applies_to(500, None));
    assert!(retry.applies_to(200, Some(14)) && !retry.applies_to(503, Some(13)) && !retry.applies_to(503, Some(200)));
}

#[test]
fn pauses_double_up_to_ten_times_the_first_and_are_at_most_half_longer() {
    let retry = retry();
    let shortest = [1, 2, 3, 4, 5, 10].map(|number| retry.pause(number, 0).as_millis());
    assert_eq!(shortest, [20, 40, 80, 160, 200, 200]);
    assert_eq!(retry.pause(1, u32::MAX), Duration::from_millis(30));
    assert_eq!(retry.pause(255, u32::MAX), Duration::from_millis(300));
}

#[test]
fn codes_have_names_and_those_of_http_are_the_same_failures() {
    let codes = GrpcCodes::like_http(&[400, 429, 500, 503, 504]);
    let names: Vec<&str> = codes.iter().map(|(_, name)| name).collect();
    assert_eq!(names, ["DEADLINE_EXCEEDED", "RESOURCE_EXHAUSTED", "INTERNAL", "UNAVAILABLE"]);
    assert_eq!(GrpcCodes::default().with(17).with(200), GrpcCodes::default());
    assert_eq!(GrpcCodes::like_http(&[404]), GrpcCodes::default());
    assert!(!codes.contains(31));
}
