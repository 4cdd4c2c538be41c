//! Our own projection: the start is looked up, not searched.
//!
//! 1. The first anchor, if there is one, fixes a position. Otherwise the window of the segment is taken that the
//!    [index](Places) knows in the fewest places.
//! 2. From there the segment is resolved backwards to its first symbol, which gives the starts.
//! 3. From the starts the paths are searched with calls and returns paired, down to the frames that survived the gap.
//!
//! A segment with neither anchor nor window (shorter than a run) is begun wherever its first symbol stands.

use super::backwards::Backwards;
use super::nfa::Nfa;
use super::paths::{Below, search};
use super::places::{Places, Window};
use super::work::{Limits, Work};
use super::{Fit, Project, Projected};
use crate::Segment;
use jportal_bytecode::{Icfg, Node};

/// Windows looked up before the best one is taken.
const WINDOWS: usize = 256;

/// Projects with the index.
#[derive(Debug)]
pub struct Indexed<'a> {
    nfa: Nfa<'a>,
    places: Places,
}

impl<'a> Indexed<'a> {
    /// Projects onto `icfg`, whose index is made now.
    pub fn new(icfg: &'a Icfg) -> Self {
        Self { nfa: Nfa::new(icfg), places: Places::new(icfg) }
    }
    /// The index.
    pub const fn places(&self) -> &Places {
        &self.places
    }
    /// Looks for the paths of `segment` above the frames that `below` names.
    pub fn project_above(&self, segment: &Segment, below: Below<'_>, limits: &Limits) -> Projected {
        let mut work = Work::default();
        let Some(first) = segment.symbols().first() else {
            return Projected { fit: Fit::Nowhere { matched: 0 }, work };
        };
        let everywhere = self.places.of(first.opcode);
        let found = self.starts(segment, limits, &mut work);
        // Where the segment cannot be, the search says how much of it can be.
        let starts = found.as_deref().filter(|starts| !starts.is_empty()).unwrap_or(everywhere);
        work.candidates = starts.len() as u64;
        let fit = search(&self.nfa, segment, starts, below, limits, &mut work);
        Projected { fit, work }
    }
    /// The nodes that may be symbol 0; `None` where nothing tells or a limit was met.
    fn starts(&self, segment: &Segment, limits: &Limits, work: &mut Work) -> Option<Vec<Node>> {
        let (index, nodes) = match segment.anchors().first() {
            Some((index, node)) => (*index as usize, vec![*node]),
            None => {
                let window = self.best_window(segment)?;
                (window.index, self.places.candidates(&window).collect())
            }
        };
        // Resolving backwards has half of what there is.
        let half = Limits { transitions: limits.transitions / 2, ..*limits };
        Backwards::new(self.nfa, &self.places).starts(segment, index, nodes, &half, work)
    }
    /// The window with the fewest candidates; of several the first, which is the cheapest to resolve.
    fn best_window(&self, segment: &Segment) -> Option<Window> {
        let symbols = segment.symbols();
        let begins = (1..symbols.len()).filter(|i| symbols[i - 1].is_control());
        let mut best: Option<(usize, Window)> = None;
        for window in begins.filter_map(|i| Places::window(symbols, i)).take(WINDOWS) {
            let count = self.places.candidates(&window).len();
            if best.is_none_or(|(least, _)| count < least) {
                best = Some((count, window));
            }
            if count <= 1 {
                break;
            }
        }
        best.map(|(_, window)| window)
    }
}

impl Project for Indexed<'_> {
    fn project(&mut self, segment: &Segment, limits: &Limits) -> Projected {
        self.project_above(segment, Below::Unknown, limits)
    }
}
