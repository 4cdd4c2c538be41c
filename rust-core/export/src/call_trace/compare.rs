// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Compares the traces of two runs, up to the first token that differs.
//!
//! The numbers of sites are those of one run. Sites are the same if their names are, without what
//! differs from run to run. Times are not compared, nor how tokens are known. After a mark, tokens
//! may be missing on one side only, so a comparison ends there.

use std::collections::VecDeque;

use hashbrown::HashMap;
use jportal_analyses::call_trace::{Mark, Token};
use jportal_analyses::names::stable;
use serde::Serialize;

use super::text::{mark_text, words};
use super::{CallTrace, ReadError, SiteTable};

/// Tokens shown before a difference, and after it on each side.
const SHOWN: [usize; 2] = [8, 4];
/// What stands for a site that is absent or that the table does not have.
const NO_SITE: u32 = u32::MAX;

/// The sites of two runs, by numbers that both share.
#[derive(Debug)]
pub struct CommonSites<'t> {
    tables: [&'t SiteTable; 2],
    numbers: [Vec<u32>; 2],
}

impl<'t> CommonSites<'t> {
    /// Numbers the sites of two runs.
    pub fn new(tables: [&'t SiteTable; 2]) -> Self {
        let mut known = HashMap::new();
        let numbers = tables.map(|table| {
            let sites = (0..table.len() as u32).filter_map(|id| table.get(id));
            let number = |s: &'t super::SiteRow| {
                let names = (stable(&s.loader), stable(&s.class), &*s.method, &*s.descriptor);
                let next = known.len() as u32;
                *known.entry((names, &*s.kind, &*s.bci)).or_insert(next)
            };
            sites.map(number).collect()
        });
        Self { tables, numbers }
    }
    fn number(&self, side: usize, site: u32) -> u32 {
        self.numbers[side].get(site as usize).copied().unwrap_or(NO_SITE)
    }
    /// What is compared of a token. `None`: nothing.
    fn key(&self, side: usize, token: Token) -> Option<TokenKey> {
        let of = |site| self.number(side, site);
        Some(match token {
            Token::Site(site) => TokenKey::Token(0, of(site), NO_SITE),
            Token::Callback { site, method, .. } => TokenKey::Token(1, site.map_or(NO_SITE, of), of(method)),
            Token::Entry { method, .. } => TokenKey::Token(2, NO_SITE, of(method)),
            Token::Implicit(method) => TokenKey::Token(3, NO_SITE, of(method)),
            Token::Time(_) | Token::Known(_) => return None,
            Token::Mark(mark) => TokenKey::Mark(mark),
            Token::Other { kind, .. } => TokenKey::Unknown(kind),
            Token::End { .. } => TokenKey::End,
        })
    }
}

/// What is compared of a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TokenKey {
    /// Its kind, its site and its method.
    Token(u8, u32, u32),
    Mark(Mark),
    /// An escape that this version does not know.
    Unknown(u8),
    End,
}

/// Where two traces part.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct TraceParting {
    /// Number of tokens before that are the same.
    pub token: u64,
    /// The last of them.
    pub common: Vec<String>,
    /// The next tokens of the first trace. Empty: it has ended.
    pub before: Vec<String>,
    /// The next tokens of the second trace.
    pub after: Vec<String>,
}

/// The comparison of two traces.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ComparedTraces {
    /// Number of tokens that are the same, from the beginning on.
    pub same: u64,
    /// Where they part.
    pub parting: Option<TraceParting>,
    /// Why nothing was compared after the tokens that are the same.
    pub stopped: Option<String>,
}

/// A trace with the tokens that were read ahead.
struct TraceSide<'c, 'r> {
    trace: CallTrace<'r>,
    sites: &'c CommonSites<'c>,
    side: usize,
}

impl TraceSide<'_, '_> {
    /// The next token that is compared.
    fn next(&mut self) -> Result<(TokenKey, Token), ReadError> {
        loop {
            let Some(token) = self.trace.next().transpose()? else {
                return Ok((TokenKey::End, Token::End { exact: true }));
            };
            if let Some(key) = self.sites.key(self.side, token) {
                return Ok((key, token));
            }
        }
    }
    fn text(&self, token: Token) -> String {
        let (kind, text) = words(token, self.sites.tables[self.side]);
        format!("{kind} {text}").trim_end().to_owned()
    }
    /// The token and those after it, as text.
    fn shown(&mut self, mut next: (TokenKey, Token)) -> Result<Vec<String>, ReadError> {
        let mut shown = Vec::new();
        while next.0 != TokenKey::End && shown.len() < SHOWN[1] {
            shown.push(self.text(next.1));
            next = self.next()?;
        }
        Ok(shown)
    }
}

/// Compares two traces. `progress` is called from time to time with the number of tokens that are
/// the same.
///
/// # Errors
/// If a trace is incomplete or damaged before they part.
pub fn compare_traces(
    sites: &CommonSites<'_>,
    traces: [CallTrace<'_>; 2],
    progress: &mut dyn FnMut(u64),
) -> Result<ComparedTraces, ReadError> {
    const STEP: u64 = 1 << 16;
    let [a, b] = traces;
    let [mut a, mut b] = [(a, 0), (b, 1)].map(|(trace, side)| TraceSide { trace, sites, side });
    let mut common = VecDeque::with_capacity(SHOWN[0] + 1);
    let mut result = ComparedTraces::default();
    loop {
        let (before, after) = (a.next()?, b.next()?);
        let stops =
            [("first", before.0, &a), ("second", after.0, &b)].into_iter().find_map(|(which, key, of)| {
                let why = match key {
                    TokenKey::Mark(mark) => mark_text(mark, sites.tables[of.side]),
                    TokenKey::Unknown(kind) => format!("an escape of the kind {kind}, which is not known"),
                    TokenKey::Token(..) | TokenKey::End => return None,
                };
                Some(format!("tokens of the {which} may be missing: {why}"))
            });
        if stops.is_some() {
            result.stopped = stops;
            return Ok(result);
        }
        if before.0 != after.0 {
            let token = result.same;
            let common = common.iter().map(|token| a.text(*token)).collect();
            let (before, after) = (a.shown(before)?, b.shown(after)?);
            result.parting = Some(TraceParting { token, common, before, after });
            return Ok(result);
        }
        if before.0 == TokenKey::End {
            return Ok(result);
        }
        result.same += 1;
        if result.same.is_multiple_of(STEP) {
            progress(result.same);
        }
        common.push_back(before.1);
        if common.len() > SHOWN[0] {
            common.pop_front();
        }
    }
}
