//! Numbers in words: the sentences that several commands say alike.

use std::path::Path;

use isochrone::Result;
use isochrone::data::LARGEST;
use isochrone::evaluate::{
    AgainstElapsed, AgainstSolved, Audit, Band, Judgement, LAST, Line, OverTraining, Rate, WIDE,
};
use isochrone::run::{self, LastCheck, RunConfig};
use isochrone::simulate::World;
use isochrone::tabular::steps;

use crate::examiner::{Against, Measured};

/// The line of a command that prints learned steps for a reader who wants to trust them; none where a
/// check found nothing that speaks against them.
pub fn trust(judged: Option<&LastCheck>) -> Option<String> {
    match judged {
        None => Some(
            "meaning   whether learned numbers can be read as steps, `isochrone evaluate` says"
                .to_owned(),
        ),
        Some(judged) => judged.doubt.as_ref().map(|doubt| format!("caution   {doubt}")),
    }
}

/// A whole number with its thousands apart: 19,200.
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let first = digits.len() % 3;
    let mut text = digits[..first].to_owned();
    for group in digits.as_bytes()[first..].chunks(3) {
        if !text.is_empty() {
            text.push(',');
        }
        text.extend(group.iter().map(|&digit| char::from(digit)));
    }
    text
}

/// "1 switch", "2 switches": the plural is given.
pub fn counted(number: u64, one: &str, many: &str) -> String {
    format!("{} {}", grouped(number), if number == 1 { one } else { many })
}

/// A share as a percentage with its standard error and the number of tasks behind it.
pub fn rate(rate: &Rate) -> String {
    format!(
        "{:5.1} % ± {:3.1}   {:>5} tasks",
        100.0 * rate.rate,
        100.0 * rate.standard_error,
        grouped(rate.tasks as u64)
    )
}

/// All evaluations of a run in a maze, whose benchmarks report them in two ways; none elsewhere.
pub fn over_training(config: &RunConfig, folder: &Path) -> Result<Option<OverTraining>> {
    match config.data.world() {
        Some(World::Maze(_)) => run::over_training(config, folder),
        _ => Ok(None),
    }
}

/// The mean of the last evaluations and, beside it, the best.
pub fn evaluations(over: &OverTraining) -> String {
    let [last, best] = [over.last_three, over.best].map(|share| format!("{:.1} %", 100.0 * share));
    let success = match over.evaluations {
        1 => format!("{best} in the only evaluation"),
        count => {
            let last_ones = count.min(LAST);
            format!(
                "{last} in the mean of the last {last_ones} evaluations, {best} in the best of {count}"
            )
        }
    };
    format!("by the policy while it trained: {success}")
}

/// A number that may not be defined.
pub fn maybe(number: Option<f64>, digits: usize) -> String {
    number.map_or("not defined".to_owned(), |number| format!("{number:.digits$}"))
}

/// How many triples break the triangle inequality, and what the distance is like.
pub fn triangle(audit: &Audit) -> String {
    format!(
        "triangle inequality on {} triples: {} (mean distance {:.1} steps, asymmetry {:.2})",
        grouped(audit.triples),
        counted(audit.violations, "violation", "violations"),
        audit.mean_steps,
        audit.asymmetry
    )
}

/// How right learned steps are, in two sentences.
pub fn accuracy(measured: &Measured) -> [String; 2] {
    let found = &measured.found;
    let line = found.slope.zip(found.intercept);
    let reads = line.map_or("no line fits them".to_owned(), |(slope, intercept)| {
        format!("learned = {}", straight(&Line { slope, intercept }, "steps"))
    });
    let apart = match found.unreachable_auc {
        Some(auc) => format!(
            "; {}, told from the others with AUC {auc:.2}",
            counted(found.unreachable as u64, "unreachable pair", "unreachable pairs")
        ),
        None => String::new(),
    };
    [
        format!(
            "accuracy: Spearman {} (near {}, far {}, per goal {}); {reads}; median relative error {} %",
            maybe(found.spearman, 2),
            maybe(found.near, 2),
            maybe(found.far, 2),
            maybe(found.per_goal, 2),
            maybe(found.median_relative_error.map(|error| 100.0 * error), 0),
        ),
        format!(
            "on {}{apart}; exact: {}",
            counted(found.pairs as u64, "reachable pair", "reachable pairs"),
            measured.against
        ),
    ]
}

