//! Who may ask: the names that a request may call this server by, and the token of a server that
//! others can reach.

use std::net::{IpAddr, SocketAddr};

use super::http::{Answer, Head};

/// The name of the cookie that carries the token.
const COOKIE: &str = "isochrone";

/// What a request must show.
pub struct Gate {
    /// The names and addresses that `Host` may have, each with the port; none accepts any address
    /// but no name.
    hosts: Option<Vec<String>>,
    token: Option<String>,
}

impl Gate {
    /// The gate of a server bound to `address`, which `name` stands for. Servers that others can
    /// reach need a token.
    pub fn new(name: &str, address: SocketAddr, token: Option<String>) -> Self {
        let port = address.port();
        let mut hosts: Vec<String> = vec![format!("{name}:{port}"), address.to_string()];
        if address.ip().is_loopback() {
            hosts.extend(["127.0.0.1", "localhost", "[::1]"].map(|host| format!("{host}:{port}")));
        }
        let hosts = (!address.ip().is_unspecified()).then_some(hosts);
        Self { hosts, token }
    }

    /// Checks everything but the token.
    pub fn check(&self, head: &Head) -> Result<(), Answer> {
        let host = head.header("host").unwrap_or_default();
        if !self.knows(host) {
            return Err(Answer::refusal(403, format!("the Host `{host}` is not this server")));
        }
        match head.header("origin") {
            None => Ok(()),
            Some(origin) if origin.strip_prefix("http://") == Some(host) => Ok(()),
            Some(origin) => {
                let reason = format!("the Origin `{origin}` is another page's");
                Err(Answer::refusal(403, reason))
            }
        }
    }

    fn knows(&self, host: &str) -> bool {
        match &self.hosts {
            Some(hosts) => hosts.iter().any(|known| known.eq_ignore_ascii_case(host)),
            // A name could be anybody's; an address cannot.
            None => {
                host.parse::<SocketAddr>().is_ok()
                    || host.parse::<IpAddr>().is_ok()
                    || host.split(':').next() == Some("localhost")
            }
        }
    }

    /// Checks the token, where one is needed. A page opened with the token in its address gets it as
    /// a cookie and is sent on to the address without it.
    pub fn admit(&self, head: &Head) -> Result<(), Answer> {
        let Some(token) = &self.token else { return Ok(()) };
        let bearer = head.header("authorization").and_then(|text| text.strip_prefix("Bearer "));
        let cookies = head.header("cookie").unwrap_or_default().split("; ");
        let mut cookie =
            cookies.filter_map(|pair| pair.split_once('=')).filter(|(name, _)| *name == COOKIE);
        if bearer.is_some_and(|shown| same(shown, token))
            || cookie.any(|(_, shown)| same(shown, token))
        {
            return Ok(());
        }
        let shown = head.query.strip_prefix("token=").unwrap_or_default();
        if head.path == "/" && same(shown, token) {
            let cookie = format!("{COOKIE}={token}; HttpOnly; SameSite=Strict; Path=/");
            let headers = vec![("Location", "/".to_owned()), ("Set-Cookie", cookie)];
            return Err(Answer { headers, ..Answer::json(303, "{}".to_owned()) });
        }
        let reason = "this server needs its token: open the address that it printed, or send the \
                      header `Authorization: Bearer TOKEN`";
        Err(Answer::refusal(401, reason))
    }
}

/// Compares in a time that does not tell where two texts differ.
fn same(one: &str, other: &str) -> bool {
    let differing = one.bytes().zip(other.bytes()).fold(0, |all, (a, b)| all | (a ^ b));
    one.len() == other.len() && differing == 0
}
