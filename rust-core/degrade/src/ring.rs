// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! A core's AUX buffer, the unit that fills it and the drain that empties it.
//!
//! The kernel's rules (`arch/x86/events/intel/pt.c`, `kernel/events/ring_buffer.c`):
//!
//! * The buffer consists of regions of a quarter of its size, since that is the requested
//!   watermark (`pt_buffer_setup_aux`). `aux_head` moves when a region is full and when the
//!   thread leaves the core. Only then does the drain see new bytes.
//! * At these moments the kernel sets where the unit stops: at the last region end that the
//!   free space reaches (`pt_buffer_reset_markers`). Bytes that the drain frees later count at
//!   the next such moment.
//! * A unit that reaches its stop is off, the AUX record has TRUNCATED, and the drain is woken
//!   (`pt_handle_status`, `perf_aux_output_end`). The drain enables the unit again after it has
//!   read; that takes effect when a whole region is free.
//! * The drain wakes when a quarter has been written since it was last woken, when the unit was
//!   switched off, and on a timer. It takes the available bytes, at most [`PIECE`], and frees
//!   them when it has written all of them.
//!
//! The model simplifies one thing: a unit resumes with a PSB, the next one of the loss-free
//! trace. The kernel does not clear the unit's byte count, so a real unit may begin with a
//! TIP.PGE; its decoder waits for the next PSB all the same.

use crate::random::Random;

/// Most bytes that one pass of the drain takes.
pub const PIECE: u64 = 1 << 20;

/// The bytes of one core over time, in a loss-free recording.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Arrivals {
    /// Offsets whose time is known: stream offset and TSC, both ascending.
    pub points: Vec<(u64, u64)>,
    /// Where a decoder can resume: offset of a PSB and its TSC, both ascending.
    pub syncs: Vec<(u64, u64)>,
    /// Stream offsets at which a thread left the core or the kernel checked the buffer,
    /// ascending.
    pub closes: Vec<u64>,
    /// Bytes in all.
    pub len: u64,
}

impl Arrivals {
    /// When the byte at `offset` was written, interpolated linearly between the known times.
    pub fn time(&self, offset: u64) -> u64 {
        let behind = self.points.partition_point(|p| p.0 <= offset);
        let before = behind.checked_sub(1).map(|i| self.points[i]);
        match (before, self.points.get(behind)) {
            (Some((o, t)), Some(&(to, until))) => {
                let share = (offset - o) as u128 * (until - t) as u128 / (to - o).max(1) as u128;
                t + share as u64
            }
            (Some((_, t)), None) => t,
            (None, Some(&(_, t))) => t,
            (None, None) => 0,
        }
    }

    /// The first PSB at or after `offset` and not before `tsc`: offset and TSC.
    pub(crate) fn sync(&self, offset: u64, tsc: u64) -> Option<(u64, u64)> {
        let at = self.syncs.partition_point(|s| s.0 < offset || s.1 < tsc);
        self.syncs.get(at).copied()
    }
}

/// The drain, a thread that empties the buffer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Drain {
    /// Bytes that it writes per tick of the TSC.
    pub speed: f64,
    /// Ticks after which it checks the buffer without being woken.
    pub timer: u64,
}

/// A stretch of the trace that was not written because the unit was off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lost {
    /// First byte.
    pub from: u64,
    /// First byte after it: a PSB, or the end.
    pub to: u64,
    /// When the unit stopped.
    pub since: u64,
    /// When trace resumes; `None` if it does not.
    pub until: Option<u64>,
}

/// The result of one run of the model.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Run {
    /// The lost stretches, ascending.
    pub lost: Vec<Lost>,
    /// Most bytes that were in the buffer at once.
    pub highest: u64,
    /// Passes of the drain.
    pub passes: u64,
}

impl Run {
    /// Bytes lost.
    pub fn bytes(&self) -> u64 {
        self.lost.iter().map(|l| l.to - l.from).sum()
    }
}

/// Simulates what `drain` loses of `arrivals`, with a buffer of `size` bytes, a power of two of
/// at least 4.
pub fn run(arrivals: &Arrivals, size: u64, drain: Drain, seed: u64, core: u32) -> Run {
    let timer = drain.timer.max(1);
    let mut random = Random::new(seed, 1, core);
    let next_look = arrivals.time(0).saturating_add(random.below(timer));
    let drain =
        Draining { speed: drain.speed, timer, random, woken_at: None, busy: None, free_at: 0, next_look };
    let mut model = Model {
        arrivals,
        size,
        region: size / 4,
        at: 0,
        now: 0,
        head: 0,
        tail: 0,
        announced: 0,
        drain,
        run: Run::default(),
    };
    model.go();
    model.run
}

