//! A model as an ONNX file: distance and policy in one graph, with normalization and features inside.
//!
//! Inputs are `observation` and `goal` (batch × state size, as recorded); outputs are `steps` (batch),
//! if the model has a distance, and `action` (batch × action size), if it has a policy. Opset 18, IR
//! version 8, weights inline. Asked for one output, a runtime computes that one alone.

mod graph;
mod networks;

use self::graph::{Attribute, OnnxGraph, TensorName};
use self::networks::{FlatNumbers, HeadNode, Layers, Part};
use crate::data::{Features, Normalization};
use crate::error::{Error, Result};
use crate::model::{Model, ModelShape};
use crate::nn::{
    ActorShape, EncodedShape, Law, MeasureShape, PairedShape, PolicyShape, Reading, ScoredShape,
    SteppedShape, ValuedShape,
};

/// Lengths below this count as 0 where rows are brought to a sphere.
const TINY: f32 = 1e-30;

/// The ONNX file of a model.
///
/// # Errors
/// The model has neither a distance nor a policy, or its shape cannot be written as JSON.
pub fn export(model: &Model) -> Result<Vec<u8>> {
    let shape = model.shape();
    if !model.has_distance() && !model.has_policy() {
        return Err(Error::input("the model has neither a distance nor a policy to export"));
    }
    let mut graph = OnnxGraph::default();
    let inputs = ["observation", "goal"].map(|name| graph.input(name, shape.state_size));
    let [state, goal] = inputs.map(|input| seen(&mut graph, &shape.normalization, &input));
    let numbers = model.numbers();
    if let (Some(form), Some(distance)) = (&shape.distance, numbers.distance) {
        let places = shape.normalization.critic_goal_places();
        let shown = places.map(|places| part(&mut graph, &goal, places));
        let mut writer = DistanceWriter {
            graph: &mut graph,
            numbers: FlatNumbers::new(distance),
            stored: stored(numbers.stored_actions, shape.action_size),
            sizes: (shape.normalization.width(), shape.action_size),
            ends: [&state, &goal],
            shown: (shown.unwrap_or(goal.clone()), shape.normalization.critic_goal_width()),
        };
        let nats = writer.form(form);
        let steps = graph.scaled(&nats, (1.0 / (1.0 / shape.discount).ln()) as f32);
        graph.output("steps", &steps, None);
    }
    if let (Some(actor), Some(policy)) = (&shape.policy, numbers.policy) {
        let action = act(&mut graph, shape, actor, FlatNumbers::new(policy), [&state, &goal]);
        graph.output("action", &action, Some(shape.action_size));
    }
    Ok(graph.file(&metadata(model)?))
}

fn metadata(model: &Model) -> Result<Vec<(&'static str, String)>> {
    let shape = model.shape();
    let written = serde_json::to_string(&shape.normalization).map_err(|error| {
        Error::input(format!("the model's normalization cannot be written: {error}"))
    })?;
    let outputs = [(model.has_distance(), "steps"), (model.has_policy(), "action")];
    let outputs: Vec<&str> = outputs.iter().filter(|one| one.0).map(|one| one.1).collect();
    Ok(vec![
        ("discount", shape.discount.to_string()),
        ("unit", "steps".to_owned()),
        ("state_size", shape.state_size.to_string()),
        ("action_size", shape.action_size.to_string()),
        ("normalization", written),
        ("inputs", "observation,goal".to_owned()),
        ("outputs", outputs.join(",")),
        ("quasimetric", model.is_quasimetric().to_string()),
    ])
}

