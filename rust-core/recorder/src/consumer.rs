//! The thread that moves the export ring into the capture. It alone creates the file and ends
//! it, so that every `write(2)` happens with signals blocked.

use crate::error::Error;
use crate::session::Session;
use jportal_capture::CaptureWriter;
use jportal_capture::header::sources;
use std::time::Duration;

/// How long the consumer sleeps when nobody wakes it; a quarter-full ring does.
const NAP: Duration = Duration::from_millis(10);
/// Largest piece written at once.
const PIECE: usize = 1 << 20;

/// Creates the capture and writes its header.
pub(crate) fn create(session: &Session) -> Result<(), Error> {
    let refused = |source| Error::Capture { path: session.path.clone(), source };
    let mut writer = CaptureWriter::create(&session.path).map_err(refused)?;
    if session.device.config().source == sources::EMULATED {
        writer.checksum_by_table();
    }
    session.set_writer(writer);
    if session.write_header() {
        return Ok(());
    }
    // The failure is already told; give the caller the same words.
    Err(Error::Unwritable(session.failure().unwrap_or_default()))
}

/// Moves records until the ring is closed and empty.
pub(crate) fn run(session: &Session) {
    let ring = &session.ring;
    let mut piece = Vec::new();
    loop {
        let last = !ring.is_open();
        session.write_header();
        piece.clear();
        let n = ring.read(&mut piece, PIECE);
        if n > 0 {
            if !session.append(|w| w.metadata(&piece)) {
                return;
            }
            ring.free(n);
        } else if last && !ring.is_crashed() {
            return;
        } else {
            std::thread::park_timeout(NAP);
        }
    }
}
