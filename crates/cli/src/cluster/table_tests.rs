use super::*;

#[test]
fn columns_are_as_wide_as_their_widest_cell_and_numbers_stand_right() {
    let mut table = Table::new(&["NAME", "#CALLS/S", "TLS"]);
    table.row(["web".to_owned(), "7.5".to_owned(), "100 %".to_owned()]);
    table.row(["a-longer-name".to_owned(), "1200.0".to_owned(), "-".to_owned()]);
    assert_eq!(
        table.to_string(),
        "NAME            CALLS/S   TLS\n\
         web                 7.5   100 %\n\
         a-longer-name    1200.0   -\n"
    );
}

#[test]
fn an_empty_table_is_its_head() {
    assert_eq!(Table::new(&["NAME", "AGE"]).to_string(), "NAME   AGE\n");
}
