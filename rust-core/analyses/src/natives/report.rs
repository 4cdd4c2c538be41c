// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! The report on native calls.

use hashbrown::HashMap;
use jportal_bytecode::Method;
use jportal_flow::Tally;
use jportal_plain::table::{Align, table};
use jportal_units::{Bci, MethodId};
use serde::Serialize;

use super::{From, NativesAnalysis};
use crate::hidden::{Account, Inexact, Missing};
use crate::hot::{at_least, least_note};
use crate::names::{Name, Names, Version, version_text};
use crate::polymorphism::outcome::Site;

/// Calls of a native method from one place.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct NativeCaller {
    /// `class.name(descriptor)`, `(VM)` or `(unknown)`.
    pub caller: String,
    /// The caller's version, if its method was redefined.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<Version>,
    /// The calling bytecode.
    pub bci: Option<u16>,
    /// Its source line.
    pub line: Option<u16>,
    /// Number of calls.
    pub calls: Tally,
}

/// A method that was called natively, or that the rule of absence takes for native.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct NativeRow {
    /// `class.name(descriptor)`. For calls without a callee, the symbolic target.
    pub method: String,
    /// The version, if the method was redefined.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<Version>,
    /// Loader, empty for the boot loader.
    pub loader: String,
    /// Whether the method is native; `null` if the recording has no method of that name.
    pub native: Option<bool>,
    /// Calls of the native method.
    pub calls: Tally,
    /// Calls that it made to Java methods.
    pub upcalls: Tally,
    /// Calls that did not happen: an exception came in their place.
    pub not_called: Tally,
    /// Calls without a frame: an intrinsic's instructions ran in their place.
    pub silent: Tally,
    /// Calls that an exception ended before the first bytecode.
    pub unstarted: Tally,
    /// Invokes of which the flow does not say whether they called.
    pub unknown: Tally,
    /// Native calls by the rule of absence: calls from Java code, and those that did not happen,
    /// without a frame, or not started. No figure of ours.
    pub by_absence: u64,
    /// Whether the number of calls is complete.
    pub exact: bool,
    /// Calls that may be missing in places that the flow marks as unknown.
    #[serde(skip_serializing_if = "Missing::is_none")]
    pub missing: Missing,
    /// The callers, most frequent first.
    pub callers: Vec<NativeCaller>,
}

/// The report.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Natives {
    /// Whether the figures are complete: of the requested calls nothing is missing, inferred or
    /// lost.
    pub exact: bool,
    /// Why the figures are not exact, in the threads shown.
    pub inexact: Inexact,
    /// Native calls.
    pub calls: Tally,
    /// Native calls by the rule of absence.
    pub by_absence: u64,
    /// Calls that did not happen.
    pub not_called: Tally,
    /// Calls without a frame.
    pub silent: Tally,
    /// Number of methods.
    pub methods: usize,
    /// The requested number of methods, most native calls first.
    pub rows: Vec<NativeRow>,
}

/// A row under construction.
#[derive(Default)]
struct DraftRow {
    row: Option<NativeRow>,
    callers: HashMap<From, Tally>,
}

/// The rows, by method.
struct NativeRows<'a> {
    of: &'a NativesAnalysis,
    names: Names<'a>,
    rows: HashMap<Name, DraftRow>,
    /// The first method of each class, name and descriptor.
    named: HashMap<(&'a str, &'a str, &'a str), MethodId>,
}

