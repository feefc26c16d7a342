//! The page of accuracy in Markdown: how right learned steps are, a function of the folders of
//! comparisons.

use std::fmt::Write;

use isochrone::evaluate::{ASKED, FAR, NEAR};
use isochrone::simulate::Referee;

use super::report::ComparisonReport;
use super::{page, table};

/// What stands below the title.
pub const SIGN: &str = "Written by `isochrone compare --distance`";

/// The page.
pub fn page(reports: &[ComparisonReport]) -> String {
    let [goals, starts] = ASKED;
    let mut text = format!(
        "# How accurate the learned steps are\n\n{SIGN} from the runs it trained; not edited by hand.\n\nThe final model of each run is asked for the steps between \
         {goals} goals and {starts} starts of each, all drawn from recorded rows. Exact steps are \
         −ln max E γ^H / ln(1/γ), H the steps until the goal is first reached, over policies that take only \
         recorded moves. Cells are mean ± standard error over seeds.\n\n\
         - Spearman: rank correlation over all reachable pairs, over near ones (at most {NEAR} exact \
         steps), over far ones (more than {FAR}), and over the starts of each goal (the mean).\n\
         - Slope, intercept: learned = slope × exact + intercept, by least squares; in steps.\n\
         - Relative error: the median of |learned − exact| / exact.\n\
         - No way (AUC): how well unreachable pairs are told apart from the others by their learned \
         distance; 1 is perfect, 0.5 is chance. A pair that takes more steps than an episode has \
         counts as unreachable.\n\
         - Success: by the policy alone, as in the table of results.\n",
    );
    reports.iter().for_each(|report| worlds(&mut text, report));
    text.push_str("\n## How it was made\n");
    for report in reports {
        text.push('\n');
        page::trained(&mut text, report);
        let about = report.sheet.iter().flat_map(|sheet| &sheet.about);
        about.for_each(|line| text.push_str(&format!("- {line}\n")));
    }
    text
}

/// A table for each world.
fn worlds(text: &mut String, report: &ComparisonReport) {
    for protocol in &report.protocols {
        let found = table::of_accuracy(&report.rows, protocol.world);
        let (Some(found), Some(meaning)) = (found, Referee::meaning(protocol.world)) else {
            continue;
        };
        let _ = write!(
            text,
            "\n## {}\n\nExact: {meaning}; discount {} unless a run's settings name another.\n\n{}",
            protocol.world,
            protocol.discount,
            found.markdown()
        );
    }
}
