//! Fuzzes admission reviews, which any client of the webhooks may send: any bytes get an answer to the request in them,
//! or a one-line error. A Pod with a proxy gets no second proxy.
#![no_main]

use std::sync::LazyLock;

use leno_install::inject::{Asked, Namespace, Options, Outcome, inject};
use leno_install::patch;
use leno_install::webhook::{AdmissionRequest, AdmissionResponse, AdmissionReview, mutate, validate};
use libfuzzer_sys::fuzz_target;
use serde_json::Value;

/// Maximum length of an error or a warning about a client's bytes.
const LINE_MAX_BYTES: usize = 16_384;

static OPTIONS: LazyLock<Options> = LazyLock::new(Options::default);

static NAMESPACE: LazyLock<Namespace> = LazyLock::new(|| Namespace {
    name: "shop".to_owned(),
    annotations: [("leno.dev/inject".to_owned(), "enabled".into())].into_iter().collect(),
});

fuzz_target!(|bytes: &[u8]| {
    match AdmissionReview::read(bytes) {
        Ok(request) => check(&request),
        Err(error) => check_line(&error.to_string()),
    }
    // Most bytes are no review, so the bytes also become the object of a valid review.
    if let Ok(object) = serde_json::from_slice(bytes) {
        let operation = "CREATE".to_owned();
        check(&AdmissionRequest { operation, object, namespace: "shop".to_owned(), ..AdmissionRequest::default() });
    }
});

fn check(request: &AdmissionRequest) {
    let mutated = mutate(request, &NAMESPACE, &OPTIONS);
    check_answer(request, &mutated);
    check_answer(request, &validate(request));
    if mutated.patch.is_some() {
        check_injected(request.object.clone());
    }
}

fn check_answer(request: &AdmissionRequest, answer: &AdmissionResponse) {
    assert_eq!(answer.uid, request.uid);
    assert_eq!(answer.allowed, answer.status.is_none());
    assert!(answer.allowed || answer.patch.is_none());
    if let Some(status) = &answer.status {
        check_line(&status.message);
    }
    answer.warnings.iter().for_each(|warning| check_line(warning));
}

fn check_injected(mut object: Value) {
    let decided =
        |object: &Value| inject(object, &NAMESPACE, Asked::ByAnnotation, &OPTIONS).map(|decision| decision.outcome);
    let Ok(Outcome::Injected { patch, .. }) = decided(&object) else { panic!("it had a patch: {object}") };
    if patch::apply(&mut object, &patch).is_ok() {
        assert!(!matches!(decided(&object), Ok(Outcome::Injected { .. })), "a second proxy: {object}");
    }
}

fn check_line(line: &str) {
    assert!(line.len() <= LINE_MAX_BYTES && !line.contains('\n'), "{line:?}");
}
