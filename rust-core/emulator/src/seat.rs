// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Exclusive access to a core's state.
//!
//! A thread that owns a core enters its seat at every block, so entering must cost next to
//! nothing. Taking a core away is rare. The protocol is therefore asymmetric: the owner
//! announces itself with a plain store and checks the owner word with a plain load. A claimant
//! changes the owner word, makes every running thread of the process execute a memory barrier
//! (`membarrier(2)`), and then waits until the old owner is not inside. The wait is short:
//! inside, a thread only encodes.
//!
//! If the kernel lacks the private expedited barrier, the owner executes a full fence on entry.

use std::cell::UnsafeCell;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{
    AtomicBool, AtomicU32,
    Ordering::{AcqRel, Acquire, Relaxed, Release, SeqCst},
    compiler_fence, fence,
};
use std::sync::{Mutex, MutexGuard};

/// Number of a thread: its vCPU index plus one.
pub type ThreadNumber = u32;

const FREE: ThreadNumber = 0;
const CLAIMED: ThreadNumber = ThreadNumber::MAX;

const MEMBARRIER_PRIVATE_EXPEDITED: i32 = 1 << 3;
const MEMBARRIER_REGISTER_PRIVATE_EXPEDITED: i32 = 1 << 4;

fn membarrier(command: i32) -> bool {
    // SAFETY: membarrier takes integers only and has no effect on memory contents.
    unsafe { libc::syscall(libc::SYS_membarrier, command, 0, 0) == 0 }
}

#[derive(Debug, Default)]
#[repr(align(64))]
struct Flag(AtomicBool);

#[derive(Debug)]
#[repr(align(64))]
struct Seat<T> {
    owner: AtomicU32,
    state: UnsafeCell<T>,
}

/// The cores' states and their owners.
#[derive(Debug)]
pub struct Seats<T> {
    seats: Box<[Seat<T>]>,
    /// Per thread: whether it is inside a seat.
    inside: Box<[Flag]>,
    claims: Mutex<()>,
    /// `membarrier` works.
    expedited: bool,
}

// SAFETY: the states are reached through `Inside` and `Claimed` only, which the protocol above
// makes exclusive; with `T: Send` they may be used on any thread.
unsafe impl<T: Send> Sync for Seats<T> {}

/// The right to claim seats. One thread holds it at a time.
#[derive(Debug)]
pub struct Claimant<'a>(#[allow(dead_code)] MutexGuard<'a, ()>);

impl<T> Seats<T> {
    /// One seat per state, for threads 1 to `threads`.
    pub fn new(states: Vec<T>, threads: usize) -> Seats<T> {
        let seat = |s| Seat { owner: AtomicU32::new(FREE), state: UnsafeCell::new(s) };
        Seats {
            seats: states.into_iter().map(seat).collect(),
            inside: (0..=threads).map(|_| Flag::default()).collect(),
            claims: Mutex::new(()),
            expedited: membarrier(MEMBARRIER_REGISTER_PRIVATE_EXPEDITED),
        }
    }

    /// Number of seats.
    pub fn len(&self) -> usize {
        self.seats.len()
    }

    /// Whether there are no seats.
    pub fn is_empty(&self) -> bool {
        self.seats.is_empty()
    }

    /// Enters seat `seat` if `me` owns it. Entries must not be nested, and the code inside must
    /// not wait for a claimant.
    #[inline]
    pub fn enter(&self, seat: usize, me: ThreadNumber) -> Option<Inside<'_, T>> {
        let flag = &self.inside[me as usize].0;
        flag.store(true, Relaxed);
        if self.expedited {
            // The claimant's membarrier replaces the fence on this side.
            compiler_fence(SeqCst);
        } else {
            fence(SeqCst);
        }
        let place = &self.seats[seat];
        if place.owner.load(Acquire) != me {
            flag.store(false, Release);
            return None;
        }
        Some(Inside { seat: place, flag, me })
    }

    /// Whether seat `seat` has no owner at this moment.
    pub fn is_free(&self, seat: usize) -> bool {
        self.seats[seat].owner.load(Relaxed) == FREE
    }

    /// Becomes the claimant, after the present claimant has finished.
    pub fn claimant(&self) -> Claimant<'_> {
        Claimant(self.claims.lock().unwrap_or_else(|e| e.into_inner()))
    }

    /// Takes seat `seat` away from its owner, if it has one.
    pub fn claim<'a>(&'a self, seat: usize, _right: &'a Claimant<'_>) -> Claimed<'a, T> {
        let place = &self.seats[seat];
        let old = place.owner.swap(CLAIMED, AcqRel);
        if old != FREE && old != CLAIMED {
            if !(self.expedited && membarrier(MEMBARRIER_PRIVATE_EXPEDITED)) {
                fence(SeqCst);
            }
            let mut spins = 0u32;
            while self.inside[old as usize].0.load(Acquire) {
                spins += 1;
                if spins.is_multiple_of(64) {
                    std::thread::yield_now();
                } else {
                    std::hint::spin_loop();
                }
            }
        }
        Claimed { seat: place, old, next: FREE }
    }
}

