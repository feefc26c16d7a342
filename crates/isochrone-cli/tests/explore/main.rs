//! The explorer: its server, its answers, its page.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod answers;
mod browser;
mod hostile;
mod page;
mod served;
