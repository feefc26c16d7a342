//! Answers are those of the other commands.

use std::path::Path;

use isochrone::Model;
use serde_json::{Value, json};

use super::served::{ANT, CIRCLE, RUN, STATES, Served, at, body_of, trained};
use crate::program::said;

fn model() -> Model {
    Model::load(RUN.join("model.safetensors")).unwrap()
}

#[test]
fn steps_pairs_and_actions_are_the_models() {
    let (served, model) = (Served::new(&[&RUN]), model());
    let (from, to) = ([[0.2f32, 0.1], [0.5, 0.1]], [[0.31f32, 0.69], [0.9, 0.5]]);
    // Numbers are told with the digits that tell them apart, and read back as the same bits.
    let list = |said: &Value| serde_json::from_value::<Vec<f32>>(said.clone()).unwrap();
    let table = |said: &Value| serde_json::from_value::<Vec<Vec<f32>>>(said.clone()).unwrap();
    let said = served.asked("/api/steps", &json!({ "from": from, "to": to }));
    let steps = model.steps(from.as_flattened(), to.as_flattened()).unwrap();
    assert_eq!(list(&said["steps"]), steps);
    let said = served.asked("/api/steps", &json!({ "run": 0, "from": from, "to": [to[0]] }));
    assert_eq!(list(&said["steps"]), model.steps(from.as_flattened(), &to[0]).unwrap());
    let said = served.asked("/api/pairwise", &json!({ "from": from, "to": to }));
    let pairs = model.pairwise_steps(from.as_flattened(), to.as_flattened()).unwrap();
    assert_eq!(table(&said["steps"]), [&pairs[..2], &pairs[2..]]);
    let said = served.asked("/api/act", &json!({ "observations": from, "goals": to }));
    let actions = model.act(from.as_flattened(), to.as_flattened()).unwrap();
    assert_eq!(table(&said["actions"]), [&actions[..2], &actions[2..]]);
}

#[test]
fn answers_say_how_far_their_states_are_from_the_data() {
    let (served, model) = (Served::new(&[&RUN]), model());
    let (from, to) = ([[0.2f32, 0.1], [0.5, 1e15]], [[0.31f32, 0.69], [30.0, -2.0], [0.9, 0.5]]);
    let list = |said: &Value| serde_json::from_value::<Vec<f32>>(said.clone()).unwrap();
    let far = |states: &[[f32; 2]]| model.novelty(states.as_flattened()).unwrap();
    for (path, to) in
        [("/api/pairwise", &to[..]), ("/api/steps", &to[..2]), ("/api/steps", &to[1..2])]
    {
        let said = served.asked(path, &json!({ "from": from, "to": to }));
        assert_eq!(list(&said["from_spacings"]), far(&from), "{path}");
        assert_eq!(list(&said["to_spacings"]), far(to), "{path}");
    }
    let said = served.asked("/api/act", &json!({ "observations": from, "goals": to[1..] }));
    let spacings = &said["spacings"];
    assert_eq!(list(&spacings["observations"]), far(&from));
    assert_eq!(list(&spacings["goals"]), far(&to[1..]));
    assert!(far(&from)[0] < 1.0 && far(&from)[1] > 1.0 && far(&to)[1] > 1.0);
    // The largest values have a number too.
    let said = served.asked("/api/steps", &json!({ "from": [[1e18, -1e18]], "to": [to[0]] }));
    assert!(list(&said["from_spacings"])[0] > 1.0, "{said}");
}

#[test]
fn runs_of_different_data_are_said_to_be() {
    fn notes(runs: &[&Path]) -> Vec<String> {
        let (_, text) = Served::new(runs).get("/api/runs");
        let told: Value = serde_json::from_str(body_of(&text)).unwrap();
        told["runs"].as_array().unwrap().iter().map(|run| run["notes"].to_string()).collect()
    }
    let same = notes(&[&RUN, &RUN]);
    assert!(same.iter().all(|notes| !notes.contains("the two runs")), "{same:?}");
    let again = trained("again", &["pinwheel", "--set", "data.seed=1"]);
    let found = notes(&[&RUN, &again]);
    assert!(!found[0].contains("the two runs"), "{found:?}");
    assert!(found[1].contains("different recordings of `pinwheel`"), "{found:?}");
    let found = notes(&[&RUN, &CIRCLE]);
    let expected = "different data, `pinwheel` and `circle.npz`";
    assert!(!found[0].contains("the two runs") && found[1].contains(expected), "{found:?}");
    let page = at("two.html");
    let [run, other] = [&RUN, &CIRCLE].map(|run| run.to_str().unwrap());
    said(&["explore", run, other, "--export", page.to_str().unwrap()]);
    assert!(std::fs::read_to_string(&page).unwrap().contains(expected));
}

#[test]
fn plans_are_those_of_the_command() {
    let served = Served::new(&[&RUN]);
    for planner in ["graph", "greedy"] {
        let words = ["--start", "0.2,0.1", "--goal", "0.31,0.69", "--planner", planner];
        let words = [&["plan", RUN.to_str().unwrap()], &words[..], &["--json", "--no-pictures"]];
        let expected: Value = serde_json::from_str(&said(&words.concat())).unwrap();
        let asked = json!({ "start": [0.2, 0.1], "goal": [0.31, 0.69], "planner": planner });
        let mut found = served.asked("/api/plan", &asked);
        assert!(found["cautions"].is_array());
        found.as_object_mut().unwrap().remove("cautions");
        assert_eq!(found, expected);
    }
}

