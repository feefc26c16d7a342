//! A plane of two state coordinates, cut into cells: one whole state for each cell near the data.
//!
//! The values of the other coordinates are those of the data state nearest in the plane, so that a
//! cell is a state that a model can be asked about. Cells far from the data have none.

use std::ops::Range;

use crate::data::Dataset;
use crate::error::{Error, Result};
use crate::model::Model;
use crate::simulate::World;

/// The room around the data, as a share of their extent.
const ROOM: f32 = 0.04;
/// Cells of the first, coarse count of what is near the data.
const COARSE: usize = 1_600;
/// Cells of a whole plane, at most, however few of them are near the data.
const MOST: f32 = 40_000.0;
/// A cell is near the data if a row lies within this share of the plane's sides. Where a state has no
/// other coordinates, what the model calls near counts too.
const NEARBY: f32 = 0.02;
/// Cells of a strip, at most.
const STRIP: f32 = 400.0;
/// Rows that the coordinates are judged by.
const JUDGED: usize = 20_000;

/// A plane cut into cells, row after row from the bottom, each from the left.
#[derive(Debug, Clone, PartialEq)]
pub struct MapCells {
    /// The coordinates shown from left to right and from bottom to top.
    pub axes: [usize; 2],
    /// Left and right end.
    pub horizontal: [f32; 2],
    /// Lower and upper end.
    pub vertical: [f32; 2],
    /// Cells from left to right.
    pub columns: usize,
    /// Cells from bottom to top; one where a state has a single coordinate.
    pub rows: usize,
    /// The cells near the data, rising.
    pub cells: Vec<u32>,
    /// Their states, row after row.
    pub states: Vec<f32>,
}

impl MapCells {
    /// Cuts the plane of `axes` so that about `most` cells are near the data.
    ///
    /// # Errors
    /// Coordinates that a state does not have; data without extent.
    pub fn new(
        model: &Model,
        dataset: &Dataset,
        world: Option<World>,
        axes: [usize; 2],
        most: usize,
    ) -> Result<Self> {
        let size = dataset.state_size();
        if let Some(axis) = axes.into_iter().find(|&axis| axis >= size) {
            return Err(Error::input(format!("no coordinate `{axis}`, states have {size}"))
                .hint(format!("expected 0 to {}", size - 1)));
        }
        let coarse = Self::cut(model, dataset, world, axes, COARSE as f32)?;
        let share = coarse.cells.len() as f32 / (coarse.columns * coarse.rows) as f32;
        Self::cut(model, dataset, world, axes, (0.95 * most as f32 / share).min(MOST))
    }

    fn cut(
        model: &Model,
        dataset: &Dataset,
        world: Option<World>,
        axes: [usize; 2],
        total: f32,
    ) -> Result<Self> {
        let corridors = world.is_some_and(|world| world.pinwheel().is_some());
        let ends = |axis: usize| if corridors { Ok([0.0, 1.0]) } else { extent(dataset, axis) };
        let (horizontal, vertical) = (ends(axes[0])?, ends(axes[1])?);
        // Coordinates of one plane may have different units: both sides get the same share.
        let in_place = corridors || world.is_some();
        let aspect = match (vertical[1] - vertical[0]) / (horizontal[1] - horizontal[0]) {
            aspect if in_place => aspect.clamp(0.2, 5.0),
            _ => 1.0,
        };
        let strip = axes[0] == axes[1];
        let columns = if strip { total.min(STRIP) } else { (total / aspect).sqrt() };
        let columns = (columns as usize).max(4);
        let rows = if strip { 1 } else { ((columns as f32 * aspect) as usize).max(4) };
        let mut grid =
            Self { axes, horizontal, vertical, columns, rows, cells: vec![], states: vec![] };
        let nearest = grid.nearest_rows(dataset);
        let size = dataset.state_size();
        let (mut cells, mut states, mut close) = (Vec::new(), Vec::new(), Vec::new());
        for (cell, row) in nearest.into_iter().enumerate() {
            let Some(row) = row else { continue };
            let centre = grid.centre(cell);
            let place = [f64::from(centre[0]), f64::from(centre[1])];
            if axes == [0, 1] && world.is_some_and(|world| !world.is_free(place)) {
                continue;
            }
            cells.push(cell as u32);
            close.push(corridors || grid.gap(dataset, cell, row) <= NEARBY * NEARBY);
            let from = states.len();
            states.extend_from_slice(dataset.state(row as usize));
            states[from + axes[0]] = centre[0];
            if rows > 1 {
                states[from + axes[1]] = centre[1];
            }
        }
        if size <= 2 {
            let novelty = model.novelty(&states)?;
            let known: Vec<bool> =
                novelty.iter().zip(close).map(|(&far, close)| close || far <= 1.0).collect();
            let kept = || (0..known.len()).filter(|&at| known[at]);
            states = kept().flat_map(|at| states[at * size..][..size].to_vec()).collect();
            cells = kept().map(|at| cells[at]).collect();
        }
        (grid.cells, grid.states) = (cells, states);
        Ok(grid)
    }

