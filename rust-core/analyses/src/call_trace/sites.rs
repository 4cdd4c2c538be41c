// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! The sites of the methods of a scope, numbered.

use std::ops::Range;
use std::sync::Arc;

use jportal_bytecode::{Method, MethodTable, Opcode, Transfer, instructions};
use jportal_units::{Bci, MethodId};

use super::token::MOST_SITES;
use crate::names::{Name, Names, Naming, Version};

/// The scope has more sites than numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the classes have more than {MOST_SITES} call and return sites: choose fewer classes")]
pub struct TooManySites;

/// What a site is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SiteKind {
    /// An `invoke*` bytecode.
    Call,
    /// A `*return` bytecode.
    Return,
    /// An exception leaves a frame of the method. Each method has one such site.
    Exit,
}

impl SiteKind {
    /// The name in tables.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Call => "call",
            Self::Return => "return",
            Self::Exit => "exit",
        }
    }
}

/// A site with its names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Site {
    /// Its number.
    pub id: u32,
    /// What it is.
    pub kind: SiteKind,
    /// Binary name of the class (`java.lang.Object`).
    pub class: String,
    /// Loader, empty for the boot loader.
    pub loader: String,
    /// Name of the method.
    pub method: String,
    /// Descriptor of the method.
    pub descriptor: String,
    /// The version, if the method was redefined.
    pub version: Option<Version>,
    /// The bytecode. `None` for an exceptional exit.
    pub bci: Option<u16>,
    /// Its source line.
    pub line: Option<u16>,
    /// Mnemonic of the bytecode; empty for an exceptional exit.
    pub opcode: &'static str,
    /// The method that the constant pool names, `class.name(descriptor)`, without the class for
    /// `invokedynamic`. Empty for other sites, and if the capture does not have it.
    pub target: String,
}

/// What the VM calls without a call site.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Implicit {
    Never,
    /// A class initialiser.
    Always,
    /// A finaliser, unless the program calls it.
    FromOutside,
}

/// The sites of one method.
#[derive(Clone, Copy, Debug)]
struct Own {
    /// Number of the first site.
    first: u32,
    /// Number of call and return sites. The exceptional exit follows them.
    len: u32,
    implicit: Implicit,
}

/// The sites of the methods with bytecodes that a predicate accepts.
///
/// Numbers are positions in the order by loader, class, method, descriptor, version and bci. The
/// exceptional exit of a method is its last site. Native methods have no sites: they are
/// outside of the scope, whatever the predicate says.
#[derive(Debug)]
pub struct Sites {
    methods: Arc<MethodTable>,
    naming: Naming,
    /// By method.
    own: Box<[Option<Own>]>,
    /// The methods in order of their sites.
    order: Box<[MethodId]>,
    /// The bytecode of each site; of an exceptional exit, any number.
    bcis: Box<[Bci]>,
}

fn is_site(opcode: u8) -> bool {
    matches!(Opcode(opcode).transfer(), Transfer::Invoke | Transfer::Return)
}

fn implicit(m: &Method) -> Implicit {
    match (&*m.name, &*m.signature) {
        ("<clinit>", _) => Implicit::Always,
        ("finalize", "()V") if !m.is_static() => Implicit::FromOutside,
        _ => Implicit::Never,
    }
}

