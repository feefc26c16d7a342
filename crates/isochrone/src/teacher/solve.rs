//! −ln max E γ^H to a set of landmarks, over the counted process, with a confidence bound.
//!
//! V = 1 on the goal; elsewhere V(u) = γ max over kinds of (1 − p) (m − c √(v / (n + b))) + p L, where v
//! and n are variance and number of the recorded successors' values, m the mean of them and of b
//! borrowed ones worth the mean over all kinds, p the chance of a rare leap there and L the mean value
//! of where leaps land. Without the bound the maximum over kinds with few moves would believe the
//! luckiest. Values rise from 0. Sweeps follow the order of a search from
//! the goal, so that each landmark is valued after those it leads to, and pass over landmarks that lead
//! to none whose value has risen.

use super::process::Counted;

/// A value that would rise by a smaller share stays as it is.
const CHANGE: f64 = 3e-4;
/// Sweeps at most.
const MOST_SWEEPS: usize = 2_000;

/// The constants of the equation.
#[derive(Debug, Clone, Copy)]
pub(super) struct Rule {
    /// γ of a move.
    pub discount: f64,
    /// c: standard errors taken off.
    pub confidence: f64,
}

/// The distance in nats from every landmark to the set `goal`; +∞ where nothing leads there.
pub(super) fn distances(process: &Counted, rule: Rule, goal: &[u32]) -> Vec<f32> {
    let order = outwards(process, goal);
    let mut values = vec![0.0f64; process.count()];
    goal.iter().for_each(|&landmark| values[landmark as usize] = 1.0);
    let mut due = vec![true; process.count()];
    for _ in 0..MOST_SWEEPS {
        let mut risen = false;
        for &landmark in &order[goal.len()..] {
            let landmark = landmark as usize;
            if !std::mem::replace(&mut due[landmark], false) {
                continue;
            }
            let value = value(process, rule, &values, landmark);
            if value - values[landmark] > CHANGE * value {
                values[landmark] = value;
                risen = true;
                process.leading_to(landmark).iter().for_each(|&from| due[from as usize] = true);
            }
        }
        if !risen {
            break;
        }
    }
    values.into_iter().map(|value| -value.ln() as f32).map(|nats| nats.max(0.0)).collect()
}

/// γ max over kinds, as the header says.
fn value(process: &Counted, rule: Rule, values: &[f64], landmark: usize) -> f64 {
    let stand_in = process.stand_ins[landmark] as usize;
    if stand_in != landmark {
        return values[stand_in];
    }
    let (walked, leaps) = (&process.walked, &process.leaps);
    let landings = leaps.landings[landmark] as usize..leaps.landings[landmark + 1] as usize;
    let landed = leaps.landed[landings.clone()].iter().zip(&leaps.shares[landings]);
    let lucky: f64 = landed.map(|(&to, share)| share * values[to as usize]).sum();
    let leap = leaps.chances[landmark];
    let borrowed = process.borrowed;
    let average = if borrowed > 0.0 { average(process, values, landmark) } else { 0.0 };
    let mut best: f64 = 0.0;
    for group in walked.groups[landmark] as usize..walked.groups[landmark + 1] as usize {
        let moves = walked.moves[group] as usize..walked.moves[group + 1] as usize;
        let (mut number, mut sum, mut squares) = (0.0, 0.0, 0.0);
        for (&to, &count) in walked.targets[moves.clone()].iter().zip(&walked.counts[moves]) {
            let value = values[to as usize];
            number += count;
            sum += count * value;
            squares += count * value * value;
        }
        let mean = sum / number;
        let variance = (squares / number - mean * mean).max(0.0);
        let all = number + borrowed;
        let mean = (sum + borrowed * average) / all;
        best = best.max(mean - rule.confidence * (variance / all).sqrt());
    }
    rule.discount * ((1.0 - leap) * best + leap * lucky)
}

/// The mean value after all recorded moves of a landmark, whatever their kind.
fn average(process: &Counted, values: &[f64], landmark: usize) -> f64 {
    let walked = &process.walked;
    let start = |landmark: usize| walked.moves[walked.groups[landmark] as usize] as usize;
    let moves = start(landmark)..start(landmark + 1);
    let (mut number, mut sum) = (0.0, 0.0);
    for (&to, &count) in walked.targets[moves.clone()].iter().zip(&walked.counts[moves]) {
        number += count;
        sum += count * values[to as usize];
    }
    sum / number
}

/// The landmarks that lead to `goal`, in the order of a breadth-first search from it.
fn outwards(process: &Counted, goal: &[u32]) -> Vec<u32> {
    let mut found = vec![false; process.count()];
    goal.iter().for_each(|&landmark| found[landmark as usize] = true);
    let mut order = goal.to_vec();
    let mut at = 0;
    while at < order.len() {
        let landmark = order[at] as usize;
        at += 1;
        for &source in process.leading_to(landmark) {
            if !std::mem::replace(&mut found[source as usize], true) {
                order.push(source);
            }
        }
    }
    order
}
