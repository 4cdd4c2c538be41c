// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Expands the tokens of a thread to its full call trace: derives the trace by the grammar, and
//! takes the next token where there is more than one way (section 3.5 of the paper).
//!
//! An exception logs every frame that it leaves, and the handler, each with the place where the
//! frame stood. The silent sites before it are found by a search; two ways are an error.

use super::SiteTrace;
use super::first::{FirstSets, Terminal};
use super::plan::{LoggedBy, PlannedSite};
use super::program::{FunctionId, Program, SiteGraph, SiteIndex};
use super::words::{CALLBACK, CAUGHT, ENTRY, IMPLICIT, IMPLICIT_END, LEFT, is_site, token_len};

/// Why a log has no trace.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("word {word}: {why}")]
pub struct ExpandError {
    /// Number of the word in the log.
    pub word: usize,
    /// What is wrong.
    pub why: String,
}

type Result<T> = std::result::Result<T, ExpandError>;

/// Class initialisers inside one another at most.
const MOST_NESTED: usize = 1000;
/// States of all searches for the ways to exceptions at most; more for long logs.
const MOST_STATES: usize = 1 << 22;
/// As many more for each word.
const STATES_PER_WORD: usize = 1 << 10;
/// Activations that the open states of a search hold together at most.
const MOST_HELD: usize = 1 << 24;
/// Sites without a token in between at most. A sound plan logs a site of each circle.
const MOST_SILENT: usize = 1 << 20;

/// Where an activation stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Standing {
    /// Before its first site.
    Entry,
    /// After a call site, before the next site.
    After(SiteIndex),
    /// In the handler that begins with this block, before the next site.
    Handler(u32),
    /// In a call. `begins`: the callee that has still to begin.
    Calling { site: SiteIndex, begins: Option<FunctionId> },
}

/// An activation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct ExpandedFrame {
    function: FunctionId,
    /// Whether library code or the VM called it.
    is_base: bool,
    at: Standing,
}

/// A state of the search for an exception: the stack, and what was executed to come there.
struct SearchState {
    /// How many activations of the stack are below `top`.
    below: usize,
    /// The activations above these.
    top: Vec<ExpandedFrame>,
    activations: u32,
    /// The last site that was executed: an index of the list of ways.
    way: usize,
    /// A logged call did not happen.
    is_stuck: bool,
}

/// Sites that were executed, each with the place of the one before. The first has none.
type Ways = Vec<(usize, u32)>;

/// How an exception is explained.
struct Unwound {
    stack: (usize, Vec<ExpandedFrame>),
    /// Exceptional exits, after the way.
    exits: Vec<u32>,
    way: usize,
    /// The next token.
    position: usize,
}

/// Expands the tokens of one thread.
///
/// # Errors
/// If the tokens do not fit the plan, or the plan does not decide.
pub fn expand(program: &Program, firsts: &FirstSets, words: &[u32]) -> Result<SiteTrace> {
    let mut of = Expander {
        program,
        firsts,
        words,
        position: 0,
        activations: 0,
        nested: 0,
        silent: 0,
        states: MOST_STATES.saturating_add(words.len().saturating_mul(STATES_PER_WORD)),
        trace: SiteTrace::default(),
    };
    while of.peek()?.is_some() && !of.trace.is_truncated {
        if of.words[of.position] != ENTRY {
            return Err(of.error("a thread does not begin with an entry"));
        }
        let function = of.function(of.position + 1)?;
        of.position += token_len(ENTRY);
        of.run(function, None)?;
    }
    Ok(of.trace)
}

struct Expander<'a> {
    program: &'a Program,
    firsts: &'a FirstSets,
    words: &'a [u32],
    position: usize,
    /// Activations since the last token.
    activations: u32,
    nested: usize,
    /// Sites since the last token.
    silent: usize,
    /// States that searches may still take.
    states: usize,
    trace: SiteTrace,
}

