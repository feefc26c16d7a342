//! The command `isochrone`.
#[allow(dead_code)]
mod exact;
fn main() {}
