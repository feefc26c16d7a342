//! Connections: one thread each, a bounded number of them, and a bounded number of answers that are
//! computed or waited for at once.

use std::io::Read;
use std::net::{TcpListener, TcpStream};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};

use super::api::Api;
use super::gate::Gate;
use super::http::{Answer, Connection, Head, Unread};
use super::pages;

/// Connections at most; a client that is slow to send holds one for some seconds.
const CONNECTIONS: usize = 512;
/// The stack of a connection's thread.
const STACK: usize = 2 << 20;
/// Answers computed at once, and questions that wait for their turn.
const COMPUTED: usize = 4;
const WAITING: usize = 64;

/// Serves the page and the API.
pub struct Server {
    api: Api,
    gate: Gate,
    connections: AtomicUsize,
    turns: Turns,
}

impl Server {
    /// A server of `api` behind `gate`.
    pub fn new(api: Api, gate: Gate) -> Arc<Self> {
        let turns = Turns { taken: Mutex::new((0, 0)), free: Condvar::new() };
        Arc::new(Self { api, gate, connections: AtomicUsize::new(0), turns })
    }

    /// Serves until the process ends.
    pub fn serve(self: &Arc<Self>, listener: &TcpListener) {
        for stream in listener.incoming().flatten() {
            let server = Arc::clone(self);
            if self.connections.fetch_add(1, Ordering::Relaxed) >= CONNECTIONS {
                self.connections.fetch_sub(1, Ordering::Relaxed);
                full(stream);
                continue;
            }
            let thread = std::thread::Builder::new().stack_size(STACK);
            let spawned = thread.spawn(move || {
                catch_unwind(AssertUnwindSafe(|| server.attend(stream))).ok();
                server.connections.fetch_sub(1, Ordering::Relaxed);
            });
            if spawned.is_err() {
                self.connections.fetch_sub(1, Ordering::Relaxed);
            }
        }
    }

    fn attend(&self, stream: TcpStream) {
        stream.set_nodelay(true).ok();
        let mut connection = Connection::new(stream);
        loop {
            let head = match connection.head() {
                Ok(head) => head,
                Err(Unread::Gone) => return,
                Err(Unread::Refused(answer)) => return connection.refuse(&answer),
            };
            if let Err(answer) = self.admit(&head) {
                return connection.refuse(&answer);
            }
            let body = match connection.body(&head) {
                Ok(body) => body,
                Err(Unread::Gone) => return,
                Err(Unread::Refused(answer)) => return connection.refuse(&answer),
            };
            if !connection.answer(&head, &self.answer(&head, &body)) {
                return;
            }
        }
    }

    /// Refuses by the head alone what need not be read further.
    fn admit(&self, head: &Head) -> Result<(), Answer> {
        self.gate.check(head)?;
        self.gate.admit(head)?;
        let known = Api::method(&head.path).or(pages::file(&head.path).map(|_| "GET"));
        let Some(method) = known else {
            return Err(Answer::refusal(404, "nothing is at this address"));
        };
        if head.method != method && !(method == "GET" && head.method == "HEAD") {
            let headers = vec![("Allow", method.to_owned())];
            let refusal = Answer::refusal(405, format!("this address takes {method}"));
            return Err(Answer { headers, ..refusal });
        }
        let kind = head.header("content-type").unwrap_or_default();
        if method == "POST" && kind.split(';').next() != Some("application/json") {
            return Err(Answer::refusal(415, "the Content-Type of a question is application/json"));
        }
        if method == "POST" && head.header("content-length").is_none() {
            return Err(Answer::refusal(411, "send the body with its Content-Length"));
        }
        Ok(())
    }

    fn answer(&self, head: &Head, body: &[u8]) -> Answer {
        if let Some(page) = pages::file(&head.path) {
            return page;
        }
        let turn = self.turns.take();
        if turn.is_none() {
            return Answer::refusal(503, "too many questions wait already");
        }
        // A question that waits at a desk leaves its turn to others.
        let _turn = turn.filter(|_| !Api::waits(&head.path));
        let ask = || self.api.answer(&head.path, &head.query, body);
        match catch_unwind(AssertUnwindSafe(ask)) {
            Ok(Ok(text)) => Answer::json(200, text),
            Ok(Err(refusal)) => refusal,
            Err(_) => Answer::refusal(422, "the question could not be answered"),
        }
    }
}

/// Tells a client that there are too many.
fn full(stream: TcpStream) {
    stream.set_nonblocking(true).ok();
    // What has arrived is taken, so that the answer is not lost with it.
    std::io::copy(&mut (&stream).take(1 << 12), &mut std::io::sink()).ok();
    stream.set_nonblocking(false).ok();
    Connection::new(stream).reject(&Answer::refusal(503, "too many connections"));
}

/// Turns to compute: so many at once, so many waiting.
struct Turns {
    /// Taken, and waited for.
    taken: Mutex<(usize, usize)>,
    free: Condvar,
}

struct Turn<'a>(&'a Turns);

impl Turns {
    fn take(&self) -> Option<Turn<'_>> {
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        if taken.1 >= WAITING {
            return None;
        }
        taken.1 += 1;
        while taken.0 >= COMPUTED {
            taken = self.free.wait(taken).unwrap_or_else(PoisonError::into_inner);
        }
        *taken = (taken.0 + 1, taken.1 - 1);
        Some(Turn(self))
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.0.taken.lock().unwrap_or_else(PoisonError::into_inner).0 -= 1;
        self.0.free.notify_one();
    }
}
