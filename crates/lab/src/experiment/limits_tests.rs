use super::*;

#[test]
fn more_connections_than_open_files_are_refused_with_the_number_that_would_do() {
    assert!(enough(800, 1000).is_ok());
    let error = enough(801, 1000).expect_err("one too many").to_string();
    assert!(error.contains("--connections 801") && error.contains("use --connections 800"), "{error}");
}