/// The owner's access to its seat.
#[derive(Debug)]
pub struct Inside<'a, T> {
    seat: &'a Seat<T>,
    flag: &'a AtomicBool,
    me: ThreadNumber,
}

impl<T> Inside<'_, T> {
    /// Gives the seat up.
    pub fn release(self) {
        // A claimant may have stored `CLAIMED` already and be waiting for this thread to leave.
        let _ = self.seat.owner.compare_exchange(self.me, FREE, AcqRel, Relaxed);
    }
}

impl<T> Deref for Inside<'_, T> {
    type Target = T;
    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: the owner word was `me` after `flag` was set: no claimant touches the state until
        // `flag` is cleared, and `me` is one thread.
        unsafe { &*self.seat.state.get() }
    }
}

impl<T> DerefMut for Inside<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: as in `deref`; `&mut self` makes it unique within this thread.
        unsafe { &mut *self.seat.state.get() }
    }
}

impl<T> Drop for Inside<'_, T> {
    #[inline]
    fn drop(&mut self) {
        self.flag.store(false, Release);
    }
}

/// A claimant's access; the seat is free afterwards unless it was assigned.
#[derive(Debug)]
pub struct Claimed<'a, T> {
    seat: &'a Seat<T>,
    old: ThreadNumber,
    next: ThreadNumber,
}

impl<T> Claimed<'_, T> {
    /// The thread that owned the seat.
    pub fn old_owner(&self) -> Option<ThreadNumber> {
        (self.old != FREE && self.old != CLAIMED).then_some(self.old)
    }

    /// Hands the seat to thread `to`.
    pub fn assign(mut self, to: ThreadNumber) {
        self.next = to;
    }
}

impl<T> Deref for Claimed<'_, T> {
    type Target = T;
    fn deref(&self) -> &T {
        // SAFETY: the owner word is `CLAIMED`, the old owner has left, and claims are serialised by
        // the claimant's mutex.
        unsafe { &*self.seat.state.get() }
    }
}

impl<T> DerefMut for Claimed<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: as in `deref`.
        unsafe { &mut *self.seat.state.get() }
    }
}

impl<T> Drop for Claimed<'_, T> {
    fn drop(&mut self) {
        self.seat.owner.store(self.next, Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicU64;

    #[test]
    fn only_the_owner_enters() {
        let s = Seats::new(vec![0u32], 3);
        assert!(s.enter(0, 1).is_none());
        let c = s.claimant();
        let mut seat = s.claim(0, &c);
        *seat = 5;
        seat.assign(2);
        drop(c);
        assert!(s.enter(0, 1).is_none());
        assert_eq!(*s.enter(0, 2).unwrap(), 5);
        assert!(!s.is_free(0));
        s.enter(0, 2).unwrap().release();
        assert!(s.is_free(0));
        assert!(s.enter(0, 2).is_none());
    }

    /// Threads steal two seats from one another while they work inside. A lost update or a torn
    /// pair would show that two threads were inside at once.
    fn stress(expedited: bool) {
        const THREADS: u32 = 4;
        let mut seats = Seats::new(vec![(0u64, 0u64); 2], THREADS as usize);
        seats.expedited &= expedited;
        let (done, steals) = (AtomicU64::new(0), AtomicU64::new(0));
        std::thread::scope(|scope| {
            for me in 1..=THREADS {
                let (seats, done, steals) = (&seats, &done, &steals);
                scope.spawn(move || {
                    let mut at = me as usize % 2;
                    for i in 0..20_000u64 {
                        loop {
                            if let Some(mut state) = seats.enter(at, me) {
                                state.0 += 1;
                                std::hint::black_box(&mut *state);
                                state.1 += 1;
                                assert_eq!(state.0, state.1);
                                if i % 1000 == 999 {
                                    state.release();
                                }
                                break;
                            }
                            at = (at + 1) % 2;
                            let c = seats.claimant();
                            let seat = seats.claim(at, &c);
                            assert_eq!(seat.0, seat.1);
                            seat.assign(me);
                            steals.fetch_add(1, Relaxed);
                        }
                        done.fetch_add(1, Relaxed);
                    }
                });
            }
        });
        let c = seats.claimant();
        let sum = seats.claim(0, &c).0 + seats.claim(1, &c).0;
        assert_eq!(sum, done.load(Relaxed));
        assert_eq!(sum, u64::from(THREADS) * 20_000);
        assert!(steals.load(Relaxed) > 2 * u64::from(THREADS));
    }

    #[test]
    fn stealing_is_exclusive() {
        stress(true);
    }

    #[test]
    fn stealing_is_exclusive_without_membarrier() {
        stress(false);
    }
}
