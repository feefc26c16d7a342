//! The format of a snapshot: its facts and tensors as the bytes of a safetensors file, and back.
//!
//! The metadata begin with BLAKE3(file with the 64 digits of the checksum as zeros), so that no bit
//! may differ: tensors, facts, step and layout alike. The bytes are a function of the [`Snapshot`];
//! no clock, no random names. Source of the layout: Hugging Face, "Safetensors", section Format.

use std::collections::BTreeMap;

use safetensors::{Dtype, SafeTensors};

use crate::error::{Error, Result};

/// The version of the layout, written under the fact `format`.
pub const FORMAT: &str = "1";

/// Facts that are written by [`encode`] itself.
const RESERVED: [&str; 3] = [CHECKSUM, "format", "step"];
const CHECKSUM: &str = "blake3";
/// What safetensors calls its facts.
pub(super) const METADATA: &str = "__metadata__";
/// How the text of every checkpoint begins; the digits of the checksum follow.
const OPENING: &str = r#"{"__metadata__":{"blake3":""#;
const LENGTH_SIZE: usize = 8;
pub(super) const DIGITS_START: usize = LENGTH_SIZE + OPENING.len();
const DIGITS: usize = 2 * blake3::OUT_LEN;
pub(super) const DIGITS_END: usize = DIGITS_START + DIGITS;
const NO_DIGITS: [u8; DIGITS] = [b'0'; DIGITS];

/// The name, the shape and the values of a tensor.
pub type Tensor = (String, Vec<usize>, Vec<f32>);

/// A run at one step: all its numbers, and the facts they depend on.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Snapshot {
    /// Updates done.
    pub step: u64,
    /// All tensors, in any order; reading returns them sorted by name.
    pub tensors: Vec<Tensor>,
    /// Hash of the config, fingerprint of the data, kind of model: whatever must agree to resume.
    pub facts: BTreeMap<String, String>,
}

impl Snapshot {
    /// The tensor of this name: its shape and values.
    pub fn tensor(&self, name: &str) -> Option<(&[usize], &[f32])> {
        let found = self.tensors.iter().find(|tensor| tensor.0 == name)?;
        Some((&found.1, &found.2))
    }
}
/// The bytes of a snapshot.
pub(super) fn encode(snapshot: &Snapshot) -> Result<Vec<u8>> {
    let mut tensors = snapshot.tensors.iter().collect::<Vec<_>>();
    tensors.sort_by(|one, other| one.0.cmp(&other.0));
    for (name, shape, values) in &tensors {
        check_tensor(snapshot.step, name, shape, values)?;
    }
    if let Some(pair) = tensors.windows(2).find(|pair| pair[0].0 == pair[1].0) {
        return Err(Error::input(format!("tensor `{}` appears twice", pair[0].0)));
    }
    let header = header(snapshot, &tensors)?;
    let size = tensors.iter().map(|tensor| size_of_val(tensor.2.as_slice())).sum::<usize>();
    let mut bytes = Vec::new();
    bytes.try_reserve_exact(LENGTH_SIZE + header.len() + size).map_err(|_| {
        Error::memory(format!("a checkpoint of {size} bytes does not fit into memory"))
    })?;
    bytes.extend((header.len() as u64).to_le_bytes());
    bytes.extend(header.as_bytes());
    for (_, _, values) in tensors {
        bytes.extend(values.iter().flat_map(|value| value.to_le_bytes()));
    }
    let digits = checksum(&bytes);
    bytes[DIGITS_START..DIGITS_END].copy_from_slice(digits.as_bytes());
    Ok(bytes)
}

fn check_tensor(step: u64, name: &str, shape: &[usize], values: &[f32]) -> Result<()> {
    if name == METADATA {
        return Err(Error::input(format!("`{name}` cannot name a tensor")));
    }
    let count = shape.iter().try_fold(1usize, |product, &side| product.checked_mul(side));
    if count != Some(values.len()) {
        return Err(Error::input(format!(
            "tensor `{name}` has {} values, expected the shape `{shape:?}`",
            values.len()
        )));
    }
    match values.iter().find(|value| !value.is_finite()) {
        None => Ok(()),
        Some(&value) => {
            Err(Error::Diverged { step, metric: name.to_string(), value: f64::from(value) })
        }
    }
}