#[test]
fn checks_exact_steps_and_episodes_are_told() {
    let served = Served::new(&[&RUN]);
    let (status, text) = served.get("/api/map");
    let map: Value = serde_json::from_str(body_of(&text)).unwrap();
    assert_eq!((status, &map["axes"]), (200, &json!([0, 1])));
    let audit = served.asked("/api/audit", &json!({}));
    assert!(
        audit["words"][0].as_str().unwrap().starts_with("The triangle inequality holds on all")
    );
    assert_eq!(audit["audit"]["violations"], 0);
    let exact = served.asked("/api/exact", &json!({ "goal": [0.31, 0.69], "axes": [0, 1] }));
    // Cells are four bytes each, three bytes to four letters.
    let cells = map["cells"].as_str().unwrap().trim_end_matches('=').len() * 3 / 16;
    assert_eq!(exact["steps"].as_array().unwrap().len(), cells);
    let asked =
        json!({ "start": [0.2, 0.1], "goal": [0.3, 0.1], "episodes": 20, "control": "graph" });
    let found = served.asked("/api/rollout", &asked);
    assert_eq!(found["episodes"], 20);
    let one = served.asked("/api/rollout", &json!({ "start": [0.2, 0.1], "goal": [0.31, 0.69] }));
    let path = one["path"].as_array().unwrap();
    assert_eq!(path.len() as u64, one["steps"].as_u64().unwrap() + 1);
    let calibration = served.asked("/api/calibration", &json!({ "run": 0 }));
    assert!(!calibration["exact"]["points"].as_array().unwrap().is_empty());
    assert!(calibration["elapsed"]["words"].is_array());
    let (status, told) = served.post("/api/rollout", r#"{"start":[0.5,0.5],"goal":[0.3,0.1]}"#);
    assert_eq!((status, told["error"].as_str().unwrap().contains("wall")), (400, true), "{told}");
}

#[test]
fn runs_say_what_they_can_do() {
    let served = Served::new(&[&STATES]);
    let (_, text) = served.get("/api/runs");
    let told: Value = serde_json::from_str(body_of(&text)).unwrap();
    let about = &told["runs"][0];
    assert_eq!((&about["policy"], &about["distance"]), (&json!(false), &json!(true)));
    assert_eq!((&about["world"], &about["exact"]), (&Value::Null, &Value::Null));
    assert_eq!((about["complete"].clone(), about["state_size"].clone()), (json!(true), json!(3)));
    let (status, _) = served.get("/api/map?x=1&y=2");
    assert_eq!(status, 200);
    let path = served.asked("/api/plan", &json!({ "start": [0.5, 1.0], "goal": [0.55, 0.0, 1.0] }));
    assert_eq!(path["start"]["given"], 2);
    let (status, told) = served.post("/api/act", r#"{"observations":[[1,1,1]],"goals":[[1,1,1]]}"#);
    assert_eq!((status, told["error"].as_str().unwrap().contains("no policy")), (400, true));
}

#[test]
fn an_ant_is_seen_from_above_and_says_that_its_simulator_is_missing() {
    let served = Served::new(&[&ANT]);
    let told: Value = serde_json::from_str(body_of(&served.get("/api/runs").1)).unwrap();
    let about = &told["runs"][0];
    assert_eq!((&about["state_size"], &about["axes"]), (&json!(29), &json!([0, 1])));
    assert_eq!(
        (&about["world"], &about["policy"]),
        (&json!("antmaze-medium-navigate"), &json!(true))
    );
    assert!(about["walls"].as_array().unwrap().contains(&json!([6.0, -2.0, 10.0, 2.0])));
    assert!(about["unrunnable"].as_str().unwrap().contains("no MuJoCo library"), "{about}");
    let path = served.asked("/api/plan", &json!({ "start": [3.8, 2.0], "goal": [2.0, 3.8] }));
    assert_eq!(
        (&path["start"]["given"], &path["path"]["ending"]["kind"]),
        (&json!(2), &json!("arrived"))
    );
    let (_, told) = served.post("/api/plan", r#"{"start":[1],"goal":[2,3]}"#);
    let expected =
        "`start` has 1 value, expected 29 as in the model's states, or the first two or more";
    assert_eq!(told["error"], expected);
    let ends = [vec![2.0; 29], vec![3.0; 29]];
    let asked = json!({ "start": ends[0], "goal": ends[1] }).to_string();
    let (status, told) = served.post("/api/rollout", &asked);
    assert_eq!((status, told["error"].as_str().unwrap().contains("MuJoCo")), (400, true), "{told}");
}

#[test]
fn a_run_that_has_no_checkpoint_yet_is_waited_for() {
    let folder = at("begun");
    std::fs::create_dir(&folder).unwrap();
    std::fs::copy(RUN.join("config.toml"), folder.join("config.toml")).unwrap();
    let served = Served::new(&[&folder]);
    let about = || -> Value {
        serde_json::from_str::<Value>(body_of(&served.get("/api/runs").1)).unwrap()["runs"][0]
            .clone()
    };
    let (status, text) = served.get("/api/map");
    assert_eq!(status, 409, "{text}");
    assert!(about()["waiting"].is_string());
    // It is there as soon as the run has anything to ask.
    std::fs::create_dir(folder.join("checkpoints")).unwrap();
    for entry in std::fs::read_dir(RUN.join("checkpoints")).unwrap().flatten() {
        std::fs::copy(entry.path(), folder.join("checkpoints").join(entry.file_name())).unwrap();
    }
    while about()["version"] == 0 {
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    assert_eq!(served.get("/api/map").0, 200);
    assert!(about()["waiting"].is_null());
}
