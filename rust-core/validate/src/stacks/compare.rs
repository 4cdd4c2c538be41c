// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Compares one taken stack with the true one.

use hashbrown::HashMap;
use jportal_bytecode::MethodTable;
use jportal_flow::Tier;
use jportal_units::{Bci, MethodId};
use serde::Serialize;

use super::log::{LoggedMethod, LoggedMethods, StackApi, TakenFrame, TakenStack};

/// What a stack turned out to be.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum StackVerdict {
    /// The same frames at the same locations.
    Equal,
    /// Wrong in the innermost frame of the machine, exactly as the VM's source predicts.
    Imprecise,
    /// Wrong where the VM walks from a place that its source does not determine.
    Unpredictable,
    /// The interface gave an error code and no frames.
    Error,
    /// Not judged.
    NotJudged,
    /// Frames are missing.
    TooFew,
    /// All that is missing are frames of inlined methods.
    InlineFramesMissing,
    /// There are frames that did not exist.
    TooMany,
    /// As many frames, but another method, or none, in one of them.
    WrongMethod,
    /// A frame of a native method is shown as one of Java, or the other way round.
    WrongNativeness,
    /// The same methods, but another bci.
    WrongLocation,
}

impl StackVerdict {
    /// All of them; the order of the columns of a table.
    pub const ALL: [Self; 11] = [
        Self::Equal,
        Self::Imprecise,
        Self::Unpredictable,
        Self::Error,
        Self::TooFew,
        Self::InlineFramesMissing,
        Self::TooMany,
        Self::WrongMethod,
        Self::WrongNativeness,
        Self::WrongLocation,
        Self::NotJudged,
    ];
    /// A short stable name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Equal => "equal",
            Self::Imprecise => "imprecise",
            Self::Unpredictable => "unpredictable",
            Self::Error => "error",
            Self::NotJudged => "not-judged",
            Self::TooFew => "too-few",
            Self::InlineFramesMissing => "inline-frames-missing",
            Self::TooMany => "too-many",
            Self::WrongMethod => "wrong-method",
            Self::WrongNativeness => "wrong-nativeness",
            Self::WrongLocation => "wrong-location",
        }
    }
    /// Whether the stack was compared.
    pub const fn is_judged(self) -> bool {
        !matches!(self, Self::Error | Self::NotJudged)
    }
    /// Whether the stack is wrong.
    pub const fn is_broken(self) -> bool {
        self.is_judged() && !matches!(self, Self::Equal | Self::Imprecise | Self::Unpredictable)
    }
}

/// More about a verdict.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Detail {
    /// Nothing more.
    None,
    /// Exactly one frame is there.
    One,
    /// Only innermost frames are missing.
    TopMissing,
    /// Only outermost frames are missing.
    BottomMissing,
    /// It concerns the innermost frame.
    Top,
    /// The VM gave no method, or one that the log does not describe.
    NoMethod,
    /// Compiled code: the frames are those of the next debug info in the code.
    NextState,
    /// The same in compiled code that called a stub or the VM: the next one after the return
    /// address.
    BelowStub,
    /// The thread runs code of the VM that has no frame of its own, so that the walk begins below
    /// the innermost frame that has set the frame pointer.
    Leaf,
    /// Compiled code has more on the stack than its frame.
    Pushed,
    /// Interpreter: the bci is one that the frame stored earlier.
    StaleBci,
    /// Interpreter: the bci is the target of the branch that executes.
    Branched,
    /// A frame that is being built is missing.
    NotEntered,
    /// The walk ends above a compiled frame that is deoptimised as soon as control returns to it.
    Deoptimised,
    /// The walk ends above C1's code that called the VM through one of C1's stubs. The VM called
    /// Java.
    C1Stub,
    /// The frame of a method that returns has been removed, and the walk begins at a wrong place.
    Removed,
    /// The code has not built its frame, and the VM does not know.
    Incomplete,
}

impl Detail {
    /// A short stable name; empty for nothing.
    pub const fn name(self) -> &'static str {
        match self {
            Self::None => "",
            Self::One => "one",
            Self::TopMissing => "top-missing",
            Self::BottomMissing => "bottom-missing",
            Self::Top => "top",
            Self::NoMethod => "no-method",
            Self::NextState => "next-state",
            Self::BelowStub => "below-stub",
            Self::Leaf => "leaf",
            Self::StaleBci => "stale-bci",
            Self::Branched => "branched",
            Self::NotEntered => "not-entered",
            Self::Deoptimised => "deoptimised",
            Self::C1Stub => "c1-stub",
            Self::Removed => "removed",
            Self::Pushed => "pushed",
            Self::Incomplete => "incomplete",
        }
    }
}

