// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Shows a flow of instrumented methods as one of the methods before instrumentation.
//!
//! The agent that changed the methods says which instructions are the program's own. All others,
//! and what they call, are left out. Bcis become those of the program's class files.

mod restored;

use std::collections::HashMap;

use jportal_bytecode::{ExceptionRow, Instruction, InvokeRef, LineRow, Method, MethodTable, Transfer};
use jportal_units::{Bci, MethodId};
use serde::Deserialize;

pub use restored::Restored;

/// The methods of a capture as they were before instrumentation.
#[derive(Debug, Default)]
pub struct OriginalMethods {
    methods: MethodTable,
    /// By method and bci of the changed code: the bci of the original code. A method without row
    /// was not changed.
    places: Vec<Option<Places>>,
    /// Methods of the agent. They are left out with all that they call.
    hidden: Vec<bool>,
}

/// By bci of the changed code.
type Places = Box<[CodePlace]>;

/// What is at a bci of changed code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CodePlace {
    /// The instruction at this bci of the original code.
    Original(Bci),
    /// An instruction of the agent. The instruction of the original code at this bci is the first
    /// one that is executed after it; `None` if control leaves the method before.
    Added(Option<Bci>),
}

/// Why a map cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum BadMap {
    /// It cannot be read.
    #[error("not a map of instrumented methods: {0}")]
    Json(#[from] serde_json::Error),
    /// It contradicts the capture, or itself.
    #[error("the map does not fit: {0}")]
    Contradiction(String),
}

/// A value of a map: a sequence of JSON values.
#[derive(Deserialize)]
#[serde(untagged)]
enum MapValue {
    /// The prefixes of the internal names of the agent's classes.
    Hidden {
        hidden: Vec<String>,
    },
    Method(Box<MethodRow>),
}

/// A method before instrumentation.
#[derive(Deserialize, PartialEq)]
struct MethodRow {
    class: String,
    method: String,
    descriptor: String,
    /// The code in hexadecimal digits.
    code: String,
    /// Start, end, handler, internal name of the caught class, or an empty text.
    exceptions: Vec<(u16, u16, u16, String)>,
    /// Bci, line.
    lines: Vec<(u16, u16)>,
    /// Bci, internal name of the class, name, descriptor.
    invokes: Vec<(u16, String, String, String)>,
    /// The bci in the changed code of each instruction.
    places: Vec<u16>,
}

impl OriginalMethods {
    /// Applies a map, as the agents in `tests/baselines` write it, to the methods of a capture.
    ///
    /// # Errors
    /// If the text is no map, or its methods are not those of the capture.
    pub fn new(changed: &MethodTable, map: &str) -> Result<Self, BadMap> {
        let (mut hidden, mut rows) = (Vec::new(), HashMap::new());
        for entry in serde_json::Deserializer::from_str(map).into_iter() {
            match entry? {
                MapValue::Hidden { hidden: more } => hidden.extend(more),
                MapValue::Method(row) => {
                    let key = (row.class.clone(), row.method.clone(), row.descriptor.clone());
                    if let Some(other) = rows.insert(key, row)
                        && rows.get(&(other.class.clone(), other.method.clone(), other.descriptor.clone()))
                            != Some(&other)
                    {
                        let name = format!("{}.{}{}", other.class, other.method, other.descriptor);
                        return Err(BadMap::Contradiction(format!("{name} has two versions")));
                    }
                }
            }
        }
        let mut original = Self::default();
        for method in changed.iter() {
            let (class, name, descriptor) = (&*method.class_name, &*method.name, &*method.signature);
            original.hidden.push(hidden.iter().any(|prefix| class.starts_with(prefix)));
            let row = rows.get(&(class.to_owned(), name.to_owned(), descriptor.to_owned()));
            let row = row.filter(|_| !method.code.is_empty());
            let (restored, places) = match row {
                None => (method.clone(), None),
                Some(row) => row.apply(method).map(|(restored, places)| (restored, Some(places)))?,
            };
            original.methods.push(restored);
            original.places.push(places);
        }
        original.methods.set_classes(changed.classes().clone());
        Ok(original)
    }
    /// The methods. Their numbers are those of the changed methods.
    pub fn methods(&self) -> &MethodTable {
        &self.methods
    }
    /// Of calls that compilers inlined (caller, bci, callee), those of the original methods.
    pub fn calls(
        &self,
        inlined: impl IntoIterator<Item = (MethodId, Bci, MethodId)>,
    ) -> impl Iterator<Item = (MethodId, Bci, MethodId)> {
        inlined.into_iter().filter_map(|(caller, bci, callee)| match self.place(caller, bci) {
            CodePlace::Original(bci) if !self.hides(callee) => Some((caller, bci, callee)),
            _ => None,
        })
    }
    fn place(&self, method: MethodId, bci: Bci) -> CodePlace {
        match self.places.get(method.0 as usize) {
            Some(Some(places)) => places.get(usize::from(bci.0)).copied().unwrap_or(CodePlace::Added(None)),
            _ => CodePlace::Original(bci),
        }
    }
    fn hides(&self, method: MethodId) -> bool {
        self.hidden.get(method.0 as usize).is_some_and(|hidden| *hidden)
    }
}