impl Sites {
    /// The sites of the methods that `scope` accepts. `naming.stable` orders and names classes
    /// without the parts that differ from run to run.
    ///
    /// # Errors
    /// If there are more sites than numbers.
    pub fn new(
        methods: Arc<MethodTable>,
        naming: Naming,
        scope: impl Fn(&Method) -> bool,
    ) -> Result<Self, TooManySites> {
        let names = Names::new(&methods, naming);
        let inside = methods.iter().filter(|m| !m.code.is_empty() && scope(m));
        let mut order: Vec<(Name, &Method)> = inside.map(|m| (names.of(m), m)).collect();
        order.sort_by(|(a, m), (b, n)| {
            let names = (&a.loader, &a.class, &m.name, &m.signature);
            let others = (&b.loader, &b.class, &n.name, &n.signature);
            names.cmp(&others).then_with(|| (a.version, m.id).cmp(&(b.version, n.id)))
        });
        let mut own = vec![None; methods.len()];
        let mut bcis: Vec<Bci> = Vec::new();
        for (_, m) in &order {
            let first = bcis.len() as u32;
            let parsed = instructions(&m.code).map_while(Result::ok);
            bcis.extend(parsed.filter(|i| is_site(i.opcode.0)).map(|i| i.bci));
            let len = bcis.len() as u32 - first;
            bcis.push(Bci(u16::MAX));
            if bcis.len() > MOST_SITES as usize {
                return Err(TooManySites);
            }
            if let Some(slot) = own.get_mut(m.id.get() as usize) {
                *slot = Some(Own { first, len, implicit: implicit(m) });
            }
        }
        let order = order.into_iter().map(|(_, m)| m.id).collect();
        drop(names);
        Ok(Self { methods, naming, own: own.into(), order, bcis: bcis.into() })
    }
    /// The methods of the recording.
    pub fn methods(&self) -> &Arc<MethodTable> {
        &self.methods
    }
    /// Number of sites.
    pub fn len(&self) -> u32 {
        self.bcis.len() as u32
    }
    /// Whether there is no site.
    pub fn is_empty(&self) -> bool {
        self.bcis.is_empty()
    }
    /// The call or return site at `bci` of a method.
    pub fn find(&self, method: MethodId, bci: Bci) -> Option<u32> {
        let found = self.between(method, bci, bci);
        (!found.is_empty()).then_some(found.start)
    }
    /// The exceptional exit of a method. `None`: the method is outside of the scope.
    pub fn exit(&self, method: MethodId) -> Option<u32> {
        self.own(method).map(|own| own.first + own.len)
    }
    /// The call and return sites of a method from `first` to `last`.
    pub(super) fn between(&self, method: MethodId, first: Bci, last: Bci) -> Range<u32> {
        let Some(own) = self.own(method) else { return 0..0 };
        let all = &self.bcis[own.first as usize..(own.first + own.len) as usize];
        let from = all.partition_point(|b| *b < first) as u32;
        let to = all.partition_point(|b| *b <= last) as u32;
        own.first + from..own.first + to.max(from)
    }
    /// Whether the bytecode is a call or return site, if its method is in the scope. False if the
    /// code is not known.
    pub(super) fn is_site(&self, method: MethodId, bci: Bci) -> bool {
        self.opcode(method, bci).is_some_and(is_site)
    }
    pub(super) fn is_call(&self, method: MethodId, bci: Bci) -> bool {
        self.opcode(method, bci).is_some_and(|o| Opcode(o).transfer() == Transfer::Invoke)
    }
    pub(super) fn implicit(&self, method: MethodId) -> Implicit {
        self.own(method).map_or(Implicit::Never, |own| own.implicit)
    }
    /// The bytecode of a call or return site.
    pub(super) fn bci(&self, site: u32) -> Bci {
        self.bcis.get(site as usize).copied().unwrap_or_default()
    }
    fn own(&self, method: MethodId) -> Option<Own> {
        *self.own.get(method.get() as usize)?
    }
    fn opcode(&self, method: MethodId, bci: Bci) -> Option<u8> {
        self.methods.get(method)?.code.get(usize::from(bci.get())).copied()
    }
    /// All sites, by number.
    pub fn iter(&self) -> impl Iterator<Item = Site> + '_ {
        let names = Names::new(&self.methods, self.naming);
        let each = self.order.iter().filter_map(|id| Some((self.methods.get(*id)?, self.own(*id)?)));
        each.flat_map(move |(m, own)| {
            let name = names.of(m);
            (own.first..=own.first + own.len).map(move |id| self.site(m, &name, id, own.first + own.len))
        })
    }
    fn site(&self, m: &Method, name: &Name, id: u32, exit: u32) -> Site {
        let bci = (id != exit).then(|| self.bci(id));
        let opcode = bci.and_then(|b| m.code.get(usize::from(b.get())).map(|o| Opcode(*o)));
        let kind = match opcode.map(Opcode::transfer) {
            Some(Transfer::Invoke) => SiteKind::Call,
            Some(_) => SiteKind::Return,
            None => SiteKind::Exit,
        };
        let target = bci.and_then(|b| m.invoke_at(b)).map_or_else(String::new, |i| {
            let dot = if i.class_name.is_empty() { "" } else { "." };
            format!("{}{dot}{}{}", i.class_name.replace('/', "."), i.name, i.signature)
        });
        Site {
            id,
            kind,
            class: name.class.clone(),
            loader: name.loader.clone(),
            method: m.name.to_string(),
            descriptor: m.signature.to_string(),
            version: name.version,
            bci: bci.map(Bci::get),
            line: bci.and_then(|b| m.line_at(b)),
            opcode: opcode.map_or("", Opcode::name),
            target,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::method;
    use jportal_bytecode::testing::calls;

    #[test]
    fn sites_are_numbered_by_name_and_bci() {
        let mut t = MethodTable::default();
        // 0 invokestatic; 3 return
        let code: &[u8] = &[184, 0, 1, 177];
        t.push(Method { invokes: Box::new([calls(0, "x/Y", "z")]), ..method("b/B", "f", code) });
        t.push(method("a/A", "g", &[177]));
        t.push(method("a/A", "f", &[3, 172]));
        t.push(Method { access_flags: 0x100, ..method("a/A", "n", &[]) });
        t.push(method("java/lang/Math", "abs", code));
        let sites = Sites::new(Arc::new(t), Naming::default(), crate::select::is_application).unwrap();
        let all: Vec<_> = sites.iter().map(|s| (s.id, s.kind.name(), s.class, s.method, s.bci)).collect();
        let row = |id, kind, class: &str, method: &str, bci| (id, kind, class.into(), method.into(), bci);
        assert_eq!(
            all,
            [
                row(0, "return", "a.A", "f", Some(1)),
                row(1, "exit", "a.A", "f", None),
                row(2, "return", "a.A", "g", Some(0)),
                row(3, "exit", "a.A", "g", None),
                row(4, "call", "b.B", "f", Some(0)),
                row(5, "return", "b.B", "f", Some(3)),
                row(6, "exit", "b.B", "f", None),
            ]
        );
        let m = MethodId;
        assert_eq!((sites.find(m(0), Bci(3)), sites.find(m(0), Bci(1))), (Some(5), None));
        assert_eq!((sites.exit(m(0)), sites.exit(m(3)), sites.exit(m(4))), (Some(6), None, None));
        assert_eq!((sites.find(m(4), Bci(0)), sites.find(m(99), Bci(0))), (None, None));
        assert_eq!(sites.between(m(0), Bci(0), Bci(3)), 4..6);
        let call = sites.iter().nth(4).unwrap();
        assert_eq!((call.target.as_str(), call.opcode, sites.len()), ("x.Y.z()V", "invokestatic", 7));
    }
}