/// A frame of the flow.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct TrueFrame {
    pub(crate) method: MethodId,
    /// The bytecode that began last; `None` if it is not known, and for native methods.
    pub(crate) bci: Option<Bci>,
    pub(crate) tier: Tier,
    /// It is inlined into the frame below.
    pub(crate) inlined: bool,
    /// Its beginning was not seen.
    pub(crate) found: bool,
}

/// A comparison's result.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Compared {
    pub(crate) verdict: StackVerdict,
    pub(crate) detail: Detail,
    /// Index of the first frame that differs.
    pub(crate) at: usize,
}

impl Compared {
    const fn new(verdict: StackVerdict, detail: Detail, at: usize) -> Self {
        Self { verdict, detail, at }
    }
}

/// The methods of the log and of the capture, by name.
#[derive(Debug, Default)]
pub(crate) struct MethodNames {
    logged: HashMap<u64, (u32, LoggedMethod)>,
    /// By [`MethodId`]: the numbers of the name with and without descriptor.
    captured: Vec<[Option<u32>; 2]>,
}

/// Set in the number of a method that the log knows by names only, whatever its loader.
pub(crate) const NAMED: u64 = 1 << 63;

impl MethodNames {
    pub(crate) fn new(logged: &LoggedMethods, methods: &MethodTable) -> Self {
        let mut numbers: HashMap<LoggedMethod, u32> = HashMap::new();
        let mut by_id = HashMap::new();
        for (id, method) in logged.iter() {
            let next = numbers.len() as u32;
            let number = *numbers.entry(method.clone()).or_insert(next);
            by_id.insert(id, (number, method.clone()));
        }
        let captured = methods.iter().map(|m| {
            let number = |descriptor: &str| {
                let (class, name) = (m.class_name.clone(), m.name.clone());
                numbers.get(&LoggedMethod { class, name, descriptor: descriptor.into() }).copied()
            };
            [number(&m.signature), number("")]
        });
        Self { captured: captured.collect(), logged: by_id }
    }
    /// The names of a method of the log.
    pub(crate) fn logged(&self, id: u64) -> Option<&LoggedMethod> {
        self.logged.get(&id).map(|(_, method)| method)
    }
}

/// Knows which class of the capture a method id of the VM belongs to, where several classes
/// have one name. The versions of a redefined class are one.
#[derive(Debug, Default)]
pub(crate) struct Loaders {
    class_of: HashMap<u64, u32>,
}

/// Compares stacks.
#[derive(Debug)]
pub(crate) struct Comparer<'a> {
    pub(crate) names: &'a MethodNames,
    pub(crate) methods: &'a MethodTable,
    pub(crate) loaders: &'a mut Loaders,
}

