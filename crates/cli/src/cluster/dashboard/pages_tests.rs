use super::*;

#[test]
fn a_query_is_decoded_and_an_empty_field_is_missing() {
    let query = Query("id=shop%2Fcart&failed=&method=a+b&broken=%zz");
    assert_eq!(query.get("id").as_deref(), Some("shop/cart"));
    assert_eq!((query.get("failed"), query.get("nothing")), (None, None));
    assert_eq!((query.get("method").as_deref(), query.get("broken").as_deref()), (Some("a b"), Some("?")));
}

#[test]
fn answers_have_no_control_and_no_invisible_characters() {
    let json = clean(&json!({ "a\u{7}": ["x\u{202e}y", { "b": "c\u{1b}[2J" }] }));
    assert_eq!(json, r#"{"a?":["x?y",{"b":"c?[2J"}]}"#);
}

#[test]
fn no_file_of_the_page_makes_markup_of_text_or_runs_text() {
    for (path, _, content) in FILES {
        for forbidden in ["innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "new Function"] {
            assert!(!content.contains(forbidden), "{path} has {forbidden}");
        }
    }
}

#[test]
fn every_module_that_a_file_imports_is_served() {
    for (path, content_type, content) in FILES {
        if content_type != JS {
            continue;
        }
        for name in content.lines().filter_map(|line| line.split_once("from './")?.1.split('\'').next()) {
            assert!(FILES.iter().any(|(file, ..)| file.strip_prefix('/') == Some(name)), "{path} imports {name}");
        }
    }
}
