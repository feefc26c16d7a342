//! Several seeds of one run, summarized by means and standard errors.

use std::path::PathBuf;

use isochrone::Result;
use serde::Serialize;

use crate::evaluation::Evaluation;
use crate::output::say;
use crate::wording;

/// The most switches that have their own row.
const MOST_SWITCHES: u8 = 4;

/// What an evaluation of several seeds prints.
#[derive(Serialize)]
pub struct SeedsReport {
    folder: PathBuf,
    means: Vec<Mean>,
    seeds: Vec<Evaluation>,
    pictures: Vec<PathBuf>,
}

/// One figure over seeds.
#[derive(Debug, Serialize)]
struct Mean {
    name: String,
    mean: f64,
    /// √(Σ (value − mean)² / (n − 1) / n); none for one seed.
    standard_error: Option<f64>,
    seeds: usize,
    #[serde(skip)]
    digits: usize,
}

impl Mean {
    /// The mean of the known values; none if there are none.
    fn of(name: &str, digits: usize, values: Vec<f64>) -> Option<Self> {
        let count = values.len() as f64;
        let mean = values.iter().sum::<f64>() / count;
        let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
        let standard_error = (values.len() > 1).then(|| (squares / (count - 1.0) / count).sqrt());
        let (name, seeds) = (name.to_owned(), values.len());
        (seeds > 0).then_some(Self { name, mean, standard_error, seeds, digits })
    }
}

impl SeedsReport {
    /// Means over `seeds`.
    pub fn new(folder: PathBuf, seeds: Vec<Evaluation>, pictures: Vec<PathBuf>) -> Self {
        let means = means(&seeds);
        Self { folder, means, seeds, pictures }
    }

    /// Prints the means as a table.
    pub fn tell(&self) -> Result<()> {
        if let Some(first) = self.seeds.first() {
            let control = first.control.words();
            let seeds = wording::counted(self.seeds.len() as u64, "seed", "seeds");
            say(&format!("run       {}, {seeds}; success by the {control}", first.name()))?;
            for missing in &first.not_available {
                say(&format!("missing   {missing}"))?;
            }
        }
        let widest = self.means.iter().map(|row| row.name.chars().count()).max().unwrap_or(0);
        say(&format!("          {:widest$}      mean ± standard error", ""))?;
        for row in &self.means {
            let digits = row.digits;
            let error =
                row.standard_error.map_or(String::new(), |error| format!(" ± {error:.digits$}"));
            let fewer = if row.seeds < self.seeds.len() {
                format!("   (of {})", wording::counted(row.seeds as u64, "seed", "seeds"))
            } else {
                String::new()
            };
            say(&format!(
                "          {:<widest$}  {:>8.digits$}{error}{fewer}",
                row.name, row.mean
            ))?;
        }
        let doubt = |found: &Evaluation| Some((found.seed, found.doubt.clone()?));
        let mut doubts: Vec<(Vec<String>, String)> = Vec::new();
        for (seed, doubt) in self.seeds.iter().filter_map(doubt) {
            match doubts.iter_mut().find(|(_, known)| *known == doubt) {
                Some((seeds, _)) => seeds.push(seed.to_string()),
                None => doubts.push((vec![seed.to_string()], doubt)),
            }
        }
        for (seeds, doubt) in doubts {
            let name = if seeds.len() == 1 { "seed" } else { "seeds" };
            say(&format!("check     {name} {}: {doubt}", seeds.join(", ")))?;
        }
        for picture in &self.pictures {
            say(&format!("wrote     {}", picture.display()))?;
        }
        Ok(())
    }
}

