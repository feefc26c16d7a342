//! The model of an ant in a maze, as the text of an MJCF file.
//!
//! The four-legged robot of D4RL and OGBench: the same numbers in both, with torque 30 at an action
//! of one. Geoms stand in the order floor, ant, walls row by row, on which contacts depend.

use std::fmt::Write;

use super::maze::{CELL_SIDE, Cell, Maze};

/// Half the height of a wall, in metres.
const WALL_HALF_HEIGHT: f64 = 1.0;
/// Half the side of the floor, in metres; a plane has no end in contacts.
const FLOOR: f64 = 40.0;
/// The torque of an action of one.
const TORQUE: f64 = 30.0;

/// A leg: its number, the signs of its direction, the axis of its ankle and the ankle's range.
struct Leg {
    number: usize,
    direction: [f64; 2],
    ankle: [f64; 2],
    range: [f64; 2],
}

const LEGS: [Leg; 4] = [
    Leg { number: 1, direction: [1.0, 1.0], ankle: [-1.0, 1.0], range: [30.0, 70.0] },
    Leg { number: 2, direction: [-1.0, 1.0], ankle: [1.0, 1.0], range: [-70.0, -30.0] },
    Leg { number: 3, direction: [-1.0, -1.0], ankle: [-1.0, 1.0], range: [-70.0, -30.0] },
    Leg { number: 4, direction: [1.0, -1.0], ankle: [1.0, 1.0], range: [30.0, 70.0] },
];
/// Legs in the order of their motors.
const DRIVEN: [usize; 4] = [4, 1, 2, 3];

/// The text of the model of an ant among `walls` whose geoms have contact margins of `margin` metres.
/// `flags` are those of MuJoCo's options.
pub(super) fn ant(walls: &[Cell], margin: f64, flags: &str) -> String {
    let legs: String = LEGS.iter().map(Leg::text).collect();
    let motors: String = DRIVEN.iter().map(|number| motors(*number)).collect();
    format!(
        "<mujoco model=\"ant\">\n\
         <compiler inertiafromgeom=\"true\" angle=\"degree\"/>\n\
         <option timestep=\"0.02\" integrator=\"RK4\">{flags}</option>\n\
         <default>\n\
         <joint limited=\"true\" armature=\"1\" damping=\"1\"/>\n\
         <geom condim=\"3\" conaffinity=\"0\" margin=\"{margin}\" friction=\"1 0.5 0.5\" \
         solref=\"0.02 1\" solimp=\"0.8 0.8 0.01\" density=\"5\"/>\n\
         </default>\n\
         <worldbody>\n\
         <geom name=\"floor\" type=\"plane\" size=\"{FLOOR} {FLOOR} {FLOOR}\" conaffinity=\"1\"/>\n\
         <body name=\"torso\" pos=\"0 0 0.75\">\n\
         <geom type=\"sphere\" size=\"0.25\"/>\n\
         <joint name=\"root\" type=\"free\" limited=\"false\" margin=\"0.01\" armature=\"0\" \
         damping=\"0\"/>\n\
         {legs}</body>\n{walls}</worldbody>\n<actuator>\n{motors}</actuator>\n</mujoco>\n",
        walls = boxes(walls),
    )
}

impl Leg {
    /// Hip, thigh and shin, each a capsule along the leg's direction.
    fn text(&self) -> String {
        let Self { number, direction: [x, y], ankle, range } = self;
        let along = |length: f64| format!("{} {} 0", length * x, length * y);
        let (part, shin) = (along(0.2), along(0.4));
        let capsule =
            |to: &str| format!("<geom type=\"capsule\" size=\"0.08\" fromto=\"0 0 0 {to}\"/>\n");
        format!(
            "<body>\n{hip}<body pos=\"{part}\">\n\
             <joint name=\"hip_{number}\" type=\"hinge\" axis=\"0 0 1\" range=\"-30 30\"/>\n\
             {hip}<body pos=\"{part}\">\n\
             <joint name=\"ankle_{number}\" type=\"hinge\" axis=\"{} {} 0\" range=\"{} {}\"/>\n\
             {}</body>\n</body>\n</body>\n",
            ankle[0],
            ankle[1],
            range[0],
            range[1],
            capsule(&shin),
            hip = capsule(&part),
        )
    }
}

fn motors(leg: usize) -> String {
    let motor = |joint: &str| {
        format!(
            "<motor joint=\"{joint}_{leg}\" gear=\"{TORQUE}\" ctrlrange=\"-1 1\" \
             ctrllimited=\"true\"/>\n"
        )
    };
    motor("hip") + &motor("ankle")
}

fn boxes(walls: &[Cell]) -> String {
    let half = 0.5 * CELL_SIDE;
    let mut text = String::new();
    for &wall in walls {
        let [x, y] = Maze::centre(wall);
        writeln!(
            text,
            "<geom type=\"box\" pos=\"{x} {y} {WALL_HALF_HEIGHT}\" \
             size=\"{half} {half} {WALL_HALF_HEIGHT}\" contype=\"1\" conaffinity=\"1\"/>"
        )
        .expect("text can be written to a string");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::super::maze::Map;
    use super::*;

    #[test]
    fn the_text_has_floor_ant_walls_and_motors_in_order() {
        let walls: Vec<Cell> = Maze::new(Map::Umaze).walls().collect();
        let text = ant(&walls, 0.005, "");
        assert_eq!(text.matches("type=\"box\"").count(), walls.len());
        assert_eq!(text.matches("margin=\"0.005\"").count(), 1);
        let places = ["plane", "sphere", "hip_1", "ankle_4", "box", "joint=\"hip_4\""];
        let places = places.map(|part| text.find(part).unwrap());
        assert!(places.is_sorted(), "{places:?}");
        let motors: Vec<&str> = text
            .split("motor joint=\"")
            .skip(1)
            .filter_map(|rest| rest.split('"').next())
            .collect();
        let expected = "hip_4 ankle_4 hip_1 ankle_1 hip_2 ankle_2 hip_3 ankle_3";
        assert_eq!(motors.join(" "), expected);
        for tag in ["body", "worldbody", "actuator", "default", "mujoco"] {
            let opened = text.matches(&format!("<{tag}>")).count()
                + text.matches(&format!("<{tag} ")).count();
            assert_eq!(opened, text.matches(&format!("</{tag}>")).count(), "{tag}");
        }
    }
}
