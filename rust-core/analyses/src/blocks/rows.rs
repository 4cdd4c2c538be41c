// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! What is known of methods, by class and displayed name.

use std::collections::BTreeMap;

use hashbrown::HashMap;
use jportal_bytecode::Method;

use super::CountsAnalysis;
use super::code::Parts;
use super::facts::{Facts, perhaps};
use super::planes::MethodCounts;
use crate::hidden::Account;
use crate::names::{Names, Version};

/// The methods of one displayed name. Each has different code.
#[derive(Debug)]
pub(crate) struct MethodVariants<'a> {
    pub(crate) name: String,
    pub(crate) version: Option<Version>,
    pub(crate) variants: Vec<(Parts<'a>, Facts)>,
}

/// The methods of the classes of one displayed name.
#[derive(Debug, Default)]
pub(crate) struct ClassRows<'a> {
    pub(crate) class: String,
    pub(crate) loader: String,
    pub(crate) source_file: String,
    pub(crate) rows: Vec<MethodVariants<'a>>,
    places: HashMap<(String, Option<Version>), usize>,
}

impl<'a> ClassRows<'a> {
    fn add(&mut self, (name, version): (String, Option<Version>), parts: Parts<'a>, facts: Facts) {
        let Self { rows, places, .. } = self;
        let place = *places.entry((name.clone(), version)).or_insert_with(|| {
            rows.push(MethodVariants { name, version, variants: Vec::new() });
            rows.len() - 1
        });
        let same = |m: &Method| m.code == parts.method.code && m.lines == parts.method.lines;
        let variants = &mut rows[place].variants;
        match variants.iter_mut().find(|(p, _)| same(p.method)) {
            Some((_, known)) => known.merge(facts),
            None => variants.push((parts, facts)),
        }
    }
}

impl CountsAnalysis {
    /// What is known of the methods with bytecode that `wanted` accepts, by name of the class. A
    /// version of a redefined method that was replaced before it ran is left out: it cannot have
    /// missed anything.
    pub(crate) fn rows(&self, wanted: impl Fn(&Method) -> bool) -> Vec<ClassRows<'_>> {
        let Self { code, table, hidden, .. } = self;
        let names = Names::new(&code.methods, self.naming);
        let perhaps = perhaps(code, &mut Account::new(&code.methods, &code.inlined), hidden);
        let mut throws: HashMap<_, BTreeMap<_, _>> = HashMap::new();
        for ((id, way), n) in &table.throws {
            throws.entry(*id).or_default().insert(*way, *n);
        }
        let mut classes = BTreeMap::<(String, String), ClassRows<'_>>::new();
        for method in code.methods.iter().filter(|m| !m.code.is_empty() && wanted(m)) {
            let Some(parts) = code.parts(method.id) else { continue };
            let counts = table.get(method.id);
            let perhaps = perhaps.get(&method.id);
            let idle = perhaps.is_none() && counts.is_none_or(MethodCounts::is_empty);
            if idle && names.version(method.id).is_some_and(|v| v.number < v.of) {
                continue;
            }
            let mut facts = Facts::of(&parts, counts, perhaps);
            facts.throws = throws.remove(&method.id).unwrap_or_default();
            let name = names.of(method);
            let class = classes.entry((name.class, name.loader)).or_default();
            if class.source_file.is_empty() {
                class.source_file = method.source_file.to_string();
            }
            class.add((name.method, name.version), parts, facts);
        }
        let named = classes.into_iter().map(|((class, loader), rows)| ClassRows { class, loader, ..rows });
        named.collect()
    }
}
