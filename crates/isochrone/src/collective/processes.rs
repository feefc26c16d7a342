//! What a run asks of the processes that carry it.

/// What moves numbers between the processes of a run. All of them call the same functions in the
/// same order; a process that has gone ends the others, so that none of these can fail.
pub trait Processes: Send + Sync {
    /// The number of this process, from 0.
    fn rank(&self) -> usize;
    /// How many processes there are.
    fn size(&self) -> usize;
    /// Sends `numbers` to a process that sends as many, which go to `theirs`.
    fn exchange(&self, with: usize, numbers: &[f32], theirs: &mut [f32]);
    /// Cuts `numbers` into one equal part per process; each has its own and receives the others'.
    fn all_gather(&self, numbers: &mut [f32]);
    /// The bytes of rank `from` become everybody's.
    fn broadcast(&self, from: usize, bytes: &mut [u8]);
    /// Waits for all processes and leaves.
    fn leave(&self);
}