impl Comparer<'_> {
    fn is_method(&self, taken: &TakenFrame, truth: &TrueFrame) -> bool {
        let logged = self.names.logged.get(&taken.method).map(|(number, _)| *number);
        let captured = self.names.captured.get(truth.method.get() as usize);
        if logged.is_none() || captured.is_none_or(|numbers| !numbers.contains(&logged)) {
            return false;
        }
        let class = self.methods.get(truth.method).map(|m| self.methods.first_version(m.class));
        self.loaders.class_of.get(&taken.method).is_none_or(|known| Some(*known) == class)
    }
    /// `truth`: innermost frame first, as in `taken`.
    pub(crate) fn compare(&mut self, taken: &TakenStack, truth: &[TrueFrame]) -> Compared {
        let frames = &taken.frames[..];
        let unknown = frames.iter().position(|f| self.names.logged(f.method).is_none());
        if let Some(at) = unknown {
            return Compared::new(StackVerdict::WrongMethod, Detail::NoMethod, at);
        }
        let truth = if taken.truncated { &truth[..truth.len().min(frames.len())] } else { truth };
        let differs = frames.iter().zip(truth).position(|(a, b)| !self.is_method(a, b));
        match differs {
            None if frames.len() == truth.len() => {}
            _ => return self.other_methods(frames, truth, differs),
        }
        for (taken, truth) in frames.iter().zip(truth) {
            if let Some(method) = self.methods.get(truth.method).filter(|_| taken.method & NAMED == 0) {
                let class = self.methods.first_version(method.class);
                self.loaders.class_of.insert(taken.method, class);
            }
        }
        let first =
            |verdict, at: usize| Compared::new(verdict, if at == 0 { Detail::Top } else { Detail::None }, at);
        let nativeness = |(a, b): (&TakenFrame, &TrueFrame)| is_native(a) != (b.tier == Tier::Native);
        if let Some(at) = frames.iter().zip(truth).position(nativeness) {
            return first(StackVerdict::WrongNativeness, at);
        }
        let location = |(a, b): (&TakenFrame, &TrueFrame)| !is_location(taken.api, a, b);
        match frames.iter().zip(truth).position(location) {
            Some(at) => first(StackVerdict::WrongLocation, at),
            None => Compared::new(StackVerdict::Equal, Detail::None, 0),
        }
    }
    /// The verdict on stacks whose methods differ, first in frame `differs` of both.
    fn other_methods(&self, frames: &[TakenFrame], truth: &[TrueFrame], differs: Option<usize>) -> Compared {
        let at = differs.unwrap_or(frames.len().min(truth.len()));
        let same = |a: &[TakenFrame], b: &[TrueFrame]| a.iter().zip(b).all(|(a, b)| self.is_method(a, b));
        if frames.len() > truth.len() {
            return Compared::new(StackVerdict::TooMany, Detail::None, at);
        }
        if frames.len() == truth.len() {
            let detail = if at == 0 { Detail::Top } else { Detail::None };
            return Compared::new(StackVerdict::WrongMethod, detail, at);
        }
        if let [_] = frames {
            return Compared::new(StackVerdict::TooFew, Detail::One, at);
        }
        let missing = self.missing(frames, truth);
        if missing.is_some_and(|all| !all.is_empty() && all.iter().all(|f| f.inlined)) {
            return Compared::new(StackVerdict::InlineFramesMissing, Detail::None, at);
        }
        let detail = if differs.is_none() {
            Detail::BottomMissing
        } else if same(frames, &truth[truth.len() - frames.len()..]) {
            Detail::TopMissing
        } else {
            Detail::None
        };
        Compared::new(StackVerdict::TooFew, detail, at)
    }
    /// The frames of the truth that are missing, if all others are there in order.
    fn missing(&self, frames: &[TakenFrame], truth: &[TrueFrame]) -> Option<Vec<TrueFrame>> {
        let mut rest = frames.iter().peekable();
        let mut missing = Vec::new();
        for frame in truth {
            match rest.peek() {
                Some(taken) if self.is_method(taken, frame) => {
                    rest.next();
                }
                _ => missing.push(*frame),
            }
        }
        rest.next().is_none().then_some(missing)
    }
}

/// Whether a method of JDK 17 has the annotation `@Hidden`, which a capture does not have. Of the
/// package `java.lang.invoke` all methods count: its others are not seen below those that have it.
fn is_annotated_hidden(class: &str, name: &str) -> bool {
    let privileged = ["executePrivileged", "ensureMaterializedForStackWalk", "wrapException"];
    class.starts_with("java/lang/invoke/")
        || (class == "java/security/AccessController" && privileged.contains(&name))
}

/// Leaves out what the interface does not show, in both stacks.
pub(crate) fn normalise(
    names: &MethodNames,
    methods: &MethodTable,
    taken: &mut TakenStack,
    truth: &mut Vec<TrueFrame>,
) {
    if taken.api != StackApi::Throwable {
        return;
    }
    // Throwable leaves out methods of hidden classes, too.
    taken.frames.retain(|f| names.logged(f.method).is_none_or(|m| !is_annotated_hidden(&m.class, &m.name)));
    truth.retain(|f| {
        let method = methods.get(f.method);
        let class = method.and_then(|m| methods.classes().get(m.class));
        !method.is_some_and(|m| is_annotated_hidden(&m.class_name, &m.name))
            && !class.is_some_and(|c| c.hidden)
    });
}

const fn is_native(frame: &TakenFrame) -> bool {
    frame.location < 0
}

/// Whether the location is the true one, as far as that is known.
fn is_location(api: StackApi, taken: &TakenFrame, truth: &TrueFrame) -> bool {
    match (truth.tier, truth.bci) {
        (Tier::Native, _) => taken.location == api.native_location(),
        (_, Some(bci)) => taken.location == i32::from(bci.0),
        (_, None) => true,
    }
}
