//! Marching squares: the lines where a field equals a level, and the area where it reaches it.
//!
//! In each cell the area {value ≥ level} is a polygon through corners that reach the level and
//! through crossings of the cell's sides, found by linear interpolation. A saddle (opposite corners
//! reach the level, the others do not) is joined when the mean of its corners reaches it. Sides
//! shared by two cells run in opposite directions and cancel, so what is left of all polygons is
//! the border of the area; those pieces that lead from crossing to crossing are the contour.
//! Cells with a masked corner have no polygon. (Lorensen and Cline, "Marching cubes", 1987, in two
//! dimensions.)

use std::collections::{BTreeMap, BTreeSet};

use super::DistanceField;

/// A corner of a border: a node, or the crossing of the side that leaves a node right or up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Vertex {
    Node(usize, usize),
    Right(usize, usize),
    Up(usize, usize),
}

impl DistanceField {
    /// The lines along which the field equals `level`, by marching squares.
    ///
    /// A line that closes repeats its first point at its end; the others end at the border or at a
    /// hole. Higher values lie to the left of a line's direction. A cell with a masked corner
    /// holds no line.
    pub fn contours(&self, level: f32) -> Vec<Vec<[f32; 2]>> {
        lines(self, level)
    }
}

/// The lines along which `field` equals `level`; higher values on the left.
fn lines(field: &DistanceField, level: f32) -> Vec<Vec<[f32; 2]>> {
    let is_crossing = |vertex: &Vertex| !matches!(vertex, Vertex::Node(..));
    let follows: BTreeMap<Vertex, Vertex> = border(field, level)
        .into_iter()
        .filter(|(from, to)| is_crossing(from) && is_crossing(to))
        .collect();
    let entered: BTreeSet<Vertex> = follows.values().copied().collect();
    let open = follows.keys().copied().filter(|vertex| !entered.contains(vertex));
    let starts: Vec<Vertex> = open.chain(follows.keys().copied()).collect();
    let mut left = follows;
    let mut lines = Vec::new();
    for start in starts {
        let mut line = vec![place(field, level, start)];
        let mut at = start;
        while let Some(next) = left.remove(&at) {
            line.push(place(field, level, next));
            at = next;
        }
        if line.len() > 1 {
            lines.push(line);
        }
    }
    lines
}

/// The border of the area where `field` is at least `level`: closed rings, the last point not
/// repeated, counter-clockwise around the area and clockwise around its holes.
#[cfg(feature = "pictures")]
pub(super) fn rings(field: &DistanceField, level: f32) -> Vec<Vec<[f32; 2]>> {
    let mut follows: BTreeMap<Vertex, Vec<Vertex>> = BTreeMap::new();
    for (from, to) in border(field, level) {
        follows.entry(from).or_default().push(to);
    }
    let mut rings = Vec::new();
    while let Some((&start, _)) = follows.first_key_value() {
        let mut ring = Vec::new();
        let mut at = start;
        while let Some(ways) = follows.get_mut(&at) {
            let next = ways.pop();
            if ways.is_empty() {
                follows.remove(&at);
            }
            let Some(next) = next else { break };
            ring.push(place(field, level, at));
            at = next;
        }
        rings.push(ring);
    }
    rings
}

/// All directed sides of cell polygons that no neighbour cancels.
fn border(field: &DistanceField, level: f32) -> BTreeSet<(Vertex, Vertex)> {
    let mut sides = BTreeSet::new();
    for row in 0..field.rows - 1 {
        for column in 0..field.columns - 1 {
            for polygon in cell(field, level, column, row) {
                for (index, &from) in polygon.iter().enumerate() {
                    let to = polygon[(index + 1) % polygon.len()];
                    if !sides.remove(&(to, from)) {
                        sides.insert((from, to));
                    }
                }
            }
        }
    }
    sides
}

/// The polygons of one cell's share of the area, counter-clockwise.
fn cell(field: &DistanceField, level: f32, column: usize, row: usize) -> Vec<Vec<Vertex>> {
    let corners = [(column, row), (column + 1, row), (column + 1, row + 1), (column, row + 1)];
    let sides = [
        Vertex::Right(column, row),
        Vertex::Up(column + 1, row),
        Vertex::Right(column, row + 1),
        Vertex::Up(column, row),
    ];
    let values = corners.map(|(column, row)| field.value(column, row));
    if values.iter().any(|value| value.is_nan()) {
        return Vec::new();
    }
    let reaches = values.map(|value| value >= level);
    let mut polygon = Vec::with_capacity(6);
    for side in 0..4 {
        if reaches[side] {
            polygon.push(Vertex::Node(corners[side].0, corners[side].1));
        }
        if reaches[side] != reaches[(side + 1) % 4] {
            polygon.push(sides[side]);
        }
    }
    let saddle = reaches[0] == reaches[2] && reaches[1] == reaches[3] && reaches[0] != reaches[1];
    if saddle && values.iter().sum::<f32>() < 4.0 * level {
        // Two triangles, each crossing, corner, crossing.
        if reaches[0] {
            polygon.rotate_right(1);
        }
        return polygon.chunks(3).map(<[Vertex]>::to_vec).collect();
    }
    if polygon.is_empty() { Vec::new() } else { vec![polygon] }
}

