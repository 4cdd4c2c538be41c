// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! A handle for a graph that may not be finished.

use super::{ByName, Icfg};
use crate::method::MethodTable;
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread::Scope;

/// A graph that is finished, or that another thread is building. Clones refer to the same graph.
#[derive(Clone, Debug)]
pub struct SharedIcfg(Arc<GraphPromise>);

#[derive(Debug)]
struct GraphPromise {
    graph: OnceLock<Arc<Icfg>>,
    /// Receives the graph once; `None` if the graph was finished from the beginning.
    from: Mutex<Option<Receiver<Arc<Icfg>>>>,
}

impl SharedIcfg {
    /// Builds the graph of `methods`, with [callees by name](ByName), on a thread of `scope`.
    pub fn build<'s>(scope: &'s Scope<'s, '_>, methods: &'s MethodTable) -> Self {
        let (send, receive) = channel();
        scope.spawn(move || {
            let graph = Icfg::build(methods, &mut ByName::new(methods));
            // If all handles are gone, nothing needs the graph.
            let _ = send.send(Arc::new(graph));
        });
        Self(Arc::new(GraphPromise { graph: OnceLock::new(), from: Mutex::new(Some(receive)) }))
    }
    /// The graph; waits until it is finished.
    ///
    /// # Panics
    /// If the thread that builds the graph has panicked.
    pub fn get(&self) -> &Arc<Icfg> {
        let GraphPromise { graph, from } = &*self.0;
        graph.get_or_init(|| {
            let from = from.lock().unwrap_or_else(PoisonError::into_inner).take();
            let graph = from.and_then(|from| from.recv().ok());
            graph.unwrap_or_else(|| panic!("the thread that builds the graph has panicked"))
        })
    }
}

impl From<Arc<Icfg>> for SharedIcfg {
    fn from(graph: Arc<Icfg>) -> Self {
        Self(Arc::new(GraphPromise { graph: OnceLock::from(graph), from: Mutex::new(None) }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::method;
    use std::thread::scope;

    #[test]
    fn all_that_wait_get_the_same_graph() {
        let mut methods = MethodTable::default();
        methods.push(method("f", &[26, 172]));
        let graphs = scope(|scope| {
            let shared = SharedIcfg::build(scope, &methods);
            let threads = [0; 4].map(|_| {
                let shared = shared.clone();
                scope.spawn(move || Arc::clone(shared.get()))
            });
            threads.map(|thread| thread.join().unwrap())
        });
        assert_eq!(graphs[0].len(), 2);
        assert!(graphs.iter().all(|graph| Arc::ptr_eq(graph, &graphs[0])));
        assert!(Arc::ptr_eq(SharedIcfg::from(Arc::clone(&graphs[0])).get(), &graphs[0]));
    }

    #[test]
    fn nobody_waits_for_a_thread_that_has_panicked() {
        let (send, receive) = channel();
        let from = Mutex::new(Some(receive));
        let shared = SharedIcfg(Arc::new(GraphPromise { graph: OnceLock::new(), from }));
        let waiting = shared.clone();
        let waits = std::thread::spawn(move || waiting.get().len());
        drop(send);
        assert!(waits.join().is_err());
        // A later caller does not wait either.
        assert!(std::thread::spawn(move || shared.get().len()).join().is_err());
    }
}
