use super::*;

/// An answer of Prometheus 2.42.
const RECORDED: &str = r#"{"status":"success","data":{"resultType":"vector","result":[
    {"metric":{"namespace":"shop","workload":"web","tls":"true"},"value":[1764205200.123,"41.00911"]},
    {"metric":{"namespace":"shop","workload":"cart"},"value":[1764205200.123,"0"]}]}}"#;

fn vector(result: &str) -> Result<Answer, NoAnswer> {
    Answer::parse(format!(r#"{{"status":"success","data":{{"resultType":"vector","result":[{result}]}}}}"#).as_bytes())
}

#[test]
fn the_series_of_a_recorded_answer_are_read() {
    let answer = Answer::parse(RECORDED.as_bytes()).expect("an answer");
    let values: Vec<f64> = answer.series.iter().map(|series| series.value).collect();
    assert_eq!(values, [41.00911, 0.0]);
    assert_eq!(answer.series[0].labels[2], ("tls".to_owned(), "true".to_owned()));
    assert!(answer.warnings.is_empty());
}

#[test]
fn a_value_that_is_no_count_is_left_out() {
    for value in ["NaN", "+Inf", "-1", "many"] {
        let answer = vector(&format!(r#"{{"metric":{{}},"value":[1,"{value}"]}}"#)).expect(value);
        assert_eq!(answer.series, []);
    }
    let histogram = vector(r#"{"metric":{},"histogram":[1,{"count":"1","sum":"2"}]}"#).expect("an answer");
    assert_eq!(histogram.series, []);
}

#[test]
fn the_number_of_series_and_labels_is_limited() {
    let many = |count: usize| vec![r#"{"metric":{},"value":[1,"1"]}"#; count].join(",");
    assert_eq!(vector(&many(SERIES_MAX)).map(|answer| answer.series.len()), Ok(SERIES_MAX));
    assert_eq!(vector(&many(SERIES_MAX + 1)), Err(NoAnswer::TooManySeries));
    let labels = |count: usize| (0..count).map(|label| format!(r#""l{label}":"""#)).collect::<Vec<_>>().join(",");
    let labelled = |count: usize| vector(&format!(r#"{{"metric":{{{}}},"value":[1,"1"]}}"#, labels(count)));
    assert_eq!(labelled(LABELS_MAX).map(|answer| answer.series.len()), Ok(1));
    assert_eq!(labelled(LABELS_MAX + 1), Err(NoAnswer::NotPrometheus));
}

#[test]
fn warnings_and_partial_results_are_kept_and_shortened() {
    let long = "x".repeat(TEXT_MAX + 1);
    let answer = format!(
        r#"{{"status":"success","warnings":["{long}"],"isPartial":true,"data":{{"resultType":"vector","result":[]}}}}"#
    );
    let answer = Answer::parse(answer.as_bytes()).expect("an answer");
    assert_eq!(answer.warnings, ["x".repeat(TEXT_MAX), "the result is partial".to_owned()]);
}

#[test]
fn a_refusal_has_its_reason_and_other_texts_are_not_prometheus() {
    let refused = br#"{"status":"error","errorType":"bad_data","error":"parse error: unexpected end"}"#;
    assert_eq!(Answer::parse(refused), Err(NoAnswer::Refused("parse error: unexpected end".to_owned())));
    let matrix = r#"{"status":"success","data":{"resultType":"matrix","result":[]}}"#;
    let deep = "[".repeat(100_000);
    for other in ["", "<html>", "{}", "[]", "\u{0}", r#"{"status":"success"}"#, matrix, &deep, r#"{"status":1}"#] {
        assert_eq!(Answer::parse(other.as_bytes()), Err(NoAnswer::NotPrometheus), "{other:.60}");
    }
}
