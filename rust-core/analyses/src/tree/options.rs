// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! What a call tree is to contain.

use jportal_bytecode::{Method, MethodTable};
use jportal_flow::Tier;
use jportal_units::MethodId;

use super::Settings;

macro_rules! choice {
    ($(#[$doc:meta])* $type:ident { $($(#[$each:meta])* $variant:ident = $name:literal,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
        pub enum $type {
            $($(#[$each])* $variant,)*
        }
        impl $type {
            /// All of them.
            pub const ALL: &'static [Self] = &[$(Self::$variant),*];
            /// The value of the command's option.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)*
                }
            }
            /// The one of that name.
            pub fn of(name: &str) -> Option<Self> {
                Self::ALL.iter().copied().find(|one| one.name() == name)
            }
        }
    };
}

choice! {
    /// How bytecodes are counted.
    Counting {
        /// Each when it begins.
        #[default]
        Precise = "precise",
        /// A whole block when its first bytecode begins. Calls do not end a block.
        Default = "default",
        /// Both, and the difference.
        Both = "both",
    }
}

choice! {
    /// Where frames are placed that the VM or native code called.
    Upcalls {
        /// Under the frame that was on top.
        #[default]
        Nested = "nested",
        /// Under the root.
        Root = "root",
    }
}

choice! {
    /// Whether native methods have nodes.
    Natives {
        /// They have.
        #[default]
        Show = "show",
        /// What they call hangs on their caller.
        None = "none",
    }
}

choice! {
    /// What happens to frames outside of the scope, and to frames of hidden classes.
    Hide {
        /// They are transparent: what they call hangs on the nearest frame in the scope.
        Splice = "splice",
        /// One node per caller, `(library)`, holds them.
        Fold = "fold",
        /// They are shown like the others.
        #[default]
        Show = "show",
    }
}

/// Maximum number of nodes, unless the caller says otherwise: 4 GiB of nodes.
pub const MAX_NODES: u64 = 64 << 20;

/// What a call tree is to contain.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Options {
    /// How bytecodes are counted.
    pub counting: Counting,
    /// Where frames are placed that the VM or native code called.
    pub upcalls: Upcalls,
    /// Whether native methods have nodes.
    pub natives: Natives,
    /// What happens to frames outside of the scope.
    pub hide: Hide,
    /// Calls of a method from different call sites have different nodes.
    pub sites: bool,
    /// A frame of a method that is already on the path counts for that node.
    pub fold_recursion: bool,
    /// One tree for all threads.
    pub merged: bool,
    /// Maximum number of nodes of all threads together.
    pub max_nodes: u64,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            counting: Counting::default(),
            upcalls: Upcalls::default(),
            natives: Natives::default(),
            hide: Hide::default(),
            sites: false,
            fold_recursion: false,
            merged: false,
            max_nodes: MAX_NODES,
        }
    }
}

impl Options {
    /// The options of a result that states its settings, with [`MAX_NODES`]. `None` if a setting
    /// has a value that this version does not know. Which methods begin buckets is no option.
    pub fn of(settings: &Settings) -> Option<Self> {
        Some(Self {
            counting: Counting::of(&settings.blocks)?,
            upcalls: Upcalls::of(&settings.upcalls)?,
            natives: Natives::of(&settings.natives)?,
            hide: Hide::of(&settings.hide)?,
            sites: settings.sites,
            fold_recursion: settings.folded_recursion,
            merged: settings.merged,
            max_nodes: MAX_NODES,
        })
    }
    /// The options as the result states them.
    pub fn settings(&self) -> Settings {
        Settings {
            merged: self.merged,
            blocks: self.counting.name().to_owned(),
            upcalls: self.upcalls.name().to_owned(),
            natives: self.natives.name().to_owned(),
            sites: self.sites,
            hide: self.hide.name().to_owned(),
            folded_recursion: self.fold_recursion,
            split: false,
        }
    }
}

