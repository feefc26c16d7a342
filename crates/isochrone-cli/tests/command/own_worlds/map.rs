//! Worlds drawn as squares: `#` is a wall, `.` is free, and an arrow is a door that nothing passes
//! against its direction.

/// A drawn world; y points down.
#[derive(Clone, Copy)]
pub struct Map(pub &'static [&'static str]);

impl Map {
    /// What is drawn at a point; walls surround the drawing.
    fn drawn(self, [x, y]: [f64; 2]) -> char {
        if x < 0.0 || y < 0.0 {
            return '#';
        }
        let line = self.0.get(y as usize).map_or(&b""[..], |line| line.as_bytes());
        line.get(x as usize).map_or('#', |&square| square.into())
    }

    pub fn is_free(self, point: [f64; 2]) -> bool {
        self.drawn(point) != '#'
    }

    /// Whether a short move from one point to another is possible.
    pub fn passes(self, from: [f64; 2], to: [f64; 2]) -> bool {
        let change = [to[0] - from[0], to[1] - from[1]];
        [from, to].into_iter().all(|point| match self.drawn(point) {
            '#' => false,
            '>' => change[0] >= 0.0,
            '<' => change[0] <= 0.0,
            'v' => change[1] >= 0.0,
            '^' => change[1] <= 0.0,
            _ => true,
        })
    }

    /// The centres of the squares before and behind each door.
    pub fn doors(self) -> Vec<[[f64; 2]; 2]> {
        let mut doors = Vec::new();
        for (row, line) in self.0.iter().enumerate() {
            for (column, square) in line.chars().enumerate() {
                let [x, y] = [column as f64 + 0.5, row as f64 + 0.5];
                doors.extend(match square {
                    '>' => Some([[x - 1.0, y], [x + 1.0, y]]),
                    '<' => Some([[x + 1.0, y], [x - 1.0, y]]),
                    'v' => Some([[x, y - 1.0], [x, y + 1.0]]),
                    '^' => Some([[x, y + 1.0], [x, y - 1.0]]),
                    _ => None,
                });
            }
        }
        doors
    }
}