fn place(field: &DistanceField, level: f32, vertex: Vertex) -> [f32; 2] {
    let ((column, row), (other_column, other_row)) = match vertex {
        Vertex::Node(column, row) => return field.node(column, row),
        Vertex::Right(column, row) => ((column, row), (column + 1, row)),
        Vertex::Up(column, row) => ((column, row), (column, row + 1)),
    };
    let (here, there) = (field.value(column, row), field.value(other_column, other_row));
    // An infinite end draws the crossing to the finite one.
    let share = match (here.is_finite(), there.is_finite()) {
        (true, true) => (level - here) / (there - here),
        (true, false) => 0.0,
        (false, true) => 1.0,
        (false, false) => 0.5,
    };
    let (from, to) = (field.node(column, row), field.node(other_column, other_row));
    [from[0] + (to[0] - from[0]) * share, from[1] + (to[1] - from[1]) * share]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn distance_from_origin(columns: usize) -> DistanceField {
        DistanceField::from_fn([-1.0, 1.0], [-1.0, 1.0], columns, columns, |[x, y]| x.hypot(y))
            .unwrap()
    }

    #[cfg(feature = "pictures")]
    fn signed_area(ring: &[[f32; 2]]) -> f32 {
        (0..ring.len())
            .map(|index| {
                let (a, b) = (ring[index], ring[(index + 1) % ring.len()]);
                0.5 * (a[0] * b[1] - b[0] * a[1])
            })
            .sum()
    }

    #[test]
    fn the_contour_of_a_distance_is_one_closed_circle() {
        let field = distance_from_origin(41);
        let lines = field.contours(0.62);
        assert_eq!(lines.len(), 1);
        assert_eq!(lines[0].first(), lines[0].last());
        assert!(lines[0].len() > 60);
        // The chord of a cell of side 0.05 lies within side² / (8 · radius) of the circle.
        for [x, y] in &lines[0] {
            assert!((x.hypot(*y) - 0.62).abs() < 0.05 * 0.05 / (8.0 * 0.62), "{x} {y}");
        }
    }

    #[test]
    fn a_contour_that_meets_the_border_stays_open() {
        let field = distance_from_origin(21);
        let lines = field.contours(1.2);
        assert_eq!(lines.len(), 4, "one arc in each corner");
        assert!(lines.iter().all(|line| line.first() != line.last()));
        assert!(field.contours(2.0).is_empty());
    }

    #[test]
    fn a_contour_never_enters_a_masked_cell() {
        let mut field = distance_from_origin(41);
        for row in 0..41 {
            for column in 0..41 {
                if field.node(column, row)[0] > 0.3 {
                    field.values[row * 41 + column] = f32::NAN;
                }
            }
        }
        let lines = field.contours(0.62);
        assert_eq!(lines.len(), 1);
        assert!(lines[0].iter().all(|[x, _]| *x <= 0.3 + 1e-6));
        assert!(lines[0].iter().any(|[x, _]| *x > 0.2), "it reaches the mask");
        let blank = DistanceField { values: vec![f32::NAN; 41 * 41], ..field };
        assert!(blank.contours(0.62).is_empty());
    }

    #[test]
    fn a_saddle_is_joined_when_its_mean_reaches_the_level() {
        let saddle = |high: f32| DistanceField {
            left: 0.0,
            right: 1.0,
            bottom: 0.0,
            top: 1.0,
            columns: 2,
            rows: 2,
            values: vec![high, 0.0, 0.0, high],
        };
        for high in [0.8_f32, 1.5] {
            let field = saddle(high);
            let lines = field.contours(0.5);
            assert_eq!(lines.len(), 2);
            let joined = high / 2.0 >= 0.5;
            // A joined saddle cuts off the low corners (1, 0) and (0, 1), a parted one the high.
            let cuts_low = lines.iter().any(|line| line.iter().all(|[x, y]| x - y >= 0.0));
            assert_eq!(cuts_low, joined, "{lines:?}");
        }
    }

    #[cfg(feature = "pictures")]
    #[test]
    fn the_area_above_a_level_is_ringed_with_its_holes() {
        let field = distance_from_origin(81);
        let rings = rings(&field, 0.5);
        assert_eq!(rings.len(), 2, "the square and the disc cut from it");
        let area: f32 = rings.iter().map(|ring| signed_area(ring)).sum();
        let exact = 4.0 - std::f32::consts::PI * 0.25;
        assert!((area - exact).abs() < 0.003, "{area} against {exact}");
    }

    #[cfg(feature = "pictures")]
    #[test]
    fn the_area_above_minus_infinity_is_every_unmasked_cell() {
        let mut field = distance_from_origin(5);
        field.values[12] = f32::NAN;
        let rings = rings(&field, f32::NEG_INFINITY);
        let area: f32 = rings.iter().map(|ring| signed_area(ring)).sum();
        assert!((area - 3.0).abs() < 1e-6, "four cells of a quarter each are gone: {area}");
    }
}
