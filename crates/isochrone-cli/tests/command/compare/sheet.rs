//! A comparison that a sheet describes.

use std::path::Path;
use std::process::Command;

use isochrone::run::compare::Sheet;

use super::{FOLDER, csv, holds, isochrone, read, said};

#[test]
fn a_sheet_names_worlds_learners_and_what_others_published() {
    let sheet = FOLDER.path().join("small.toml");
    let text = "title = 'A small table'
        about = ['Data: recorded here.']
        worlds = ['pinwheel']
        algorithms = ['gcbc', 'cmd1']
        seeds = 2
        one_recording = true
        planner = true
        [settings]
        train = { batch_size = 32, steps = 40, evaluate_every = 10 }
        evaluation.tasks = 8
        algorithm.policy.network.hidden = [16]
        [learner.cmd1]
        algorithm.network.hidden = [16]
        [[published]]
        name = 'elsewhere'
        source = 'somebody'
        protocol = 'eight seeds'
        success.pinwheel = { gcbc = '9 ± 6' }";
    std::fs::write(&sheet, text).unwrap();
    let (out, page) = (FOLDER.path().join("sheet"), FOLDER.path().join("sheet.md"));
    let command = |more: &[&str]| {
        let mut command = isochrone();
        command.arg("compare").arg(&sheet).args(["--threads", "2", "--device", "cpu", "--out"]);
        command.arg(&out).arg("--results").arg(&page).args(more);
        command
    };
    let [told, _] = said(command(&[]), 0);
    let row = |name: &str| {
        told.lines().find(|line| line.trim_start().starts_with(name)).unwrap().to_owned()
    };
    assert!(row("algorithm").ends_with("elsewhere") && row("gcbc").ends_with("9 ± 6"), "{told}");
    assert!(row("cmd1").ends_with('–'), "{told}");
    let written = std::fs::read_to_string(&page).unwrap();
    let wanted = [
        "# A small table\n",
        "- Data: recorded here.",
        "- The column `elsewhere` is from somebody, not measured here: eight seeds.",
        "data are recorded once, 8 pairs of start and goal are drawn anew for each seed",
        "| pinwheel | cmd1 | awr | 0, 1 | 40 | 32 |",
    ];
    holds(&written, &wanted);
    let runs = csv(&read(&out, "compare.csv"));
    assert_eq!(runs.len(), 4);
    // A picture of routes in a run's folder is copied next to the page.
    let routes = out.join("pinwheel/gcbc/seed-1/routes.png");
    std::fs::write(&routes, "a picture").unwrap();
    said(command(&[]), 0);
    let drawn = std::fs::read_to_string(&page).unwrap();
    assert!(drawn.contains("![Routes of gcbc in pinwheel, seed 1](sheet-pinwheel-gcbc.png)"));
    let copied = std::fs::read(FOLDER.path().join("sheet-pinwheel-gcbc.png")).unwrap();
    assert_eq!(copied, b"a picture");
    std::fs::remove_file(routes).unwrap();
    for run in &runs {
        let [last, best] = ["last_three", "best"].map(|name| run[name].parse::<f64>().unwrap());
        assert!(last <= best);
    }
    // The folder keeps the sheet; one learner and fewer seeds may be asked for again.
    let mut report = isochrone();
    report.args(["compare", "--report-only"]).arg(&out).arg("--results").arg(&page);
    assert_eq!(said(report, 0)[0], told);
    assert_eq!(std::fs::read_to_string(&page).unwrap(), written);
    let [again, _] = said(command(&["--algorithm", "gcbc", "--seeds", "1"]), 0);
    assert_eq!(again, told);
    let [_, refused] = said(command(&["--set", "data.policy_goal=[5]"]), 2);
    assert!(refused.contains("`data.policy_goal` is `[5]`"), "{refused}");
}

/// Unpacks `benches/results/ARCHIVE.tgz`, which holds the folder `runs`, and compares its sheet with
/// `configs/ARCHIVE.toml` and its page with `docs/results-ARCHIVE.md`.
fn kept_runs_give_the_page(archive: &str, runs: &str) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let folder = FOLDER.path().join(format!("kept-{archive}"));
    std::fs::create_dir(&folder).unwrap();
    let mut unpack = Command::new("tar");
    unpack.arg("xzf").arg(root.join(format!("benches/results/{archive}.tgz")));
    assert!(unpack.arg("-C").arg(&folder).status().unwrap().success());
    let runs = folder.join(runs);
    let sheets = [runs.join("sheet.toml"), root.join(format!("configs/{archive}.toml"))];
    let [kept, ours] = sheets.map(|path| Sheet::read(&path).unwrap());
    assert_eq!(kept, ours);
    let name = format!("results-{archive}");
    let mut report = isochrone();
    report.args(["compare", "--report-only"]).arg(runs).arg("--results");
    report.arg(folder.join(&name).with_extension("md"));
    said(report, 0);
    for end in ["md", "svg"] {
        let file = Path::new(&name).with_extension(end);
        let [made, kept] = [folder.join(&file), root.join("docs").join(&file)]
            .map(|path| std::fs::read_to_string(path).unwrap());
        let differs = made.lines().zip(kept.lines()).find(|(one, other)| one != other);
        assert!(made == kept, "{}: {differs:?}", file.display());
    }
}

#[test]
fn pages_of_published_budgets_are_what_the_kept_runs_give_by_the_sheets_in_the_tree() {
    kept_runs_give_the_page("pointmaze-published", "published");
    kept_runs_give_the_page("antmaze-paper", "antmaze-paper");
    kept_runs_give_the_page("antmaze-published", "antmaze-published");
}
