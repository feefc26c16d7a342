//! Whether learned numbers can be read as steps, in one sentence.

use super::elapsed::{AgainstElapsed, Verdict};
use super::solved::{AgainstSolved, MOST_OFF};
use crate::algorithms::Config;

/// The median relative error up to which learned steps agree well with those that were solved.
const WELL: f64 = 0.2;

/// Places wider than so many steps join trajectories that may never have met.
pub const WIDE: f64 = 2.0;

/// What learned steps are judged by.
#[derive(Clone, Copy)]
pub struct Judgement<'a> {
    /// Steps that elapsed.
    pub elapsed: Option<&'a AgainstElapsed>,
    /// The fewest steps along recorded moves.
    pub solved: Option<&'a AgainstSolved>,
    /// The median relative error against exact steps.
    pub exact: Option<f64>,
    /// The learner.
    pub algorithm: &'a str,
}

impl Judgement<'_> {
    /// Whether the default learner is judged, which no other is better at.
    pub fn is_of_default(&self) -> bool {
        self.algorithm == Config::DEFAULT
    }

    /// Where one-way moves are read both ways, if they are.
    pub fn lost_ways(&self) -> Option<String> {
        let back = self.solved?.ways_back.as_ref().filter(|back| back.are_lost)?;
        Some(format!(
            "read the learned numbers with care where ways are one-way: after {:.0} % of recorded moves \
             the recorded way back takes 10 steps or more (median {:.0}), and is learned as {:.1}; train \
             longer (`--more`), or tell nearby places apart (docs/choosing.md, One-way streets and fast \
             roads)",
            100.0 * back.share,
            back.solved,
            back.learned
        ))
    }

    /// Why learned steps should not be read as steps; `None` if nothing speaks against it.
    pub fn doubt(&self) -> Option<String> {
        let far = |from: &str| {
            format!("their median error is above {:.0} % against {from}", 100.0 * MOST_OFF)
        };
        let solved = self.solved.map(|found| found.median_relative_error);
        let off = match (self.exact, solved) {
            (Some(error), _) if error > MOST_OFF => Some(far("exact steps")),
            (_, Some(error)) if error > MOST_OFF => {
                Some(far("the fewest steps along recorded moves"))
            }
            _ => None,
        };
        let why = match self.elapsed.map(|found| found.reading) {
            // Exact steps know better.
            Some(Verdict::FarAbove) if self.exact.is_some_and(|it| it <= WELL) => {
                return self.lost_ways();
            }
            // What was solved is no second opinion on luck: it comes from the same moves.
            Some(Verdict::FarAbove) if off.is_none() && solved.is_some_and(|it| it <= WELL) => {
                return Some(
                    "read the learned numbers with care: most pairs of some length read far above the \
                     steps that elapsed, though they agree with the fewest steps along recorded moves; \
                     either those goals were reached by luck, or nearby places are not told apart \
                     (docs/choosing.md, Steps that can be read as steps)"
                        .to_owned(),
                );
            }
            Some(Verdict::FarAbove) => {
                "most pairs of some length read far above the steps that elapsed".to_owned()
            }
            Some(Verdict::FarBelow) => {
                "most pairs of some length read far fewer steps than even the \
                                        fastest recorded moves take"
                    .to_owned()
            }
            Some(Verdict::Unordered) => {
                "the distance hardly rises with the steps that elapsed".to_owned()
            }
            Some(Verdict::TooFew) if self.exact.is_none() && solved.is_none() => {
                return Some(
                    "too few recorded pairs to tell whether the learned numbers can be read as steps: no \
                     range of elapsed steps has 20"
                        .to_owned(),
                );
            }
            Some(Verdict::Steps | Verdict::TooFew) | None => match off {
                Some(off) => off,
                None => return self.lost_ways(),
            },
        };
        let remedy = match self.is_of_default() {
            true if self.solved.is_some_and(|found| found.place > WIDE) => {
                "train longer or on more data, or name the coordinates that say where a state is \
                 (`algorithm.teacher.place`; docs/choosing.md, Bodies with many joints)"
                    .to_owned()
            }
            true => "train longer or on more data".to_owned(),
            false => format!("where steps matter, use the learner `{}`", Config::DEFAULT),
        };
        Some(format!("do not read the learned numbers as steps: {why}; {remedy}"))
    }

    /// Whether enough was compared to say that nothing speaks against learned steps, or something does.
    pub fn is_settled(&self) -> bool {
        self.solved.is_some() || self.exact.is_some() || self.doubt().is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::super::elapsed::Band;
    use super::super::solved::WaysBack;
    use super::*;

    #[test]
    fn one_sentence_says_when_a_number_is_not_to_be_read_as_steps() {
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
        fn judgement(found: &AgainstElapsed) -> Judgement<'_> {
            Judgement { elapsed: Some(found), solved: None, exact: None, algorithm: "cmd1" }
        }
        let doubt = judgement(&found).doubt().unwrap();
        assert!(doubt.starts_with("do not read the learned numbers as steps: "), "{doubt}");
        assert!(doubt.ends_with("where steps matter, use the learner `atlas`"), "{doubt}");
        let own = Judgement { algorithm: "atlas", ..judgement(&found) }.doubt().unwrap();
        assert!(own.ends_with("train longer or on more data"), "{own}");
        found.reading = Verdict::Steps;
        // Nothing that elapsed speaks against it, which alone settles nothing.
        assert_eq!((judgement(&found).doubt(), judgement(&found).is_settled()), (None, false));
        let solved = |error| AgainstSolved {
            pairs: 3_900,
            place: 0.5,
            median_relative_error: error,
            ways_back: None,
        };
        let (off, right) = (solved(2.19), solved(0.1));
        let far = Judgement { solved: Some(&off), ..judgement(&found) }.doubt().unwrap();
        assert!(far.contains("above 50 % against the fewest steps along"), "{far}");
        let well = Judgement { solved: Some(&right), ..judgement(&found) };
        assert_eq!((well.doubt(), well.is_settled()), (None, true));
        let back = WaysBack { share: 0.24, solved: 78.0, learned: 1.0, are_lost: true };
        let lost = AgainstSolved { ways_back: Some(back.clone()), ..right.clone() };
        let lost = Judgement { solved: Some(&lost), ..well };
        assert!(lost.doubt().unwrap().contains("(median 78), and is learned as 1.0; train longer"));
        assert_eq!(lost.doubt(), lost.lost_ways());
        let kept = WaysBack { are_lost: false, ..back };
        let kept = AgainstSolved { ways_back: Some(kept), ..right.clone() };
        assert_eq!(Judgement { solved: Some(&kept), ..well }.doubt(), None);
        let exact = Judgement { exact: Some(2.77), ..well }.doubt().unwrap();
        assert!(exact.contains("their median error is above 50 % against exact steps"), "{exact}");
        found.reading = Verdict::TooFew;
        let few = judgement(&found).doubt().unwrap();
        assert!(few.starts_with("too few recorded pairs"), "{few}");
        assert!(judgement(&found).is_settled());
        let judged = |solved| Judgement { solved: Some(solved), ..judgement(&found) };
        assert_eq!(judged(&off).doubt(), Some(far));
        assert_eq!(judged(&right).doubt(), None);
        // A way that luck made short is no longer than the learned steps say.
        found.reading = Verdict::FarAbove;
        let lucky = |solved| Judgement { solved: Some(solved), ..judgement(&found) };
        let doubt = lucky(&right).doubt().unwrap();
        assert!(doubt.starts_with("read the learned numbers with care: "), "{doubt}");
        let fair = solved(0.4);
        for far in [&off, &fair] {
            assert!(lucky(far).doubt().unwrap().starts_with("do not read "));
        }
        // Exact steps know whether it was luck.
        assert_eq!(Judgement { exact: Some(0.07), ..lucky(&right) }.doubt(), None);
        let wide = AgainstSolved { place: 5.0, ..off.clone() };
        let own = Judgement { algorithm: "atlas", ..lucky(&wide) }.doubt().unwrap();
        assert!(own.contains("name the coordinates that say where a state is"), "{own}");
    }
}