/// Which trajectories learned and elapsed steps are compared on.
pub fn recorded(found: &AgainstElapsed) -> String {
    let count = |kind: &str| {
        let (one, many) = (format!("{kind} trajectory"), format!("{kind} trajectories"));
        counted(found.trajectories as u64, &one, &many)
    };
    match found.held_out {
        Some(true) => count("held-out"),
        Some(false) => format!("{}, as none were held out", count("training")),
        None => {
            let trajectories = counted(found.trajectories as u64, "trajectory", "trajectories");
            format!("{trajectories} (whether training saw them is not known)")
        }
    }
}

/// How learned steps relate to elapsed and to solved ones, a line each; the last says where they should
/// not be read as steps.
pub fn judgement(judgement: &Judgement<'_>) -> Vec<String> {
    let elapsed = judgement.elapsed.map(|found| [elapsed_share(found), medians(found)]);
    elapsed.into_iter().flatten().chain(beside_elapsed(judgement)).collect()
}

/// The same without what elapsed.
pub fn beside_elapsed(judgement: &Judgement<'_>) -> Vec<String> {
    let (mut lines, doubt) = (Vec::new(), judgement.doubt());
    if let Some(found) = judgement.solved {
        lines.push(solved(found));
        // Beside another doubt: its remedies are for the default learner; others are first told to switch.
        if judgement.is_of_default() {
            lines.extend(judgement.lost_ways().filter(|lost| doubt.as_ref() != Some(lost)));
        }
    }
    lines.extend(doubt);
    lines
}

fn medians(found: &AgainstElapsed) -> String {
    let medians = |band: &Band| format!("{:.0} → {:.0}", band.elapsed, band.learned);
    let medians: Vec<String> = found.bands.iter().map(medians).collect();
    format!("elapsed → learned steps, in the median: {}", medians.join(", "))
}

/// How often learned steps are at or below elapsed ones, and how they fall.
pub fn elapsed_share(found: &AgainstElapsed) -> String {
    format!(
        "elapsed steps on {}: learned steps are at or below them on {:.0} % of {} pairs (the fewest \
         steps would be on nearly all) and fall by {} per elapsed step toward a goal (1 is ideal, \
         less where the data wander)",
        recorded(found),
        100.0 * found.at_or_below,
        grouped(found.pairs as u64),
        maybe(found.drop_per_step, 2),
    )
}

/// That a coordinate of a state looks like an angle that wraps.
pub fn wraps(axis: usize) -> String {
    format!(
        "dimension {axis} of the states looks like an angle that wraps: save its cosine and its sine \
         instead, or neighbours across the ends of its range are learned as far apart"
    )
}

/// What is wrong with the state `name` if a value of it is not finite or larger than data may be.
pub fn unusable(name: &str, state: &[f32]) -> Option<String> {
    let at = state.iter().position(|value| !value.is_finite() || value.abs() > LARGEST)?;
    let value = state[at];
    let expected = if value.is_finite() { "at most 1e18 in size" } else { "a finite number" };
    Some(format!("`{name}` value {at} is `{value}`, expected {expected}"))
}

/// How learned steps agree with the fewest along recorded moves.
fn solved(found: &AgainstSolved) -> String {
    // What lies in one place joins trajectories that never met.
    let wide = if found.place > WIDE {
        format!(" in places {:.0} steps wide", found.place)
    } else {
        String::new()
    };
    format!(
        "against the fewest steps along recorded moves, joined across trajectories{wide}: median error \
         of learned steps {:.0} % over {} pairs",
        100.0 * found.median_relative_error,
        grouped(found.pairs as u64)
    )
}