impl Expander<'_> {
    fn error(&self, why: impl Into<String>) -> ExpandError {
        ExpandError { word: self.position, why: why.into() }
    }
    fn name(&self, function: FunctionId) -> String {
        self.program.function(function).name()
    }
    fn word(&self, at: usize) -> u32 {
        self.words.get(at).copied().unwrap_or(0)
    }
    /// The method whose number is a word.
    fn function(&self, at: usize) -> Result<FunctionId> {
        let number = self.word(at);
        self.program.numbered(number).ok_or_else(|| self.error(format!("the plan has no method {number}")))
    }
    fn graph(&self, function: FunctionId) -> Result<&SiteGraph> {
        let graph = self.program.function(function).graph.as_ref();
        graph.ok_or_else(|| self.error(format!("the recording does not have {}", self.name(function))))
    }
    fn site(&self, function: FunctionId, at: SiteIndex) -> &PlannedSite {
        &self.program.function(function).plan.sites[at as usize]
    }
    /// The functions that a call may begin.
    fn targets(&self, function: FunctionId, at: SiteIndex) -> &[FunctionId] {
        self.program.function(function).targets(at)
    }
    /// Whether the token at a place is whole.
    fn is_whole(&self, at: usize) -> bool {
        self.words.get(at).is_some_and(|head| at + token_len(*head) <= self.words.len())
    }
    /// The head of the next token. Class initialisers before it are expanded.
    fn peek(&mut self) -> Result<Option<u32>> {
        while self.is_whole(self.position) && self.words[self.position] == IMPLICIT {
            let function = self.function(self.position + 1)?;
            self.position += token_len(IMPLICIT);
            self.nested += 1;
            if self.nested > MOST_NESTED {
                return Err(self.error("class initialisers are nested too deeply"));
            }
            let activations = self.activations;
            self.trace.initialisers.push(Vec::new());
            let number = self.trace.initialisers.len() - 1;
            if self.run(function, Some(number))? {
                if !self.is_whole(self.position) {
                    self.trace.is_truncated = true;
                } else if self.words[self.position] != IMPLICIT_END {
                    return Err(self.error("the end of a class initialiser is missing"));
                } else {
                    self.position += token_len(IMPLICIT_END);
                }
            }
            self.activations = activations;
            self.nested -= 1;
        }
        Ok(self.is_whole(self.position).then(|| self.words[self.position]))
    }
    fn consume(&mut self) {
        self.position += token_len(self.word(self.position));
        self.activations = 0;
        self.silent = 0;
    }
    fn put(&mut self, out: Option<usize>, site: u32) {
        self.silent += 1;
        match out.and_then(|number| self.trace.initialisers.get_mut(number)) {
            Some(trace) => trace.push(site),
            None => self.trace.main.push(site),
        }
    }
    /// Expands an activation that library code or the VM began. Says whether it returned; false if
    /// an exception left it, or the log ended.
    fn run(&mut self, function: FunctionId, out: Option<usize>) -> Result<bool> {
        let mut stack = vec![ExpandedFrame { function, is_base: true, at: Standing::Entry }];
        self.activations = 1;
        let mut returned = false;
        while let Some(&top) = stack.last() {
            let head = self.peek()?;
            if self.trace.is_truncated {
                return Ok(false);
            }
            if self.silent > MOST_SILENT {
                let name = self.name(top.function);
                return Err(self.error(format!("the plan logs no site of a circle through {name}")));
            }
            returned = true;
            match (head, top.at) {
                (Some(LEFT | CAUGHT), _) => {
                    self.unwind(&mut stack, out)?;
                    returned = false;
                }
                (_, Standing::Calling { site, begins }) => self.call(&mut stack, head, (site, begins))?,
                (_, at) => {
                    if !self.step(&mut stack, top.function, at, head, out)? {
                        self.trace.is_truncated = true;
                        return Ok(false);
                    }
                }
            }
        }
        Ok(returned)
    }
    /// Continues a call that is in progress.
    fn call(
        &mut self,
        stack: &mut Vec<ExpandedFrame>,
        head: Option<u32>,
        (site, begins): (SiteIndex, Option<FunctionId>),
    ) -> Result<()> {
        let Some(top) = stack.last_mut() else { return Ok(()) };
        if let Some(function) = begins {
            top.at = Standing::Calling { site, begins: None };
            stack.push(ExpandedFrame { function, is_base: false, at: Standing::Entry });
            self.activations += 1;
            return Ok(());
        }
        let (of, number) = (top.function, self.word(self.position + 1));
        let is_here = head == Some(CALLBACK) && number == self.site(of, site).id;
        if is_here && self.word(self.position + 3) == self.activations {
            let function = self.function(self.position + 2)?;
            self.consume();
            self.activations = 1;
            stack.push(ExpandedFrame { function, is_base: true, at: Standing::Entry });
        } else if let Some(top) = stack.last_mut() {
            top.at = Standing::After(site);
        }
        Ok(())
    }
    /// The sites that may be next.
    fn next(&self, function: FunctionId, at: Standing) -> Result<Vec<SiteIndex>> {
        let graph = self.graph(function)?;
        Ok(match at {
            Standing::Entry => graph.entry.clone(),
            Standing::After(site) => graph.after[site as usize].clone(),
            Standing::Handler(block) => graph.handlers.get(&block).map_or_else(Vec::new, |h| h.1.clone()),
            Standing::Calling { .. } => Vec::new(),
        })
    }
    /// Executes the next site. False: the log has ended.
    fn step(
        &mut self,
        stack: &mut Vec<ExpandedFrame>,
        function: FunctionId,
        at: Standing,
        head: Option<u32>,
        out: Option<usize>,
    ) -> Result<bool> {
        let next = self.next(function, at)?;
        let ways: Vec<(SiteIndex, usize)> = next
            .iter()
            .flat_map(|site| (0..self.targets(function, *site).len().max(1)).map(|way| (*site, way)))
            .collect();
        let token = self.terminal(head)?;
        let fits = |(site, way): &&(SiteIndex, usize)| {
            ways.len() == 1 || token.is_some_and(|t| self.firsts.begins((function, *site, *way), t))
        };
        let fitting: Vec<(SiteIndex, usize)> = ways.iter().filter(fits).copied().collect();
        let [(site, way)] = fitting[..] else {
            let (some, all, name) = (fitting.len(), ways.len(), self.name(function));
            return match head {
                None => Ok(false),
                Some(_) => Err(self.error(format!("the token fits {some} of {all} ways in {name}"))),
            };
        };
        let planned = self.site(function, site).clone();
        let target = self.targets(function, site).get(way).copied();
        if planned.logged != LoggedBy::Nobody {
            let Some(token) = token else { return Ok(false) };
            let expected = match (planned.logged, target) {
                (LoggedBy::Callee, Some(target)) => Terminal::Call(planned.id, target),
                _ => Terminal::Site(planned.id),
            };
            if token != expected {
                let place = format!("{}@{}", self.name(function), planned.bci.get());
                return Err(self.error(format!("this is not the token of {place}")));
            }
            self.consume();
        }
        self.put(out, planned.id);
        let Some(top) = stack.last_mut() else { return Ok(false) };
        if !planned.is_call {
            leave(stack);
        } else if let (LoggedBy::Callee, Some(function)) = (planned.logged, target) {
            top.at = Standing::Calling { site, begins: None };
            stack.push(ExpandedFrame { function, is_base: false, at: Standing::Entry });
            self.activations = 1;
        } else {
            top.at = Standing::Calling { site, begins: target.filter(|_| !planned.may_leave()) };
        }
        Ok(true)
    }
    /// What the next token is to the grammar.
    fn terminal(&self, head: Option<u32>) -> Result<Option<Terminal>> {
        Ok(match head {
            Some(CALLBACK) => {
                let number = self.word(self.position + 1);
                let function = self.function(self.position + 2)?;
                match self.program.site(number) {
                    Some(site) if !site.may_leave() => Some(Terminal::Call(number, function)),
                    _ => Some(Terminal::Callback(number)),
                }
            }
            Some(word) if is_site(word) => Some(Terminal::Site(word)),
            Some(_) | None => None,
        })
    }

    // --- Exceptions

    /// Finds the silent sites before an exception.
    fn unwind(&mut self, stack: &mut Vec<ExpandedFrame>, out: Option<usize>) -> Result<()> {
        let limit = self.word(self.position + 3);
        let mut ways: Ways = vec![(0, 0)];
        let first = SearchState {
            below: stack.len(),
            top: Vec::new(),
            activations: self.activations,
            way: 0,
            is_stuck: false,
        };
        let mut open = vec![first];
        let mut found: Option<Unwound> = None;
        let mut held = 0;
        while let Some(state) = open.pop() {
            held -= state.top.len();
            // A state of many activations takes longer to copy.
            let left = self.states.checked_sub(1 + state.top.len() / 16).filter(|_| held <= MOST_HELD);
            self.states =
                left.ok_or_else(|| self.error("the search for the way to an exception has no end"))?;
            let unwound = if state.activations == limit { self.matches(stack, &state)? } else { None };
            if unwound.is_some() && found.is_some() {
                let name = stack.last().map_or_else(String::new, |top| self.name(top.function));
                return Err(self.error(format!("there are two ways to an exception from {name}")));
            }
            found = unwound.or(found);
            if !state.is_stuck {
                let before = open.len();
                self.follow(stack, state, limit, &mut ways, &mut open)?;
                held += open[before..].iter().map(|state| state.top.len()).sum::<usize>();
            }
        }
        let Some(found) = found else {
            let (from, to) =
                (stack.last().map(|top| self.name(top.function)), self.function(self.position + 1)?);
            let from = from.unwrap_or_default();
            return Err(self.error(format!("no way leads from {from} to the exception in {}", self.name(to))));
        };
        let mut sites = Vec::new();
        let mut way = found.way;
        while let Some(&(before, site)) = ways.get(way).filter(|_| way > 0) {
            sites.push(site);
            way = before;
        }
        sites.into_iter().rev().chain(found.exits).for_each(|site| self.put(out, site));
        let (below, top) = found.stack;
        stack.truncate(below);
        stack.extend(top);
        self.position = found.position;
        self.activations = 0;
        self.silent = 0;
        Ok(())
    }
    /// Adds the states that follow without a token.
    fn follow(
        &self,
        stack: &[ExpandedFrame],
        state: SearchState,
        limit: u32,
        ways: &mut Ways,
        open: &mut Vec<SearchState>,
    ) -> Result<()> {
        let Some(top) = state.last(stack) else { return Ok(()) };
        if let Standing::Calling { site, begins } = top.at {
            match begins {
                None => open.push(state.moved(stack, Standing::After(site))),
                Some(function) if state.activations < limit => {
                    let mut next = state.moved(stack, Standing::Calling { site, begins: None });
                    next.top.push(ExpandedFrame { function, is_base: false, at: Standing::Entry });
                    next.activations += 1;
                    open.push(next);
                }
                Some(_) => {}
            }
            return Ok(());
        }
        for site in self.next(top.function, top.at)? {
            let planned = self.site(top.function, site);
            ways.push((state.way, planned.id));
            let way = ways.len() - 1;
            let calling = |begins| Standing::Calling { site, begins };
            match planned.logged {
                LoggedBy::Site => {}
                LoggedBy::Callee => {
                    open.push(SearchState { way, is_stuck: true, ..state.moved(stack, calling(None)) });
                }
                LoggedBy::Nobody if !planned.is_call => {
                    if let Some(next) = state.returned(stack) {
                        open.push(SearchState { way, ..next });
                    }
                }
                LoggedBy::Nobody => {
                    let targets = self.targets(top.function, site);
                    if planned.may_leave() || targets.is_empty() {
                        open.push(SearchState { way, ..state.moved(stack, calling(None)) });
                        continue;
                    }
                    for target in targets {
                        open.push(SearchState { way, ..state.moved(stack, calling(Some(*target))) });
                    }
                }
            }
        }
        Ok(())
    }
    /// Whether the frames of a state are those that the next tokens name.
    fn matches(&self, stack: &[ExpandedFrame], state: &SearchState) -> Result<Option<Unwound>> {
        let mut at = self.position;
        let mut exits = Vec::new();
        let depth = state.below + state.top.len();
        for (number, frame) in (0..depth).rev().enumerate().map(|(n, d)| (n, state.frame(stack, d))) {
            let Some(frame) = frame else { return Ok(None) };
            let graph = self.graph(frame.function)?;
            let depth = depth - 1 - number;
            let at_super = matches!(frame.at, Standing::Calling { site, .. }
                if graph.super_call == graph.insns.get(site as usize).copied());
            let exit = self.program.function(frame.function).plan.exit;
            // No handler can cover the call of a super constructor, so no token says that its
            // frame was left. Only an exception can have done that.
            if !at_super {
                let head = if self.is_whole(at) { self.words[at] } else { 0 };
                // No method begins between two frames that an exception leaves.
                let is_first = at == self.position;
                if !matches!(head, LEFT | CAUGHT)
                    || !(is_first || self.word(at + 3) == 0)
                    || self.word(at + 1) != exit
                    || !stands(graph, frame.at, self.word(at + 2), number == 0)
                {
                    return Ok(None);
                }
                let position = at + token_len(head);
                if head == CAUGHT {
                    let caught = ExpandedFrame { at: Standing::Handler(self.word(at + 4)), ..frame };
                    let (below, mut top) = state.cut(stack, depth);
                    top.push(caught);
                    return Ok(Some(Unwound { stack: (below, top), exits, way: state.way, position }));
                }
                at = position;
            }
            exits.push(exit);
            if frame.is_base {
                let stack = state.cut(stack, depth);
                return Ok(Some(Unwound { stack, exits, way: state.way, position: at }));
            }
        }
        Ok(None)
    }
}