/// What networks see of states.
fn seen(graph: &mut OnnxGraph, normalization: &Normalization, states: &TensorName) -> TensorName {
    let size = normalization.shift.len();
    let shift = graph.numbers(&[size], &normalization.shift);
    let scale = graph.numbers(&[size], &normalization.scale);
    match &normalization.features {
        Features::None => {
            let centred = graph.op("Sub", &[states, &shift]);
            graph.op("Mul", &[&centred, &scale])
        }
        Features::Ramps { count, from, to, width } => {
            let step = (to - from) / (count - 1) as f64;
            let centres: Vec<f32> =
                (0..*count).map(|at| (from + step * at as f64) as f32).collect();
            let centres = graph.numbers(&[*count], &centres);
            let rows = graph.reshaped(states, &[-1, size as i64, 1]);
            let apart = graph.op("Sub", &[&rows, &centres]);
            let apart = graph.scaled(&apart, (1.0 / width) as f32);
            let ramps = graph.op("Tanh", &[&apart]);
            graph.reshaped(&ramps, &[-1, (size * count) as i64])
        }
        Features::Fourier { axes, count, .. } => {
            let centred = graph.op("Sub", &[states, &shift]);
            let scaled = graph.op("Mul", &[&centred, &scale]);
            let places: Vec<i64> = axes.iter().map(|&axis| axis as i64).collect();
            let places = graph.wholes(&places);
            let places = graph.gathered(states, &places, 1);
            let rows = normalization.directions();
            let columns: Vec<f32> = (0..axes.len())
                .flat_map(|at| rows.chunks_exact(axes.len()).map(move |row| row[at]))
                .collect();
            let directions = graph.numbers(&[axes.len(), *count], &columns);
            let phase = graph.op("MatMul", &[&places, &directions]);
            let waves = ["Cos", "Sin"].map(|wave| {
                let wave = graph.op(wave, &[&phase]);
                graph.reshaped(&wave, &[-1, *count as i64, 1])
            });
            let waves = graph.joined(&[&waves[0], &waves[1]], 2);
            let waves = graph.reshaped(&waves, &[-1, 2 * *count as i64]);
            graph.joined(&[&scaled, &waves], 1)
        }
    }
}

/// Each stored action, or once nothing.
fn stored(actions: &[f32], size: usize) -> Vec<&[f32]> {
    if actions.is_empty() { vec![&[]] } else { actions.chunks_exact(size).collect() }
}

/// Rows brought to length √n.
fn to_sphere(graph: &mut OnnxGraph, rows: &TensorName, size: usize) -> TensorName {
    let axes = graph.wholes(&[1]);
    let length = graph.node("ReduceL2", &[rows, &axes], &[Attribute::Whole("keepdims", 1)]);
    let tiny = graph.number(TINY);
    let length = graph.op("Max", &[&length, &tiny]);
    let unit = graph.op("Div", &[rows, &length]);
    graph.scaled(&unit, (size as f32).sqrt())
}

/// Writes the distance from one end to the other, in nats.
struct DistanceWriter<'g, 'a> {
    graph: &'g mut OnnxGraph,
    numbers: FlatNumbers<'a>,
    stored: Vec<&'a [f32]>,
    /// Values that networks see of a state, and values per action.
    sizes: (usize, usize),
    /// Start and goal as networks see them.
    ends: [&'g TensorName; 2],
    /// What networks with an input for the goal see of it, and how many values that is.
    shown: (TensorName, usize),
}

impl<'a> DistanceWriter<'_, 'a> {
    fn form(&mut self, form: &MeasureShape) -> TensorName {
        match form {
            MeasureShape::Encoded(shape) => self.encoded(shape),
            MeasureShape::Paired(shape) => self.paired(shape),
            MeasureShape::Stepped(shape) => self.stepped(shape),
            MeasureShape::Scored(shape) => self.scored(shape),
            MeasureShape::Valued(shape) => self.valued(shape),
            MeasureShape::Several { members, of } => {
                let each: Vec<TensorName> = (0..*members).map(|_| self.form(of)).collect();
                self.mean(&each, 1.0)
            }
        }
    }

