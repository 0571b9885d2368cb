//! A client that may violate the protocol, and records the proxy's reactions.

use std::io::{self, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crate::wire::{self, Frame, PREFACE, flag, kind};

/// Longest time that one write may block before the attacker checks its clock again.
const WRITE_PATIENCE: Duration = Duration::from_millis(100);

/// The proxy's frames on one connection of an attacker.
#[derive(Debug, Clone, Default)]
pub struct Heard {
    /// Error codes of the GOAWAY frames.
    pub goaways: Vec<u32>,
    /// Streams and error codes of the first thousand RST_STREAM frames.
    pub resets: Vec<(u32, u32)>,
    /// Number of HEADERS frames, which begin answers or are trailers.
    pub headers: u64,
    /// Bytes of DATA.
    pub data_bytes: u64,
    /// The proxy acknowledged SETTINGS.
    pub settings_acknowledged: bool,
    /// The proxy closed the connection.
    pub closed: bool,
}

impl Heard {
    fn note(&mut self, frame: &Frame) {
        match (frame.kind, frame.error_code()) {
            (kind::GOAWAY, Some(code)) => self.goaways.push(code),
            (kind::RST_STREAM, Some(code)) if self.resets.len() < 1000 => self.resets.push((frame.stream, code)),
            (kind::HEADERS, _) => self.headers += 1,
            (kind::SETTINGS, _) => self.settings_acknowledged |= frame.has(flag::ACK),
            (kind::DATA, _) => self.data_bytes += frame.payload.len() as u64,
            _ => {}
        }
    }
}

/// One connection of an attacker.
#[derive(Debug)]
pub struct Attacker {
    stream: TcpStream,
    until: Instant,
    heard: Arc<Mutex<Heard>>,
    ear: Option<JoinHandle<()>>,
}

impl Attacker {
    /// Connects, and reads the proxy's frames until the proxy closes the connection. [`send`](Self::send) and
    /// [`pause`](Self::pause) fail after `until`.
    ///
    /// # Errors
    /// If the connection fails.
    pub fn connect(address: SocketAddr, until: Instant) -> io::Result<Self> {
        let mut attacker = Self::connect_deaf(address, until)?;
        let (mut stream, heard) = (attacker.stream.try_clone()?, attacker.heard.clone());
        attacker.ear = Some(thread::spawn(move || {
            while let Ok(frame) = Frame::read(&mut stream) {
                heard.lock().expect("not poisoned").note(&frame);
            }
            heard.lock().expect("not poisoned").closed = true;
        }));
        Ok(attacker)
    }

    /// Connects, and never reads from the socket.
    ///
    /// # Errors
    /// If the connection fails.
    pub fn connect_deaf(address: SocketAddr, until: Instant) -> io::Result<Self> {
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        stream.set_write_timeout(Some(WRITE_PATIENCE))?;
        Ok(Self { stream, until, heard: Arc::default(), ear: None })
    }

    /// Sends the connection preface and SETTINGS with these values.
    ///
    /// # Errors
    /// The errors of [`send`](Self::send).
    pub fn greet(&mut self, settings: &[(u16, u32)]) -> io::Result<()> {
        self.send(&[PREFACE, &wire::settings(settings)].concat())
    }

    /// Sends bytes, however slowly the proxy reads them.
    ///
    /// # Errors
    /// [`io::ErrorKind::TimedOut`] after the attack's end, else the socket's error: the proxy closed the connection.
    pub fn send(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            if Instant::now() >= self.until {
                return Err(io::ErrorKind::TimedOut.into());
            }
            match self.stream.write(bytes) {
                Ok(written) => bytes = &bytes[written..],
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Waits for `time`.
    ///
    /// # Errors
    /// [`io::ErrorKind::TimedOut`] after the attack's end, [`io::ErrorKind::ConnectionReset`] if the proxy closed the
    /// connection.
    pub fn pause(&self, time: Duration) -> io::Result<()> {
        thread::sleep(time);
        if self.heard().closed {
            return Err(io::ErrorKind::ConnectionReset.into());
        }
        if Instant::now() >= self.until { Err(io::ErrorKind::TimedOut.into()) } else { Ok(()) }
    }

    /// Waits until the attack ends or the proxy closes the connection. A script can end with this call.
    ///
    /// # Errors
    /// Always one of the errors of [`pause`](Self::pause).
    pub fn linger(&self) -> io::Result<()> {
        loop {
            self.pause(Duration::from_millis(20))?;
        }
    }

    pub fn heard(&self) -> Heard {
        self.heard.lock().expect("not poisoned").clone()
    }

    /// Waits until the proxy has closed the connection, for at most `patience`. Then closes the attacker's own side,
    /// and returns the proxy's frames.
    pub fn leave(mut self, patience: Duration) -> Heard {
        let deadline = Instant::now() + patience;
        while !self.heard().closed && Instant::now() < deadline {
            thread::sleep(Duration::from_millis(2));
        }
        let heard = self.heard();
        // This call ends the reading thread. It fails if the proxy has already closed the connection; then the thread
        // has ended anyway.
        self.stream.shutdown(std::net::Shutdown::Both).ok();
        if let Some(ear) = self.ear.take() {
            ear.join().expect("the listening thread does not panic");
        }
        heard
    }
}
