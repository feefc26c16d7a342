//! HTTP/1.1 with strict limits: heads and bodies are bounded in size and in time.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::{Duration, Instant};

/// A head must have arrived after this long.
const HEAD_TIME: Duration = Duration::from_secs(5);
/// A body, after its head.
const BODY_TIME: Duration = Duration::from_secs(10);
/// An answer must have been taken after this long.
const ANSWER_TIME: Duration = Duration::from_secs(60);
/// How long what a client still sends is read after an early answer.
const DRAIN_TIME: Duration = Duration::from_secs(1);
const MOST_HEAD: usize = 16 << 10;
const MOST_HEADERS: usize = 64;
/// The largest body.
pub const MOST_BODY: usize = 8 << 20;

/// The first line of a request and its headers.
#[derive(Debug)]
pub struct Head {
    /// `GET`, `POST` and so on.
    pub method: String,
    /// The part of the target before `?`.
    pub path: String,
    /// The part behind it; empty where there is none.
    pub query: String,
    headers: Vec<(String, String)>,
    /// How many bytes follow.
    length: usize,
    persistent: bool,
}

/// An answer.
#[derive(Debug)]
pub struct Answer {
    /// The status code.
    pub status: u16,
    /// The media type of the body.
    pub kind: &'static str,
    /// The body.
    pub body: Vec<u8>,
    /// Further headers.
    pub headers: Vec<(&'static str, String)>,
}

/// Why no request could be read.
#[derive(Debug)]
pub enum Unread {
    /// The client is gone, or had nothing more to say.
    Gone,
    /// What is wrong, for the client.
    Refused(Answer),
}

impl Answer {
    /// JSON, as text.
    pub fn json(status: u16, text: String) -> Self {
        Self { status, kind: "application/json", body: text.into_bytes(), headers: Vec::new() }
    }

    /// A refusal with its reason.
    pub fn refusal(status: u16, reason: impl Into<String>) -> Self {
        let reason = serde_json::json!({ "error": reason.into() });
        Self::json(status, reason.to_string())
    }
}

impl Head {
    /// The value of the header `name`, in lower case; none where it is missing.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(found, _)| found == name).map(|(_, value)| value.as_str())
    }

    fn parse(bytes: &[u8]) -> Result<Option<(Self, usize)>, Answer> {
        let mut headers = [httparse::EMPTY_HEADER; MOST_HEADERS];
        let mut request = httparse::Request::new(&mut headers);
        let length = match request.parse(bytes) {
            Ok(httparse::Status::Complete(length)) => length,
            Ok(httparse::Status::Partial) => return Ok(None),
            Err(httparse::Error::TooManyHeaders) => {
                let reason = format!("more than {MOST_HEADERS} headers");
                return Err(Answer::refusal(431, reason));
            }
            Err(error) => return Err(Answer::refusal(400, format!("not HTTP: {error}"))),
        };
        let text = |bytes: &[u8]| {
            std::str::from_utf8(bytes)
                .map(|text| text.trim().to_owned())
                .map_err(|_| Answer::refusal(400, "a header is not text"))
        };
        let headers = request
            .headers
            .iter()
            .map(|header| Ok((header.name.to_ascii_lowercase(), text(header.value)?)))
            .collect::<Result<Vec<_>, Answer>>()?;
        let target = request.path.unwrap_or_default();
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        let mut head = Self {
            method: request.method.unwrap_or_default().to_owned(),
            path: path.to_owned(),
            query: query.to_owned(),
            headers,
            length: 0,
            persistent: request.version == Some(1),
        };
        head.length = head.body_length()?;
        if head.header("connection").is_some_and(|value| value.eq_ignore_ascii_case("close")) {
            head.persistent = false;
        }
        Ok(Some((head, length)))
    }

