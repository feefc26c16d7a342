//! Matrix products that operations ask a GPU for.

use super::buffer::{Buffer, Target};
use crate::engine::Product;

/// How exact products are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Precision {
    /// Factors rounded to 10 bits of mantissa, sums in single precision.
    #[default]
    Tf32,
    /// Single precision throughout.
    Single,
}

/// A matrix to be multiplied, read as it stands or transposed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Factor {
    /// Row i, column j is number i · columns + j.
    Plain(Buffer),
    /// Row i, column j is number j · rows + i: the stored matrix is read across.
    Across(Buffer),
}

impl Factor {
    pub(in crate::engine) fn buffer(self) -> Buffer {
        match self {
            Self::Plain(buffer) | Self::Across(buffer) => buffer,
        }
    }
}

/// What is applied to every row of a product before it is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Finish {
    /// Nothing.
    None,
    /// Adds a row.
    Bias(Buffer),
    /// Adds a row, then max(0, ·).
    BiasRelu(Buffer),
}

impl Finish {
    pub(in crate::engine) fn bias(self) -> Option<Buffer> {
        match self {
            Self::None => None,
            Self::Bias(bias) | Self::BiasRelu(bias) => Some(bias),
        }
    }
}

/// One product.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(in crate::engine) struct Multiply {
    pub shape: Product,
    pub left: Factor,
    pub right: Factor,
    pub out: Target,
    pub scale: f32,
    pub finish: Finish,
    pub exact: bool,
}