fn means(seeds: &[Evaluation]) -> Vec<Mean> {
    let mean = |name: &str, digits: usize, value: &dyn Fn(&Evaluation) -> Option<f64>| {
        Mean::of(name, digits, seeds.iter().filter_map(value).collect())
    };
    let reached = |found: &Evaluation| found.success.as_ref().map(|it| 100.0 * it.overall.rate);
    let stitched =
        |found: &Evaluation| Some(100.0 * found.success.as_ref()?.stitched.as_ref()?.rate);
    let mut rows =
        vec![mean("reached, all (%)", 1, &reached), mean("reached, stitched (%)", 1, &stitched)];
    let over = |found: &Evaluation| found.over_training;
    rows.push(mean("last three evaluations (%)", 1, &|found| {
        Some(100.0 * over(found)?.last_three)
    }));
    rows.push(mean("best evaluation (%)", 1, &|found| Some(100.0 * over(found)?.best)));
    let tasks = seeds.iter().filter_map(|found| found.success.as_ref());
    for at in 0..tasks.map(|success| success.by_task.len()).max().unwrap_or(0) {
        let task = |found: &Evaluation| found.success.as_ref()?.by_task.get(at).copied();
        let name = |what: &str| format!("task {}{what}", at + 1);
        let rate = |found: &Evaluation| Some(100.0 * task(found)?.rate.rate);
        rows.push(mean(&name(" (%)"), 1, &rate));
        rows.push(mean(&name(", steps"), 0, &|found| task(found)?.mean_steps));
    }
    for switches in 0..=MOST_SWITCHES {
        let class = |found: &Evaluation| {
            let classes = &found.success.as_ref()?.by_switches;
            let class = classes.iter().find(|class| class.switches == switches)?;
            Some(100.0 * class.rate.rate)
        };
        let name = wording::counted(switches.into(), "switch", "switches");
        rows.push(mean(&format!("reached, {name} (%)"), 1, &class));
    }
    let accuracy = |found: &Evaluation| found.accuracy.as_ref().map(|measured| measured.found);
    rows.extend([
        mean("Spearman", 2, &|found| accuracy(found)?.spearman),
        mean("Spearman, near", 2, &|found| accuracy(found)?.near),
        mean("Spearman, far", 2, &|found| accuracy(found)?.far),
        mean("Spearman, per goal", 2, &|found| accuracy(found)?.per_goal),
        mean("slope", 2, &|found| accuracy(found)?.slope),
        mean("intercept (steps)", 1, &|found| accuracy(found)?.intercept),
        mean("median relative error (%)", 0, &|found| {
            Some(100.0 * accuracy(found)?.median_relative_error?)
        }),
        mean("unreachable pairs told apart (AUC)", 2, &|found| accuracy(found)?.unreachable_auc),
        mean("Spearman, seen together", 2, &|found| found.against_exact.as_ref()?.seen.data),
        mean("Spearman, stitched", 2, &|found| found.against_exact.as_ref()?.stitched.data),
        mean("median error (steps)", 1, &|found| found.against_exact.as_ref()?.median_error),
        mean("coverage (%)", 0, &|found| Some(100.0 * found.against_exact.as_ref()?.coverage?)),
        mean("learned at or below elapsed (%)", 0, &|found| {
            Some(100.0 * found.against_elapsed.as_ref()?.at_or_below)
        }),
        mean("median error against recorded moves (%)", 0, &|found| {
            Some(100.0 * found.against_solved.as_ref()?.median_relative_error)
        }),
        mean("drop per elapsed step", 2, &|found| found.against_elapsed.as_ref()?.drop_per_step),
        mean("triangle violations", 0, &|found| Some(found.audit.as_ref()?.violations as f64)),
        mean("mean distance (steps)", 1, &|found| Some(found.audit.as_ref()?.mean_steps)),
        mean("asymmetry", 2, &|found| Some(found.audit.as_ref()?.asymmetry)),
    ]);
    rows.into_iter().flatten().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mean_has_the_standard_error_of_its_seeds_and_one_seed_has_none() {
        let mean = Mean::of("x", 1, vec![1.0, 3.0, 5.0]).unwrap();
        assert_eq!((mean.mean, mean.seeds), (3.0, 3));
        assert!((mean.standard_error.unwrap() - 2.0 / 3.0f64.sqrt()).abs() < 1e-12);
        assert_eq!(Mean::of("x", 1, vec![2.0]).unwrap().standard_error, None);
        assert!(Mean::of("x", 1, Vec::new()).is_none());
    }
}
