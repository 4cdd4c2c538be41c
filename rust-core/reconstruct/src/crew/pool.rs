// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! A crew of several threads.
//!
//! There are two kinds of tasks: a core's stream, which decodes the next batches, and a lane,
//! which does the work that it was given. A task runs on one worker at a time, and it runs on
//! any of them. So the number of threads does not depend on the recording.
//!
//! Two bounds limit the memory. A core decodes ahead until the weight of its batches has reached
//! a bound. The driver waits before it gives work to a lane while the work of all lanes weighs
//! more than another bound. Neither can stop the crew: work of a lane needs nothing else to
//! complete, and the core whose batch the driver waits for has an empty queue.

use std::any::Any;
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use super::{Crew, LaneWork};
use crate::automaton::Automaton;
use crate::batch::{Batch, CoreStream};
use crate::error::Error;
use crate::lanes::Lane;
use jportal_units::Core;

/// The weight of the batches that all cores together may decode ahead.
const AHEAD: usize = 1 << 19;
/// The weight of the batches that each core may decode ahead, at least and at most.
const AHEAD_OF_CORE: std::ops::RangeInclusive<usize> = 1 << 13..=1 << 17;
/// The weight of the work that lanes may have not done.
const PENDING: usize = 1 << 18;
/// The weight of the batches that a core decodes before the worker looks for other tasks.
const PORTION: usize = 1 << 13;

/// What the workers and the driver share.
pub(crate) struct Workers<'a> {
    state: Mutex<PoolState<'a>>,
    /// There is a task, or the work has ended.
    tasks: Condvar,
    /// Something has changed that the driver may wait for.
    news: Condvar,
    ahead: usize,
}

#[derive(Default)]
struct PoolState<'a> {
    cores: Vec<CoreTask<'a>>,
    lanes: Vec<LaneTask<'a>>,
    /// Tasks that are ready to run, each at most once.
    ready_cores: VecDeque<usize>,
    ready_lanes: VecDeque<usize>,
    /// The core whose batch the driver waits for.
    wanted: Option<usize>,
    /// The weight of the work that the lanes have not done.
    pending: usize,
    /// No worker takes another task.
    closed: bool,
    /// The panic of a task.
    panic: Option<Box<dyn Any + Send>>,
}

struct CoreTask<'a> {
    core: Core,
    /// `None` while a worker runs it, and after its end.
    stream: Option<Box<CoreStream<'a>>>,
    batches: VecDeque<Batch>,
    weight: usize,
    /// It is ready or runs.
    active: bool,
    ended: bool,
    error: Option<Error>,
}

struct LaneTask<'a> {
    /// `None` while a worker runs it.
    lane: Option<Box<Lane<'a>>>,
    work: VecDeque<LaneWork>,
    /// It is ready or runs.
    active: bool,
}

/// A task that a worker has taken.
enum Task<'a> {
    Core(usize, Box<CoreStream<'a>>),
    Lane(usize, Box<Lane<'a>>, VecDeque<LaneWork>),
}

/// A task that has run.
enum Done<'a> {
    Core(usize, Box<CoreStream<'a>>, Vec<Batch>, Result<bool, Error>),
    Lane(usize, Box<Lane<'a>>, usize),
}

impl<'a> Task<'a> {
    fn run(self, automaton: &mut Box<Automaton>) -> Done<'a> {
        match self {
            Self::Core(n, mut stream) => {
                let mut batches = Vec::new();
                let ended = decode(&mut stream, &mut batches);
                Done::Core(n, stream, batches, ended)
            }
            Self::Lane(n, mut lane, work) => {
                let weight = work.iter().map(LaneWork::weight).sum();
                work.iter().for_each(|w| lane.work(w, automaton, None));
                Done::Lane(n, lane, weight)
            }
        }
    }
}

/// Decodes a portion. Returns whether the stream has ended.
fn decode(stream: &mut CoreStream<'_>, batches: &mut Vec<Batch>) -> Result<bool, Error> {
    let mut weight = 0;
    while weight < PORTION {
        let Some(batch) = stream.next()? else { return Ok(true) };
        weight += batch.weight();
        batches.push(batch);
    }
    Ok(false)
}

impl<'a> PoolState<'a> {
    /// The next task: the core that the driver waits for, then the lanes, then the other cores.
    fn next(&mut self) -> Option<Task<'a>> {
        let wanted = self.wanted.and_then(|w| self.ready_cores.iter().position(|n| *n == w));
        if let Some(n) = wanted.and_then(|at| self.ready_cores.remove(at)) {
            return self.core(n);
        }
        if let Some(n) = self.ready_lanes.pop_front() {
            let task = &mut self.lanes[n];
            let work = std::mem::take(&mut task.work);
            return task.lane.take().map(|lane| Task::Lane(n, lane, work));
        }
        let n = self.ready_cores.pop_front()?;
        self.core(n)
    }
    fn core(&mut self, n: usize) -> Option<Task<'a>> {
        self.cores[n].stream.take().map(|stream| Task::Core(n, stream))
    }
    fn put_back(&mut self, done: Done<'a>, ahead: usize) {
        match done {
            Done::Core(n, stream, batches, ended) => {
                let task = &mut self.cores[n];
                task.weight += batches.iter().map(Batch::weight).sum::<usize>();
                task.batches.extend(batches);
                match ended {
                    Ok(false) => task.stream = Some(stream),
                    Ok(true) => task.ended = true,
                    Err(e) => (task.ended, task.error) = (true, Some(e)),
                }
                task.active = !task.ended && task.weight < ahead;
                if task.active {
                    self.ready_cores.push_back(n);
                }
            }
            Done::Lane(n, lane, weight) => {
                self.pending -= weight;
                let task = &mut self.lanes[n];
                task.lane = Some(lane);
                task.active = !task.work.is_empty();
                if task.active {
                    self.ready_lanes.push_back(n);
                }
            }
        }
    }
}

