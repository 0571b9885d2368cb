use super::*;
use crate::cluster::dashboard::mesh::tests::readings;

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

#[test]
fn both_ends_of_each_edge_of_the_graph_are_among_its_nodes() {
    const FROM_WEB: &str =
        "request_total{direction=\"inbound\",target_port=\"80\",client_id=\"spiffe://x/ns/shop/sa/web\"} 8\n";
    const TO_WEB: &str =
        "request_total{direction=\"outbound\",dst_namespace=\"shop\",dst_service=\"web\",dst_port=\"80\"} 0\n";
    // The Service web has no row, because it has no proxy here and receives no calls. But it calls cart, so the graph
    // shows it.
    let mesh = Mesh::of(&readings(&[("cart", FROM_WEB), ("batch", TO_WEB)]));
    let graph: Value = serde_json::from_str(&graph(&mesh)).expect("JSON");
    let list = |name: &str| graph[name].as_array().cloned().unwrap_or_default();
    let (nodes, edges) = (list("nodes"), list("edges"));
    assert!(edges.iter().any(|edge| edge["from"] == "shop/web"), "{graph}");
    for end in edges.iter().flat_map(|edge| [&edge["from"], &edge["to"]]) {
        assert!(nodes.iter().any(|node| node["id"] == *end), "{end} in {graph}");
    }
}
