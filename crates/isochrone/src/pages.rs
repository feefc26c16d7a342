//! Large pages for large arrays: a page is 2 MiB instead of 4 KiB where the system has both, so that
//! arrays are first touched in fewer steps and their addresses are found sooner.
#![allow(unsafe_code)]

/// The size of a large page.
const PAGE: usize = 2 << 20;

/// Zeros that nobody touched, in large pages where there are some.
pub(crate) fn zeros<T: Copy>(zero: T, count: usize) -> Vec<T> {
    let mut numbers = vec![zero; count];
    prefer_large(numbers.as_mut_ptr_range());
    numbers
}

/// Room for so many numbers, in large pages where there are some; `None` if there is no memory.
pub(crate) fn room<T>(count: usize) -> Option<Vec<T>> {
    let mut numbers = Vec::new();
    numbers.try_reserve_exact(count).ok()?;
    prefer_large(numbers.spare_capacity_mut().as_mut_ptr_range());
    Some(numbers)
}

/// The bytes of numbers, to be written.
pub(crate) fn bytes_mut(numbers: &mut [f32]) -> &mut [u8] {
    let (start, length) = (numbers.as_mut_ptr().cast(), size_of_val(numbers));
    // SAFETY: these are the bytes of the numbers, which stay borrowed; any bytes are numbers.
    unsafe { std::slice::from_raw_parts_mut(start, length) }
}

/// Asks for large pages where whole ones lie in memory that this process owns.
fn prefer_large<T>(memory: std::ops::Range<*mut T>) {
    let first = memory.start.addr().next_multiple_of(PAGE);
    let length = (memory.end.addr() / PAGE * PAGE).saturating_sub(first);
    if length > 0 {
        advise(memory.start.with_addr(first).cast(), length);
    }
}

#[cfg(target_os = "linux")]
fn advise(start: *mut std::ffi::c_void, length: usize) {
    /// `MADV_HUGEPAGE` of the system's headers.
    const LARGE: i32 = 14;
    unsafe extern "C" {
        fn madvise(start: *mut std::ffi::c_void, length: usize, advice: i32) -> i32;
    }
    // SAFETY: the advice changes neither what the memory holds nor who may use it; a system that does
    // not follow it says so, and nothing depends on it.
    unsafe { madvise(start, length, LARGE) };
}

#[cfg(not(target_os = "linux"))]
fn advise(_: *mut std::ffi::c_void, _: usize) {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arrays_of_every_size_are_zero_and_can_be_filled() {
        for count in [0, 1, PAGE / 4 + 3, PAGE + 5] {
            let mut numbers = zeros(0.0f32, count);
            assert!(numbers.len() == count && numbers.iter().all(|&x| x == 0.0));
            numbers.fill(1.0);
            let mut more: Vec<f32> = room(count).unwrap();
            more.extend_from_slice(&numbers);
            assert!(more == numbers && more.capacity() >= count);
        }
        assert!(room::<f32>(usize::MAX / 8).is_none());
    }
}
