// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Graphs are read back: DOT by a parser of its grammar, GraphML by one of XML.

use std::collections::{BTreeMap, BTreeSet};
use std::iter::Peekable;
use std::str::Chars;
use std::sync::Arc;

use jportal_analyses::calls::{CallGraph, CallsAnalysis};
use jportal_bytecode::{Method, MethodTable, testing};
use jportal_flow::testing::{bytecode, enter, enter_as, feed, gap, leave};
use jportal_flow::{Entry, Event, EventKind, Tier};
use jportal_units::MethodId;
use quick_xml::Reader;
use quick_xml::events::Event as XmlEvent;

use super::*;

/// Names that neither format can hold as they are.
const ODD: &str = "o\"d\\d<&>]]>\n\u{1b}é->{};";
/// The same, as both show it.
const SHOWN: &str = "o\"d\\d<&>]]>\\n\\x1bé->{};";
const TITLE: &str = "my \"app\".jportal";

/// `f` calls `g` twice from one site and once from another; `g` calls the odd one in C2.
fn graph(lossy: bool) -> CallGraph {
    let mut methods = MethodTable::default();
    let code = &[0, 0, 0, 177];
    for name in ["f", "g"] {
        methods.push(Method { loader: "app".into(), ..testing::method(name, code) });
    }
    methods.push(Method { class_name: ODD.into(), ..testing::method("h", code) });
    let mut calls = CallsAnalysis::new(Arc::new(methods), Arc::default());
    let compiled = EventKind::Enter { method: MethodId(2), tier: Tier::C2, entry: Entry::Call };
    let mut flow = vec![enter_as(0, Entry::Upcall)];
    for bci in [0, 1, 1] {
        flow.extend([bytecode(0, bci), enter(1), bytecode(1, 0), Event::decoded(compiled.clone())]);
        flow.extend([leave(2), leave(1)]);
    }
    flow.extend(lossy.then(|| gap(true)));
    feed(&mut calls, 1, &flow);
    calls.graph(|_| true)
}

/// A node or edge: its ends (one for a node), and its attributes.
type Item = (Vec<String>, BTreeMap<String, String>);

/// A reader of the part of the DOT grammar that has no subgraphs and no ports.
struct Dot<'t>(Peekable<Chars<'t>>);

impl Dot<'_> {
    fn space(&mut self) {
        while self.0.next_if(|c| c.is_whitespace()).is_some() {}
    }
    fn is(&mut self, text: &str) -> bool {
        self.space();
        let mut rest = self.0.clone();
        let found = text.chars().all(|c| rest.next() == Some(c));
        if found {
            self.0 = rest;
        }
        found
    }
    /// An identifier: letters and digits, or a text in quotes.
    fn id(&mut self) -> String {
        self.space();
        let mut id = String::new();
        if self.0.next_if_eq(&'"').is_none() {
            while let Some(c) = self.0.next_if(|c| c.is_alphanumeric() || *c == '_') {
                id.push(c);
            }
            assert!(
                !id.is_empty(),
                "an identifier is expected before {:?}",
                self.0.clone().collect::<String>()
            );
            return id;
        }
        loop {
            match (self.0.next().expect("the text ends"), self.0.peek()) {
                ('"', _) => return id,
                ('\\', Some('"' | '\\')) => id.extend(self.0.next()),
                ('\\', other) => panic!("an escape of labels: {other:?}"),
                (c, _) => id.push(c),
            }
        }
    }
    fn attributes(&mut self) -> BTreeMap<String, String> {
        let mut all = BTreeMap::new();
        if self.is("[") {
            while !self.is("]") {
                let name = self.id();
                assert!(self.is("="), "{name}");
                assert!(all.insert(name, self.id()).is_none());
                let _ = self.is(",");
            }
        }
        all
    }
    /// The title and the items.
    fn graph(text: &str) -> (String, Vec<Item>) {
        let mut dot = Dot(text.chars().peekable());
        assert!(dot.is("digraph"));
        let title = dot.id();
        assert!(dot.is("{"));
        let mut items = Vec::new();
        while !dot.is("}") {
            let mut ends = vec![dot.id()];
            while dot.is("->") {
                ends.push(dot.id());
            }
            items.push((ends, dot.attributes()));
            let _ = dot.is(";");
        }
        dot.space();
        assert_eq!(dot.0.next(), None);
        (title, items)
    }
}

