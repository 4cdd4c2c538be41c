// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! A mutex that serves metadata before trace. The threads that write trace are many and always
//! have more of it; an ordinary mutex could let the one thread that writes metadata starve. A turn
//! is for the write alone: checksums are computed before it.

use crate::session::lock;
use std::ops::{Deref, DerefMut};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

#[derive(Debug, Default)]
struct Queue {
    taken: bool,
    metadata_waits: u32,
}

/// The mutex. It allocates nothing.
#[derive(Debug, Default)]
pub struct Turns<T> {
    queue: Mutex<Queue>,
    metadata: Condvar,
    trace: Condvar,
    /// Locked by the thread whose turn it is.
    value: Mutex<T>,
}

/// What a thread wants to write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cargo {
    /// Metadata, which goes first.
    Metadata,
    /// Trace and its sideband.
    Trace,
}

impl<T> Turns<T> {
    /// Waits until it is the caller's turn.
    pub fn take(&self, cargo: Cargo) -> WriterTurn<'_, T> {
        let mut queue = lock(&self.queue);
        match cargo {
            Cargo::Metadata => {
                queue.metadata_waits += 1;
                while queue.taken {
                    queue = self.metadata.wait(queue).unwrap_or_else(PoisonError::into_inner);
                }
                queue.metadata_waits -= 1;
            }
            Cargo::Trace => {
                while queue.taken || queue.metadata_waits > 0 {
                    queue = self.trace.wait(queue).unwrap_or_else(PoisonError::into_inner);
                }
            }
        }
        queue.taken = true;
        drop(queue);
        WriterTurn { turns: self, value: lock(&self.value) }
    }

    /// Whether a thread has its turn at present.
    pub fn is_taken(&self) -> bool {
        lock(&self.queue).taken
    }
}

/// The turn of the thread that has it.
pub struct WriterTurn<'a, T> {
    turns: &'a Turns<T>,
    value: MutexGuard<'a, T>,
}

impl<T> Deref for WriterTurn<'_, T> {
    type Target = T;
    fn deref(&self) -> &T {
        &self.value
    }
}
impl<T> DerefMut for WriterTurn<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.value
    }
}

impl<T> Drop for WriterTurn<'_, T> {
    /// The next thread may wait for `value` for a moment, until this guard is gone entirely.
    fn drop(&mut self) {
        let mut queue = lock(&self.turns.queue);
        queue.taken = false;
        if queue.metadata_waits > 0 {
            self.turns.metadata.notify_one();
        } else {
            self.turns.trace.notify_one();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicBool;
    use std::sync::atomic::Ordering::Relaxed;
    use std::time::Duration;

    /// Eight threads always have trace; each turn takes a millisecond. Metadata waits for one
    /// turn at most, the one that has begun.
    #[test]
    fn metadata_passes_all_trace_that_waits() {
        let turns = Turns::<Vec<Cargo>>::default();
        let over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    while !over.load(Relaxed) {
                        let mut turn = turns.take(Cargo::Trace);
                        turn.push(Cargo::Trace);
                        std::thread::sleep(Duration::from_millis(1));
                    }
                });
            }
            for _ in 0..50 {
                std::thread::sleep(Duration::from_micros(300));
                let before = turns.take(Cargo::Metadata).len();
                turns.take(Cargo::Metadata).push(Cargo::Metadata);
                let log = turns.take(Cargo::Metadata);
                // Between two turns of this thread, others may have one each time.
                assert!(log.len() - before <= 3, "{:?}", &log[before..]);
            }
            over.store(true, Relaxed);
        });
        assert!(turns.value.lock().unwrap().contains(&Cargo::Trace) && !turns.is_taken());
    }
}