impl<'a> Workers<'a> {
    /// Workers for the streams of a recording's cores.
    pub(crate) fn new(streams: Vec<(Core, CoreStream<'a>)>) -> Self {
        let each = AHEAD / streams.len().max(1);
        let ahead = each.clamp(*AHEAD_OF_CORE.start(), *AHEAD_OF_CORE.end());
        let (ready_cores, batches) = ((0..streams.len()).collect(), VecDeque::new);
        let task = |(core, stream)| CoreTask {
            core,
            stream: Some(Box::new(stream)),
            batches: batches(),
            weight: 0,
            active: true,
            ended: false,
            error: None,
        };
        let cores = streams.into_iter().map(task).collect();
        let state = Mutex::new(PoolState { cores, ready_cores, ..PoolState::default() });
        Self { state, tasks: Condvar::new(), news: Condvar::new(), ahead }
    }
    fn lock(&self) -> MutexGuard<'_, PoolState<'a>> {
        // Tasks run without the lock, so that their panics do not poison it.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
    /// Runs tasks until the work has ended.
    pub(crate) fn run(&self) {
        let mut automaton = Box::default();
        let mut state = self.lock();
        while !state.closed {
            let Some(task) = state.next() else {
                state = self.tasks.wait(state).unwrap_or_else(PoisonError::into_inner);
                continue;
            };
            drop(state);
            // A task that panics is lost, and so is the decode: the driver passes the panic on.
            let done = catch_unwind(AssertUnwindSafe(|| task.run(&mut automaton)));
            state = self.lock();
            match done {
                Ok(done) => state.put_back(done, self.ahead),
                Err(panic) => (state.panic, state.closed) = (Some(panic), true),
            }
            self.news.notify_all();
        }
        drop(state);
        self.tasks.notify_all();
    }
    fn close(&self) {
        self.lock().closed = true;
        self.tasks.notify_all();
    }
}

/// The driver's side of a pool. The workers end when it is dropped.
pub(crate) struct Pool<'w, 'a>(pub(crate) &'w Workers<'a>);

impl<'a> Pool<'_, 'a> {
    /// Waits until `ready` returns something.
    fn wait<T>(&self, mut ready: impl FnMut(&mut PoolState<'a>) -> Option<T>) -> T {
        let mut state = self.0.lock();
        loop {
            if let Some(panic) = state.panic.take() {
                drop(state);
                resume_unwind(panic);
            }
            if let Some(result) = ready(&mut state) {
                return result;
            }
            state = self.0.news.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

impl Drop for Pool<'_, '_> {
    fn drop(&mut self) {
        self.0.close();
    }
}

impl<'a> Crew<'a> for Pool<'_, 'a> {
    fn add(&mut self, lane: Lane<'a>) {
        let task = LaneTask { lane: Some(Box::new(lane)), work: VecDeque::new(), active: false };
        self.0.lock().lanes.push(task);
    }
    fn batch(&mut self, core: Core) -> Result<Option<Batch>, Error> {
        let Some(n) = self.0.lock().cores.iter().position(|c| c.core == core) else { return Ok(None) };
        let half = self.0.ahead / 2;
        self.wait(|state| {
            let task = &mut state.cores[n];
            if let Some(batch) = task.batches.pop_front() {
                task.weight -= batch.weight();
                if !task.active && !task.ended && task.weight <= half {
                    task.active = true;
                    state.ready_cores.push_back(n);
                    self.0.tasks.notify_one();
                }
                state.wanted = None;
                return Some(Ok(Some(batch)));
            }
            if task.ended {
                return Some(task.error.take().map_or(Ok(None), Err));
            }
            state.wanted = Some(n);
            None
        })
    }
    fn give(&mut self, lane: usize, work: LaneWork) {
        let mut work = Some(work);
        self.wait(|state| {
            if state.pending >= PENDING {
                return None;
            }
            if let (Some(task), Some(work)) = (state.lanes.get_mut(lane), work.take()) {
                state.pending += work.weight();
                task.work.push_back(work);
                if !task.active {
                    task.active = true;
                    state.ready_lanes.push_back(lane);
                    self.0.tasks.notify_one();
                }
            }
            Some(())
        });
    }
    fn has_open_frames(&mut self, lane: usize) -> bool {
        self.wait(|state| {
            let task = state.lanes.get(lane).filter(|task| task.active);
            match task {
                Some(_) => None,
                None => {
                    let lane = state.lanes.get(lane).and_then(|task| task.lane.as_deref());
                    Some(lane.is_some_and(Lane::has_open_frames))
                }
            }
        })
    }
    fn finish(&mut self) -> Vec<Lane<'a>> {
        let tasks = self.wait(|state| {
            let idle = state.lanes.iter().all(|task| !task.active);
            idle.then(|| std::mem::take(&mut state.lanes))
        });
        tasks.into_iter().filter_map(|task| task.lane).map(|lane| *lane).collect()
    }
}