/// How ranks and scale of learned steps agree with exact ones.
pub fn against(against: &Against) -> String {
    let reads = match &against.line {
        Some(line) => format!("reads as {}", straight(line, "steps")),
        None => "no line fits it".to_owned(),
    };
    format!(
        "against the exact solver: Spearman {} on pairs seen together, {} on stitched pairs; {reads}",
        maybe(against.seen.data, 2),
        maybe(against.stitched.data, 2),
    )
}

/// How learned steps agree with the fewest that any policy needs.
pub fn fewest(against: &Against) -> String {
    format!(
        "against the fewest steps of any policy: Spearman {} and {}; median error {} steps after a \
         monotone map, on goals it was not fitted on; a band of ± {} steps for 90 % holds {} %",
        maybe(against.seen.optimal, 2),
        maybe(against.stitched.optimal, 2),
        maybe(against.median_error, 1),
        maybe(against.band, 1),
        maybe(against.coverage.map(|share| 100.0 * share), 0),
    )
}

/// The learner's name as papers write it: CMD-2, MQE.
pub fn algorithm(config: &RunConfig) -> String {
    match config.algorithm.name() {
        "cmd1" => "CMD-1".to_owned(),
        "cmd2" => "CMD-2".to_owned(),
        "atlas" => "Atlas".to_owned(),
        "c-learning" => "C-learning".to_owned(),
        other => other.to_uppercase(),
    }
}

/// A line over what `over` names: 1.04 × exact + 1.6.
pub fn straight(line: &Line, over: &str) -> String {
    let sign = if line.intercept < 0.0 { '−' } else { '+' };
    format!("{:.2} × {over} {sign} {:.1}", line.slope, line.intercept.abs())
}

/// What a number of steps means at `discount`.
pub fn meaning(discount: f64) -> String {
    format!(
        "a certainty equivalent: at most the expected number of steps; a goal that \
         becomes unreachable with probability ½ costs {:.1} steps more at discount {discount}",
        steps(std::f64::consts::LN_2, discount)
    )
}

/// How far a state is from the data, given in typical spacings of data states.
pub fn novelty(spacings: f32) -> String {
    if spacings <= 1.0 {
        "within the data".to_owned()
    } else {
        format!("{spacings:.1} spacings from the data, answers there are guesses")
    }
}

/// A state as coordinates, with the digits that tell it apart from every other state; of a long one
/// the first few.
pub fn state(state: &[f32]) -> String {
    const MOST: usize = 6;
    let mut numbers: Vec<String> = state.iter().take(MOST).map(f32::to_string).collect();
    if state.len() > MOST {
        numbers.push(format!("… {} more", state.len() - MOST));
    }
    format!("({})", numbers.join(", "))
}

#[cfg(test)]
mod tests {
    use isochrone::evaluate::{Verdict, WaysBack};

    use super::*;

    #[test]
    fn evaluations_are_summarized_where_there_are_several() {
        let told = |rates: &[f64]| evaluations(&OverTraining::of(rates).unwrap());
        assert_eq!(told(&[0.5]), "by the policy while it trained: 50.0 % in the only evaluation");
        let wanted = "by the policy while it trained: 50.0 % in the mean of the last 3 evaluations, \
                      100.0 % in the best of 4";
        assert_eq!(told(&[1.0, 0.0, 0.5, 1.0]), wanted);
    }

    #[test]
    fn thousands_are_apart() {
        let wanted = [(0, "0"), (999, "999"), (1_000, "1,000"), (1_234_567, "1,234,567")];
        for (number, text) in wanted {
            assert_eq!(grouped(number), text);
        }
    }