    /// The middle of a cell.
    pub fn centre(&self, cell: usize) -> [f32; 2] {
        let (column, row) = (cell % self.columns, cell / self.columns);
        let at = |[low, high]: [f32; 2], place: usize, count: usize| {
            low + (high - low) * (place as f32 + 0.5) / count as f32
        };
        [at(self.horizontal, column, self.columns), at(self.vertical, row, self.rows)]
    }

    /// The squared gap in the plane between the middle of a cell and a row, in shares of the sides.
    fn gap(&self, dataset: &Dataset, cell: usize, row: u32) -> f32 {
        let (centre, state) = (self.centre(cell), dataset.state(row as usize));
        let part = |at: usize, [low, high]: [f32; 2]| {
            ((state[self.axes[at]] - centre[at]) / (high - low)).powi(2)
        };
        part(0, self.horizontal) + if self.rows > 1 { part(1, self.vertical) } else { 0.0 }
    }

    /// For each cell the row of the data nearest to it in the plane, where one is near: in two
    /// coordinates anywhere, as the model itself tells what is far.
    fn nearest_rows(&self, dataset: &Dataset) -> Vec<Option<u32>> {
        let (columns, rows) = (self.columns as isize, self.rows as isize);
        let place = |value: f32, [low, high]: [f32; 2], count: usize| {
            (((value - low) / (high - low) * count as f32) as usize).min(count - 1)
        };
        let mut found: Vec<Option<u32>> = vec![None; self.columns * self.rows];
        let gap = |cell: usize, row: u32| self.gap(dataset, cell, row);
        for row in 0..dataset.rows() {
            let state = dataset.state(row);
            let column = place(state[self.axes[0]], self.horizontal, self.columns);
            let line =
                if rows > 1 { place(state[self.axes[1]], self.vertical, self.rows) } else { 0 };
            let cell = line * self.columns + column;
            let row = row as u32;
            if found[cell].is_none_or(|other| gap(cell, row) < gap(cell, other)) {
                found[cell] = Some(row);
            }
        }
        // Empty cells take over from their neighbours, ring by ring.
        let reach = if dataset.state_size() > 2 { NEARBY } else { 1.0 };
        let rings = (reach * self.columns.max(self.rows) as f32).ceil().max(1.0) as usize;
        for _ in 0..rings {
            let before = found.clone();
            let mut changed = false;
            for cell in (0..found.len()).filter(|&cell| before[cell].is_none()) {
                let (column, line) = (cell as isize % columns, cell as isize / columns);
                let near = [(-1, 0), (1, 0), (0, -1), (0, 1), (-1, -1), (1, 1), (-1, 1), (1, -1)]
                    .into_iter()
                    .map(|(across, up)| (column + across, line + up))
                    .filter(|&(x, y)| (0..columns).contains(&x) && (0..rows).contains(&y))
                    .filter_map(|(x, y)| before[(y * columns + x) as usize]);
                found[cell] = near.min_by(|&a, &b| gap(cell, a).total_cmp(&gap(cell, b)));
                changed |= found[cell].is_some();
            }
            if !changed {
                break;
            }
        }
        found
    }
}

/// The range of one coordinate of the data, with room around it.
fn extent(dataset: &Dataset, axis: usize) -> Result<[f32; 2]> {
    let values = dataset.states().iter().skip(axis).step_by(dataset.state_size());
    let (low, high) = values.fold((f32::INFINITY, f32::NEG_INFINITY), |(low, high), &value| {
        (low.min(value), high.max(value))
    });
    let room = if high > low { ROOM * (high - low) } else { 0.5 };
    let ends = [low - room, high + room];
    if ends.iter().all(|end| end.is_finite()) && ends[1] > ends[0] {
        return Ok(ends);
    }
    Err(Error::input(format!("coordinate `{axis}` of the data has no extent to draw")))
}