impl<'a> NativeRows<'a> {
    fn new(of: &'a NativesAnalysis) -> Self {
        let mut named = HashMap::new();
        for m in of.methods.iter() {
            named.entry((&*m.class_name, &*m.name, &*m.signature)).or_insert(m.id);
        }
        Self { of, names: Names::new(&of.methods, of.naming), rows: HashMap::new(), named }
    }
    fn row(&mut self, name: Name, native: Option<bool>) -> (&mut NativeRow, &mut HashMap<From, Tally>) {
        let DraftRow { row, callers } = self.rows.entry(name.clone()).or_default();
        let tally = Tally::default();
        let row = row.get_or_insert_with(|| NativeRow {
            method: name.qualified(),
            version: name.version,
            loader: name.loader,
            native,
            calls: tally,
            upcalls: tally,
            not_called: tally,
            silent: tally,
            unstarted: tally,
            unknown: tally,
            by_absence: 0,
            exact: true,
            missing: Missing::default(),
            callers: Vec::new(),
        });
        (row, callers)
    }
    fn method(&mut self, id: MethodId) -> (&mut NativeRow, &mut HashMap<From, Tally>) {
        let native = self.of.methods.get(id).map(Method::is_native);
        self.row(self.names.get(id), native)
    }
    /// The row of the method that an invoke names.
    fn symbolic(&mut self, (caller, bci): Site) -> &mut NativeRow {
        let invoke = self.of.methods.get(caller).and_then(|m| m.invoke_at(bci));
        let key = invoke.map(|i| (&*i.class_name, &*i.name, &*i.signature));
        if let Some(id) = key.and_then(|key| self.named.get(&key)) {
            return self.method(*id).0;
        }
        let name = invoke.map_or_else(
            || Name {
                class: String::new(),
                loader: String::new(),
                method: "(unknown)".into(),
                version: None,
            },
            |i| Name {
                class: match &*i.class_name {
                    "" => "(invokedynamic)".to_owned(),
                    class => class.replace('/', "."),
                },
                loader: String::new(),
                method: format!("{}{}", i.name, i.signature),
                version: None,
            },
        );
        self.row(name, None).0
    }
    fn end(self, (top, lossy): (usize, bool)) -> (Vec<NativeRow>, usize) {
        let Self { of, names, rows, .. } = self;
        let mut all: Vec<NativeRow> = Vec::new();
        for DraftRow { row, callers } in rows.into_values() {
            let Some(mut row) = row else { continue };
            let mut from: Vec<(From, Tally)> = callers.into_iter().collect();
            from.sort_by_key(|(from, n)| (u64::MAX - n.total(), *from));
            row.callers = from.iter().map(|(from, calls)| caller(of, &names, *from, *calls)).collect();
            row.exact = !lossy && row.missing.is_none() && row.unknown.total() == 0;
            // A call without a frame of a native method is a call that is not counted.
            row.exact &= row.native != Some(true) || row.silent.total() == 0;
            all.push(row);
        }
        all.sort_by(|a, b| {
            let key = |r: &NativeRow| (u64::MAX - r.calls.total(), u64::MAX - r.by_absence);
            let name = |r: &NativeRow| (r.method.clone(), r.loader.clone(), r.version);
            key(a).cmp(&key(b)).then_with(|| name(a).cmp(&name(b)))
        });
        let methods = all.len();
        all.truncate(top);
        (all, methods)
    }
}

fn caller(of: &NativesAnalysis, names: &Names<'_>, from: From, calls: Tally) -> NativeCaller {
    let none = |name: &str| (name.to_owned(), None, None, None);
    let (caller, version, bci, line) = match from {
        From::Vm => none("(VM)"),
        From::Unknown => none("(unknown)"),
        From::Java(m, bci) => {
            let name = names.get(m);
            let line = of.methods.get(m).and_then(|m| m.line_at(bci));
            (name.qualified(), name.version, Some(bci.get()), line)
        }
    };
    NativeCaller { caller, version, bci, line, calls }
}