fn header(snapshot: &Snapshot, tensors: &[&Tensor]) -> Result<String> {
    if let Some(name) = RESERVED.iter().find(|name| snapshot.facts.contains_key(**name)) {
        return Err(Error::input(format!("the fact `{name}` is written by the checkpoint itself")));
    }
    let mut facts = snapshot.facts.clone();
    facts.insert("format".into(), FORMAT.into());
    facts.insert("step".into(), snapshot.step.to_string());
    let quoted = |text: &str| serde_json::Value::from(text).to_string();
    let mut text = OPENING.to_string() + &"0".repeat(DIGITS) + "\"";
    for (name, value) in &facts {
        text += &format!(",{}:{}", quoted(name), quoted(value));
    }
    text.push('}');
    let mut start = 0;
    for (name, shape, values) in tensors {
        let end = start + size_of_val(values.as_slice());
        let name = quoted(name);
        let shape = serde_json::Value::from(shape.as_slice());
        text +=
            &format!(r#",{name}:{{"dtype":"F32","shape":{shape},"data_offsets":[{start},{end}]}}"#);
        start = end;
    }
    text.push('}');
    // Tensors begin at a multiple of eight bytes, as the format asks.
    let padding = text.len().next_multiple_of(8) - text.len();
    Ok(text + &" ".repeat(padding))
}

/// The digits of the checksum of a file, whatever digits stand in it.
pub(super) fn checksum(bytes: &[u8]) -> String {
    let mut hasher = blake3::Hasher::new();
    hasher.update(&bytes[..DIGITS_START]).update(&NO_DIGITS).update(&bytes[DIGITS_END..]);
    hasher.finalize().to_hex().to_string()
}

/// The snapshot of these bytes, every one of them verified.
pub(super) fn decode(bytes: &[u8]) -> Result<Snapshot> {
    if bytes.len() < DIGITS_END || &bytes[LENGTH_SIZE..DIGITS_START] != OPENING.as_bytes() {
        return Err(foreign(bytes));
    }
    if &bytes[DIGITS_START..DIGITS_END] != checksum(bytes).as_bytes() {
        return Err(damaged("its checksum does not match"));
    }
    let (header, metadata) =
        SafeTensors::read_metadata(bytes).map_err(|error| damaged(&error.to_string()))?;
    let mut facts = BTreeMap::from_iter(metadata.metadata().clone().unwrap_or_default());
    let format = facts.remove("format").unwrap_or_default();
    if format != FORMAT {
        return Err(Error::input(format!("the file has format `{format}`, expected `{FORMAT}`"))
            .hint("use the version of isochrone that wrote it"));
    }
    facts.remove(CHECKSUM);
    let step = facts.remove("step").and_then(|step| step.parse().ok());
    let step = step.ok_or_else(|| damaged("it names no step"))?;
    let data = &bytes[LENGTH_SIZE + header..];
    let mut tensors = Vec::new();
    for (name, info) in BTreeMap::from_iter(metadata.tensors()) {
        let (start, end) = info.data_offsets;
        if info.dtype != Dtype::F32 {
            return Err(Error::input(format!(
                "tensor `{name}` is `{}`, expected `F32`",
                info.dtype
            )));
        }
        let values = data[start..end].as_chunks().0.iter().map(|&item| f32::from_le_bytes(item));
        let values = values.collect::<Vec<_>>();
        if let Some(value) = values.iter().find(|value| !value.is_finite()) {
            return Err(Error::input(format!("tensor `{name}` holds `{value}`")));
        }
        tensors.push((name, info.shape.clone(), values));
    }
    Ok(Snapshot { step, tensors, facts })
}

fn damaged(why: &str) -> Error {
    Error::input(format!("the file is damaged: {why}"))
        .hint("copy it again, or use an older model or checkpoint")
}

fn foreign(bytes: &[u8]) -> Error {
    if SafeTensors::read_metadata(bytes).is_ok() {
        return Error::input("the safetensors file is no model and no checkpoint of isochrone")
            .hint("`isochrone train` writes both");
    }
    damaged("it does not begin as a model or a checkpoint does")
}
