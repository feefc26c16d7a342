//! The command `isochrone`.
fn main() {}
