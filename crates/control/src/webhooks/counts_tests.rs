use super::*;

fn answer(allowed: bool, patched: bool) -> AdmissionResponse {
    let patch = patched.then(k8s_openapi::ByteString::default);
    AdmissionResponse { allowed, patch, ..AdmissionResponse::default() }
}

#[test]
fn each_answer_counts_once_where_it_belongs() {
    let counts = Counts::default();
    let answers = [
        (Webhook::Inject, answer(true, true)),
        (Webhook::Inject, answer(true, false)),
        (Webhook::Inject, answer(true, false)),
        (Webhook::Inject, answer(false, false)),
        (Webhook::Validate, answer(true, false)),
        (Webhook::Validate, answer(false, false)),
    ];
    for (webhook, answer) in &answers {
        counts.count(*webhook, Outcome::of(*webhook, answer));
    }
    counts.count(Webhook::Validate, Outcome::Error);
    let mut text = String::new();
    counts.write_metrics(&mut text);
    let name = "leno_control_webhook_requests_total";
    let lines: Vec<_> = text.lines().filter_map(|line| line.strip_prefix(name)).collect();
    let expected = [
        "{webhook=\"inject\",answer=\"injected\"} 1",
        "{webhook=\"inject\",answer=\"skipped\"} 2",
        "{webhook=\"inject\",answer=\"refused\"} 1",
        "{webhook=\"inject\",answer=\"error\"} 0",
        "{webhook=\"validate\",answer=\"allowed\"} 1",
        "{webhook=\"validate\",answer=\"refused\"} 1",
        "{webhook=\"validate\",answer=\"error\"} 1",
    ];
    assert_eq!(lines, expected);
}
