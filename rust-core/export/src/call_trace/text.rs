// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! A trace as text, one token per line.

use std::io::Write;

use jportal_analyses::call_trace::{Ended, Known, Mark, Token};

use super::{CallTrace, ReadError, SiteTable};

/// Writes a trace as text: per token its number in the trace, its kind, and for a site the
/// method, bci, line and target. Names are as in the table, where control characters are escaped.
///
/// # Errors
/// If the trace is incomplete or damaged, after the tokens before; or if the output cannot be
/// written.
pub fn decode(trace: CallTrace<'_>, sites: &SiteTable, out: &mut dyn Write) -> Result<(), ReadError> {
    for (number, token) in trace.enumerate() {
        let (kind, text) = words(token?, sites);
        writeln!(out, "{}", format!("{number:>9}  {kind:<10}  {text}").trim_end())?;
    }
    out.flush()?;
    Ok(())
}

fn site(id: u32, sites: &SiteTable) -> (String, String) {
    let Some(s) = sites.get(id) else {
        return ("site".to_owned(), format!("{id}, which is not in the table"));
    };
    let mut text = s.qualified();
    if !s.bci.is_empty() {
        text.push_str(&format!(" @{}", s.bci));
    }
    if !s.line.is_empty() {
        text.push_str(&format!(" line {}", s.line));
    }
    if !s.target.is_empty() {
        text.push_str(&format!(" -> {}", s.target));
    }
    (s.kind.clone(), text)
}

fn method(id: u32, sites: &SiteTable) -> String {
    sites.get(id).map_or_else(|| format!("method {id}, which is not in the table"), |s| s.qualified())
}

const fn below(blind: bool) -> &'static str {
    if blind { " (the frames below are not known)" } else { "" }
}

pub(super) fn words(token: Token, sites: &SiteTable) -> (String, String) {
    let (kind, text) = match token {
        Token::Site(id) => return site(id, sites),
        Token::Callback { site: at, method: m, blind } => {
            let from = at.map_or_else(|| "no call site".to_owned(), |id| site(id, sites).1);
            ("callback", format!("{} from {from}{}", method(m, sites), below(blind)))
        }
        Token::Entry { method: m, blind } => ("entry", method(m, sites) + below(blind)),
        Token::Implicit(m) => ("implicit", method(m, sites)),
        Token::Time(tsc) => ("time", tsc.to_string()),
        Token::Known(known) => ("known", known_text(known).to_owned()),
        Token::Mark(mark) => ("missing", mark_text(mark, sites)),
        Token::End { exact: true } => ("end", "exact".to_owned()),
        Token::End { exact: false } => ("end", "not exact".to_owned()),
        Token::Other { kind, value } => ("other", format!("kind {kind}, value {value}")),
    };
    (kind.to_owned(), text)
}

const fn known_text(known: Known) -> &'static str {
    match known {
        Known::Decoded => "decoded",
        Known::Projected => "projected",
        Known::Recovered => "recovered",
    }
}

pub(super) fn mark_text(mark: Mark, sites: &SiteTable) -> String {
    let of = |m: Option<u32>| m.map_or_else(|| "outside of the scope".to_owned(), |m| method(m, sites));
    match mark {
        Mark::Gap { reason, stack_lost: true } => format!("gap: {reason}, the frames are lost"),
        Mark::Gap { reason, stack_lost: false } => format!("gap: {reason}"),
        Mark::Unresolved { cause, method } => format!("unresolved: {cause}, {}", of(method)),
        Mark::Orphans => "bytecodes of unknown methods".to_owned(),
        Mark::Found(m) => format!("found: {}", method(m, sites)),
        Mark::Left { method, ended } => {
            let how = match ended {
                Ended::Lost => "its end was not seen",
                Ended::Unknown => "by a return or an exception",
                Ended::PopFrame => "removed by a debugger",
                Ended::EarlyReturn => "returned by a debugger",
            };
            format!("left: {}, {how}", of(method))
        }
        Mark::Silent => "the method called was removed by a compiler".to_owned(),
        Mark::LeftOut => "left out".to_owned(),
    }
}
