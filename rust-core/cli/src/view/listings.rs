// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Listings of methods for the page, from counts of blocks.

use std::collections::HashMap;

use jportal::analyses::blocks::{Blocks, MethodBlocks};
use jportal::analyses::names::{Names, Naming, Version};
use jportal::export::view::{Listing, Times};
use jportal::{Bci, Method, MethodTable, Tally};

/// Class, loader, name with descriptor, and version.
type Key<'a> = (&'a str, &'a str, &'a str, Option<Version>);

/// The counts by method.
pub(super) struct Listings<'a> {
    names: Names<'a>,
    merged: bool,
    of: HashMap<Key<'a>, &'a MethodBlocks>,
}

impl<'a> Listings<'a> {
    /// `blocks` must have been made with bytecodes.
    pub(super) fn new(blocks: &'a Blocks, methods: &'a MethodTable, naming: Naming) -> Self {
        let mut of = HashMap::new();
        for class in &blocks.classes {
            // Of several methods of one name, the page has no listing.
            for method in class.methods.iter().filter(|m| m.variant.is_none()) {
                of.insert((&*class.class, &*class.loader, &*method.name, method.version), method);
            }
        }
        Self { names: Names::new(methods, naming), merged: naming.merge_versions, of }
    }
    /// The listing of a method; `None` if it has no counts.
    pub(super) fn of(&self, method: &Method) -> Option<Listing> {
        let class = method.class_name.replace('/', ".");
        let name = format!("{}{}", method.name, method.signature);
        let version = self.names.version(method.id).filter(|_| !self.merged);
        let key = (class.as_str(), &*method.loader, name.as_str(), version);
        self.of.get(&key).map(|blocks| listing(blocks, method))
    }
}

fn listing(blocks: &MethodBlocks, method: &Method) -> Listing {
    let code = blocks.code.as_deref().unwrap_or_default();
    let times = |all: &Tally, exact: bool| Times { seen: all.total(), exact };
    // What is not listed is unknown.
    let counts = |bci: Bci| {
        let at = code.binary_search_by_key(&bci.get(), |row| row.bci).ok();
        let row = at.and_then(|at| code.get(at));
        row.map_or_else(Times::default, |row| times(&row.executions, row.exact))
    };
    let ways = |from: Bci, to: Bci| {
        let key = (from.get(), to.get());
        let at = blocks.ways.binary_search_by_key(&key, |way| (way.bci, way.to)).ok();
        let way = at.and_then(|at| blocks.ways.get(at));
        way.map_or_else(Times::default, |way| times(&way.times, way.exact))
    };
    Listing::of(method, counts, Some(&ways))
}