    fn layers(&mut self, network: &crate::nn::Network, sizes: (usize, usize)) -> Layers<'a> {
        Layers::new(self.graph, &mut self.numbers, network, sizes)
    }

    /// The mean of several tensors, times a factor.
    fn mean(&mut self, tensors: &[TensorName], factor: f64) -> TensorName {
        let sum = match tensors {
            [alone] => alone.clone(),
            _ => self.graph.op("Sum", &tensors.iter().collect::<Vec<_>>()),
        };
        self.graph.scaled(&sum, (factor / tensors.len() as f64) as f32)
    }

    fn encoded(&mut self, shape: &EncodedShape) -> TensorName {
        let (state, action) = self.sizes;
        let inputs = state + if shape.with_action { action } else { 0 };
        let network = self.layers(&shape.network, (inputs, shape.head.latent()));
        let head = HeadNode::new(&mut self.numbers, shape.head);
        let each: Vec<TensorName> = self
            .stored
            .clone()
            .into_iter()
            .map(|action| {
                let [from, to] = self.ends.map(|end| {
                    network.apply(self.graph, &[Part::Rows(end, state), Part::Same(action)])
                });
                head.apply(self.graph, &from, &to)
            })
            .collect();
        self.mean(&each, 1.0 / shape.temperature)
    }

    fn paired(&mut self, shape: &PairedShape) -> TensorName {
        let ((state, action), latent) = (self.sizes, shape.head.latent());
        let mut each = Vec::new();
        for _ in 0..shape.critics {
            if shape.with_action {
                // The encoder of starts with their actions is not asked between states.
                self.layers(&shape.network, (state + action, latent));
            }
            let network = self.layers(&shape.network, (state, latent));
            let head = HeadNode::new(&mut self.numbers, shape.head);
            let [from, to] =
                self.ends.map(|end| network.apply(self.graph, &[Part::Rows(end, state)]));
            each.push(head.apply(self.graph, &from, &to));
        }
        let most = self.graph.op("Max", &each.iter().collect::<Vec<_>>());
        self.graph.scaled(&most, (1.0 / shape.scale) as f32)
    }

    fn stepped(&mut self, shape: &SteppedShape) -> TensorName {
        let state = self.sizes.0;
        let width = shape.head.latent();
        let latent = shape.projector.as_ref().map_or(width, |projector| projector.latent);
        let network = self.layers(&shape.network, (state, latent));
        let projector = shape
            .projector
            .as_ref()
            .map(|projector| self.layers(&projector.network, (latent, width)));
        let head = HeadNode::new(&mut self.numbers, shape.head);
        if let Some(dynamics) = &shape.dynamics {
            // Latent dynamics are not asked between states.
            self.layers(dynamics, (latent + self.sizes.1, latent));
        }
        let [from, to] = self.ends.map(|end| {
            let encoded = network.apply(self.graph, &[Part::Rows(end, state)]);
            match &projector {
                Some(projector) => projector.apply(self.graph, &[Part::Rows(&encoded, latent)]),
                None => encoded,
            }
        });
        let units = head.apply(self.graph, &from, &to);
        self.graph.scaled(&units, shape.nats as f32)
    }

    fn scored(&mut self, shape: &ScoredShape) -> TensorName {
        let (state, action) = self.sizes;
        let inputs = state + if shape.with_action { action } else { 0 };
        let start = self.layers(&shape.network, (inputs, shape.latent));
        let (shown, width) = self.shown.clone();
        let goal = self.layers(&shape.network, (width, shape.latent));
        let goal = goal.apply(self.graph, &[Part::Rows(&shown, width)]);
        let each: Vec<TensorName> = self
            .stored
            .clone()
            .into_iter()
            .map(|action| {
                let [here, there] = self.ends.map(|end| {
                    let parts = [Part::Rows(end, state), Part::Same(action)];
                    let start = start.apply(self.graph, &parts);
                    let product = self.graph.op("Mul", &[&start, &goal]);
                    self.graph.reduced("ReduceSum", &product, 1)
                });
                self.graph.op("Sub", &[&there, &here])
            })
            .collect();
        self.mean(&each, 1.0 / shape.temperature)
    }

    fn valued(&mut self, shape: &ValuedShape) -> TensorName {
        let (state, action) = self.sizes;
        let shown = self.shown.1;
        let goal = shape.representation.unwrap_or(shown);
        let represent = shape
            .representation
            .map(|size| (self.layers(&shape.network, (state + shown, size)), size));
        let states: Vec<Layers<'a>> = (0..shape.state_values)
            .map(|_| self.layers(&shape.network, (state + goal, 1)))
            .collect();
        let actions: Vec<Layers<'a>> = (0..shape.action_values)
            .map(|_| self.layers(&shape.network, (state + action + goal, 1)))
            .collect();
        let networks = ValueNetworks { represent, states, actions, goal };
        let each: Vec<TensorName> = self
            .stored
            .clone()
            .into_iter()
            .map(|action| self.nats(&networks, shape.reading, action))
            .collect();
        self.mean(&each, 1.0)
    }

    fn nats(
        &mut self,
        networks: &ValueNetworks<'_>,
        reading: Reading,
        action: &[f32],
    ) -> TensorName {
        let [from, to] = self.ends.map(|end| (end, self.sizes.0));
        let shown = self.shown.clone();
        let value = networks.at(self.graph, from, &shown, action);
        match reading {
            Reading::Logit => {
                let own = networks.at(self.graph, to, &shown, action);
                self.graph.op("Sub", &[&own, &value])
            }
            Reading::Steps { discount } => {
                let zero = self.graph.number(0.0);
                let value = self.graph.op("Min", &[&value, &zero]);
                let lost = self.graph.scaled(&value, 1.0 - discount as f32);
                let one = self.graph.number(1.0);
                let left = self.graph.op("Add", &[&lost, &one]);
                let least = self.graph.number(f32::EPSILON);
                let left = self.graph.op("Max", &[&left, &least]);
                let log = self.graph.op("Log", &[&left]);
                self.graph.op("Neg", &[&log])
            }
        }
    }
}

