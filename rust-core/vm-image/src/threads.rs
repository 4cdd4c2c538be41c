// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! The Java thread that an OS thread id meant at a time.

use hashbrown::HashMap;
use jportal_capture::schema::{ThreadExited, ThreadRenamed, ThreadStarted};
use jportal_units::{Tid, Tsc};

/// The life of one thread.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ThreadSpan {
    /// OS thread id.
    pub tid: Tid,
    /// `java.lang.Thread.getId()`, 0 if unknown.
    pub java_tid: u64,
    /// Last known name.
    pub name: String,
    /// [`jportal_capture::schema::thread_flags`].
    pub flags: u32,
    /// Start.
    pub started: Tsc,
    /// End, if it was reported.
    pub exited: Option<Tsc>,
}

/// All threads the VM reported, in order of start.
#[derive(Clone, Debug, Default)]
pub struct Threads {
    spans: Vec<ThreadSpan>,
    by_tid: HashMap<u32, Vec<usize>>,
}

impl Threads {
    pub(crate) fn started(&mut self, tsc: Tsc, r: &ThreadStarted) {
        let open = self.last_open(r.tid);
        if let Some(span) = open {
            // Reported twice: the later report knows more, because the Java thread object exists.
            span.java_tid = r.java_tid;
            span.name = r.name.text().into_owned();
            span.flags |= r.flags;
            return;
        }
        self.by_tid.entry(r.tid).or_default().push(self.spans.len());
        self.spans.push(ThreadSpan {
            tid: Tid(r.tid),
            java_tid: r.java_tid,
            name: r.name.text().into_owned(),
            flags: r.flags,
            started: tsc,
            exited: None,
        });
    }
    pub(crate) fn exited(&mut self, tsc: Tsc, r: &ThreadExited) -> bool {
        let Some(span) = self.last_open(r.tid) else { return false };
        span.exited = Some(tsc);
        if !r.name.0.is_empty() {
            span.name = r.name.text().into_owned();
        }
        if r.java_tid != 0 {
            span.java_tid = r.java_tid;
        }
        true
    }
    /// Another thread may set the name while this one ends: that record then follows the record
    /// of the end.
    pub(crate) fn renamed(&mut self, r: &ThreadRenamed) -> bool {
        let last = self.by_tid.get(&r.tid).and_then(|own| own.last());
        let Some(span) = last.and_then(|&i| self.spans.get_mut(i)) else { return false };
        span.name = r.name.text().into_owned();
        true
    }
    fn last_open(&mut self, tid: u32) -> Option<&mut ThreadSpan> {
        let &i = self.by_tid.get(&tid)?.last()?;
        self.spans.get_mut(i).filter(|s| s.exited.is_none())
    }
    /// The thread that `tid` meant at `tsc`: the last one that started not after `tsc`, else the
    /// first.
    pub fn at(&self, tid: Tid, tsc: Tsc) -> Option<&ThreadSpan> {
        let spans = self.by_tid.get(&tid.0)?;
        let n = spans.partition_point(|&i| self.spans[i].started <= tsc);
        spans.get(n.saturating_sub(1)).map(|&i| &self.spans[i])
    }
    /// All threads in order of start.
    pub fn iter(&self) -> impl Iterator<Item = &ThreadSpan> {
        self.spans.iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_may_be_renamed_while_it_ends() {
        let renamed = |name: &str| ThreadRenamed { tid: 7, name: name.into() };
        let mut threads = Threads::default();
        assert!(!threads.renamed(&renamed("nobody")));
        threads.started(Tsc(1), &ThreadStarted { tid: 7, name: "one".into(), ..ThreadStarted::default() });
        assert!(threads.exited(Tsc(2), &ThreadExited { tid: 7, ..ThreadExited::default() }));
        assert!(threads.renamed(&renamed("two")), "the VM recorded the end first");
        let span = threads.at(Tid(7), Tsc(1)).unwrap();
        assert_eq!((span.name.as_str(), span.exited), ("two", Some(Tsc(2))));
    }
}