    fn body_length(&self) -> Result<usize, Answer> {
        for once in ["content-length", "host", "origin", "authorization", "cookie"] {
            if self.headers.iter().filter(|(name, _)| name == once).count() > 1 {
                return Err(Answer::refusal(400, format!("the header `{once}` occurs twice")));
            }
        }
        if self.header("transfer-encoding").is_some() {
            return Err(Answer::refusal(411, "send the body whole, with its Content-Length"));
        }
        let Some(text) = self.header("content-length") else { return Ok(0) };
        let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        match text.parse::<usize>() {
            Ok(length) if digits && length <= MOST_BODY => Ok(length),
            Ok(_) | Err(_) if digits => {
                Err(Answer::refusal(413, format!("a body has at most {MOST_BODY} bytes")))
            }
            _ => Err(Answer::refusal(400, "Content-Length is no whole number")),
        }
    }
}

/// A connection to a client.
pub struct Connection {
    stream: TcpStream,
    /// What arrived and was not used yet.
    buffer: Vec<u8>,
}

impl Connection {
    /// Takes over `stream`.
    pub fn new(stream: TcpStream) -> Self {
        Self { stream, buffer: Vec::new() }
    }

    /// Reads the next head.
    pub fn head(&mut self) -> Result<Head, Unread> {
        let deadline = Instant::now() + HEAD_TIME;
        loop {
            if let Some((head, length)) = Head::parse(&self.buffer).map_err(Unread::Refused)? {
                self.buffer.drain(..length);
                return Ok(head);
            }
            if self.buffer.len() >= MOST_HEAD {
                let reason = format!("a head has at most {MOST_HEAD} bytes");
                return Err(Unread::Refused(Answer::refusal(431, reason)));
            }
            self.fill(deadline, MOST_HEAD, !self.buffer.is_empty())?;
        }
    }

    /// Reads the body that follows `head`.
    pub fn body(&mut self, head: &Head) -> Result<Vec<u8>, Unread> {
        if head.header("expect").is_some_and(|value| value.eq_ignore_ascii_case("100-continue")) {
            let sent = self.stream.write_all(b"HTTP/1.1 100 Continue\r\n\r\n");
            sent.map_err(|_| Unread::Gone)?;
        }
        let deadline = Instant::now() + BODY_TIME;
        while self.buffer.len() < head.length {
            self.fill(deadline, 1 << 16, true)?;
        }
        let rest = self.buffer.split_off(head.length);
        Ok(std::mem::replace(&mut self.buffer, rest))
    }

    /// Waits for more bytes, of a request that has `begun` or not.
    fn fill(&mut self, deadline: Instant, most: usize, begun: bool) -> Result<(), Unread> {
        let late = || match begun {
            true => Unread::Refused(Answer::refusal(408, "the request took too long to arrive")),
            false => Unread::Gone,
        };
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(late());
        }
        self.stream.set_read_timeout(Some(left)).map_err(|_| Unread::Gone)?;
        let mut chunk = vec![0; most];
        match self.stream.read(&mut chunk) {
            Ok(0) if !begun => Err(Unread::Gone),
            Ok(0) => Err(Unread::Refused(Answer::refusal(400, "the request is incomplete"))),
            Ok(count) => {
                self.buffer.extend_from_slice(&chunk[..count]);
                Ok(())
            }
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                Err(late())
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => Ok(()),
            Err(_) => Err(Unread::Gone),
        }
    }

    /// Sends an answer to `head`; whether the connection can go on.
    pub fn answer(&mut self, head: &Head, answer: &Answer) -> bool {
        let sent = self.send(answer, head.method == "HEAD", head.persistent);
        sent.is_ok() && head.persistent
    }

    /// Sends a last answer, to a client that may still be sending.
    pub fn refuse(mut self, answer: &Answer) {
        if self.send(answer, false, false).is_err()
            || self.stream.shutdown(Shutdown::Write).is_err()
        {
            return;
        }
        // A connection closed with bytes unread would take the answer back.
        let deadline = Instant::now() + DRAIN_TIME;
        while self.fill(deadline, 1 << 16, false).is_ok() {
            self.buffer.clear();
        }
    }

    /// Sends a last answer without waiting for what the client still sends.
    pub fn reject(mut self, answer: &Answer) {
        self.send(answer, false, false).ok();
    }

    fn send(&mut self, answer: &Answer, empty: bool, persistent: bool) -> std::io::Result<()> {
        let deadline = Instant::now() + ANSWER_TIME;
        let mut bytes = head_of(answer, persistent);
        if !empty {
            bytes.extend_from_slice(&answer.body);
        }
        for chunk in bytes.chunks(1 << 16) {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(ErrorKind::TimedOut.into());
            }
            self.stream.set_write_timeout(Some(left))?;
            self.stream.write_all(chunk)?;
        }
        Ok(())
    }
}

