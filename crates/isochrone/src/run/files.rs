//! The names of the files in a run's folder, each written here alone.

/// Every choice, defaults written out; feeding it back gives the same run.
pub const CONFIG: &str = "config.toml";
/// What trained the run, and what it learned from.
pub const PROVENANCE: &str = "provenance.toml";
/// The folder of the newest few checkpoints.
pub const CHECKPOINTS: &str = "checkpoints";
/// Losses: functions of seed, data and config alone.
pub const METRICS: &str = "metrics.csv";
/// Evaluations: likewise.
pub const EVALUATION: &str = "evaluation.csv";
/// Losses and evaluations as JSON, one object per row: likewise.
pub const LINES: &str = "metrics.jsonl";
/// The folder of TensorBoard's event files.
pub const EVENTS: &str = "tb";
/// Everything that depends on the clock.
pub const TIMING: &str = "timing.csv";
/// The distance and the policy, once the run is complete.
pub const MODEL: &str = "model.safetensors";
/// What the last check said of the learned steps.
pub const JUDGED: &str = "judged.toml";
/// The graph planner's graph, for the next plan.
pub const GRAPH: &str = "plan.graph";
/// In a comparison: success of the final model following the graph planner's waypoints.
pub const PLANNER: &str = "planner.csv";
/// In a comparison: how right the final model's steps are, in a world with a referee.
pub const ACCURACY: &str = "accuracy.csv";
/// In a comparison: where a number stopped being finite.
pub const DIVERGED: &str = "diverged.toml";
