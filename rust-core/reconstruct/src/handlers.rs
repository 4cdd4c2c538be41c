// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Which exception handlers the VM may choose in an interpreted frame.
//!
//! The VM takes the first row that covers the bytecode and whose type fits
//! (`Method::fast_exception_handler_bci_for`). To compare types, it resolves the row's catch
//! type. If resolution fails (no such class, no access), the error replaces the exception. The
//! VM then looks for a handler of the error as if the first bytecode of the row's handler had
//! thrown it (`InterpreterRuntime::exception_handler_for_exception`; JVMS leaves this open,
//! JDK-4307310). That search may fail in the same way.

use jportal_bytecode::{ExceptionRow, Method};
use jportal_units::Bci;

/// The rows that the VM examines for an exception thrown at `at`: up to the first one that
/// catches every exception.
fn rows(m: &Method, at: Bci) -> impl Iterator<Item = &ExceptionRow> {
    let mut open = true;
    let covering = m.exceptions.iter().filter(move |e| (e.start..e.end).contains(&at));
    covering.take_while(move |e| std::mem::replace(&mut open, e.catch_type.is_some()))
}

/// Whether the VM may choose the handler at `handler` for an exception thrown at `at`, or for
/// an error that replaced it.
pub(crate) fn may_choose(m: &Method, at: Bci, handler: Bci) -> bool {
    let mut thrown_at = vec![at];
    let mut next = 0;
    while let Some(&at) = thrown_at.get(next) {
        next += 1;
        for row in rows(m, at) {
            if row.handler == handler {
                return true;
            }
            // Resolving the type of this row may fail. Each handler is examined once.
            if row.catch_type.is_some() && !thrown_at.contains(&row.handler) {
                thrown_at.push(row.handler);
            }
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(rows: &[(u16, u16, u16, Option<&str>)]) -> Method {
        let row = |&(start, end, handler, catch_type): &(u16, u16, u16, Option<&str>)| ExceptionRow {
            start: Bci(start),
            end: Bci(end),
            handler: Bci(handler),
            catch_type: catch_type.map(Into::into),
        };
        Method { exceptions: rows.iter().map(row).collect(), ..crate::testing::method("m") }
    }
    fn chosen(m: &Method, at: u16) -> Vec<u16> {
        (0..100).filter(|&h| may_choose(m, Bci(at), Bci(h))).collect()
    }

    #[test]
    fn an_error_of_the_search_is_thrown_at_the_handler() {
        let m = table(&[(0, 3, 10, Some("A")), (10, 12, 20, Some("B")), (20, 22, 30, None)]);
        // The search may fail twice.
        assert_eq!(chosen(&m, 0), [10, 20, 30]);
        assert_eq!(chosen(&m, 10), [20, 30]);
        assert_eq!(chosen(&m, 5), []);
    }

    #[test]
    fn nothing_after_a_row_that_takes_all_is_looked_at() {
        let m = table(&[(0, 3, 10, None), (0, 3, 20, Some("A")), (10, 12, 30, None)]);
        assert_eq!(chosen(&m, 0), [10]);
    }

    #[test]
    fn a_handler_that_covers_itself_ends_the_search() {
        let m = table(&[(0, 12, 10, Some("A"))]);
        assert_eq!(chosen(&m, 0), [10]);
    }
}
