// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! The thread that moves the export ring into the capture. Only this thread creates and ends
//! the file, so that every `write(2)` happens with signals blocked.

use crate::error::Error;
use crate::ring::Ring;
use crate::session::Session;
use crate::sys;
use crate::trimmer::Trimmer;
use jportal_capture::frames::FrameTracker;
use jportal_capture::{CaptureWriter, Earlier};
use jportal_units::Tsc;
use std::fs::File;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long the consumer sleeps unless it is woken. A quarter-full ring wakes it.
const NAP: Duration = Duration::from_millis(10);
/// How often the consumer looks whether the file is still there. While trace is written, each chunk
/// looks.
const LOOK: Duration = Duration::from_millis(500);
/// Largest piece written at once.
const PIECE: usize = 1 << 20;
/// Largest piece written at once after a failure, when the disk may be nearly full.
const SMALL_PIECE: usize = 16 << 10;

/// Creates the capture, unless it is `file`, and writes its header.
pub(crate) fn create(session: &Session, file: Option<File>) -> Result<(), Error> {
    let refused = |source| Error::Capture { path: session.path.clone(), source };
    let is_new = file.is_none();
    let writer = match file {
        Some(file) => CaptureWriter::create_from_file(file),
        None => CaptureWriter::create_safely(&session.path, Earlier::Rename, sys::user()).map(|(w, _)| w),
    };
    let writer = writer.map_err(refused)?;
    if let Some(identity) = writer.identity() {
        session.ring.belongs_to(identity);
    }
    session.set_writer(writer);
    if session.write_header() {
        return Ok(());
    }
    if is_new {
        let _ = std::fs::remove_file(&session.path);
    }
    // `append` has reported the failure; the caller gets the same text.
    Err(Error::Unwritable(session.failure().unwrap_or_default()))
}

/// Moves records until the ring is closed and empty.
pub(crate) fn run(session: &Arc<Session>) {
    let mut trimmer = Trimmer::new(session);
    move_all(session, &mut trimmer);
    trimmer.end();
}

fn move_all(session: &Arc<Session>, trimmer: &mut Trimmer) {
    let ring = &session.ring;
    let mut described = 0;
    let mut piece = Vec::new();
    if piece.try_reserve_exact(PIECE).is_err() {
        return session.fail(&Error::Capture {
            path: session.path.clone(),
            source: jportal_capture::Error::Memory { bytes: PIECE as u64 },
        });
    }
    let Some(mut frames) = session.frames() else { return };
    let mut looked = Instant::now();
    loop {
        if ring.is_lost() {
            return session.fail(&Error::RingLost { path: ring.path().unwrap_or(&session.path).to_owned() });
        }
        let last = !ring.is_open();
        session.look_at_reserve();
        session.write_header();
        trimmer.look(session);
        if ring.left() > 0 {
            if !move_records(session, &mut frames, PIECE, &mut piece, Session::append_records) {
                return;
            }
        } else if last && !ring.is_crashed() {
            return;
        } else {
            // The mark says until when the metadata is complete, so that a reader of a capture
            // that was cut off knows up to which time its trace can be decoded.
            if looked.elapsed() >= LOOK {
                looked = Instant::now();
                session.append_metadata(|w| w.look());
            }
            let chunks = session.written().chunks;
            if let Some(tsc) = ring.complete_until().filter(|_| chunks != described) {
                session.append_metadata(|w| w.described(Tsc(tsc)));
                described = session.written().chunks;
            }
            std::thread::park_timeout(NAP);
        }
    }
}

/// Moves the oldest records, at most `limit` bytes of them, into the capture with `append`.
/// `frames` has the record boundaries of what is there. Returns whether the capture accepts more.
fn move_records(
    session: &Session,
    frames: &mut FrameTracker,
    limit: usize,
    piece: &mut Vec<u8>,
    append: impl FnOnce(&Session, &[u8]) -> bool,
) -> bool {
    let after = match read_records(&session.ring, *frames, limit, piece) {
        Ok(after) => after,
        Err(e) => return session.break_off(e),
    };
    if !append(session, piece) {
        return false;
    }
    *frames = after;
    session.ring.free(piece.len());
    true
}

/// Reads the oldest records, at most `limit` bytes of them, into `piece`, and returns the
/// boundaries after them. A record is cut only if it is longer than [`PIECE`]: the disk may be full
/// after this piece.
fn read_records(
    ring: &Ring,
    mut frames: FrameTracker,
    limit: usize,
    piece: &mut Vec<u8>,
) -> Result<FrameTracker, jportal_capture::Error> {
    for limit in [limit, PIECE] {
        piece.clear();
        ring.read(piece, limit).map_err(|_| jportal_capture::Error::Memory { bytes: limit as u64 })?;
        if let Some(end) = frames.end_of_records(piece)? {
            piece.truncate(end);
            break;
        }
    }
    if ring.is_lost() {
        // What was read may be zeros.
        piece.clear();
    }
    frames.pass(piece)?;
    Ok(frames)
}

/// After a failed recording, writes the records committed by then, as far as they fit. The
/// trace in the file may need them.
pub(crate) fn save(session: &Session) {
    let ring = &session.ring;
    if session.failure().is_none() || ring.is_crashed() || ring.is_lost() {
        return;
    }
    let Some(mut frames) = session.frames() else { return };
    // Waits for the record that is being written.
    ring.close();
    let mut piece = Vec::new();
    while ring.left() > 0 {
        let append = Session::append_records_after_failure;
        if !move_records(session, &mut frames, SMALL_PIECE, &mut piece, append) {
            return;
        }
    }
    if !ring.is_lost() {
        session.append_after_failure(|w| w.described(Tsc(u64::MAX)));
    }
}
