// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Which metadata records a trace needs that begins at some time.
//!
//! A program that loads and unloads classes for days makes metadata for days. Most of it describes
//! what is gone: no trace after that needs it. [`Trim`] passes over all records once and then says
//! which of them to keep.
//!
//! **Things.** A record describes a thread, a class, a method, or a piece of code, from its
//! definition to its end. A thing that ended before the horizon is left out with all its records,
//! the one of its end included. There are two exceptions. Compiled code needs the methods in its
//! debug info, even if they were unloaded before the code was freed. A method needs its class, and
//! a class its super types.
//!
//! **Repetitions.** Of several records of one kind before the horizon that say the same of one
//! thing, only the last one is kept: of patches of the same bytes, of names of a thread, and of a
//! thread's visits to the VM for the same call (`Resolution`). A decoder needs such a visit if it
//! is under way at the horizon. It may last long, because it may run a class initialiser whose code
//! makes visits for other calls. Nothing says when a visit ends, but the next one for the same call
//! shows that the earlier one is over, or that it is around the later one, which is found first.
//! Decoders count the visits of a thread from the horizon on, so they need no number of the
//! earlier ones.
//!
//! The order and the times of the records that are kept do not change. So at any time after the
//! horizon, they describe the same VM.

use std::hash::{Hash, RandomState};

use allocator_api2::alloc::Allocator;
use allocator_api2::vec::Vec;
use jportal_units::Tsc;

use crate::error::Error;
use crate::ranges::{Placed, Ranges};
use crate::schema::{NMethodInstalled, Record, Stamped};

/// Index of a thing in [`Trim::things`], or one of the next two.
type Id = u32;
/// Stands for a thing that every trace needs.
const ALWAYS: Id = Id::MAX;
/// Stands for a thing that no trace needs.
const NEVER: Id = Id::MAX - 1;
/// Time of an end that has not come.
const NOT_YET: u64 = u64::MAX;
/// Ends a list of needs.
const NO_MORE: u32 = u32::MAX;

/// What records describe. A capture has hundreds of thousands of them.
#[derive(Debug)]
struct Thing {
    /// When it ended.
    ended: u64,
    /// The class of a method, which the method needs and ends with; otherwise [`ALWAYS`].
    of: Id,
    /// What else it needs: the first of its list in [`Trim::needs`], or [`NO_MORE`].
    needs: u32,
}

/// A thing that another one needs.
#[derive(Debug, Clone, Copy)]
struct Need {
    thing: Id,
    /// The next of the list, or [`NO_MORE`].
    next: u32,
}

/// The things of a list of needs.
struct Needs<'a> {
    all: &'a [Need],
    next: u32,
}

impl Iterator for Needs<'_> {
    type Item = Id;

    fn next(&mut self) -> Option<Id> {
        let need = self.all.get(self.next as usize)?;
        self.next = need.next;
        Some(need.thing)
    }
}

/// By what records name a thing, which several things may have in turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Name {
    /// OS thread id.
    Thread(u32),
    /// `InstanceKlass*`.
    Class(u64),
    /// `Method*`.
    Method(u64),
    /// `nmethod*`.
    NMethod(u64),
}

/// What a record before the horizon says, if the next such record takes its place.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Fact {
    /// The bytes at an address: with their number.
    Bytes(u64, usize),
    /// The name of a thread: OS thread id.
    NameOf(u32),
    /// A thread had a call resolved that returns to an address.
    Visit(u32, u64),
}

type HashMap<K, V, A> = hashbrown::HashMap<K, V, RandomState, A>;

/// The things that the records passed so far describe. The tables have megabytes for a capture of a
/// hundred, so the caller chooses the memory (`A`) that they are in.
#[derive(Debug)]
pub(crate) struct Trim<A: Allocator + Clone> {
    memory: A,
    horizon: u64,
    things: Vec<Thing, A>,
    needs: Vec<Need, A>,
    /// For each record the things that must be kept for it to be kept.
    records: Vec<[Id; 2], A>,
    /// The last thing of each name.
    named: HashMap<Name, Id, A>,
    /// The code that is there.
    code: Ranges<A>,
    /// The last record before the horizon that says it, an index of `records`.
    facts: HashMap<Fact, u32, A>,
}

/// The records to keep.
#[derive(Debug)]
pub(crate) struct Kept<A: Allocator> {
    records: Vec<[Id; 2], A>,
    things: Vec<bool, A>,
}

impl<A: Allocator> Kept<A> {
    /// Whether to keep the record with this number.
    pub(crate) fn has(&self, record: usize) -> bool {
        let needed = |id: &Id| *id == ALWAYS || self.things.get(*id as usize).is_some_and(|kept| *kept);
        self.records.get(record).is_none_or(|things| things.iter().all(needed))
    }
}

fn no_memory<T>(items: usize) -> Error {
    Error::Memory { bytes: (items * size_of::<T>()) as u64 }
}

fn push<T, A: Allocator>(to: &mut Vec<T, A>, item: T) -> Result<(), Error> {
    to.try_reserve(1).map_err(|_| no_memory::<T>(to.len() + 1))?;
    to.push(item);
    Ok(())
}

