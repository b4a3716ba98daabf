//! Pieces of work side by side. What they are, and what is made of their results, is their callers' own concern.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

/// As many as keep all processors busy.
pub(crate) fn per_processor() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// Does all of it, as many at a time as there are workers: what came of each, in their order.
pub(crate) fn side_by_side<T: Sync, R: Send>(
    pieces: &[T],
    workers: usize,
    work: impl Fn(&T) -> R + Sync,
) -> Vec<R> {
    let (next, results) = (AtomicUsize::new(0), Mutex::new(BTreeMap::new()));
    std::thread::scope(|scope| {
        for _ in 0..workers.min(pieces.len()) {
            scope.spawn(|| {
                loop {
                    let at = next.fetch_add(1, Ordering::Relaxed);
                    let Some(piece) = pieces.get(at) else { break };
                    let result = work(piece);
                    results.lock().unwrap_or_else(PoisonError::into_inner).insert(at, result);
                }
            });
        }
    });
    results.into_inner().unwrap_or_else(PoisonError::into_inner).into_values().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_is_done_once_and_results_are_in_order() {
        let pieces: Vec<usize> = (0..1000).collect();
        for workers in [1, 3, 2000] {
            assert_eq!(
                side_by_side(&pieces, workers, |piece| piece * 2),
                pieces.iter().map(|piece| piece * 2).collect::<Vec<_>>()
            );
        }
        assert!(side_by_side(&[] as &[usize], 2, |_| ()).is_empty());
    }
}
