//! Whatever is sent, a 4xx with a reason comes back and the server lives on.

use std::io::Write;
use std::path::Path;

use serde_json::Value;

use super::served::{RUN, Served, answer, at, body_of};
use crate::program::isochrone;

/// Checks that a request was refused with this status and a reason.
#[track_caller]
fn refused((status, text): (u16, String), expected: u16) {
    assert_eq!(status, expected, "{text}");
    let told: Value = serde_json::from_str(body_of(&text)).unwrap();
    assert!(told["error"].as_str().is_some_and(|reason| reason.len() > 5), "{text}");
}

#[test]
fn foreign_hosts_origins_and_paths_are_refused() {
    let mut served = Served::new(&[&RUN]);
    let host = served.host.clone();
    let get = |host: &str, more: &str| format!("GET / HTTP/1.1\r\nHost: {host}\r\n{more}\r\n");
    refused(served.raw(b"GET / HTTP/1.1\r\n\r\n"), 403);
    for foreign in ["evil.example", "127.0.0.1", "localhost:1", "127.0.0.1.evil.example:80", ""] {
        refused(served.raw(get(foreign, "").as_bytes()), 403);
    }
    for foreign in ["http://evil.example", "null", "https://127.0.0.1", "http://localhost"] {
        refused(served.raw(get(&host, &format!("Origin: {foreign}\r\n")).as_bytes()), 403);
    }
    let own = format!("Origin: http://{host}\r\nConnection: close\r\n");
    assert_eq!(served.raw(get(&host, &own).as_bytes()).0, 200);
    for path in [
        "/../Cargo.toml",
        "/%2e%2e/secret",
        "//etc/passwd",
        "/api/../",
        "/web/app.js",
        "/api/runs/",
    ] {
        refused(served.get(path), 404);
    }
    refused(served.request("DELETE /api/runs", "", ""), 405);
    refused(served.request("GET /api/steps", "", ""), 405);
    refused(served.request("POST /api/steps", "Content-Type: text/plain\r\n", "{}"), 415);
    refused(served.get("/api/map?run=7"), 404);
    refused(served.get("/api/map?x=99"), 400);
    refused(served.get("/api/map?x=-1"), 400);
    assert!(served.is_alive());
}

#[test]
fn bad_bodies_are_refused_with_a_reason() {
    let mut served = Served::new(&[&RUN]);
    let json = "Content-Type: application/json\r\n";
    let post = |path: &str, body: &str| served.request(&format!("POST {path}"), json, body);
    for (body, path, status) in [
        ("", "/api/steps", 400),
        ("{", "/api/steps", 400),
        ("[]", "/api/steps", 400),
        ("{\"from\":[[1,2]]}", "/api/steps", 400),
        ("{\"from\":[[1,2]],\"to\":[[1]]}", "/api/steps", 400),
        ("{\"from\":[[1,2,3]],\"to\":[[1,2]]}", "/api/steps", 400),
        ("{\"from\":[],\"to\":[]}", "/api/steps", 400),
        ("{\"from\":[[1,1e39]],\"to\":[[1,2]]}", "/api/steps", 400),
        ("{\"from\":[[1,1e999]],\"to\":[[1,2]]}", "/api/steps", 400),
        ("{\"from\":[[1,null]],\"to\":[[1,2]]}", "/api/steps", 400),
        ("{\"from\":[[1,2],[1,2]],\"to\":[[1,2],[1,2],[1,2]]}", "/api/steps", 400),
        ("{\"from\":[[1,2]],\"to\":[[1,2]],\"more\":1}", "/api/steps", 400),
        ("{\"from\":[[1,2]],\"to\":[[1,2]],\"run\":-1}", "/api/steps", 400),
        ("{\"from\":[[1,2]],\"to\":[[1,2]],\"run\":5}", "/api/steps", 404),
        ("{\"observations\":[[1]],\"goals\":[[1,2]]}", "/api/act", 400),
        ("{\"start\":[1],\"goal\":[1,2]}", "/api/plan", 400),
        ("{\"start\":[1,2],\"goal\":[1,2],\"planner\":\"magic\"}", "/api/plan", 400),
        ("{\"goal\":[1,2],\"axes\":[0,9]}", "/api/exact", 400),
        ("{\"goal\":[1,2],\"axes\":[0]}", "/api/exact", 400),
        ("{\"start\":[0.2,0.1],\"goal\":[1,2],\"episodes\":0}", "/api/rollout", 400),
        ("{\"start\":[0.2,0.1],\"goal\":[1,2],\"episodes\":100000}", "/api/rollout", 400),
        ("{\"run\":\"0\"}", "/api/audit", 400),
    ] {
        let (found, text) = post(path, body);
        assert_eq!(found, status, "{path} {body}: {text}");
        refused((found, text), status);
    }
    let many = format!("{{\"from\":[{0}],\"to\":[{0}]}}", vec!["[0.1,0.2]"; 1_001].join(","));
    refused(post("/api/pairwise", &many), 413);
    let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    refused(post("/api/steps", &deep), 400);
    assert!(served.is_alive());
}

