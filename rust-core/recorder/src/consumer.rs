// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! The thread that moves the export ring into the capture. Only this thread creates and ends
//! the file, so that every `write(2)` happens with signals blocked.

use crate::error::Error;
use crate::ring::Ring;
use crate::session::Session;
use crate::sys;
use jportal_capture::header::sources;
use jportal_capture::{CaptureWriter, Earlier};
use jportal_units::Tsc;
use std::fs::File;
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
    let mut writer = writer.map_err(refused)?;
    if let Some(identity) = writer.identity() {
        session.ring.belongs_to(identity);
    }
    if session.device.config().source == sources::EMULATED {
        writer.checksum_by_table();
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
pub(crate) fn run(session: &Session) {
    let ring = &session.ring;
    let mut described = 0;
    let mut piece = Vec::new();
    if piece.try_reserve_exact(PIECE).is_err() {
        return session.fail(&Error::Capture {
            path: session.path.clone(),
            source: jportal_capture::Error::Memory { bytes: PIECE as u64 },
        });
    }
    let mut looked = Instant::now();
    loop {
        if ring.is_lost() {
            return session.fail(&Error::RingLost { path: ring.path().unwrap_or(&session.path).to_owned() });
        }
        let last = !ring.is_open();
        session.look_at_reserve();
        session.write_header();
        if ring.left() > 0 {
            let mut n = 0;
            let put = session.append_metadata(|w| {
                n = put_records(w, ring, PIECE, &mut piece)?;
                Ok(())
            });
            if !put {
                return;
            }
            ring.free(n);
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

/// Appends the oldest records, at most `limit` bytes of them, and returns their length. A record is
/// cut only if it is longer than [`PIECE`]: the disk may be full after this piece.
fn put_records(
    writer: &mut CaptureWriter,
    ring: &Ring,
    limit: usize,
    piece: &mut Vec<u8>,
) -> Result<usize, jportal_capture::Error> {
    for limit in [limit, PIECE] {
        piece.clear();
        ring.read(piece, limit).map_err(|_| jportal_capture::Error::Memory { bytes: limit as u64 })?;
        if let Some(end) = writer.whole_records(piece)? {
            piece.truncate(end);
            break;
        }
    }
    if ring.is_lost() {
        // What was read may be zeros.
        return Ok(0);
    }
    writer.metadata(piece)?;
    Ok(piece.len())
}

/// After a failed recording, writes the records committed by then, as far as they fit. The
/// trace in the file may need them.
pub(crate) fn save(session: &Session) {
    let ring = &session.ring;
    if session.failure().is_none() || ring.is_crashed() || ring.is_lost() {
        return;
    }
    // Waits for the record that is being written.
    ring.close();
    let mut piece = Vec::new();
    while ring.left() > 0 {
        let mut n = 0;
        let put = session.append_after_failure(|w| {
            n = put_records(w, ring, SMALL_PIECE, &mut piece)?;
            Ok(())
        });
        if !put {
            return;
        }
        ring.free(n);
    }
    if !ring.is_lost() {
        session.append_after_failure(|w| w.described(Tsc(u64::MAX)));
    }
}
