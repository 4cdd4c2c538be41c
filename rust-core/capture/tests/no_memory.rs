// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! A trimming for which there is too little memory is an error. In a VM, an allocation that cannot
//! be refused would end the process, as it ends this one.

mod common;

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::ptr::{NonNull, null_mut};

use allocator_api2::alloc::{AllocError, Allocator};
use jportal_capture::schema::{BlobDefined, NMethodInstalled, Scope, ThreadStarted};
use jportal_capture::{CaptureWriter, Error, Record, Stamped, TrimmedCopy, encode_frame};
use jportal_units::{Core, StreamOffset, Tsc};

thread_local! {
    /// What this thread may still have, without what it gives back.
    static LEFT: Cell<usize> = const { Cell::new(usize::MAX) };
}

struct Limited;

#[global_allocator]
static HEAP: Limited = Limited;

// SAFETY: memory comes from `System`, and goes back there.
unsafe impl GlobalAlloc for Limited {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let Some(left) = LEFT.get().checked_sub(layout.size()) else { return null_mut() };
        LEFT.set(left);
        // SAFETY: passed on from the caller.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        LEFT.set(LEFT.get().saturating_add(layout.size()));
        // SAFETY: it came from `System`.
        unsafe { System.dealloc(memory, layout) };
    }
}

/// Refuses when it has been asked as often as this.
#[derive(Clone)]
struct Refusing<'a>(&'a Cell<usize>);

// SAFETY: memory comes from `System`, and goes back there, whichever copy is asked.
unsafe impl Allocator for Refusing<'_> {
    fn allocate(&self, layout: Layout) -> Result<NonNull<[u8]>, AllocError> {
        self.0.set(self.0.get().checked_sub(1).ok_or(AllocError)?);
        Allocator::allocate(&System, layout)
    }

    unsafe fn deallocate(&self, memory: NonNull<u8>, layout: Layout) {
        // SAFETY: passed on from the caller.
        unsafe { Allocator::deallocate(&System, memory, layout) };
    }
}

struct Recorded {
    folder: tempfile::TempDir,
    writer: CaptureWriter,
}

impl Recorded {
    fn new(records: impl Iterator<Item = Record>) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut writer = CaptureWriter::create(&folder.path().join("a")).unwrap();
        writer.header(&common::header()).unwrap();
        let mut bytes = Vec::new();
        for record in records {
            encode_frame(&Stamped { tsc: 1, record }, &mut bytes);
        }
        writer.metadata(&bytes).unwrap();
        Self { folder, writer }
    }

    /// Trims the capture, with `heap` bytes for what is not in `memory`.
    fn trim<A: Allocator + Clone>(&self, heap: usize, memory: A) -> Result<TrimmedCopy<A>, Error> {
        let path: PathBuf = self.folder.path().join("a.trim");
        let user = std::fs::metadata(self.folder.path()).unwrap().uid();
        let present = self.writer.copy().unwrap();
        LEFT.set(heap);
        let copy = present.trimmed_to(&path, user, Tsc(100), &|| true, memory);
        LEFT.set(usize::MAX);
        copy
    }

    fn files(&self) -> usize {
        std::fs::read_dir(self.folder.path()).unwrap().count()
    }
}

fn blob(start: u64, bytes: usize) -> Record {
    Record::BlobDefined(BlobDefined { start, code: vec![1; bytes][..].into(), ..BlobDefined::default() })
}

#[test]
fn tables_are_not_on_the_heap() {
    let recorded = Recorded::new((0..50_000).map(|n| blob(0x1000 * n * 7_919 % 0x100_0000_0000, 8)));
    recorded.trim(256 << 10, System).unwrap();
}

#[test]
fn a_record_that_is_too_long_for_the_heap_is_an_error() {
    let scopes = vec![Scope::default(); 100_000];
    let nmethod = NMethodInstalled { start: 0x1000, scopes, ..NMethodInstalled::default() };
    let name = "n".repeat(2 << 20);
    let thread = ThreadStarted { tid: 7, name: name.as_str().into(), ..ThreadStarted::default() };
    for long in [blob(0x1000, 2 << 20), Record::NMethodInstalled(nmethod), Record::ThreadStarted(thread)] {
        let recorded = Recorded::new(std::iter::once(long));
        let refused = recorded.trim(256 << 10, System).unwrap_err();
        assert!(matches!(refused, Error::Memory { bytes } if bytes > 128 << 10), "{refused}");
        assert_eq!(recorded.files(), 1);
        recorded.trim(8 << 20, System).unwrap();
    }
}

#[test]
fn whichever_table_gets_no_memory_it_is_an_error() {
    let recorded = Recorded::new(
        (0..3000).map(|n| blob(0x1000 * n, 8)).chain(common::records().into_iter().map(|r| r.record)),
    );
    let mut refused = 0;
    while let Err(e) = recorded.trim(256 << 10, Refusing(&Cell::new(refused))) {
        assert!(matches!(e, Error::Memory { .. }), "{e}");
        assert_eq!(recorded.files(), 1);
        refused += 1;
    }
    assert!(refused > 30, "{refused}");
}

/// The table of the cores' streams may have 65536 rows.
#[test]
fn a_table_of_many_cores_that_gets_no_memory_is_an_error() {
    let mut recorded = Recorded::new(common::records().into_iter().map(|r| r.record));
    let mut copy = recorded.trim(256 << 10, System).unwrap();
    recorded.writer.pt(Core(60_000), StreamOffset(0), &[7]).unwrap();
    LEFT.set(256 << 10);
    let refused = recorded.writer.copy().map(drop);
    LEFT.set(usize::MAX);
    assert!(matches!(refused, Err(Error::Memory { bytes: 960_016 })), "{refused:?}");
    let present = recorded.writer.copy().unwrap();
    LEFT.set(256 << 10);
    let refused = copy.catch_up(&present);
    LEFT.set(usize::MAX);
    assert!(matches!(refused, Err(Error::Memory { bytes: 960_016 })), "{refused:?}");
}