impl MethodRow {
    fn apply(&self, changed: &Method) -> Result<(Method, Places), BadMap> {
        let bad = |why: &str| BadMap::Contradiction(format!("{}: {why}", changed.qualified_name()));
        let code = unhex(&self.code).ok_or_else(|| bad("its code is not in hexadecimal digits"))?;
        let mut places = vec![CodePlace::Added(None); changed.code.len()];
        let (mut at, mut known) = (0, self.places.iter());
        while at < code.len() {
            let own = Instruction::at(&code, at).map_err(|e| bad(&e.to_string()))?;
            let to = usize::from(*known.next().ok_or_else(|| bad("an instruction has no place"))?);
            let theirs = Instruction::at(&changed.code, to).map_err(|e| bad(&e.to_string()))?;
            if !same(own.opcode.0, theirs.opcode.0) {
                return Err(bad(&format!(
                    "bci {at} is {}, bci {to} of the changed code is {}",
                    own.opcode.name(),
                    theirs.opcode.name()
                )));
            }
            places[to] = CodePlace::Original(own.bci);
            at = usize::from(own.next().0);
        }
        if known.next().is_some() {
            return Err(bad("there are more places than instructions"));
        }
        let all: Vec<CodePlace> = (0..places.len())
            .map(|at| match places[at] {
                CodePlace::Added(_) => CodePlace::Added(first_after(&changed.code, &places, at)),
                original @ CodePlace::Original(_) => original,
            })
            .collect();
        let exceptions = self.exceptions.iter().map(|(start, end, handler, class)| ExceptionRow {
            start: Bci(*start),
            end: Bci(*end),
            handler: Bci(*handler),
            catch_type: Some(class.as_str().into()).filter(|_| !class.is_empty()),
        });
        let lines = self.lines.iter().map(|(bci, line)| LineRow { bci: Bci(*bci), line: *line });
        let invokes = self.invokes.iter().map(|(bci, class, name, descriptor)| InvokeRef {
            bci: Bci(*bci),
            class_name: class.as_str().into(),
            name: name.as_str().into(),
            signature: descriptor.as_str().into(),
        });
        let restored = Method {
            code: code.into(),
            exceptions: exceptions.collect(),
            lines: lines.collect(),
            invokes: invokes.collect(),
            // Their numbers may be others.
            constants: None,
            ..changed.clone()
        };
        Ok((restored, all.into()))
    }
}

/// Whether an instruction may have become another when the class was written.
fn same(own: u8, changed: u8) -> bool {
    const LDC: [u8; 2] = [18, 19];
    own == changed || (LDC.contains(&own) && LDC.contains(&changed))
}

/// The original instruction that is executed first after an added one. Agents add no branches.
fn first_after(code: &[u8], places: &[CodePlace], from: usize) -> Option<Bci> {
    let mut at = from;
    for _ in 0..places.len() {
        if let Some(CodePlace::Original(bci)) = places.get(at) {
            return Some(*bci);
        }
        let added = Instruction::at(code, at).ok()?;
        if matches!(added.opcode.transfer(), Transfer::Throw | Transfer::Return) {
            return None;
        }
        at = usize::from(match added.branch_target().ok()? {
            Some(target) => target.0,
            None => added.next().0,
        });
    }
    None
}

fn unhex(text: &str) -> Option<Vec<u8>> {
    let digits = text.as_bytes().chunks(2).map(std::str::from_utf8);
    digits.map(|pair| u8::from_str_radix(pair.ok().filter(|p| p.len() == 2)?, 16).ok()).collect()
}

#[cfg(test)]
mod tests;