/// Whether a frame may stand in a segment.
fn stands(graph: &SiteGraph, at: Standing, segment: u32, is_innermost: bool) -> bool {
    let from = match at {
        Standing::Calling { site, .. } => {
            let insn = graph.insns.get(site as usize);
            return insn.and_then(|insn| graph.segment(*insn)) == Some(segment);
        }
        Standing::Entry => Some(0),
        Standing::After(site) => graph.insns.get(site as usize).map(|insn| insn + 1),
        Standing::Handler(block) => graph.handlers.get(&block).map(|handler| handler.0),
    };
    is_innermost && from.is_some_and(|from| graph.may_stand(from, segment))
}

/// The activation on top returns.
fn leave(stack: &mut Vec<ExpandedFrame>) {
    let left = stack.pop();
    if left.is_some_and(|left| !left.is_base)
        && let Some(below) = stack.last_mut()
        && let Standing::Calling { site, .. } = below.at
    {
        below.at = Standing::After(site);
    }
}

impl SearchState {
    /// The activation at a depth, from 0 at the bottom.
    fn frame(&self, stack: &[ExpandedFrame], depth: usize) -> Option<ExpandedFrame> {
        let of = if depth < self.below { stack.get(depth) } else { self.top.get(depth - self.below) };
        of.copied()
    }
    fn last(&self, stack: &[ExpandedFrame]) -> Option<ExpandedFrame> {
        self.frame(stack, (self.below + self.top.len()).checked_sub(1)?)
    }
    /// The activations below a depth.
    fn cut(&self, stack: &[ExpandedFrame], depth: usize) -> (usize, Vec<ExpandedFrame>) {
        let below = self.below.min(depth).min(stack.len());
        (below, self.top.iter().copied().take(depth - below).collect())
    }
    /// The same stack with the activation on top elsewhere.
    fn moved(&self, stack: &[ExpandedFrame], at: Standing) -> Self {
        let depth = self.below + self.top.len();
        let (below, mut top) = self.cut(stack, depth.saturating_sub(1));
        top.extend(self.last(stack).map(|last| ExpandedFrame { at, ..last }));
        Self { below, top, activations: self.activations, way: self.way, is_stuck: false }
    }
    /// The state after the activation on top has returned. `None`: there is nothing below.
    fn returned(&self, stack: &[ExpandedFrame]) -> Option<Self> {
        let last = self.last(stack)?;
        let depth = (self.below + self.top.len()).checked_sub(1)?;
        let (below, top) = self.cut(stack, depth);
        let next = Self { below, top, activations: self.activations, way: self.way, is_stuck: false };
        let caller = next.last(stack)?;
        match caller.at {
            Standing::Calling { site, .. } if !last.is_base => Some(next.moved(stack, Standing::After(site))),
            _ => Some(next),
        }
    }
}
