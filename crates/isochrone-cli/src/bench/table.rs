//! The report for a terminal: one row a case, operations below a twentieth of the update left out.

use super::episodes::Acting;
use super::machine::mebibytes;
use super::measure::{Found, Share};
use super::meter::BenchReport;
use super::planner::Planning;

/// What is not measured on this device.
const NOTHING: &str = "–";
/// The least share of an update that is named.
const NAMED: f64 = 0.05;

/// The head of the column of operations, on the CPU and on a GPU.
const SPLIT: &str = "where the best goes, %";
const ALONE: &str = "every launch alone, %";

/// The machine, then a table.
pub fn of(report: &BenchReport) -> String {
    let machine = &report.machine;
    let mut head = format!("{}, threads: {}", machine.cpu, report.threads);
    if let Some(gpu) = &machine.gpu {
        head = format!("{gpu} ({}), {head}", report.device);
    }
    if let Some(load) = machine.load {
        head += &format!("; load before: {load:.1}");
    }
    if let Some(peak) = report.peak_gflop_per_second {
        head += &format!("; a 1024³ product: {peak:.1} GFLOP/s");
    }
    if let Some(bytes) = report.peak_memory_bytes {
        head += &format!("; peak memory: {}", mebibytes(bytes));
    }
    let mut rows = vec![columns(report).iter().map(|column| column.0.to_owned()).collect()];
    for found in &report.cases {
        rows.push(columns(report).iter().map(|column| (column.1)(found)).collect());
    }
    let solver = report.solver.as_ref().map(|solver| {
        let (states, ms) = (solver.states, solver.best_ms);
        format!(
            "\nexact solver, {states} states and one goal, discount {}: {ms:.0} ms",
            solver.discount
        )
    });
    let planner = report.planner.as_ref().map(|planner| {
        let Planning { rows, nodes, build_seconds, query_median_ms, query_worst_ms } = planner;
        format!(
            "\ngraph planner, {rows} rows and {nodes} nodes: built in {build_seconds:.1} s, a path in \
             {query_median_ms:.1} ms in the median, {query_worst_ms:.1} ms at worst"
        )
    });
    let episodes: String = report
        .episodes
        .iter()
        .map(|acting| {
            let Acting { world, episodes, steps_per_second, busy } = acting;
            let busy =
                busy.map_or(String::new(), |busy| format!(", threads {:.0} % busy", 100.0 * busy));
            format!(
                "\n{episodes} episodes in {world}: {steps_per_second:.0} steps per second{busy}"
            )
        })
        .collect();
    let rest = [solver, planner].map(Option::unwrap_or_default).concat();
    format!("{head}\n{}{rest}{episodes}", aligned(&rows))
}

type Column<'a> = (&'static str, Box<dyn Fn(&Found) -> String + 'a>);

fn columns(report: &BenchReport) -> Vec<Column<'_>> {
    let maybe = |number: Option<f64>, digits: usize| {
        number.map_or_else(|| NOTHING.to_owned(), |number| format!("{number:.digits$}"))
    };
    let mut columns: Vec<Column<'_>> = vec![
        ("learner", Box::new(|found| found.case.learner.clone())),
        ("shape", Box::new(|found| found.case.shape.clone())),
        ("batch", Box::new(|found| found.case.batch.to_string())),
        ("seeds", Box::new(|found| found.case.seeds.to_string())),
        ("update, ms", Box::new(|found| format!("{:.3}", found.update_median_ms))),
        ("best, ms", Box::new(|found| format!("{:.3}", found.update_best_ms))),
        ("updates/s/seed", Box::new(|found| format!("{:.1}", found.updates_per_second_per_seed))),
        ("GFLOP", Box::new(|found| format!("{:.3}", found.products.gflop))),
    ];
    match report.peak_gflop_per_second {
        Some(peak) => columns.extend::<[Column<'_>; 4]>([
            ("products, ms", Box::new(move |found| maybe(found.products.ms, 3))),
            ("of 1024³", Box::new(move |found| share_of(found.products.gflop_per_second, peak))),
            ("best/products", Box::new(move |found| maybe(found.ratio, 2))),
            ("memory", Box::new(|found| mebibytes(found.memory_bytes as u64))),
        ]),
        None => columns.extend::<[Column<'_>; 3]>([
            ("chain, ms", Box::new(move |found| maybe(found.chain_ms, 3))),
            ("TFLOP/s", Box::new(|found| format!("{:.1}", rate(found) / 1e3))),
            ("memory", Box::new(|found| mebibytes(found.memory_bytes as u64))),
        ]),
    }
    if report.cases.iter().any(|found| !found.split.is_empty()) {
        let head = if report.peak_gflop_per_second.is_some() { SPLIT } else { ALONE };
        columns.push((head, Box::new(|found| split(&found.split))));
    }
    columns
}

/// GFLOP/s of the products of all seeds within whole updates.
fn rate(found: &Found) -> f64 {
    found.products.gflop * found.case.seeds as f64 / found.update_best_ms * 1e3
}

fn share_of(rate: Option<f64>, peak: f64) -> String {
    rate.map_or_else(|| NOTHING.to_owned(), |rate| format!("{:.0} %", 100.0 * rate / peak))
}

