use std::time::Duration;

use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::crossterm::event::KeyCode;
use ratatui::style::{Color, Modifier};

use super::*;
use crate::cluster::stat::top::board::Snapshot;
use crate::cluster::stat::top::board::tests::{many, shop, shop_with_a_dead_proxy};

fn state(shown: Snapshot) -> State {
    State::new(Duration::from_secs(2), shown)
}

fn terminal(state: &mut State, has_colours: bool, width: u16, height: u16) -> Terminal<TestBackend> {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).expect("no terminal is involved");
    terminal.draw(|frame| draw(state, has_colours, frame)).expect("no terminal is involved");
    terminal
}

/// The lines of the screen, without the spaces at their ends.
fn drawn(state: &mut State, width: u16, height: u16) -> Vec<String> {
    let text = terminal(state, true, width, height).backend().to_string();
    text.lines().map(|line| line.trim_matches('"').trim_end().to_owned()).collect()
}

/// Colour and attributes of the first letter of `text` on the screen.
fn style(terminal: &Terminal<TestBackend>, text: &str) -> (Color, Modifier) {
    let buffer = terminal.backend().buffer();
    let width = usize::from(buffer.area.width);
    let lines: Vec<String> =
        buffer.content.chunks(width).map(|cells| cells.iter().map(ratatui::buffer::Cell::symbol).collect()).collect();
    let (line, column) = lines
        .iter()
        .enumerate()
        .find_map(|(at, line)| line.find(text).map(|byte| (at, line[..byte].chars().count())))
        .expect("the text is on the screen");
    let cell = &buffer.content[line * width + column];
    (cell.fg, cell.modifier)
}

#[test]
fn a_terminal_of_120_columns_shows_every_column() {
    assert_eq!(
        drawn(&mut state(shop()), 120, 9),
        [
            "in 100.0 calls/s 100.00 %   out 210.0 calls/s 96.19 %   1 proxy   every 2 s",
            "",
            "WORKLOAD        AT            METHOD                          CALLS/S▼   SUCCESS    P50 MS    P99 MS     MSG/S   EXPIRED",
            "shop/web   out  cart.shop:80  shop.v1.Cart/Add                   200.0   98.00 %       5.0       9.9     400.0    0.50 %",
            "shop/web   in   :8080         GET                                100.0  100.00 %       1.0       2.0         -         -",
            "shop/web   out  payments.ba…  …ayments.v1.Payments/Authorize      10.0   60.00 %     250.0     495.0         -         -",
            "shop/web   out  cart.shop:80  shop.v1.Cart/Watch                   0.0         -         -         -     400.0         -",
            "",
            "q Esc end   ← → s sort   r reverse   ↑ ↓ PageUp PageDown Home End scroll   / filter   p pause",
        ]
    );
}

#[test]
fn a_terminal_of_60_columns_shows_the_most_important_columns() {
    assert_eq!(
        drawn(&mut state(shop_with_a_dead_proxy()), 60, 9),
        [
            "in 100.0/s 100.00 %   out 210.0/s 96.19 %   1/2 proxies",
            "no answer: port 4191 of Pod shop/mail-1 gave no answer: refu",
            "     METHOD                     CALLS/S▼   SUCCESS    P99 MS",
            "out  shop.v1.Cart/Add              200.0   98.00 %       9.9",
            "in   GET                           100.0  100.00 %       2.0",
            "out  …ts.v1.Payments/Authorize      10.0   60.00 %     495.0",
            "out  shop.v1.Cart/Watch              0.0         -         -",
            "",
            "q end  ←→ sort  r reverse  ↑↓ scroll  / filter  p pause",
        ]
    );
}

#[test]
fn keys_change_what_is_drawn() {
    let mut state = state(many(30));
    for code in [KeyCode::Down, KeyCode::Char('r'), KeyCode::Char('p'), KeyCode::Char('/'), KeyCode::Char('0')] {
        state.key(code.into());
    }
    assert_eq!(
        drawn(&mut state, 60, 8),
        [
            "in 465.0/s -   1 proxy",
            "PAUSED   lines 1-4 of 30",
            "     AT   METHOD    CALLS/S▲   SUCCESS    P99 MS     MSG/S",
            "in   :80  m.S/M000       1.0         -         -         -",
            "in   :80  m.S/M001       2.0         -         -         -",
            "in   :80  m.S/M002       3.0         -         -         -",
            "in   :80  m.S/M003       4.0         -         -         -",
            "filter: 0   Enter keeps  Esc clears",
        ]
    );
}

#[test]
fn low_success_is_yellow_or_red_or_without_colours_bold() {
    let coloured = terminal(&mut state(shop()), true, 120, 9);
    assert_eq!(style(&coloured, "98.00 %").0, Color::Yellow);
    assert_eq!(style(&coloured, "60.00 %").0, Color::Red);
    let plain = terminal(&mut state(shop_with_a_dead_proxy()), false, 120, 9);
    for text in ["98.00 %", "60.00 %", "1/2 proxies", "no answer"] {
        assert_eq!(style(&plain, text), (Color::Reset, Modifier::BOLD), "{text}");
    }
    assert!(plain.backend().buffer().content.iter().all(|cell| (cell.fg, cell.bg) == (Color::Reset, Color::Reset)));
}

#[test]
fn without_rows_the_screen_says_why() {
    let body = |snapshot| drawn(&mut state(snapshot), 60, 9)[2].clone();
    assert_eq!(body(Snapshot::default()), "no proxy runs here; -n NAME or -A looks elsewhere");
    assert_eq!(body(Snapshot { proxies: 1, ..Snapshot::default() }), "counting for 2 s");
    let silent = vec!["refused".to_owned()];
    assert_eq!(body(Snapshot { proxies: 1, silent, ..Snapshot::default() }), "no proxy answers");
    let counted = Snapshot { proxies: 1, counted: 1, ..Snapshot::default() };
    assert_eq!(body(counted), "no method has had a call since the start");
    let mut state = state(shop());
    state.key(KeyCode::Char('/').into());
    state.key(KeyCode::Char('#').into());
    assert_eq!(drawn(&mut state, 60, 9)[2], "no method matches the filter");
}

#[test]
fn any_size_of_terminal_can_be_drawn() {
    for (width, height) in [(1, 1), (10, 3), (60, 2), (60, 5), (500, 200)] {
        terminal(&mut state(many(30)), true, width, height);
    }
}
