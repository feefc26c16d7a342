//! A graph of ONNX operators, put together node by node.

use crate::protobuf::Message;

/// Element types of ONNX tensors.
const FLOAT: i64 = 1;
const INT64: i64 = 7;
/// Types of attributes.
const OF_FLOAT: i64 = 1;
const OF_WHOLE: i64 = 2;

/// The name of a tensor in a graph.
pub(super) type TensorName = String;

/// An attribute of a node.
#[derive(Debug, Clone, Copy)]
pub(super) enum Attribute {
    Whole(&'static str, i64),
    Float(&'static str, f32),
}

impl Attribute {
    fn message(self) -> Message {
        match self {
            Self::Whole(name, value) => {
                Message::default().text(1, name).whole(3, value).whole(20, OF_WHOLE)
            }
            Self::Float(name, value) => {
                Message::default().text(1, name).float(2, value).whole(20, OF_FLOAT)
            }
        }
    }
}

/// Nodes and constants so far.
#[derive(Debug, Default)]
pub(super) struct OnnxGraph {
    nodes: Vec<Message>,
    constants: Vec<Message>,
    inputs: Vec<Message>,
    outputs: Vec<Message>,
    names: usize,
}

/// A value with a batch of rows of `width` numbers, or of one number each.
fn value(name: &str, width: Option<usize>) -> Message {
    let batch = Message::default().text(2, "batch");
    let width = width.map(|width| Message::default().whole(1, width as i64));
    let dimensions: Vec<Message> = std::iter::once(batch).chain(width).collect();
    let shape = Message::default().messages(1, &dimensions);
    let tensor = Message::default().whole(1, FLOAT).message(2, &shape);
    Message::default().text(1, name).message(2, &Message::default().message(1, &tensor))
}

impl OnnxGraph {
    fn name(&mut self) -> TensorName {
        self.names += 1;
        format!("t{}", self.names)
    }

    /// An input: a batch of rows.
    pub(super) fn input(&mut self, name: &str, width: usize) -> TensorName {
        self.inputs.push(value(name, Some(width)));
        name.to_owned()
    }

    /// Names `tensor` as an output: rows of `width` numbers, or one number each.
    pub(super) fn output(&mut self, name: &str, tensor: &TensorName, width: Option<usize>) {
        self.outputs.push(value(name, width));
        let node = Message::default().text(1, tensor).text(2, name).text(4, "Identity");
        self.nodes.push(node);
    }

    /// Adds a node with several outputs.
    pub(super) fn several(
        &mut self,
        kind: &str,
        inputs: &[&TensorName],
        attributes: &[Attribute],
        outputs: usize,
    ) -> Vec<TensorName> {
        let outputs: Vec<TensorName> = (0..outputs).map(|_| self.name()).collect();
        let mut node = Message::default();
        for input in inputs {
            node = node.text(1, input);
        }
        for output in &outputs {
            node = node.text(2, output);
        }
        let attributes: Vec<Message> = attributes.iter().map(|one| one.message()).collect();
        self.nodes.push(node.text(4, kind).messages(5, &attributes));
        outputs
    }

    /// Adds a node.
    pub(super) fn node(
        &mut self,
        kind: &str,
        inputs: &[&TensorName],
        attributes: &[Attribute],
    ) -> TensorName {
        self.several(kind, inputs, attributes, 1).remove(0)
    }

    /// Adds a node without attributes.
    pub(super) fn op(&mut self, kind: &str, inputs: &[&TensorName]) -> TensorName {
        self.node(kind, inputs, &[])
    }

    fn constant(&mut self, shape: &[usize], kind: i64, bytes: &[u8]) -> TensorName {
        let name = self.name();
        let tensor =
            shape.iter().fold(Message::default(), |tensor, &side| tensor.whole(1, side as i64));
        self.constants.push(tensor.whole(2, kind).text(8, &name).bytes(9, bytes));
        name
    }

    /// A constant of numbers.
    pub(super) fn numbers(&mut self, shape: &[usize], values: &[f32]) -> TensorName {
        let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        self.constant(shape, FLOAT, &bytes)
    }

    /// A constant number.
    pub(super) fn number(&mut self, value: f32) -> TensorName {
        self.numbers(&[], &[value])
    }

    /// A constant list of whole numbers.
    pub(super) fn wholes(&mut self, values: &[i64]) -> TensorName {
        let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        self.constant(&[values.len()], INT64, &bytes)
    }

    /// A constant whole number.
    pub(super) fn whole(&mut self, value: i64) -> TensorName {
        self.constant(&[], INT64, &value.to_le_bytes())
    }

    /// The tensor times a number.
    pub(super) fn scaled(&mut self, tensor: &TensorName, factor: f32) -> TensorName {
        let factor = self.number(factor);
        self.op("Mul", &[tensor, &factor])
    }

    /// The tensor in another shape; −1 stands for the batch.
    pub(super) fn reshaped(&mut self, tensor: &TensorName, shape: &[i64]) -> TensorName {
        let shape = self.wholes(shape);
        self.op("Reshape", &[tensor, &shape])
    }

    /// A reduction over one axis, which goes away.
    pub(super) fn reduced(&mut self, kind: &str, tensor: &TensorName, axis: i64) -> TensorName {
        let axes = self.wholes(&[axis]);
        self.node(kind, &[tensor, &axes], &[Attribute::Whole("keepdims", 0)])
    }

    /// Slices of an axis; the axis goes away if `at` is a single place.
    pub(super) fn gathered(
        &mut self,
        tensor: &TensorName,
        at: &TensorName,
        axis: i64,
    ) -> TensorName {
        self.node("Gather", &[tensor, at], &[Attribute::Whole("axis", axis)])
    }

    /// Tensors side by side along an axis.
    pub(super) fn joined(&mut self, tensors: &[&TensorName], axis: i64) -> TensorName {
        if let [alone] = tensors {
            return (*alone).clone();
        }
        self.node("Concat", tensors, &[Attribute::Whole("axis", axis)])
    }

    /// The whole file: opset 18, IR version 8, with metadata.
    pub(super) fn file(self, metadata: &[(&str, String)]) -> Vec<u8> {
        const IR: i64 = 8;
        const OPSET: i64 = 18;
        let graph = Message::default()
            .messages(1, &self.nodes)
            .text(2, "isochrone")
            .messages(5, &self.constants)
            .messages(11, &self.inputs)
            .messages(12, &self.outputs);
        let entry = |(key, value): &(&str, String)| Message::default().text(1, key).text(2, value);
        let metadata: Vec<Message> = metadata.iter().map(entry).collect();
        Message::default()
            .whole(1, IR)
            .text(2, "isochrone")
            .text(3, env!("CARGO_PKG_VERSION"))
            .message(7, &graph)
            .message(8, &Message::default().text(1, "").whole(2, OPSET))
            .messages(14, &metadata)
            .bytes
    }
}
