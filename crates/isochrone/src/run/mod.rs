//! A run: its config, its folder, and the loop that fills it.
//!
//! ```text
//! config.toml        every choice, defaults written out; feeding it back gives the same run
//! provenance.toml    version, commit, threads, device, fingerprint of the data, parent run
//! checkpoints/       step-….safetensors, the newest few
//! metrics.csv        functions of seed, data and config alone
//! evaluation.csv     likewise
//! metrics.jsonl      both, one JSON object per row
//! timing.csv         everything that depends on the clock
//! tb/                all of it for TensorBoard, and the map of the learned distance
//! model.safetensors  the distance and the policy, once the run is complete
//! judged.toml        what the last check said of the learned steps
//! plan.graph         the graph that `plan` built last
//! ```
//!
//! [`Run`] is the way in for programs; [`execute`] is what it and the command use. The same run in
//! the same folder resumes from its newest checkpoint. With more `train.steps` it continues training:
//! schedules and phases, which are shares of all updates, then span the new number, so that the
//! result is not that of a run begun with it.

mod beside;
pub mod compare;
mod config;
pub mod files;
mod folder;
mod front;
mod journal;
mod judges;
mod last_check;
mod open;
mod plane;
mod presets;
mod provenance;
mod recording;
mod session;
mod source;
mod tables;

pub use config::{ActionKind, DataConfig, EvaluationConfig, RunConfig};
pub use folder::{Listed, Status, list, newest_snapshot, read_config};
pub use front::{Fitted, Run, RunData};
pub use judges::Judges;
pub use last_check::LastCheck;
pub use open::{OpenRun, check_data, open_model};
pub use plane::{Ends, PINWHEEL, Plane};
pub use presets::{known_learners, preset, spelled_out, tuned};
pub use provenance::{Conditions, Resumption};
pub use session::{Finished, Observer, Silent, execute};
pub use source::{
    Recorded, RecordedWorld, Source, UNHEARD, check_source, open_shared_source, open_source,
    open_told, prepare, tasks,
};
pub use tables::{over_training, update_seconds};