/// What every answer says: nothing is stored, guessed, framed or fetched from elsewhere.
const ALWAYS: &str = "Cache-Control: no-store\r\n\
X-Content-Type-Options: nosniff\r\n\
Referrer-Policy: no-referrer\r\n\
Cross-Origin-Resource-Policy: same-origin\r\n\
Content-Security-Policy: default-src 'none'; script-src 'self'; style-src 'self'; \
img-src 'self' data: blob:; connect-src 'self'; base-uri 'none'; form-action 'none'; \
frame-ancestors 'none'\r\n";

fn head_of(answer: &Answer, persistent: bool) -> Vec<u8> {
    let reason = match answer.status {
        200 => "OK",
        303 => "See Other",
        503 => "Service Unavailable",
        _ => "Refused",
    };
    let mut head = format!(
        "HTTP/1.1 {} {reason}\r\nContent-Type: {}\r\nContent-Length: {}\r\n{ALWAYS}",
        answer.status,
        answer.kind,
        answer.body.len()
    );
    for (name, value) in &answer.headers {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    if !persistent {
        head.push_str("Connection: close\r\n");
    }
    head.push_str("\r\n");
    head.into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(text: &str) -> u16 {
        Head::parse(text.as_bytes()).unwrap_err().status
    }

    #[test]
    fn a_head_is_read_once_it_is_whole() {
        let text = "POST /api/steps?run=1 HTTP/1.1\r\nHost: here\r\nContent-Length: 12\r\n\r\n";
        for cut in 0..text.len() {
            assert!(Head::parse(&text.as_bytes()[..cut]).unwrap().is_none(), "{cut}");
        }
        let (head, length) = Head::parse(text.as_bytes()).unwrap().unwrap();
        assert_eq!((head.path.as_str(), head.query.as_str()), ("/api/steps", "run=1"));
        assert_eq!((head.header("host"), head.length, length), (Some("here"), 12, text.len()));
        assert!(head.persistent);
    }

    #[test]
    fn lengths_that_lie_or_hide_are_refused() {
        let with = |header: &str| format!("POST / HTTP/1.1\r\n{header}\r\n\r\n");
        assert_eq!(refused(&with("Content-Length: 8388609")), 413);
        assert_eq!(refused(&with("Content-Length: 99999999999999999999999999")), 413);
        for wrong in ["-1", "+5", "1e3", "", "0x10", "5, 5"] {
            assert_eq!(refused(&with(&format!("Content-Length: {wrong}"))), 400, "{wrong}");
        }
        assert_eq!(refused(&with("Content-Length: 5\r\nContent-Length: 5")), 400);
        assert_eq!(refused(&with("Host: a\r\nHost: b")), 400);
        assert_eq!(refused(&with("Transfer-Encoding: chunked")), 411);
        assert_eq!(refused(&with(&"a: b\r\n".repeat(MOST_HEADERS + 1))), 431);
        assert_eq!(refused("\u{1}\u{2}\r\n\r\n"), 400);
    }
}