    #[test]
    fn a_printed_state_can_be_typed_in_again() {
        let given = [0.1, -0.000_123_4, 512_345.67, 3.0, 1.0 / 3.0];
        let text = state(&given);
        let numbers = text.trim_matches(['(', ')']).split(", ");
        assert_eq!(
            numbers.map(|it| it.parse::<f32>().unwrap()).collect::<Vec<_>>(),
            given,
            "{text}"
        );
        assert_eq!(state(&[0.2, 0.1]), "(0.2, 0.1)");
        assert_eq!(state(&[1.0; 8]), "(1, 1, 1, 1, 1, 1, … 2 more)");
    }

    #[test]
    fn steps_say_what_missing_a_goal_costs() {
        assert!(meaning(0.95).ends_with("costs 13.5 steps more at discount 0.95"));
    }

    #[test]
    fn a_judgement_has_a_line_for_each_of_what_steps_are_judged_by() {
        let mut found = AgainstElapsed {
            held_out: Some(true),
            trajectories: 40,
            pairs: 1_500,
            at_or_below: 0.25,
            spearman: Some(0.9),
            drop_per_step: Some(1.84),
            bands: vec![Band {
                from: 2,
                pairs: 700,
                elapsed: 3.0,
                learned: 168.4,
                far_above: 1.0,
                far_below: 0.0,
            }],
            reading: Verdict::FarAbove,
            points: Vec::new(),
        };
        fn judged(found: &AgainstElapsed) -> Judgement<'_> {
            Judgement { elapsed: Some(found), solved: None, exact: None, algorithm: "cmd1" }
        }
        let lines = judgement(&judged(&found));
        assert!(lines[0].starts_with("elapsed steps on 40 held-out trajectories"), "{lines:?}");
        assert!(lines[0].contains("on 25 % of 1,500 pairs (the fewest"), "{lines:?}");
        assert!(lines[0].contains("and fall by 1.84 per elapsed step"), "{lines:?}");
        assert_eq!(lines[1], "elapsed → learned steps, in the median: 3 → 168");
        assert_eq!(lines.last(), judged(&found).doubt().as_ref());
        (found.reading, found.held_out) = (Verdict::Steps, Some(false));
        let lines = judgement(&judged(&found));
        assert_eq!(lines.len(), 2);
        assert!(lines[0].contains("40 training trajectories, as none were held out"), "{lines:?}");
        let wide = AgainstSolved {
            pairs: 1_000,
            place: 11.3,
            median_relative_error: 0.1,
            ways_back: None,
        };
        let told = judgement(&Judgement { solved: Some(&wide), ..judged(&found) }).remove(2);
        assert!(
            told.contains("joined across trajectories in places 11 steps wide: median"),
            "{told}"
        );
        let back = WaysBack { share: 0.24, solved: 78.0, learned: 1.0, are_lost: true };
        let solved = |error| AgainstSolved {
            pairs: 3_900,
            place: 0.5,
            median_relative_error: error,
            ways_back: Some(back.clone()),
        };
        let (off, right) = (solved(2.19), solved(0.1));
        let lines = judgement(&Judgement { solved: Some(&off), ..judged(&found) });
        assert!(lines[2].ends_with("median error of learned steps 219 % over 3,900 pairs"));
        assert_eq!(lines.len(), 4, "others than the default learner are first told to switch");
        let own = Judgement { solved: Some(&off), algorithm: "atlas", ..judged(&found) };
        assert!(judgement(&own)[3].contains("where ways are one-way: after 24 %"));
        let lines = judgement(&Judgement { solved: Some(&right), ..judged(&found) });
        assert!(lines[3].contains("where ways are one-way: after 24 %") && lines.len() == 4);
    }

    #[test]
    fn a_line_with_a_negative_intercept_has_a_minus_sign() {
        assert_eq!(straight(&Line { slope: 0.5, intercept: -2.25 }, "steps"), "0.50 × steps − 2.2");
    }

    #[test]
    fn a_state_far_from_the_data_is_called_a_guess() {
        assert_eq!(novelty(1.0), "within the data");
        assert_eq!(novelty(3.21), "3.2 spacings from the data, answers there are guesses");
    }
}
