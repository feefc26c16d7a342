//! What a run leaves works outside of this library as in it: numpy reads its model, ONNX Runtime runs
//! its graph, TensorBoard and pandas read its logs, and older files stay readable.
#![allow(clippy::unwrap_used)]

mod golden;
mod loader;
mod logs;
mod models;
mod onnx;
mod page;
mod questions;
