//! A model works outside of this library as in it: numpy reads its file, ONNX Runtime runs its graph,
//! and older files stay readable.
#![allow(clippy::unwrap_used)]

mod golden;
mod loader;
mod models;
mod onnx;
mod questions;