#[test]
fn refusals_say_in_plain_words_what_is_wrong() {
    let served = Served::new(&[&RUN]);
    for (path, reason) in [
        ("map?z=1", "unknown key `z` in the address, expected `run`, `x`, `y`"),
        ("map?axes=0,1", "unknown key `axes`"),
        ("trajectories?=1", "unknown key ``"),
        ("curves?run=0&x=1", "unknown key `x` in the address, expected `run`"),
        ("runs?run=0", "unknown key `run` in the address, expected none"),
        ("model?run=0&run=0", "repeated key `run` in the address"),
        ("map?x=0&y=1&x=1", "repeated key `x` in the address"),
        ("map?x", "`x` is ``, expected a whole number"),
        ("map?x=0&y=0", "both axes are coordinate `0`, expected two different ones"),
        ("map?x=1", "both axes are coordinate `1`"),
        ("trajectories?x=1&y=1", "both axes are coordinate `1`"),
    ] {
        let (status, text) = served.get(&format!("/api/{path}"));
        assert!(status == 400 && text.contains(reason), "{path}: {text}");
    }
    for (path, body, reason) in [
        ("steps?run=0", r#"{"from":[[1,2]],"to":[[1,2]]}"#, "unknown key `run` in the address"),
        ("exact", r#"{"goal":[0.31,0.69],"axes":[0,0]}"#, "both axes are coordinate `0`"),
        ("exact", r#"{"goal":[0.31,0.69],"axes":[0]}"#, "expected a list of length 2"),
        ("steps", "", "the body is not a JSON object"),
        ("steps", "[0,[[1,2]],[[1,2]]]", "the body is not a JSON object"),
        ("steps", r#"{"from":[[1,2]"#, "it ends within a list"),
        ("steps", r#"{"from":[[1,2]]}"#, "missing key `to`"),
        ("steps", r#"{"from":5,"to":[[1,2]]}"#, "expected a list"),
        ("steps", r#"{"from":[["a",2]],"to":[[1,2]]}"#, "expected a number"),
        ("steps", r#"{"from":[[1,2]],"to":[[1]]}"#, "`to[0]` has 1 value, expected 2 as"),
        ("steps", r#"{"from":[[1,2,3]],"to":[[1,2]]}"#, "`from[0]` has 3 values, expected 2"),
        ("steps", r#"{"from":[[1,2]],"to":[[1,1e39]]}"#, "is `inf`, expected a finite number"),
        ("pairwise", r#"{"from":[[0.2,1e30]],"to":[[1,2]]}"#, "`from[0]` value 1 is `10"),
        ("pairwise", r#"{"from":[[0.2,1e30]],"to":[[1,2]]}"#, "expected at most 1e18 in size"),
        ("plan", r#"{"start":[1,2],"goal":[-2e18,1]}"#, "expected at most 1e18 in size"),
        ("plan", r#"{"start":[1,2],"goal":[1]}"#, "`goal` has 1 value, expected 2 as"),
        ("audit", r#"{"run":"0"}"#, "expected a whole number"),
        ("audit", r#"{"run":0,"run":0}"#, "repeated key `run`"),
        ("audit", r#"{"runs":0}"#, "unknown key `runs`"),
        ("rollout", r#"{"start":[1,2],"goal":[1,2],"seed":-1}"#, "expected a whole number"),
    ] {
        let (status, told) = served.post(&format!("/api/{path}"), body);
        let told = told["error"].as_str().unwrap();
        assert!(status == 400 && told.contains(reason), "{path} {body}: {told}");
    }
}

#[test]
fn cut_and_oversized_requests_are_refused() {
    let mut served = Served::new(&[&RUN]);
    let host = served.host.clone();
    let head =
        format!("POST /api/steps HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\n");
    refused(served.raw(b"GET / HTT"), 400);
    refused(served.raw(b"\x16\x03\x01\x02\x00\x01\x00\x01"), 400);
    refused(served.raw(head.as_bytes()), 400);
    refused(served.raw(format!("{head}Content-Length: 100\r\n\r\n{{").as_bytes()), 400);
    refused(served.raw(format!("{head}Content-Length: 8388609\r\n\r\n").as_bytes()), 413);
    refused(served.raw(format!("{head}\r\n").as_bytes()), 411);
    refused(
        served.raw(format!("{head}Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n").as_bytes()),
        411,
    );
    refused(served.raw(format!("GET /{} HTTP/1.1\r\n", "a".repeat(20_000)).as_bytes()), 431);
    refused(served.raw(format!("{head}{}\r\n", "a: b\r\n".repeat(70)).as_bytes()), 431);
    // What is sent and never ended is answered once its time is over.
    let mut halves: Vec<_> = (0..2).map(|_| served.connect()).collect();
    halves[0].write_all(b"GET / HTTP/1.1\r\nHost:").unwrap();
    halves[1].write_all(format!("{head}Content-Length: 10\r\n\r\n{{").as_bytes()).unwrap();
    for half in halves {
        refused(answer(half), 408);
    }
    assert!(served.is_alive());
}

#[test]
fn a_thousand_garbled_requests_leave_no_trace() {
    let mut served = Served::new(&[&RUN]);
    let host = served.host.clone();
    let body = "{\"from\":[[0.2,0.1]],\"to\":[[0.3,0.7]]}";
    let good = format!(
        "POST /api/steps HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\n\
         Content-Length: {}\r\nConnection: close\r\n\r\n{body}",
        body.len()
    );
    assert_eq!(served.raw(good.as_bytes()).0, 200);
    let send = |index: u32| {
        let mut bytes = good.clone().into_bytes();
        let draw = |salt: u32| {
            let word = (index * 31 + salt).wrapping_mul(2_654_435_761);
            (word ^ word >> 15).wrapping_mul(2_246_822_519) as usize >> 7
        };
        match index % 3 {
            0 => bytes.truncate(1 + draw(1) % (bytes.len() - 1)),
            1 => {
                let place = draw(2) % bytes.len();
                bytes[place] = draw(3) as u8;
            }
            _ => {
                let (place, byte) = (draw(4) % bytes.len(), draw(5) as u8);
                bytes.splice(place..place, std::iter::repeat_n(byte, draw(6) % 40));
            }
        }
        served.raw(&bytes)
    };
    (0..100).for_each(|index| drop(send(index)));
    let before = served.memory();
    for index in 0..1_000 {
        let (status, text) = send(index);
        // A changed digit of a state, or a byte of a header that does not matter, is no fault.
        let fine = status == 200 && text.contains("\"steps\"");
        assert!(fine || (400..500).contains(&status), "{index}: {text}");
    }
    if let (Some(before), Some(after)) = (before, served.memory()) {
        assert!(after < before + 50_000, "{before} kB became {after} kB");
    }
    assert!(served.is_alive());
}

#[test]
fn slow_clients_do_not_keep_a_good_one_out_and_too_many_are_told() {
    let mut served = Served::new(&[&RUN]);
    let slow = |count: usize| -> Vec<_> {
        (0..count)
            .map(|_| {
                let mut stream = served.connect();
                stream.write_all(b"GET / HTTP/1.1\r\n").unwrap();
                stream
            })
            .collect()
    };
    let some = slow(300);
    let body = "{\"from\":[[0.2,0.1]],\"to\":[[0.3,0.7]]}";
    for _ in 0..20 {
        assert_eq!(served.post("/api/steps", body).0, 200);
    }
    let more = slow(230);
    let refused = more.into_iter().map(|stream| answer(stream).0).filter(|&status| status == 503);
    assert!(refused.count() > 0);
    drop(some);
    while served.get("/api/runs").0 != 200 {
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    assert!(served.is_alive());
}

#[test]
fn others_need_the_token() {
    let served = Served::with(&[&RUN], &["--host", "0.0.0.0"]);
    let token = served.query.strip_prefix("?token=").unwrap();
    assert_eq!(token.len(), 32);
    refused(served.get("/"), 401);
    refused(served.get("/api/runs"), 401);
    refused(served.get("/?token=00000000000000000000000000000000"), 401);
    refused(served.request("GET /api/runs", "Authorization: Bearer wrong\r\n", ""), 401);
    let bearer = format!("Authorization: Bearer {token}\r\n");
    assert_eq!(served.request("GET /api/runs", &bearer, "").0, 200);
    let (status, text) = served.get(&format!("/?token={token}"));
    assert_eq!(status, 303, "{text}");
    assert!(text.contains("HttpOnly; SameSite=Strict"), "{text}");
    let cookie = format!("Cookie: isochrone={token}\r\n");
    assert_eq!(served.request("GET /", &cookie, "").0, 200);
    refused(served.raw(b"GET / HTTP/1.1\r\nHost: evil.example:80\r\n\r\n"), 403);
}

#[test]
fn what_cannot_be_explored_is_refused_at_once() {
    let complaint = |words: &[&str]| {
        let output = isochrone(&[&["explore"], words].concat());
        assert_eq!(output.status.code(), Some(2), "{words:?}");
        String::from_utf8(output.stderr).unwrap()
    };
    assert!(complaint(&[at("nowhere").to_str().unwrap()]).contains("no run"));
    let run: &Path = &RUN;
    let run = run.to_str().unwrap();
    assert!(complaint(&[run, "--host", "evil.example"]).contains("`--host`"));
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    assert!(complaint(&[run, "--port", &port]).contains("cannot listen"));
    let page = at("kept.html");
    std::fs::write(&page, "mine").unwrap();
    assert!(complaint(&[run, "--export", page.to_str().unwrap()]).contains("exists already"));
    assert_eq!(std::fs::read_to_string(&page).unwrap(), "mine");
}
