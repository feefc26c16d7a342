//! The part of Protocol Buffers that ONNX and TensorBoard files are written with: varints, floats, and
//! fields that are bytes, text or other messages.
//!
//! Source: "Protocol Buffers: Encoding".

/// A message as its bytes.
#[derive(Debug, Clone, Default)]
pub(crate) struct Message {
    pub(crate) bytes: Vec<u8>,
}

const VARINT: u64 = 0;
const FIXED_64: u64 = 1;
const LENGTH: u64 = 2;
const FIXED_32: u64 = 5;

impl Message {
    fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.bytes.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.bytes.push(value as u8);
    }

    fn key(&mut self, field: u64, kind: u64) {
        self.varint(field << 3 | kind);
    }

    /// A whole number; a negative one takes ten bytes, as the encoding says.
    pub(crate) fn whole(mut self, field: u64, value: i64) -> Self {
        self.key(field, VARINT);
        self.varint(value as u64);
        self
    }

    /// A 32-bit float.
    pub(crate) fn float(mut self, field: u64, value: f32) -> Self {
        self.key(field, FIXED_32);
        self.bytes.extend(value.to_le_bytes());
        self
    }

    /// A 64-bit float.
    pub(crate) fn double(mut self, field: u64, value: f64) -> Self {
        self.key(field, FIXED_64);
        self.bytes.extend(value.to_le_bytes());
        self
    }

    /// Bytes.
    pub(crate) fn bytes(mut self, field: u64, bytes: &[u8]) -> Self {
        self.key(field, LENGTH);
        self.varint(bytes.len() as u64);
        self.bytes.extend_from_slice(bytes);
        self
    }

    /// Text.
    pub(crate) fn text(self, field: u64, text: &str) -> Self {
        self.bytes(field, text.as_bytes())
    }

    /// Another message.
    pub(crate) fn message(self, field: u64, inner: &Self) -> Self {
        self.bytes(field, &inner.bytes)
    }

    /// Several messages of one field.
    pub(crate) fn messages(self, field: u64, inner: &[Self]) -> Self {
        inner.iter().fold(self, |message, inner| message.message(field, inner))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_encoded_as_in_the_worked_examples_of_the_encoding() {
        assert_eq!(Message::default().whole(1, 150).bytes, [0x08, 0x96, 0x01]);
        let text = Message::default().text(2, "testing");
        assert_eq!(text.bytes, [0x12, 7, b't', b'e', b's', b't', b'i', b'n', b'g']);
        let inner = Message::default().whole(1, 150);
        assert_eq!(Message::default().message(3, &inner).bytes, [0x1a, 3, 0x08, 0x96, 0x01]);
        assert_eq!(Message::default().float(2, 1.0).bytes, [0x15, 0, 0, 0x80, 0x3f]);
        assert_eq!(Message::default().double(1, 1.0).bytes, [9, 0, 0, 0, 0, 0, 0, 0xf0, 0x3f]);
        assert_eq!(Message::default().whole(1, -1).bytes.len(), 11);
    }
}
