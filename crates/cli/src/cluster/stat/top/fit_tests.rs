use super::*;
use crate::cluster::stat::top::board::tests::shop;

fn heads(width: usize, sorted: Column) -> Vec<&'static str> {
    let shop = shop();
    let rows: Vec<&Row> = shop.rows.iter().collect();
    let fitted = fit(&rows, width, sorted);
    let taken = fitted.iter().map(|(_, width)| width + GAP).sum::<usize>() - GAP;
    assert!(taken <= width, "{taken} of {width}");
    fitted.iter().map(|(column, _)| column.head()).filter(|head| !head.is_empty()).collect()
}

#[test]
fn a_narrow_terminal_leaves_out_the_least_important_columns() {
    let all = ["WORKLOAD", "AT", "METHOD", "CALLS/S", "SUCCESS", "P50 MS", "P99 MS", "MSG/S", "EXPIRED"];
    assert_eq!(heads(200, Column::Calls), all);
    assert_eq!(
        heads(100, Column::Calls),
        ["AT", "METHOD", "CALLS/S", "SUCCESS", "P50 MS", "P99 MS", "MSG/S", "EXPIRED"]
    );
    assert_eq!(heads(80, Column::Calls), ["AT", "METHOD", "CALLS/S", "SUCCESS", "P99 MS", "MSG/S"]);
    assert_eq!(heads(60, Column::Calls), ["METHOD", "CALLS/S", "SUCCESS", "P99 MS"]);
    assert_eq!(heads(40, Column::Calls), ["METHOD", "CALLS/S", "SUCCESS"]);
}

#[test]
fn the_burn_rate_has_a_column_if_a_method_has_an_objective() {
    let mut shop = shop();
    shop.rows[0].objective = Some(Default::default());
    let rows: Vec<&Row> = shop.rows.iter().collect();
    assert_eq!(fit(&rows, 200, Column::Calls).last().map(|(column, _)| column.head()), Some("BURN"));
}

#[test]
fn the_sorted_column_stays() {
    assert_eq!(heads(60, Column::Expired), ["METHOD", "CALLS/S", "SUCCESS", "EXPIRED"]);
}

#[test]
fn without_rows_and_without_width_nothing_panics() {
    assert!(!fit(&[], 0, Column::Calls).is_empty());
}

#[test]
fn methods_lose_their_beginning_and_other_texts_their_end() {
    let cut = |column, text: &str, most| cut(column, text.to_owned(), most);
    assert_eq!(cut(Column::Method, "shop.v1.Cart/Add", 9), "…Cart/Add");
    assert_eq!(cut(Column::At, "cart.shop:80", 9), "cart.sho…");
    assert_eq!(cut(Column::At, "cart", 4), "cart");
    assert_eq!(cut(Column::At, "日本語日本語", 7), "日本語…", "each of these letters takes two columns");
    assert_eq!(cut(Column::At, "cart", 1), "…");
}