/// The two coordinates that a map shows unless told otherwise: the places of a world or of a model's
/// goals, else those that change least per step for their spread, as positions do.
pub fn natural_axes(model: &Model, dataset: &Dataset, world: Option<World>) -> [usize; 2] {
    let size = dataset.state_size();
    if size == 1 {
        return [0, 0];
    }
    if size == 2 || world.is_some() {
        return [0, 1];
    }
    if let [x, y, ..] = model.shape().normalization.policy_goal[..] {
        return [x, y];
    }
    let rows = (0..dataset.rows()).step_by(dataset.rows().div_ceil(JUDGED));
    let moving: Vec<Range<usize>> =
        rows.filter(|&row| dataset.last_row(row) != row).map(|row| row..row + 1).collect();
    let slowness = |axis: usize| {
        let at = |row: usize| f64::from(dataset.state(row)[axis]);
        let count = moving.len().max(1) as f64;
        let mean = moving.iter().map(|row| at(row.start)).sum::<f64>() / count;
        let spread = moving.iter().map(|row| (at(row.start) - mean).powi(2)).sum::<f64>();
        let change = moving.iter().map(|row| (at(row.end) - at(row.start)).powi(2)).sum::<f64>();
        if spread > 0.0 && change > 0.0 { spread / change } else { 0.0 }
    };
    let mut axes: Vec<(f64, usize)> = (0..size).map(|axis| (slowness(axis), axis)).collect();
    axes.sort_by(|one, other| other.0.total_cmp(&one.0).then(one.1.cmp(&other.1)));
    let (one, other) = (axes[0].1, axes[1].1);
    [one.min(other), one.max(other)]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::algorithms::Config;
    use crate::data::{Normalization, Scaling};
    use crate::engine::Threads;
    use crate::train::{Prepared, TrainConfig, Trainer};

    /// Walks along x and y in turn, which are the slow coordinates 1 and 3 of four.
    fn walks() -> Dataset {
        let states = (0..40).flat_map(|walk| {
            (0..50).flat_map(move |step| {
                let (way, side) = (0.2 * step as f32, 0.02 * walk as f32);
                let (x, y) = if step < 25 { (way, side) } else { (5.0 + side, way - 5.0) };
                [(7 * step % 5) as f32, x, (3 * step % 7) as f32, y]
            })
        });
        Dataset::new(states.collect(), 4, None, &[50; 40]).unwrap()
    }

    fn model(data: &Dataset) -> Model {
        let mut config = Config::named("qrl").unwrap();
        if let Config::Qrl(config) = &mut config {
            config.network.hidden = vec![8];
        }
        let normalization = Normalization::fit(data, Scaling::Range).unwrap();
        let prepared =
            Prepared { training: data.clone(), validation: None, normalization, radius: None };
        let settings = TrainConfig { steps: 1, batch_size: 8, ..TrainConfig::default() };
        let trainer =
            Trainer::new(&config, &settings, &prepared, 0.9, 0, Threads::default()).unwrap();
        trainer.model().unwrap()
    }

    #[test]
    fn cells_are_states_near_the_data_with_the_rest_of_the_nearest_row() {
        let data = walks();
        let model = model(&data);
        let axes = natural_axes(&model, &data, None);
        assert_eq!(axes, [1, 3]);
        let grid = MapCells::new(&model, &data, None, axes, 500).unwrap();
        assert!((200..=520).contains(&grid.cells.len()), "{}", grid.cells.len());
        assert_eq!(grid.states.len(), 4 * grid.cells.len());
        assert!(grid.cells.is_sorted() && grid.cells.len() < grid.columns * grid.rows / 2);
        let width = (grid.horizontal[1] - grid.horizontal[0]) / grid.columns as f32;
        for (&cell, state) in grid.cells.iter().zip(grid.states.chunks_exact(4)) {
            assert_eq!([state[1], state[3]], grid.centre(cell as usize));
            let gap = |row: usize| {
                let other = data.state(row);
                (other[1] - state[1]).hypot(other[3] - state[3])
            };
            let nearest = (0..data.rows()).min_by(|&a, &b| gap(a).total_cmp(&gap(b))).unwrap();
            assert!(gap(nearest) < 4.0 * width, "a cell far from the data: {state:?}");
            // Rows that share a place differ in the other coordinates; any of them will do.
            let near = |row: &usize| gap(*row) < gap(nearest) + 1.5 * width;
            let fills =
                |row: usize| [data.state(row)[0], data.state(row)[2]] == [state[0], state[2]];
            assert!((0..data.rows()).filter(near).any(fills), "{state:?}");
        }
    }

    #[test]
    fn a_coordinate_that_does_not_exist_is_refused_and_one_alone_makes_a_strip() {
        let data = walks();
        let error = MapCells::new(&model(&data), &data, None, [0, 4], 100).unwrap_err().to_string();
        assert!(error.contains("no coordinate `4`") && error.contains("0 to 3"), "{error}");
        let states = (0..200).map(|row| 0.1 * (row % 20) as f32).collect();
        let line = Dataset::new(states, 1, None, &[20; 10]).unwrap();
        let model = model(&line);
        assert_eq!(natural_axes(&model, &line, None), [0, 0]);
        let grid = MapCells::new(&model, &line, None, [0, 0], 100).unwrap();
        assert_eq!((grid.rows, grid.states.len()), (1, grid.cells.len()));
        assert!(grid.cells.len() > 30);
    }
}