fn put<K: Eq + Hash, V, A: Allocator>(
    map: &mut HashMap<K, V, A>,
    key: K,
    value: V,
) -> Result<Option<V>, Error> {
    map.try_reserve(1).map_err(|_| no_memory::<(K, V)>(map.len() + 1))?;
    Ok(map.insert(key, value))
}

fn fact_of(record: &Record) -> Option<Fact> {
    match record {
        Record::CodePatched(r) => Some(Fact::Bytes(r.address, r.code.0.len())),
        Record::ThreadRenamed(r) => Some(Fact::NameOf(r.tid)),
        Record::Resolution(r) => Some(Fact::Visit(r.tid, r.return_address)),
        _ => None,
    }
}

impl<A: Allocator + Clone> Trim<A> {
    /// For a trace that shows nothing before `horizon`.
    pub(crate) fn new(horizon: Tsc, memory: A) -> Self {
        Self {
            horizon: horizon.0,
            things: Vec::new_in(memory.clone()),
            needs: Vec::new_in(memory.clone()),
            records: Vec::new_in(memory.clone()),
            named: HashMap::with_hasher_in(RandomState::new(), memory.clone()),
            code: Ranges::new(memory.clone()),
            facts: HashMap::with_hasher_in(RandomState::new(), memory.clone()),
            memory,
        }
    }

    /// Takes the next record of the stream.
    ///
    /// # Errors
    /// [`Error::Memory`].
    pub(crate) fn pass(&mut self, stamped: &Stamped) -> Result<(), Error> {
        let needed = self.things_of(stamped.tsc, &stamped.record)?;
        if stamped.tsc < self.horizon
            && let Some(fact) = fact_of(&stamped.record)
        {
            let record = self.records.len() as u32;
            let earlier = put(&mut self.facts, fact, record)?;
            if let Some(things) = earlier.and_then(|n| self.records.get_mut(n as usize)) {
                *things = [NEVER, NEVER];
            }
        }
        push(&mut self.records, needed)
    }

    fn things_of(&mut self, tsc: u64, record: &Record) -> Result<[Id; 2], Error> {
        let thing = match record {
            Record::ThreadStarted(r) => self.living(Name::Thread(r.tid))?,
            // The new name may come after the end.
            Record::ThreadRenamed(r) => self.last(Name::Thread(r.tid)).unwrap_or(ALWAYS),
            Record::ThreadExited(r) => self.end_of(Name::Thread(r.tid), tsc),
            Record::ClassLoaded(r) => {
                let id = self.living(Name::Class(r.klass))?;
                self.needs(id, Name::Class(r.super_klass))?;
                r.interfaces.iter().try_for_each(|i| self.needs(id, Name::Class(i.klass)))?;
                id
            }
            Record::ClassDefined(r) => {
                let id = self.living(Name::Class(r.klass))?;
                self.needs(id, Name::Class(r.super_klass))?;
                id
            }
            Record::ClassConstants(r) => self.last(Name::Class(r.klass)).unwrap_or(ALWAYS),
            Record::ClassUnloaded(r) => self.end_of(Name::Class(r.klass), tsc),
            Record::MethodDefined(r) => self.define_method(r.method, r.klass)?,
            // The VM may report the stub before the method.
            Record::MethodStub(r) => self.living(Name::Method(r.method))?,
            Record::MethodFreed(r) => self.end_of(Name::Method(r.method), tsc),
            Record::BlobDefined(r) => self.install(tsc, r.start, r.code.0.len())?,
            Record::NMethodInstalled(r) => self.compiled(tsc, r)?,
            Record::NMethodMarkers(r) => match self.code_at(r.start) {
                Some(id) => {
                    r.contexts.iter().try_for_each(|c| self.needs(id, Name::Method(c.method)))?;
                    id
                }
                None => ALWAYS,
            },
            Record::NMethodStateChanged(r) => self.last(Name::NMethod(r.nmethod)).unwrap_or(ALWAYS),
            Record::CodePatched(r) => self.code_at(r.address).unwrap_or(ALWAYS),
            Record::CodeFreed(r) => self.freed(tsc, r.start, r.size),
            Record::Resolution(r) => {
                let code = self.code_at(r.return_address.wrapping_sub(1)).unwrap_or(ALWAYS);
                return Ok([code, self.last(Name::Thread(r.tid)).unwrap_or(ALWAYS)]);
            }
            // The interpreter stays, and notices concern the user.
            _ => ALWAYS,
        };
        Ok([thing, ALWAYS])
    }

    fn new_thing(&mut self) -> Result<Id, Error> {
        let id = self.things.len() as Id;
        push(&mut self.things, Thing { ended: NOT_YET, of: ALWAYS, needs: NO_MORE })?;
        Ok(id)
    }

    /// Notes the end of a thing, and returns it.
    fn end(&mut self, id: Id, tsc: u64) -> Id {
        if let Some(thing) = self.things.get_mut(id as usize) {
            thing.ended = thing.ended.min(tsc);
        }
        id
    }

    /// The end of something that no record describes means nothing, unless a trace may show it.
    const fn unknown_end(&self, tsc: u64) -> Id {
        if tsc < self.horizon { NEVER } else { ALWAYS }
    }