/// The drain's state.
struct Draining {
    speed: f64,
    timer: u64,
    random: Random,
    /// When it was woken, if it has not started a pass since.
    woken_at: Option<u64>,
    /// The current pass: when it ends, and the number of bytes that it frees.
    busy: Option<(u64, u64)>,
    /// When the last pass ended.
    free_at: u64,
    /// When the timer fires.
    next_look: u64,
}

struct Model<'a> {
    arrivals: &'a Arrivals,
    size: u64,
    region: u64,
    /// Offset in the loss-free stream.
    at: u64,
    /// Time of the last step.
    now: u64,
    /// Bytes written, all of which the drain may see.
    head: u64,
    /// Bytes freed.
    tail: u64,
    /// `head` when the drain was woken last.
    announced: u64,
    drain: Draining,
    run: Run,
}

impl Model<'_> {
    fn go(&mut self) {
        let mut stop = self.stop();
        while self.at < self.arrivals.len {
            self.write_on();
            if self.head == stop && self.at < self.arrivals.len {
                self.off();
            }
            stop = self.stop();
        }
    }

    /// The last region end that the free space reaches.
    fn stop(&self) -> u64 {
        (self.tail + self.size) / self.region * self.region
    }

    /// Writes up to the next moment at which the kernel checks the buffer: a region is full, or
    /// the thread leaves.
    fn write_on(&mut self) {
        let close = self.arrivals.closes.partition_point(|&c| c <= self.at);
        let close = self.arrivals.closes.get(close).copied().unwrap_or(self.arrivals.len);
        let room = self.region - self.head % self.region;
        let to = close.min(self.at + room).min(self.arrivals.len);
        let then = self.now.max(self.arrivals.time(to));
        while self.drain_step(then).is_some() {}
        self.now = then;
        self.head += to - self.at;
        self.at = to;
        self.run.highest = self.run.highest.max(self.head - self.tail);
        if self.head - self.announced >= self.region {
            self.wake();
        }
    }

    fn wake(&mut self) {
        self.announced = self.head;
        self.drain.woken_at.get_or_insert(self.now);
    }

    /// The unit is off until the drain has freed a region, and a PSB follows.
    fn off(&mut self) {
        self.wake();
        let (from, since) = (self.at, self.now);
        while self.stop() < self.head + self.region {
            match self.drain_step(u64::MAX) {
                Some(then) => self.now = self.now.max(then),
                None => break,
            }
        }
        let on = self.arrivals.sync(from, self.now);
        (self.at, self.now) = on.unwrap_or((self.arrivals.len, self.now));
        if self.at > from {
            self.run.lost.push(Lost { from, to: self.at, since, until: on.map(|s| s.1) });
        }
    }

    /// Performs the drain's next event, if it is not after `until`; returns its time.
    fn drain_step(&mut self, until: u64) -> Option<u64> {
        if let Some((end, bytes)) = self.drain.busy.filter(|b| b.0 <= until) {
            self.drain.busy = None;
            self.tail += bytes;
            self.drain.free_at = end;
            self.drain.next_look = end.saturating_add(self.drain.timer);
            return Some(end);
        }
        if self.drain.busy.is_some() || self.head == self.tail {
            return None;
        }
        let start = self.wake_up();
        (start <= until).then(|| self.begin_pass(start))
    }

    /// When the sleeping drain wakes; `now` is the time of the last new bytes.
    fn wake_up(&mut self) -> u64 {
        let d = &mut self.drain;
        if let Some(woken) = d.woken_at {
            return woken.max(d.free_at);
        }
        let late = self.now.saturating_sub(d.next_look).div_ceil(d.timer);
        d.next_look = d.next_look.saturating_add(late.saturating_mul(d.timer));
        d.next_look
    }

    fn begin_pass(&mut self, start: u64) -> u64 {
        let bytes = (self.head - self.tail).min(PIECE);
        let d = &mut self.drain;
        let ticks = bytes as f64 / (d.speed * d.random.jitter());
        d.woken_at = None;
        // `as` saturates: a number too large for the type becomes its maximum.
        d.busy = Some((start.saturating_add(ticks.ceil() as u64), bytes));
        self.run.passes += 1;
        start
    }
}

#[cfg(test)]
#[path = "ring_tests.rs"]
mod tests;
