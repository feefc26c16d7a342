//! The explorer: its server, its answers, its page.
mod answers;
mod browser;
mod hostile;
mod page;
mod served;
