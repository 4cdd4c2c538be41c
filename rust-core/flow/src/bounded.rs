// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! A channel whose bound is what its messages weigh, not how many there are.
//!
//! What passes between threads here comes in lots of very different size. A bound on their number is either too small for small ones,
//! and the producer waits although hardly anything is under way, or too large for large ones.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// A channel that takes messages as long as those under way weigh less than `most`: a single one may weigh any amount.
///
/// A producer that has to wait goes on when half of that is under way: it is woken for more than a message.
pub fn bounded<T>(most: usize) -> (Sender<T>, Receiver<T>) {
    let state = State { queue: VecDeque::new(), weight: 0, senders: 1, listens: true };
    let shared =
        Arc::new(Shared { state: Mutex::new(state), most, room: Condvar::new(), news: Condvar::new() });
    (Sender(Arc::clone(&shared)), Receiver(shared))
}

/// The end that messages are put in.
#[derive(Debug)]
pub struct Sender<T>(Arc<Shared<T>>);

/// The end that messages come out of.
#[derive(Debug)]
pub struct Receiver<T>(Arc<Shared<T>>);

/// The receiver has gone: nobody will take what was to be sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HungUp;

#[derive(Debug)]
struct Shared<T> {
    state: Mutex<State<T>>,
    most: usize,
    /// There is room for messages again, or nobody listens any more.
    room: Condvar,
    /// There is a message, or there will never be one.
    news: Condvar,
}

#[derive(Debug)]
struct State<T> {
    queue: VecDeque<(T, usize)>,
    weight: usize,
    senders: usize,
    listens: bool,
}

impl<T> Shared<T> {
    fn lock(&self) -> MutexGuard<'_, State<T>> {
        // Nothing that may panic happens under the lock.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T> Sender<T> {
    /// Sends a message of some weight, when there is room for it.
    ///
    /// # Errors
    /// When the receiver has gone.
    pub fn send(&self, message: T, weight: usize) -> Result<(), HungUp> {
        let Shared { most, room, news, .. } = &*self.0;
        let mut state = self.0.lock();
        if state.weight >= *most {
            let full = |state: &mut State<T>| state.listens && state.weight > most / 2;
            state = room.wait_while(state, full).unwrap_or_else(PoisonError::into_inner);
        }
        if !state.listens {
            return Err(HungUp);
        }
        state.queue.push_back((message, weight));
        state.weight += weight;
        drop(state);
        news.notify_one();
        Ok(())
    }
}

impl<T> Clone for Sender<T> {
    fn clone(&self) -> Self {
        self.0.lock().senders += 1;
        Self(Arc::clone(&self.0))
    }
}

impl<T> Drop for Sender<T> {
    fn drop(&mut self) {
        self.0.lock().senders -= 1;
        self.0.news.notify_one();
    }
}

impl<T> Receiver<T> {
    /// The next message; `None` when all senders have gone and everything has been taken.
    pub fn recv(&self) -> Option<T> {
        let Shared { most, room, news, .. } = &*self.0;
        let none = |state: &mut State<T>| state.queue.is_empty() && state.senders > 0;
        let mut state = news.wait_while(self.0.lock(), none).unwrap_or_else(PoisonError::into_inner);
        let (message, weight) = state.queue.pop_front()?;
        let before = state.weight;
        state.weight -= weight;
        let frees = before > most / 2 && state.weight <= most / 2;
        drop(state);
        if frees {
            room.notify_all();
        }
        Some(message)
    }
    /// All messages up to the last one.
    pub fn iter(&self) -> impl Iterator<Item = T> + '_ {
        std::iter::from_fn(|| self.recv())
    }
}

impl<T> Drop for Receiver<T> {
    fn drop(&mut self) {
        let left = {
            let mut state = self.0.lock();
            state.listens = false;
            std::mem::take(&mut state.queue)
        };
        self.0.room.notify_all();
        drop(left);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::channel;
    use std::thread::{scope, sleep};
    use std::time::Duration;

    #[test]
    fn messages_come_in_order_and_end() {
        let (send, receive) = bounded(10);
        let other = send.clone();
        scope(|scope| {
            scope.spawn(move || {
                (0..1000).for_each(|i| send.send(i, i % 7).unwrap());
                drop(send);
                other.send(1000, 1000).unwrap();
            });
            assert!(receive.iter().eq(0..=1000));
            assert_eq!(receive.recv(), None);
        });
    }

    #[test]
    fn what_is_under_way_is_bounded_by_weight() {
        let (send, receive) = bounded(100);
        let (sent, was_sent) = channel();
        scope(|scope| {
            scope.spawn(move || {
                // A heavy one always passes; behind it nothing does.
                for weight in [90, 1000, 20, 20, 20, 20, 20, 20] {
                    send.send(weight, weight).unwrap();
                    sent.send(weight).unwrap();
                }
            });
            let all = || {
                sleep(Duration::from_millis(100));
                was_sent.try_iter().collect::<Vec<_>>()
            };
            assert_eq!(all(), [90, 1000]);
            assert_eq!((receive.recv(), all()), (Some(90), vec![]));
            // With nothing under way five more may be.
            assert_eq!((receive.recv(), all()), (Some(1000), vec![20; 5]));
            // The last one waits until half is free.
            assert_eq!((receive.recv(), all()), (Some(20), vec![]));
            assert_eq!((receive.recv(), all()), (Some(20), vec![]));
            assert_eq!((receive.recv(), all()), (Some(20), vec![20]));
        });
    }

    #[test]
    fn who_sends_learns_that_nobody_listens() {
        let (send, receive) = bounded(1);
        send.send((), 1).unwrap();
        scope(|scope| {
            let waits = scope.spawn(|| send.send((), 1));
            sleep(Duration::from_millis(50));
            drop(receive);
            assert_eq!(waits.join().unwrap(), Err(HungUp));
        });
        assert_eq!(send.send((), 1), Err(HungUp));
    }
}
