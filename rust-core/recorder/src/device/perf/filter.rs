// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! The filter of PT: the code cache and nothing else.
//!
//! Every kernel since 5.18 accepts a plain address range. Earlier kernels filter only ranges of
//! files in user mode; there the code cache must be a mapping of a file, a memfd, which
//! `/proc/self/fd` names (`perf_event_parse_addr_filter`). The form is found by trying it, not
//! from the kernel's release, because distributions backport changes.

use super::open::{CoreEvents, OpenEvent};
use super::{Host, Level};
use crate::error::Error;
use jportal_capture::FilterRange;
use jportal_perf_abi::kernel::Control;
use jportal_perf_abi::pmu::PtPmu;
use jportal_perf_abi::refusal::{Cause, Request};
use jportal_perf_abi::{PAGE_SIZE, Refusal};
use std::ffi::CString;
use std::os::fd::RawFd;

/// Whether the kernel refuses a plain range because it is one. Tried on an event that does not
/// run yet; [`set`] replaces the range.
pub(super) fn needs_file(host: &Host, pmu: &PtPmu, pt: &OpenEvent) -> bool {
    if pmu.address_filters == 0 {
        return false;
    }
    let page = format!("filter {PAGE_SIZE:#x}/{PAGE_SIZE:#x}");
    set_one(host, pt, &page).is_err_and(|r| r.cause == Cause::Filter)
}

/// Sets the filter on every core's event, before the events are enabled. An empty list means
/// that nothing is filtered out.
pub(super) fn set(
    host: &Host,
    pmu: &PtPmu,
    cores: &[CoreEvents],
    (low, high): (u64, u64),
    file: Option<RawFd>,
) -> Result<Vec<FilterRange>, Error> {
    if pmu.address_filters == 0 {
        return Ok(unfiltered(host, "this processor has no address filters (they came with Skylake)"));
    }
    let size = high - low;
    let plain = format!("filter {low:#x}/{size:#x}");
    let of_file = file.map(|fd| format!("filter 0x0/{size:#x}@/proc/self/fd/{fd}"));
    for text in [Some(plain), of_file].into_iter().flatten() {
        match set_all(host, cores, &text) {
            Ok(()) => return Ok(vec![FilterRange { low, high }]),
            Err(r) if r.cause == Cause::Filter => host.log.line(Level::Info, &r.to_string()),
            Err(r) => return Err(r.into()),
        }
    }
    let release = &host.machine.release;
    let why = match file {
        Some(_) => format!("Linux {release} takes neither the range of the code cache nor that of its file"),
        None => format!(
            "Linux {release} filters ranges of files only (plain ranges since 5.18), and the code cache is anonymous memory (see \
             -XX:JPortalCodeCache)"
        ),
    };
    Ok(unfiltered(host, &why))
}

fn set_all(host: &Host, cores: &[CoreEvents], text: &str) -> Result<(), Refusal> {
    cores.iter().flat_map(CoreEvents::pts).try_for_each(|pt| set_one(host, pt, text))
}

fn set_one(host: &Host, pt: &OpenEvent, text: &str) -> Result<(), Refusal> {
    // The text contains only a path and numbers, hence no NUL.
    let filter = CString::new(text).unwrap_or_default();
    let set = pt.control(Control::SetFilter(&filter));
    set.map_err(|e| host.refusal(Request::SetFilter { text: text.to_owned() }, &e))
}

fn unfiltered(host: &Host, why: &str) -> Vec<FilterRange> {
    let cost = "all user code of this process is traced, libjvm, libc and natives too: many times the data and the losses, and what \
                runs outside of the code cache cannot be decoded, so that each stay there is a gap";
    host.log.line(Level::Warning, &format!("no filter: {why}. {cost}"));
    Vec::new()
}
