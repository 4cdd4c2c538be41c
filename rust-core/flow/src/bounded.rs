// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! A channel that is bounded by the weight of its messages, not by their number.
//!
//! The batches that pass between threads here differ greatly in size. If their number were
//! bounded, the bound would be too small for small batches, so that the producer waits although
//! hardly anything is queued, or too large for large ones.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// A channel that accepts messages while the queued ones weigh less than `most`. A single message
/// may have any weight.
///
/// A producer that has to wait resumes when the queue has fallen to half of `most`, so that it
/// does not wake for single messages.
pub fn bounded<T>(most: usize) -> (Sender<T>, Receiver<T>) {
    let state = ChannelState { queue: VecDeque::new(), weight: 0, senders: 1, listens: true };
    let shared = Arc::new(BoundedChannel {
        state: Mutex::new(state),
        most,
        room: Condvar::new(),
        news: Condvar::new(),
    });
    (Sender(Arc::clone(&shared)), Receiver(shared))
}

/// The sending end.
#[derive(Debug)]
pub struct Sender<T>(Arc<BoundedChannel<T>>);

/// The receiving end.
#[derive(Debug)]
pub struct Receiver<T>(Arc<BoundedChannel<T>>);

/// The receiver has gone: nothing will take the messages.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HungUp;

#[derive(Debug)]
struct BoundedChannel<T> {
    state: Mutex<ChannelState<T>>,
    most: usize,
    /// There is room for messages, or the receiver has gone.
    room: Condvar,
    /// There is a message, or all senders have gone.
    news: Condvar,
}

#[derive(Debug)]
struct ChannelState<T> {
    queue: VecDeque<(T, usize)>,
    weight: usize,
    senders: usize,
    listens: bool,
}

impl<T> BoundedChannel<T> {
    fn lock(&self) -> MutexGuard<'_, ChannelState<T>> {
        // No code that may panic runs under the lock.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T> Sender<T> {
    /// Sends a message with a weight; waits until there is room for it.
    ///
    /// # Errors
    /// If the receiver has gone.
    pub fn send(&self, message: T, weight: usize) -> Result<(), HungUp> {
        let BoundedChannel { most, room, news, .. } = &*self.0;
        let mut state = self.0.lock();
        if state.weight >= *most {
            let full = |state: &mut ChannelState<T>| state.listens && state.weight > most / 2;
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
    /// The next message; `None` if all senders have gone and the queue is empty.
    pub fn recv(&self) -> Option<T> {
        let BoundedChannel { most, room, news, .. } = &*self.0;
        let none = |state: &mut ChannelState<T>| state.queue.is_empty() && state.senders > 0;
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
    /// All messages until the senders have gone.
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
                // The heavy message passes because the queue is not full; then the queue accepts
                // nothing.
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
            // When the queue is empty, five more messages fit.
            assert_eq!((receive.recv(), all()), (Some(1000), vec![20; 5]));
            // The last message waits until the queue has fallen to half.
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