impl NativesAnalysis {
    /// The `top` methods with the most native calls. `wanted` selects calls by the caller, and
    /// calls from the VM and from unknown places by the callee.
    pub fn report(&self, top: usize, wanted: impl Fn(&Method) -> bool) -> Natives {
        let is_wanted = |id: MethodId| self.methods.get(id).is_some_and(&wanted);
        let inexact = self.hidden.inexact.clone();
        let lossy = inexact.is_lossy();
        let mut rows = NativeRows::new(self);
        let mut totals = (Tally::default(), Tally::default(), Tally::default());
        for (&(from, callee), tally) in &self.counts.calls {
            let java = if let From::Java(caller, _) = from { Some(caller) } else { None };
            if is_wanted(java.unwrap_or(callee)) {
                let (row, callers) = rows.method(callee);
                row.calls.merge(tally);
                row.by_absence += if from == From::Vm { 0 } else { tally.total() };
                callers.entry(from).or_default().merge(tally);
                totals.0.merge(tally);
            }
        }
        for (_, absent) in self.counts.absent.iter().filter(|(site, _)| is_wanted(site.0)) {
            totals.1.merge(&absent.not_called);
            totals.2.merge(&absent.silent);
        }
        self.add_absent(&mut rows, is_wanted);
        self.add_missing(&mut rows, is_wanted);
        for (method, tally) in &self.counts.upcalls {
            // Only of methods whose calls are shown.
            if rows.rows.contains_key(&rows.names.get(*method)) {
                rows.method(*method).0.upcalls.merge(tally);
            }
        }
        let by_absence = rows.rows.values().filter_map(|r| r.row.as_ref()).map(|r| r.by_absence).sum();
        let (rows, methods) = rows.end((usize::MAX, lossy));
        let exact = !lossy && rows.iter().all(|row| row.exact);
        let rows = rows.into_iter().take(top).collect();
        let (calls, not_called, silent) = totals;
        Natives { exact, inexact, calls, by_absence, not_called, silent, methods, rows }
    }
    /// Adds the calls without a callee.
    fn add_absent(&self, rows: &mut NativeRows<'_>, is_wanted: impl Fn(MethodId) -> bool) {
        for (&site, absent) in self.counts.absent.iter().filter(|(site, _)| is_wanted(site.0)) {
            let row = rows.symbolic(site);
            row.silent.merge(&absent.silent);
            row.not_called.merge(&absent.not_called);
            row.unknown.merge(&absent.unknown);
            row.by_absence += absent.silent.total() + absent.not_called.total();
        }
        for (&method, tally) in self.counts.unstarted.iter().filter(|(m, _)| is_wanted(**m)) {
            let (row, _) = rows.method(method);
            row.unstarted.merge(tally);
            row.by_absence += tally.total();
        }
    }
    /// Adds the native calls that the flow may hide.
    fn add_missing(&self, rows: &mut NativeRows<'_>, is_wanted: impl Fn(MethodId) -> bool) {
        let missing = Account::new(&self.methods, &self.inlined).of_calls(&self.hidden);
        for ((caller, _, callee), missing) in missing {
            let native = self.methods.get(callee).is_some_and(Method::is_native);
            if native && is_wanted(caller) && !missing.calls.is_none() {
                rows.method(callee).0.missing.merge(&Missing { silent_calls: 0, ..missing });
            }
        }
    }
}

impl Natives {
    /// The report as tables: methods, then callers.
    pub fn text(&self) -> String {
        let blind = self.inexact.is_blind();
        let row = |r: &NativeRow| {
            let silent = if r.native == Some(true) { r.silent.total() } else { 0 };
            vec![
                at_least(&r.calls, r.missing.calls, silent, blind || r.unknown.total() > 0),
                r.upcalls.text(),
                r.by_absence.to_string(),
                r.not_called.text(),
                r.silent.text(),
                r.unstarted.text(),
                format!("{}{}", r.method, version_text(r.version)),
            ]
        };
        let rows: Vec<_> = self.rows.iter().map(row).collect();
        let columns = [
            ("calls", Align::Right),
            ("upcalls", Align::Right),
            ("by absence", Align::Right),
            ("did not happen", Align::Right),
            ("no frame", Align::Right),
            ("not started", Align::Right),
            ("method", Align::Left),
        ];
        let more = match self.methods.saturating_sub(self.rows.len()) {
            0 => String::new(),
            n => format!("{n} more methods\n"),
        };
        let total = format!(
            "total {} native calls; the rule of absence finds {}\n",
            self.calls.text(),
            self.by_absence
        );
        let note = least_note(&self.inexact, self.exact);
        format!("{}{more}{total}\n{}{note}", table(&columns, &rows), self.callers_text())
    }
    fn callers_text(&self) -> String {
        let place = |c: &NativeCaller| {
            let name = format!("{}{}", c.caller, version_text(c.version));
            match (c.bci.map(Bci), c.line) {
                (Some(bci), Some(line)) => format!("{name} @{} line {line}", bci.get()),
                (Some(bci), None) => format!("{name} @{}", bci.get()),
                _ => name,
            }
        };
        let rows = self.rows.iter().flat_map(|r| r.callers.iter().map(move |c| (r, c)));
        let rows = rows
            .map(|(r, c)| vec![c.calls.text(), place(c), format!("{}{}", r.method, version_text(r.version))]);
        let columns = [("calls", Align::Right), ("from", Align::Left), ("to", Align::Left)];
        table(&columns, &rows.collect::<Vec<_>>())
    }
}
