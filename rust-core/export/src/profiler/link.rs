// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Writes what the profiler's process gets.

use std::io::{BufReader, Read, Write};

use hashbrown::HashMap;
use jportal_analyses::tree::{Change, Live, NodeId};
use jportal_flow::ThreadInfo;
use jportal_units::MethodId;

use super::answer::{Answer, answer, head, stream_error};
use super::{HEAD, ReplayTotals, VERSION, kind};
use crate::Error;

/// Bytes that are kept before they are sent.
const FULL: usize = 1 << 16;

/// What a node stands for, as the process numbers it.
#[derive(PartialEq, Eq, Hash, Debug)]
enum Named {
    Method(MethodId),
    Label(String),
}

/// Both directions of the stream.
#[derive(Debug)]
pub(super) struct ProcessLink<R, W> {
    from: BufReader<R>,
    to: W,
    /// What is not sent yet.
    kept: Vec<u8>,
    /// The numbers of methods and labels.
    named: HashMap<Named, u64>,
    pub(super) totals: ReplayTotals,
    /// The first fault.
    pub(super) fault: Option<Error>,
}

impl<R: Read, W: Write> ProcessLink<R, W> {
    pub(super) fn start(from: R, to: W) -> Result<Self, Error> {
        let (from, named) = (BufReader::new(from), HashMap::new());
        let totals = ReplayTotals { threads: 0, reports: 0 };
        let mut link = Self { from, to, kept: HEAD.to_vec(), named, totals, fault: None };
        link.number(VERSION);
        link.flush()?;
        head(&mut link.from)?;
        match answer(&mut link.from)? {
            Answer::Ready => Ok(link),
            other => Err(unexpected(other, "that the profiler is loaded")),
        }
    }
    pub(super) fn register(&mut self, thread: &ThreadInfo) -> Result<u32, Error> {
        self.totals.threads += 1;
        self.kept.push(kind::THREAD);
        self.text(&thread.name);
        self.number(thread.java_tid);
        self.number(thread.tid.get().into());
        self.granularity()
    }
    /// Sends what changed in the tree of a thread, of which the process knows the first `known`
    /// nodes.
    pub(super) fn report(
        &mut self,
        (thread, known): (u64, &mut u32),
        tree: &mut Live<'_>,
        at: NodeId,
    ) -> Result<u32, Error> {
        self.totals.reports += 1;
        for node in tree.nodes_from(*known) {
            self.name(tree, node)?;
        }
        self.kept.push(kind::REPORT);
        self.number(thread);
        let added = tree.nodes_from(*known);
        self.number(added.len() as u64);
        for node in added {
            let caller = tree.parent(node).unwrap_or_else(|| tree.root());
            self.number(caller.get().into());
            let named = self.name(tree, node)?;
            self.number(named);
            *known += 1;
        }
        let changes = tree.take_changes();
        self.number(changes.len() as u64);
        let mut next = 0;
        for Change { node, invocations, bytecodes } in changes {
            self.number(u64::from(node.get() - next));
            next = node.get() + 1;
            self.number((invocations << 1 ^ invocations >> 63) as u64);
            self.number(bytecodes);
            self.flush_if_full()?;
        }
        self.number(at.get().into());
        self.granularity()
    }
    /// The number of what a node stands for. A new one is sent: not within another message.
    fn name(&mut self, tree: &Live<'_>, node: NodeId) -> Result<u64, Error> {
        let key = match tree.method_id(node) {
            Some(method) => Named::Method(method),
            None => Named::Label(tree.label(node)),
        };
        if let Some(number) = self.named.get(&key) {
            return Ok(*number);
        }
        match (&key, tree.method(node)) {
            (_, Some(method)) => {
                self.kept.push(kind::METHOD);
                self.text(&method.class_name.replace('/', "."));
                self.text(&method.loader);
                self.text(&format!("{}{}", method.name, method.signature));
            }
            (Named::Label(label), None) => {
                self.kept.push(kind::LABEL);
                self.text(label);
            }
            (Named::Method(_), None) => {
                self.kept.push(kind::LABEL);
                self.text("(unknown)");
            }
        }
        self.flush_if_full()?;
        let number = self.named.len() as u64;
        self.named.insert(key, number);
        Ok(number)
    }
    pub(super) fn end(&mut self, thread: u64) {
        self.kept.push(kind::END);
        self.number(thread);
    }
    pub(super) fn finish(mut self, exact: bool, reason: &str) -> Result<ReplayTotals, Error> {
        if let Some(fault) = self.fault {
            return Err(fault);
        }
        self.kept.extend([kind::FINISH, u8::from(exact)]);
        self.text(reason);
        match self.ask()? {
            Answer::Done => Ok(self.totals),
            other => Err(unexpected(other, "that the profiler has finished")),
        }
    }
    fn granularity(&mut self) -> Result<u32, Error> {
        match self.ask()? {
            Answer::Granularity(n) => Ok(n),
            other => Err(unexpected(other, "a granularity")),
        }
    }
    /// Sends all, and waits for an answer. A process that fails may not read all that is sent to
    /// it: its answer says more than the closed stream.
    fn ask(&mut self) -> Result<Answer, Error> {
        match self.flush() {
            Err(Error::ProfilerGone) => match answer(&mut self.from) {
                Err(fault) => Err(fault),
                Ok(_) => Err(Error::ProfilerGone),
            },
            Err(other) => Err(other),
            Ok(()) => answer(&mut self.from),
        }
    }
    fn number(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.kept.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.kept.push(value as u8);
    }
    fn text(&mut self, text: &str) {
        self.number(text.len() as u64);
        self.kept.extend_from_slice(text.as_bytes());
    }
    fn flush_if_full(&mut self) -> Result<(), Error> {
        if self.kept.len() < FULL {
            return Ok(());
        }
        match self.flush() {
            Err(Error::ProfilerGone) => Err(answer(&mut self.from).err().unwrap_or(Error::ProfilerGone)),
            other => other,
        }
    }
    fn flush(&mut self) -> Result<(), Error> {
        let sent = self.to.write_all(&self.kept).and_then(|()| self.to.flush());
        self.kept.clear();
        sent.map_err(stream_error)
    }
}

fn unexpected(answer: Answer, wanted: &str) -> Error {
    Error::ProfilerAnswer(format!("{answer:?} in place of {wanted}"))
}