/// Operations and their percentage, both halves together.
fn split(shares: &[Share]) -> String {
    let total: f64 = shares.iter().map(|share| share.ms).sum();
    let mut sums: Vec<(&str, f64)> = Vec::new();
    for share in shares {
        let name = share.operation.trim_end_matches(" forward").trim_end_matches(" backward");
        match sums.iter_mut().find(|sum| sum.0 == name) {
            Some(sum) => sum.1 += share.ms,
            None => sums.push((name, share.ms)),
        }
    }
    sums.sort_by(|a, b| b.1.total_cmp(&a.1));
    let named = sums.iter().filter(|sum| sum.1 >= NAMED * total);
    let named = named.map(|(name, ms)| format!("{name} {:.0}", 100.0 * ms / total));
    named.collect::<Vec<_>>().join(", ")
}

/// Names at the left, numbers at the right of their columns, operations as they are.
fn aligned(rows: &[Vec<String>]) -> String {
    let count = rows.first().map_or(0, Vec::len);
    let width =
        |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..count).map(width).collect();
    let line = |row: &Vec<String>| {
        let cells = row.iter().zip(&widths).enumerate().map(|(at, (cell, width))| match at {
            0 | 1 => format!("{cell:<width$}"),
            _ if [SPLIT, ALONE].contains(&&*rows[0][at]) => cell.clone(),
            _ => format!("{cell:>width$}"),
        });
        cells.collect::<Vec<_>>().join("  ").trim_end().to_owned()
    };
    rows.iter().map(line).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::super::machine::Machine;
    use super::super::measure::tests::measured;
    use super::super::solver::Solver;
    use super::*;

    fn report(gpu: bool) -> BenchReport {
        BenchReport {
            version: "0",
            machine: Machine {
                cpu: "a processor".into(),
                cores: 2,
                load: Some(0.2),
                gpu: gpu.then(|| "a GPU".to_owned()),
                gpu_memory_bytes: None,
            },
            device: if gpu { "cuda:0" } else { "cpu" }.into(),
            threads: 1,
            peak_gflop_per_second: (!gpu).then_some(50.0),
            cases: vec![measured("cmd1", 1), measured("gcbc", 2)],
            solver: Some(Solver { states: 10_000, discount: 0.99, best_ms: 321.0 }),
            planner: Some(Planning {
                rows: 1_000_000,
                nodes: 1_500,
                build_seconds: 4.25,
                query_median_ms: 3.0,
                query_worst_ms: 9.0,
            }),
            episodes: vec![Acting {
                world: "roads",
                episodes: 64,
                steps_per_second: 1234.4,
                busy: Some(0.967),
            }],
            peak_memory_bytes: Some(3 << 20),
        }
    }

    #[test]
    fn the_table_and_the_json_have_the_same_numbers() {
        let report = report(false);
        let text = of(&report);
        let head = "a processor, threads: 1; load before: 0.2; a 1024³ product: 50.0 GFLOP/s";
        assert!(text.starts_with(head) && text.contains("peak memory: 3.0 MiB"), "{text}");
        assert_eq!(text.lines().count(), 7);
        assert!(text.contains("10000 states") && text.contains(": 321 ms\n"), "{text}");
        assert!(text.contains("built in 4.2 s, a path in 3.0 ms in the median, 9.0 ms at worst\n"));
        let last = "64 episodes in roads: 1234 steps per second, threads 97 % busy";
        assert!(text.ends_with(last), "{text}");
        let json = serde_json::to_value(&report).unwrap();
        for (case, line) in json["cases"].as_array().unwrap().iter().zip(text.lines().skip(2)) {
            let numbers =
                [&case["update_median_ms"], &case["update_best_ms"], &case["products"]["ms"]];
            for number in numbers {
                let number = format!("{:.3}", number.as_f64().unwrap());
                assert!(line.contains(&number), "{number}\n{text}");
            }
            assert!(line.starts_with(case["learner"].as_str().unwrap()));
        }
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines[2].contains("linear ") && !lines[3].contains("linear "), "{text}");
    }

    #[test]
    fn on_a_gpu_the_table_names_it_and_leaves_out_what_only_the_cpu_has() {
        let mut report = report(true);
        report.cases.iter_mut().for_each(|found| found.chain_ms = Some(0.125));
        let text = of(&report);
        assert!(text.starts_with("a GPU (cuda:0), a processor"), "{text}");
        assert!(text.contains("TFLOP/s") && !text.contains("1024³"), "{text}");
        assert!(text.contains("chain, ms") && text.matches("0.125").count() >= 2, "{text}");
        assert!(text.contains(ALONE) && !text.contains(SPLIT), "{text}");
    }

    #[test]
    fn halves_of_an_operation_are_one_and_small_ones_are_not_named() {
        let share = |operation: &str, ms| Share { operation: operation.into(), ms };
        let shares = [
            share("linear backward", 5.0),
            share("adam", 3.0),
            share("linear forward", 1.7),
            share("mean forward", 0.3),
        ];
        assert_eq!(split(&shares), "linear 67, adam 30");
    }
}