/// Whether the class of a method is hidden (JEP 371). If `methods` does not describe the class, its
/// name decides: the VM names a hidden class with the address of its mirror, as
/// `Main$$Lambda$14+0x0000000800c01208` or, in older versions, with a slash.
pub fn is_of_hidden_class(methods: &MethodTable, method: &Method) -> bool {
    if let Some(class) = methods.classes().get(method.class) {
        return class.hidden;
    }
    ["+0x", "/0x"].into_iter().any(|mark| {
        let tail = method.class_name.rsplit_once(mark).map_or("", |(_, tail)| tail);
        !tail.is_empty() && tail.bytes().all(|b| b.is_ascii_hexdigit())
    })
}

/// What a frame becomes in the tree.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum FrameRole {
    Node,
    Transparent,
    Library,
}

/// Which methods are in the scope. Empty: all.
#[derive(Debug, Default)]
pub(super) struct Scope(Box<[bool]>);

impl Scope {
    /// The methods that `wanted` accepts, without those of hidden classes.
    pub(super) fn new(methods: &MethodTable, wanted: impl Fn(&Method) -> bool) -> Self {
        Self(methods.iter().map(|m| wanted(m) && !is_of_hidden_class(methods, m)).collect())
    }
    pub(super) fn contains(&self, method: MethodId) -> bool {
        self.0.is_empty() || self.0.get(method.get() as usize).is_some_and(|wanted| *wanted)
    }
    #[inline]
    pub(super) fn place(&self, options: &Options, method: MethodId, tier: Tier) -> FrameRole {
        if tier == Tier::Native && options.natives == Natives::None {
            return FrameRole::Transparent;
        }
        match options.hide {
            Hide::Show => FrameRole::Node,
            _ if self.contains(method) => FrameRole::Node,
            Hide::Splice => FrameRole::Transparent,
            Hide::Fold => FrameRole::Library,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::method;
    use jportal_bytecode::Class;

    #[test]
    fn hidden_classes_are_known_by_their_flag_or_else_by_their_names() {
        let mut described = MethodTable::default();
        for (class, hidden) in [
            ("Main$$Lambda$14+0x0000000800c01208", true),
            ("java/lang/invoke/LambdaForm$MH/0x0000000800c03400", true),
            ("a/B", false),
            ("a/0xyz", false),
            ("a+0x", false),
        ] {
            let m = method(class, "f", &[]);
            assert_eq!(is_of_hidden_class(&MethodTable::default(), &m), hidden, "{class}");
            let known = Class { number: m.class, name: class.into(), hidden: !hidden, ..Class::default() };
            described.set_classes([known].into_iter().collect());
            assert_eq!(is_of_hidden_class(&described, &m), !hidden, "{class}: the flag");
        }
    }

    #[test]
    fn names_of_choices_are_unique() {
        let names: std::collections::BTreeSet<_> = Hide::ALL.iter().map(|h| h.name()).collect();
        assert_eq!(names.len(), 3);
        assert_eq!(Options::default().settings().hide, "show");
    }

    #[test]
    fn settings_give_the_options_again() {
        let again = |options: Options| assert_eq!(Options::of(&options.settings()), Some(options));
        let options = Options::default();
        Counting::ALL.iter().for_each(|counting| again(Options { counting: *counting, ..options }));
        Upcalls::ALL.iter().for_each(|upcalls| again(Options { upcalls: *upcalls, ..options }));
        Natives::ALL.iter().for_each(|natives| again(Options { natives: *natives, ..options }));
        Hide::ALL.iter().for_each(|hide| again(Options { hide: *hide, ..options }));
        again(Options { sites: true, ..options });
        again(Options { fold_recursion: true, ..options });
        again(Options { merged: true, ..options });
        let known = Options::of(&Options { max_nodes: 7, ..options }.settings());
        assert_eq!(known.map(|o| o.max_nodes), Some(MAX_NODES), "a limit is no setting");
        let settings = Settings { hide: "fold-all".to_owned(), ..options.settings() };
        assert_eq!(Options::of(&settings), None);
    }
}