/// The title and the items, read from XML.
fn graphml(text: &str) -> (String, Vec<Item>) {
    let mut reader = Reader::from_str(text);
    let (mut items, mut keys, mut key, mut value) =
        (Vec::<Item>::new(), BTreeSet::new(), None, String::new());
    loop {
        match reader.read_event().unwrap() {
            XmlEvent::Start(e) | XmlEvent::Empty(e) => {
                let attribute = |name: &str| {
                    let found = e.try_get_attribute(name).unwrap();
                    found.map(|a| String::from_utf8(a.value.into_owned()).unwrap())
                };
                match e.name().as_ref() {
                    b"key" => assert!(keys.insert(attribute("id").unwrap()), "{keys:?}"),
                    b"graph" => items.push((Vec::new(), BTreeMap::new())),
                    b"node" => items.push((vec![attribute("id").unwrap()], BTreeMap::new())),
                    b"edge" => {
                        let ends = ["source", "target"].map(|end| attribute(end).unwrap());
                        items.push((ends.to_vec(), BTreeMap::new()));
                    }
                    b"data" => {
                        key = attribute("key");
                        value.clear();
                    }
                    _ => {}
                }
            }
            XmlEvent::Text(e) => value.push_str(&e.decode().unwrap()),
            XmlEvent::GeneralRef(e) => {
                let name = e.decode().unwrap();
                value.push_str(quick_xml::escape::resolve_predefined_entity(&name).unwrap());
            }
            XmlEvent::End(e) if e.name().as_ref() == b"data" => {
                let key = key.take().unwrap();
                assert!(keys.contains(&key), "{key}");
                let (_, name) = key.split_once('_').unwrap();
                let (_, attributes) = items.last_mut().unwrap();
                attributes.insert(name.to_owned(), std::mem::take(&mut value));
            }
            XmlEvent::Eof => break,
            _ => {}
        }
    }
    (items[0].1["title"].clone(), items.split_off(1))
}

fn written(graph: &CallGraph) -> [(String, Vec<Item>); 2] {
    let (mut dot, mut xml) = (Vec::new(), Vec::new());
    write_dot(graph, TITLE, &mut dot).unwrap();
    write_graphml(graph, TITLE, &mut xml).unwrap();
    let [dot, xml] = [dot, xml].map(|bytes| String::from_utf8(bytes).unwrap());
    let (title, mut items) = Dot::graph(&dot);
    // The defaults of the graph and of its nodes.
    items.retain(|(ends, _)| ends[0].starts_with('n') && ends[0] != "node");
    [(title, items), graphml(&xml)]
}

#[test]
fn graphs_are_read_back() {
    let expected = graph(false);
    assert_eq!((expected.methods.len(), expected.calls.len()), (4, 3));
    let [dot, xml] = written(&expected);
    for (format, (title, items), of_method, of_count) in
        [("dot", dot, "label", "label"), ("graphml", xml, "method", "count")]
    {
        assert_eq!(title, TITLE, "{format}");
        let (nodes, edges) = items.split_at(4);
        for (at, ((ends, attributes), method)) in nodes.iter().zip(&expected.methods).enumerate() {
            assert_eq!(ends, &[format!("n{at}")], "{format}");
            let name = method.name.replace(&ODD.replace('/', "."), SHOWN);
            assert_eq!((&attributes[of_method], &attributes["loader"]), (&name, &method.loader), "{format}");
        }
        assert!(nodes.iter().any(|(_, a)| a[of_method].starts_with(SHOWN)), "{format}: {nodes:?}");
        assert_eq!(edges.len(), expected.calls.len(), "{format}");
        for ((ends, attributes), calls) in edges.iter().zip(&expected.calls) {
            assert_eq!(ends, &[calls.from, calls.to].map(|at| format!("n{at}")), "{format}");
            let figures = [("calls", calls.calls.total()), ("sites", calls.sites)];
            for (name, n) in figures.into_iter().chain(calls.tiers.named()) {
                assert_eq!(attributes[name], n.to_string(), "{format}: {name}");
            }
            assert_eq!(attributes[of_count], calls.calls.total().to_string(), "{format}");
            assert_eq!(attributes["exact"], "true", "{format}");
        }
        let to_g = edges.iter().find(|(_, a)| a["sites"] == "2").unwrap();
        assert_eq!((&*to_g.1["calls"], &*to_g.1["interpreter"]), ("3", "3"), "{format}");
    }
}

#[test]
fn a_lower_bound_is_not_shown_as_a_count() {
    for (_, items) in written(&graph(true)) {
        let edges: Vec<_> = items.iter().filter(|(ends, _)| ends.len() == 2).collect();
        assert_eq!(edges.len(), 3);
        for (_, attributes) in edges {
            let count = attributes.get("count").unwrap_or_else(|| &attributes["label"]);
            assert!(count.starts_with("≥ ") && attributes["exact"] == "false", "{attributes:?}");
        }
    }
}