/// The networks of values.
struct ValueNetworks<'a> {
    represent: Option<(Layers<'a>, usize)>,
    states: Vec<Layers<'a>>,
    actions: Vec<Layers<'a>>,
    /// Values that networks see of a goal.
    goal: usize,
}

impl ValueNetworks<'_> {
    /// The value of a start, with an action where states have none, at a goal.
    fn at(
        &self,
        graph: &mut OnnxGraph,
        (from, size): (&TensorName, usize),
        (goal, shown): &(TensorName, usize),
        action: &[f32],
    ) -> TensorName {
        let goal = match &self.represent {
            Some((network, width)) => {
                let parts = [Part::Rows(from, size), Part::Rows(goal, *shown)];
                let raw = network.apply(graph, &parts);
                to_sphere(graph, &raw, *width)
            }
            None => goal.clone(),
        };
        let by_state = !self.states.is_empty();
        let networks = if by_state { &self.states } else { &self.actions };
        let each: Vec<TensorName> = networks
            .iter()
            .map(|network| {
                let start = Part::Rows(from, size);
                let goal = Part::Rows(&goal, self.goal);
                let value = if by_state {
                    network.apply(graph, &[start, goal])
                } else {
                    network.apply(graph, &[start, Part::Same(action), goal])
                };
                graph.reshaped(&value, &[-1])
            })
            .collect();
        let each: Vec<&TensorName> = each.iter().collect();
        if by_state { graph.op("Mean", &each) } else { graph.op("Min", &each) }
    }
}

/// The values of `rows` at these positions.
fn part(graph: &mut OnnxGraph, rows: &TensorName, places: &[usize]) -> TensorName {
    let places: Vec<i64> = places.iter().map(|&at| at as i64).collect();
    let places = graph.wholes(&places);
    graph.gathered(rows, &places, 1)
}

/// The action of the policies.
fn act(
    graph: &mut OnnxGraph,
    shape: &ModelShape,
    actor: &ActorShape,
    mut numbers: FlatNumbers<'_>,
    [state, goal]: [&TensorName; 2],
) -> TensorName {
    let normalization = &shape.normalization;
    let (width, goal_width) = (normalization.width(), normalization.goal_width());
    let goal = part(graph, goal, normalization.goal_places());
    let asked = [Part::Rows(state, width), Part::Rows(&goal, goal_width)];
    match actor {
        ActorShape::One(policy) => {
            let sizes = (width + goal_width, shape.action_size);
            let statistics = statistics(graph, policy, &mut numbers, sizes, &asked);
            bounded(graph, policy.law, &statistics, shape.action_size)
        }
        ActorShape::Two { high, low, representation } => {
            let sizes = (width + goal_width, *representation);
            let named = statistics(graph, high, &mut numbers, sizes, &asked);
            let waypoint = to_sphere(graph, &named, *representation);
            let asked = [Part::Rows(state, width), Part::Rows(&waypoint, *representation)];
            let sizes = (width + representation, shape.action_size);
            let statistics = statistics(graph, low, &mut numbers, sizes, &asked);
            bounded(graph, low.law, &statistics, shape.action_size)
        }
    }
}

/// The numbers of a policy's law.
fn statistics(
    graph: &mut OnnxGraph,
    policy: &PolicyShape,
    numbers: &mut FlatNumbers<'_>,
    (inputs, action_size): (usize, usize),
    parts: &[Part<'_>],
) -> TensorName {
    let outputs = if policy.law == Law::Tanh { 2 * action_size } else { action_size };
    Layers::new(graph, numbers, &policy.network, (inputs, outputs)).apply(graph, parts)
}

/// The most likely action of a law.
fn bounded(graph: &mut OnnxGraph, law: Law, statistics: &TensorName, size: usize) -> TensorName {
    match law {
        Law::Constant { .. } | Law::Auto => {
            let (low, high) = (graph.number(-1.0), graph.number(1.0));
            graph.op("Clip", &[statistics, &low, &high])
        }
        Law::Tanh => {
            let first: Vec<i64> = (0..size as i64).collect();
            let first = graph.wholes(&first);
            let mean = graph.gathered(statistics, &first, 1);
            graph.op("Tanh", &[&mean])
        }
        Law::Categorical => {
            let attributes = [Attribute::Whole("axis", 1), Attribute::Whole("keepdims", 0)];
            let choice = graph.node("ArgMax", &[statistics], &attributes);
            let depth = graph.whole(size as i64);
            let values = graph.numbers(&[2], &[0.0, 1.0]);
            graph.op("OneHot", &[&choice, &depth, &values])
        }
    }
}
