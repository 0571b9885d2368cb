//! `leno stat top`: shows a live table of methods in the terminal.
//!
//! `cluster::reader` reads the proxies, `board` turns the readings into figures, `state` applies the keys, `screen` draws.
//! Everything runs in one thread, except that `keys` waits for the keyboard. A slow proxy delays neither keys nor
//! other proxies.

mod board;
mod column;
mod fit;
mod keys;
mod screen;
mod state;

use std::error::Error;
use std::future::pending;
use std::io::{self, IsTerminal};
use std::pin::pin;
use std::time::Duration;

use clap::Args;
use leno_model::settings::parse_duration;
use ratatui::crossterm::event::{Event, KeyEventKind};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc::unbounded_channel;
use tokio::time::{Instant, sleep_until};

use crate::cluster::block_on;
use crate::cluster::progress::sign_of_life;
use crate::cluster::reader::{self, News};
use crate::cluster::source::Source;
use crate::cluster::table::has_colours;
use board::Board;
use keys::Keys;
use screen::Screen;
use state::{Next, State};

/// Delay between a proxy's answer and the next update of the screen, so that one update shows the answers of many
/// proxies.
const GATHER: Duration = Duration::from_millis(150);

/// Name prefix of the metrics that count calls by method. Other metrics are not parsed.
const PREFIXES: [&str; 1] = ["leno_method_"];

const EVERY_MIN: Duration = Duration::from_secs(1);
const EVERY_MAX: Duration = Duration::from_secs(60);

/// Options of `leno stat top`.
#[derive(Args)]
pub(super) struct Options {
    #[command(flatten)]
    source: Source,
    /// Time between two readings of a proxy: 1s to 1m
    #[arg(long, value_name = "DURATION", default_value = "2s", value_parser = parse_every)]
    every: Duration,
}

impl Options {
    pub(super) fn run(&self) -> Result<(), Box<dyn Error>> {
        if !io::stdout().is_terminal() || std::env::var_os("TERM").is_some_and(|term| term == "dumb") {
            let why =
                "leno stat top needs a terminal on standard output; leno stat methods prints the same figures once";
            return Err(why.into());
        }
        block_on(self.watch())?
    }

    /// Shows the table until the user ends it.
    async fn watch(&self) -> Result<(), Box<dyn Error>> {
        let progress = sign_of_life("listing the proxies");
        let listed = self.source.proxies().await;
        progress.finish_and_clear();
        let proxies = listed?;

        let (sender, mut news) = unbounded_channel();
        let mut reading = pin!(reader::read(&self.source, &proxies, self.every, &PREFIXES, &sender));
        let mut ending = pin!(signalled()?);
        let mut board = Board::default();
        board.take(News::Proxies(proxies.iter().cloned().collect()));
        let mut state = State::new(self.every, board.snapshot());
        let mut due: Option<Instant> = None;

        let mut screen = Screen::open(has_colours())?;
        // Declare `keys` after `screen`: Rust then drops `keys` first, so the keyboard thread stops before the terminal
        // is restored.
        let mut keys = Keys::listen();
        screen.show(&mut state)?;
        loop {
            tokio::select! {
                event = keys.next() => match event? {
                    Event::Key(key) if key.kind == KeyEventKind::Release => continue,
                    Event::Key(key) if state.key(key) == Next::End => return Ok(()),
                    _ => {}
                },
                Some(news) = news.recv() => {
                    board.take(news);
                    due.get_or_insert_with(|| Instant::now() + GATHER);
                    continue;
                }
                () = until(due) => {
                    due = None;
                    state.update(board.snapshot());
                }
                never = &mut reading => match never {},
                () = &mut ending => return Ok(()),
            }
            screen.show(&mut state)?;
        }
    }
}

async fn until(due: Option<Instant>) {
    match due {
        Some(due) => sleep_until(due).await,
        None => pending().await,
    }
}

/// Waits for SIGTERM, SIGHUP or SIGINT. Without a handler, these signals would end the program before it has restored
/// the terminal.
fn signalled() -> io::Result<impl Future<Output = ()>> {
    let (mut terminate, mut hangup) = (signal(SignalKind::terminate())?, signal(SignalKind::hangup())?);
    let mut interrupt = signal(SignalKind::interrupt())?;
    Ok(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = hangup.recv() => {}
            _ = interrupt.recv() => {}
        }
    })
}

fn parse_every(text: &str) -> Result<Duration, String> {
    let every = parse_duration(text).filter(|every| (EVERY_MIN..=EVERY_MAX).contains(every));
    every.ok_or_else(|| "write a duration of 1s to 1m, for example 2s".to_owned())
}

#[cfg(test)]
#[path = "top_tests.rs"]
mod tests;
