//! relu(x)², by which a distance is held below or above a target.

use crate::engine::Scalar;

/// relu(x)² and its slope.
#[inline(always)]
pub(super) fn hinge<T: Scalar>(x: T) -> (T, T) {
    let held = T::ZERO.at_least(x);
    (held * held, held + held)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_one_sided() {
        assert_eq!(hinge(-2.0), (0.0, 0.0));
        assert_eq!(hinge(3.0), (9.0, 6.0));
    }
}
