// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Static facts as JSON.

use std::io::{self, Write};

use serde::Serialize;
use serde::ser::{SerializeSeq, Serializer};

use super::{ClassFacts, StaticFacts};
use crate::Error;

struct Classes<'f, 'a>(&'f StaticFacts<'a>);
struct ClassWithMethods<'f, 'a>(&'f StaticFacts<'a>, &'f ClassFacts<'a>);
struct ClassMethods<'f, 'a>(&'f StaticFacts<'a>, &'f ClassFacts<'a>);

impl Serialize for Classes<'_, '_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let mut all = to.serialize_seq(None)?;
        for class in self.0.classes() {
            all.serialize_element(&ClassWithMethods(self.0, class))?;
        }
        all.end()
    }
}

impl Serialize for ClassWithMethods<'_, '_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Fields<'f, 'a> {
            #[serde(flatten)]
            class: &'f ClassFacts<'a>,
            methods: ClassMethods<'f, 'a>,
        }
        Fields { class: self.1, methods: ClassMethods(self.0, self.1) }.serialize(to)
    }
}

impl Serialize for ClassMethods<'_, '_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let mut all = to.serialize_seq(None)?;
        for method in self.0.methods(self.1) {
            all.serialize_element(&method)?;
        }
        all.end()
    }
}

#[derive(Serialize)]
struct Program<'f, 'a> {
    format: &'static str,
    classes: Classes<'f, 'a>,
}

impl StaticFacts<'_> {
    /// Writes the facts as one JSON object. Unknown values are absent.
    ///
    /// # Errors
    /// If the output cannot be written.
    pub fn write_json(&self, out: &mut dyn Write) -> Result<(), Error> {
        let program = Program { format: self.format().name(), classes: Classes(self) };
        let mut out = io::BufWriter::new(out);
        serde_json::to_writer(&mut out, &program).map_err(io::Error::from)?;
        out.write_all(b"\n")?;
        Ok(out.flush()?)
    }
}
