//! Clients of all threads of a server, which are assigned to those with room. Clients are counted when they are accepted and when
//! they end. No request takes the lock.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Clients of all threads of a server.
#[derive(Debug)]
pub(crate) struct ClientLimiter {
    per_thread_max: usize,
    clients: Mutex<Clients>,
}

#[derive(Debug)]
struct Clients {
    of_threads: Vec<usize>,
    next_thread: usize,
}

/// Permit of a client, which is counted until this is dropped.
#[derive(Debug)]
pub(crate) struct ClientPermit {
    limiter: Arc<ClientLimiter>,
    thread: usize,
}

impl ClientLimiter {
    /// Limiter of a server with these threads, of which each accepts as many clients.
    pub(crate) fn new(threads: u16, per_thread_max: usize) -> Arc<Self> {
        let clients = Clients { of_threads: vec![0; usize::from(threads)], next_thread: 0 };
        Arc::new(Self { per_thread_max, clients: Mutex::new(clients) })
    }

    /// Permit for a client that has connected, of the next thread with room; of the next one if none has, where one that has not
    /// chosen a disk may go.
    pub(crate) fn admit(self: &Arc<Self>) -> ClientPermit {
        let mut clients = self.lock();
        let thread = clients.thread_with_room(self.per_thread_max).unwrap_or(clients.next_thread);
        clients.next_thread = (thread + 1) % clients.of_threads.len();
        self.enter(&mut clients, thread)
    }

    /// Permit for a client of this thread.
    pub(crate) fn admit_to(self: &Arc<Self>, thread: usize) -> ClientPermit {
        self.enter(&mut self.lock(), thread)
    }

    fn enter(self: &Arc<Self>, clients: &mut Clients, thread: usize) -> ClientPermit {
        clients.of_threads[thread] += 1;
        ClientPermit { limiter: self.clone(), thread }
    }

    /// The lock, whose holder cannot have left the counts half done.
    fn lock(&self) -> MutexGuard<'_, Clients> {
        self.clients.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Clients {
    /// The next thread that has fewer clients than this.
    fn thread_with_room(&self, most: usize) -> Option<usize> {
        let count = self.of_threads.len();
        let mut threads = (self.next_thread..self.next_thread + count).map(|thread| thread % count);
        threads.find(|thread| self.of_threads[*thread] < most)
    }
}

impl ClientPermit {
    /// Thread that serves it.
    pub(crate) const fn thread(&self) -> usize {
        self.thread
    }
}

impl Drop for ClientPermit {
    fn drop(&mut self) {
        self.limiter.lock().of_threads[self.thread] -= 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_are_assigned_in_turn_to_threads_with_room() {
        let limiter = ClientLimiter::new(3, 5);
        let permits: Vec<_> = (0..6).map(|_| limiter.admit()).collect();
        assert_eq!(permits.iter().map(ClientPermit::thread).collect::<Vec<_>>(), [0, 1, 2, 0, 1, 2]);
        drop(permits);
        // Two threads are full.
        let full: Vec<_> = (0..10).map(|at| limiter.admit_to(2 * (at % 2))).collect();
        assert!((0..3).all(|_| limiter.admit().thread() == 1));
        let rest: Vec<_> = (0..5).map(|_| limiter.admit()).collect();
        assert_eq!([0; 3].map(|_| limiter.admit().thread()), [2, 0, 1], "in turn");
        drop((full, rest));
    }
}
