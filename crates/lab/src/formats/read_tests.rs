use super::super::fixtures::{FORTIO_GRPC, FORTIO_HTTP, GHZ};
use super::*;

fn dir_with(files: &[(&str, &str)]) -> tempfile::TempDir {
    let dir = tempfile::tempdir().expect("a temporary directory");
    for (name, text) in files {
        fs::write(dir.path().join(name), text).expect("it is writable");
    }
    dir
}

fn error_of(text: &str) -> String {
    let dir = dir_with(&[("foreign.json", text)]);
    let error = read(&dir.path().join("foreign.json")).expect_err("no known form").to_string();
    assert!(!error.contains('\n') && error.contains("foreign.json: ") && error.contains("leno lab run"), "{error}");
    error
}

#[test]
fn the_form_is_recognized_by_the_content() {
    let brief = r#"{"Result": {"Latency": {"P99": "1ms"}}, "RetCodes": {"200": 1}}"#;
    let dir = dir_with(&[("a.json", FORTIO_HTTP), ("b.json", GHZ), ("c.json", brief), ("notes.txt", "not read")]);
    let forms: Vec<Form> = read(dir.path()).expect("three results").iter().map(|run| run.form).collect();
    assert_eq!(forms, [Form::Fortio, Form::Ghz, Form::Brief]);
}

#[test]
fn a_file_of_no_form_gets_one_line_with_what_each_form_misses() {
    for text in ["{}", r#"{"latency": 3}"#, r#"{"DurationHistogram": null}"#] {
        let error = error_of(text);
        for missing in ["DurationHistogram", "statusCodeDistribution", "Result.Latency"] {
            assert!(error.contains(missing), "{text}: {error}");
        }
    }
}

#[test]
fn broken_files_get_one_line() {
    for text in ["3", "null", "[]", "\"text\"", "{", "}", "{\"Result\":", "NaN", "\0", &FORTIO_HTTP[..1000]] {
        assert!(error_of(text).contains("not a JSON object"), "{text}");
    }
    for text in ["", " \n"] {
        assert!(error_of(text).contains("the file is empty"), "{text:?}");
    }
    assert!(error_of(r#"{"Result": 3, "RetCodes": {}}"#).contains("wrong in the form Result.Latency: "));
    // The parser's message quotes only a part of the file.
    let long = format!(r#"{{"Result": "{}"}}"#, "x".repeat(100_000));
    assert!(error_of(&long).len() < 1000);
    assert!(error_of(&"[".repeat(100_000)).contains("not a JSON object"));
}

#[test]
fn every_cut_of_a_file_is_refused() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let path = dir.path().join("cut.json");
    for text in [FORTIO_HTTP, GHZ] {
        let text = text.trim_end();
        for cut in (0..text.len()).step_by(97) {
            fs::write(&path, &text[..cut]).expect("it is writable");
            assert!(read(&path).is_err(), "cut after {cut} bytes");
        }
    }
}

#[test]
fn random_damage_gives_an_error_or_possible_figures() {
    for seed in leno_testing::seeds(0..3_000) {
        let mut random = fastrand::Rng::with_seed(seed);
        let mut bytes = random.choice([FORTIO_HTTP, FORTIO_GRPC, GHZ]).unwrap_or_default().as_bytes().to_vec();
        for _ in 0..random.usize(1..20) {
            let at = random.usize(..bytes.len());
            bytes[at] = random.choice(*b"0123456789.-eE,:[]{}\"nPx").unwrap_or_default();
        }
        let text = String::from_utf8(bytes).expect("ASCII");
        if let Ok(run) = measured(&text) {
            assert!(run.clone().checked().is_ok(), "seed {seed}: {run:?}");
        }
    }
}

#[test]
fn a_file_over_the_limit_is_not_read_to_its_end() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let path = dir.path().join("huge.json");
    // Use a sparse file, which takes no disk space.
    File::create(&path).and_then(|file| file.set_len(1 << 40)).expect("a sparse file");
    let error = read(&path).expect_err("too long").to_string();
    assert!(error.contains("longer than 268435456 bytes"), "{error}");
}

#[test]
fn missing_and_empty_directories_are_named() {
    let dir = dir_with(&[("notes.txt", "")]);
    let error = read(dir.path()).expect_err("nothing to read").to_string();
    assert!(error.contains("has neither runs.jsonl nor files"), "{error}");
    let error = read(&dir.path().join("none")).expect_err("nothing to read").to_string();
    assert!(error.starts_with("reading ") && error.contains("none"), "{error}");
    fs::write(dir.path().join("binary.json"), [0xff, 0xfe]).expect("it is writable");
    assert!(read(dir.path()).is_err_and(|error| error.to_string().contains("binary.json")));
}
