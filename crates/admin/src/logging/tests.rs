use std::io;
use std::sync::{Arc, Mutex};

use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::{fmt as lines, registry};

use super::{LogFilter, LogLevels};

fn filter(text: &str) -> LogFilter {
    text.parse().expect(text)
}

#[test]
fn levels_are_read_for_everything_and_by_target() {
    for text in ["off", "info", "INFO", "info,leno_proxy=debug", "leno_proxy::worker=trace", " warn\n"] {
        assert_eq!(filter(text).to_string(), text.trim());
    }
}

#[test]
fn a_word_that_is_no_level_is_refused() {
    for text in ["", "loud", "info,leno_proxy", "leno_proxy=loud", "info,,debug"] {
        let error = text.parse::<LogFilter>().expect_err(text);
        assert!(error.to_string().contains("info,leno_proxy=debug"));
    }
}

#[test]
fn levels_change_while_the_log_runs() {
    let written = Written::default();
    let sink = written.clone();
    let (levels, layer) = LogLevels::new(filter("info"));
    let lines = lines::layer().with_ansi(false).with_writer(move || sink.clone());
    tracing::subscriber::with_default(registry().with(layer).with(lines), || {
        tracing::debug!("hidden");
        levels.set(filter("info,leno_proxy=debug")).expect("the log lives");
        tracing::debug!(target: "leno_proxy", "shown");
        tracing::debug!(target: "hyper", "hidden too");
    });
    let text = written.text();
    assert!(text.contains("shown") && !text.contains("hidden"), "{text}");
    assert_eq!(levels.text(), "info,leno_proxy=debug");
}

#[test]
fn a_change_of_levels_is_logged_with_both_whatever_they_are() {
    let written = Written::default();
    let sink = written.clone();
    let (levels, layer) = LogLevels::new(filter("off"));
    let lines = lines::layer().with_ansi(false).with_writer(move || sink.clone());
    tracing::subscriber::with_default(registry().with(layer).with(lines), || {
        for to in ["off,leno_admin=off", "off", "error", "leno_admin::log_levels=off", "trace"] {
            levels.set(filter(to)).expect("the log lives");
        }
    });
    let text = written.text();
    for (from, to) in [
        ("off", "off,leno_admin=off"),
        ("off,leno_admin=off", "off"),
        ("off", "error"),
        ("error", "leno_admin::log_levels=off"),
        ("leno_admin::log_levels=off", "trace"),
    ] {
        assert!(text.contains(&format!("from=\"{from}\" to=\"{to}\"")), "{from} {to}: {text}");
    }
    assert_eq!(text.matches(" WARN ").count(), 5, "{text}");
}

#[derive(Clone, Default)]
struct Written(Arc<Mutex<Vec<u8>>>);

impl Written {
    fn text(&self) -> String {
        String::from_utf8(self.0.lock().expect("nobody panicked").clone()).expect("it is text")
    }
}

impl io::Write for Written {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().expect("nobody panicked").extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
