use super::*;

fn parse(json: &str) -> Result<Recording, serde_json::Error> {
    serde_json::from_str(json)
}

const SMALL: &str = r#"{"measured_ns":1000,"servers_us":[[[5,1],[7,2]]],"failed":3,"not_sent":1,"first_failure":"gone",
    "classes":[[{"grpc":14},1],["connection",2]],"late":1,"held_up_ns":2000,"lateness_us":[[1,3]],
    "timeline":[{"calls":[3],"failed":3}],"windows_us":[[[5,3]]]}"#;

#[test]
fn every_field_is_the_same_after_json() {
    let recording = parse(SMALL).expect("a recording");
    assert_eq!(recording.check(), Ok(()));
    assert_eq!(recording.measured, Duration::from_micros(1));
    assert_eq!(recording.classes, [(FailureClass::Grpc(14), 1), (FailureClass::Connection, 2)]);
    let again = serde_json::to_string(&recording).expect("JSON");
    assert_eq!(parse(&again).expect("a recording"), recording);
    assert_eq!(again, SMALL.replace("\n    ", ""));
}

#[test]
fn what_is_no_recording_is_an_error() {
    for (change, to) in [("[5,1]", "[5]"), ("[5,1]", "[5,-1]"), ("\"grpc\":14", "\"grpc\":70000"), ("1000", "1e3")] {
        assert!(parse(&SMALL.replacen(change, to, 1)).is_err(), "{to}");
    }
    assert!(parse("{}").is_err());
}

#[test]
fn a_violated_limit_is_told_with_its_number() {
    let slice = |servers| Slice { calls: vec![0; servers], failed: 0 };
    let violate = |change: &dyn Fn(&mut Recording)| {
        let mut recording = parse(SMALL).expect("a recording");
        change(&mut recording);
        recording.check().expect_err("a violated limit")
    };
    let huge: Sparse = serde_json::from_str("[[1,18446744073709551615],[2,7]]").expect("pairs");
    let other = FailureClass::Other;
    for (why, text) in [
        (violate(&|r| r.servers_us = vec![Sparse::default(); 1_001]), "1001 servers exceed the limit of 1000"),
        (violate(&|r| r.classes = vec![(other, 1); 66]), "66 classes of failures exceed the limit of 65"),
        (violate(&|r| r.timeline = vec![slice(1); 72_001]), "72001 slices exceed the limit of 72000"),
        (violate(&|r| r.windows_us = vec![huge.clone(); 7_201]), "7201 windows exceed the limit of 7200"),
        (violate(&|r| r.timeline = vec![slice(1), slice(2)]), "a slice has 2 servers instead of 1"),
        (violate(&|r| r.failed = 1 << 41), "2199023255552 failed calls exceed the limit of 1099511627776"),
        (
            violate(&|r| r.not_sent = 1 << 41),
            "2199023255552 calls that were not sent exceed the limit of 1099511627776",
        ),
    ] {
        assert_eq!(why, text);
    }
    let reason = violate(&|r| r.first_failure = Some("ä".repeat(1_001)));
    assert_eq!(reason, "1001 characters of the first failure exceed the limit of 1000");
    assert!(violate(&|r| r.servers_us = vec![huge.clone()]).contains("calls exceed"));
    assert!(violate(&|r| r.windows_us = vec![huge.clone()]).contains("calls in the windows exceed"));
    assert!(violate(&|r| r.lateness_us = huge.clone()).contains("delayed calls exceed"));
    assert!(violate(&|r| r.classes = vec![(other, u64::MAX); 2]).contains("classified calls exceed"));
}