    /// When a thing ended.
    fn ended(&self, id: Id) -> u64 {
        let Some(thing) = self.things.get(id as usize) else { return NOT_YET };
        let class = self.things.get(thing.of as usize).map_or(NOT_YET, |class| class.ended);
        thing.ended.min(class)
    }

    fn last(&self, name: Name) -> Option<Id> {
        self.named.get(&name).copied()
    }

    /// The thing that has the name now: a new one if the last one has ended.
    fn living(&mut self, name: Name) -> Result<Id, Error> {
        if let Some(id) = self.last(name).filter(|id| self.ended(*id) == NOT_YET) {
            return Ok(id);
        }
        let id = self.new_thing()?;
        put(&mut self.named, name, id)?;
        Ok(id)
    }

    fn end_of(&mut self, name: Name, tsc: u64) -> Id {
        match self.last(name) {
            Some(id) => self.end(id, tsc),
            None => self.unknown_end(tsc),
        }
    }

    /// Redefinition moves methods from one class to another, which both stay needed.
    fn define_method(&mut self, method: u64, klass: u64) -> Result<Id, Error> {
        let id = self.living(Name::Method(method))?;
        let of = self.last(Name::Class(klass)).unwrap_or(ALWAYS);
        if let Some(thing) = self.things.get_mut(id as usize) {
            let before = std::mem::replace(&mut thing.of, of);
            self.add_need(id, before)?;
        }
        Ok(id)
    }

    /// The thing needs the one that has the name now, if there is any.
    fn needs(&mut self, id: Id, name: Name) -> Result<(), Error> {
        self.last(name).map_or(Ok(()), |needed| self.add_need(id, needed))
    }

    fn add_need(&mut self, id: Id, needed: Id) -> Result<(), Error> {
        let Some(thing) = self.things.get_mut(id as usize) else { return Ok(()) };
        let is_known =
            needed == thing.of || Needs { all: &self.needs, next: thing.needs }.any(|n| n == needed);
        if needed == ALWAYS || is_known {
            return Ok(());
        }
        let first = std::mem::replace(&mut thing.needs, self.needs.len() as u32);
        push(&mut self.needs, Need { thing: needed, next: first })
    }

    /// Code was installed. What was there before is gone, even if nothing reported it.
    fn install(&mut self, tsc: u64, start: u64, len: usize) -> Result<Id, Error> {
        let end = start.saturating_add(len as u64);
        // Code without a byte has an address, too.
        let before = end.max(start.saturating_add(1));
        while let Some(there) = self.code.last_before(before) {
            if there.end <= start && there.start != start {
                break;
            }
            self.code.remove_last_before(before);
            self.end(there.id, tsc);
        }
        let id = self.new_thing()?;
        self.code.add(Placed { start, end, id })?;
        Ok(id)
    }

    fn compiled(&mut self, tsc: u64, r: &NMethodInstalled) -> Result<Id, Error> {
        let id = self.install(tsc, r.start, r.code.0.len())?;
        put(&mut self.named, Name::NMethod(r.nmethod), id)?;
        self.needs(id, Name::Method(r.method))?;
        r.scopes.iter().try_for_each(|scope| self.needs(id, Name::Method(scope.method)))?;
        Ok(id)
    }

    /// The memory of a blob was given back. Several pieces of code may have been in it; they end
    /// together.
    fn freed(&mut self, tsc: u64, start: u64, size: u64) -> Id {
        let end = start.saturating_add(size.max(1));
        let mut first = None;
        while let Some(there) = self.code.last_before(end).filter(|there| there.start >= start) {
            self.code.remove_last_before(end);
            first = Some(self.end(there.id, tsc));
        }
        first.unwrap_or_else(|| self.unknown_end(tsc))
    }

    fn code_at(&self, address: u64) -> Option<Id> {
        let there = self.code.last_before(address.saturating_add(1))?;
        (address < there.end).then_some(there.id)
    }

    /// Which of the records to keep.
    ///
    /// # Errors
    /// [`Error::Memory`].
    pub(crate) fn finish(self) -> Result<Kept<A>, Error> {
        let mut kept = Vec::new_in(self.memory.clone());
        kept.try_reserve_exact(self.things.len()).map_err(|_| no_memory::<bool>(self.things.len()))?;
        kept.resize(self.things.len(), false);
        let mut due = Vec::new_in(self.memory.clone());
        for id in 0..self.things.len() as Id {
            if self.ended(id) >= self.horizon {
                push(&mut due, id)?;
            }
        }
        while let Some(id) = due.pop() {
            if std::mem::replace(&mut kept[id as usize], true) {
                continue;
            }
            let thing = &self.things[id as usize];
            let needs = Needs { all: &self.needs, next: thing.needs };
            for needed in needs.chain([thing.of]) {
                if kept.get(needed as usize).is_some_and(|kept| !kept) {
                    push(&mut due, needed)?;
                }
            }
        }
        Ok(Kept { records: self.records, things: kept })
    }
}

#[cfg(test)]
#[path = "trim_tests.rs"]
mod tests;
