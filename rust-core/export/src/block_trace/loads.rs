// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Which thread loaded which class, and when.

use hashbrown::HashMap;
use jportal_bytecode::{ClassTable, Method};
use jportal_flow::ThreadInfo;
use jportal_units::{Tid, Tsc};

/// The loads of classes, by thread.
#[derive(Debug)]
pub(super) struct Loads {
    known: bool,
    /// By thread: times and numbers of classes, by time.
    threads: HashMap<(Tid, Tsc), Vec<(Tsc, u32)>>,
}

impl Loads {
    /// The loads of the classes whose methods are in scope. Of a class without methods, the
    /// initialiser that it might have decides.
    pub(super) fn new(classes: &ClassTable, scope: impl Fn(&Method) -> bool) -> Self {
        let mut threads: HashMap<_, Vec<_>> = HashMap::new();
        for class in classes.iter() {
            let Some(load) = class.loaded else { continue };
            let initialiser = Method {
                class: class.number,
                class_name: class.name.clone(),
                loader: class.loader.clone(),
                source_file: class.source_file.clone(),
                name: "<clinit>".into(),
                signature: "()V".into(),
                ..Method::default()
            };
            if scope(&initialiser) {
                threads.entry((load.tid, load.started)).or_default().push((load.tsc, class.number));
            }
        }
        threads.values_mut().for_each(|all| all.sort_unstable());
        Self { known: classes.has_loads(), threads }
    }
    /// Whether the capture says when classes were loaded.
    pub(super) const fn are_known(&self) -> bool {
        self.known
    }
    /// The classes that a thread loaded before `until`, without the first `skip`.
    pub(super) fn of(&self, thread: &ThreadInfo, skip: usize, until: Tsc) -> impl Iterator<Item = u32> + '_ {
        let all = self.threads.get(&(thread.tid, thread.started)).map_or(&[][..], |all| all);
        let before = all.partition_point(|(tsc, _)| *tsc < until);
        all.get(skip..before).unwrap_or_default().iter().map(|(_, class)| *class)
    }
}
