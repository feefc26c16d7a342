//! The limit on the threads of a process. A test of its own: the limit is set once per process.
#![allow(clippy::unwrap_used)]

use isochrone::engine::Threads;

#[test]
fn a_limit_holds_for_all_work_without_a_pool_and_is_set_once() {
    Threads::limit(3).unwrap();
    assert_eq!(rayon::current_num_threads(), 3);
    assert_eq!(Threads::default().enter(rayon::current_num_threads), 3);
    let error = Threads::limit(2).unwrap_err().to_string();
    assert!(error.contains("cannot start 2 threads"), "{error}");
}
