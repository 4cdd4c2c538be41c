// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! OTLP.

use prost::Message;

use super::super::otlp_proto::{
    Function, KeyValueAndUnit, Link, Location, Mapping, Profile, ProfilesData, ProfilesDictionary,
    SampleStack, Value,
};
use super::super::testing::{all_known, mixed, sources};
use super::*;

/// The profiles and the dictionary.
fn decode(tree: &CallTree, options: &ProfileOptions<'_>) -> (Vec<Profile>, ProfilesDictionary) {
    let data = ProfilesData::decode(&written(|out| write_otlp(tree, options, out))[..]).unwrap();
    let dictionary = data.dictionary.unwrap();
    let mut scopes = data.resource_profiles.into_iter().flat_map(|r| r.scope_profiles);
    let (scope, more) = (scopes.next().unwrap(), scopes.next());
    assert!(more.is_none());
    assert_eq!(scope.scope.unwrap().name, "jportal");
    check(&scope.profiles, &dictionary);
    (scope.profiles, dictionary)
}
/// Entries 0 are empty, and all references lead somewhere.
fn check(profiles: &[Profile], d: &ProfilesDictionary) {
    assert_eq!(d.string_table[0], "");
    assert_eq!(d.mapping_table[0], Mapping::default());
    assert_eq!(d.location_table[0], Location::default());
    assert_eq!(d.function_table[0], Function::default());
    assert_eq!(d.link_table, [Link::default()]);
    assert_eq!(d.attribute_table[0], KeyValueAndUnit::default());
    assert_eq!(d.stack_table[0], SampleStack::default());
    let within = |index: i32, length: usize| (1..length as i32).contains(&index);
    for profile in profiles {
        for sample in &profile.samples {
            assert!(within(sample.stack_index, d.stack_table.len()) && sample.values.len() == 1);
            assert!(sample.attribute_indices.iter().all(|i| within(*i, d.attribute_table.len())));
        }
    }
    for stack in &d.stack_table {
        assert!(stack.location_indices.iter().all(|i| within(*i, d.location_table.len())));
    }
    for location in &d.location_table[1..] {
        assert!(within(location.lines[0].function_index, d.function_table.len()));
        assert!((location.mapping_index as usize) < d.mapping_table.len());
    }
    for function in &d.function_table[1..] {
        assert!(within(function.name_strindex, d.string_table.len()));
    }
}
fn attribute(d: &ProfilesDictionary, index: i32) -> String {
    let a = &d.attribute_table[index as usize];
    let key = &d.string_table[a.key_strindex as usize];
    match a.value.clone().unwrap().value.unwrap() {
        Value::Text(text) => format!("{key}={text}"),
        Value::Bool(yes) => format!("{key}={yes}"),
        Value::Int(n) => format!("{key}={n}"),
    }
}
fn attributes(d: &ProfilesDictionary, indices: &[i32]) -> String {
    indices.iter().map(|i| attribute(d, *i)).collect::<Vec<_>>().join(" ")
}
/// A line per sample: the type, the stack from the outermost frame, the value, attributes.
fn text(profiles: &[Profile], d: &ProfilesDictionary) -> String {
    let mut text = String::new();
    for p in profiles {
        let name = &d.string_table[p.sample_type.unwrap().type_strindex as usize];
        for sample in &p.samples {
            let frame = |index: &i32| {
                let line = d.location_table[*index as usize].lines[0];
                let function = &d.function_table[line.function_index as usize];
                let name = &d.string_table[function.name_strindex as usize];
                if line.line == 0 { name.clone() } else { format!("{name}:{}", line.line) }
            };
            let stack = &d.stack_table[sample.stack_index as usize];
            let frames: Vec<String> = stack.location_indices.iter().rev().map(frame).collect();
            let attributes = attributes(d, &sample.attribute_indices);
            text.push_str(&format!("{name} {} {:?} {attributes}\n", frames.join(" > "), sample.values));
        }
    }
    text
}
fn total(p: &Profile) -> u64 {
    p.samples.iter().map(|s| s.values[0] as u64).sum()
}

#[test]
fn a_small_tree() {
    let (profiles, d) = decode(&foo(), &ProfileOptions::default());
    assert_eq!(profiles.iter().map(total).collect::<Vec<_>>(), [78, 624]);
    assert_eq!(attributes(&d, &profiles[0].attribute_indices), "jportal.exact=true");
    assert_eq!((d.stack_table.len(), d.function_table.len(), d.mapping_table.len()), (7, 6, 1));
    let kinds: Vec<_> = d.location_table[1..].iter().map(|l| attributes(&d, &l.attribute_indices)).collect();
    assert!(kinds.iter().all(|kind| kind == "profile.frame.type=jvm"), "{kinds:?}");
}

#[test]
fn all_attributes() {
    let sources = sources();
    let (profiles, d) = decode(&mixed(), &all_known(&sources));
    assert_eq!(text(&profiles, &d), include_str!("../testdata/mixed.otlp.txt"));
    for p in &profiles {
        assert_eq!((p.time_unix_nano, p.duration_nano), (1_700_000_000_000_000_000, 5_000));
        let inexact = attributes(&d, &p.attribute_indices);
        assert!(inexact.starts_with("jportal.exact=false jportal.inexact.gaps=1 "), "{inexact}");
        assert!(inexact.ends_with(" jportal.inexact.unresolved.empty-loop=2"), "{inexact}");
    }
    let string = |at: i32| d.string_table[at as usize].as_str();
    let f = d.function_table.iter().find(|f| string(f.system_name_strindex) == "a.B.f(I)I").unwrap();
    assert_eq!((string(f.filename_strindex), f.start_line), ("a/B.java", 16));
    assert_eq!(string(d.mapping_table[1].filename_strindex), "app.jportal");
}

#[test]
fn sums_are_those_of_the_tree() {
    for t in randoms() {
        let known = all_known(&Sources::default()).ticks_per_second;
        let (profiles, _) =
            decode(&t, &ProfileOptions { ticks_per_second: known, ..ProfileOptions::default() });
        let [calls, bytecodes, ticks] = sums(&t);
        assert_eq!(profiles.iter().map(total).collect::<Vec<_>>(), [calls, bytecodes, ticks / 2]);
    }
}
