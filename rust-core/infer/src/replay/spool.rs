// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! Storage for the events of a thread until its gaps can be filled.

use crate::Error;
use crate::replay::codec::{Decoder, Encoder};
use jportal_flow::{Event, Sender, bounded};
use std::io::{self, Read, Seek, SeekFrom, Write};

/// The medium of a `Spool`: a nameless temporary file, or memory.
pub trait Storage: Read + Write + Seek + Send {}

impl<T: Read + Write + Seek + Send> Storage for T {}

/// The size of one write and one read, in bytes.
const BLOCK: usize = 1 << 17;
/// The maximum number of events that are read ahead of their consumer.
const AHEAD: usize = 1 << 18;

/// The events of one thread: first they are written, then read.
pub(crate) struct Spool {
    tid: u32,
    storage: Box<dyn Storage>,
    encoder: Encoder,
    block: Vec<u8>,
    /// The lengths of the blocks written: each holds whole events.
    blocks: Vec<usize>,
    /// Bytes written.
    written: u64,
}

impl Spool {
    /// An empty spool.
    pub(crate) fn new(tid: u32, storage: Box<dyn Storage>) -> Self {
        let block = Vec::with_capacity(BLOCK + 256);
        Self { tid, storage, encoder: Encoder::default(), block, blocks: Vec::new(), written: 0 }
    }
    /// Appends an event.
    pub(crate) fn write(&mut self, event: &Event) -> Result<(), Error> {
        self.encoder.event(event, &mut self.block);
        if self.block.len() >= BLOCK { self.flush() } else { Ok(()) }
    }
    fn flush(&mut self) -> Result<(), Error> {
        let (tid, at) = (self.tid, self.written);
        let written = self.storage.write_all(&self.block).and_then(|()| self.storage.flush());
        written.map_err(|source| Error::Write { tid, at, source })?;
        self.written += self.block.len() as u64;
        self.blocks.push(self.block.len());
        self.block.clear();
        Ok(())
    }
    /// Ends the writing.
    pub(crate) fn close(&mut self) -> Result<(), Error> {
        self.flush()?;
        self.block = Vec::new();
        Ok(())
    }
    /// The number of bytes written.
    pub(crate) const fn len(&self) -> u64 {
        self.written
    }
    /// Passes all events to `each` in order, some thousand at once. Another thread reads and
    /// decodes them, some blocks ahead.
    pub(crate) fn read(mut self, each: impl FnMut(Vec<Event>)) -> Result<(), Error> {
        std::thread::scope(|scope| {
            let (send, receive) = bounded(AHEAD);
            let reader = scope.spawn(move || self.decode(&send));
            receive.iter().for_each(each);
            reader.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    }
    /// Sends the events block by block, until a read fails or the receiver is gone.
    fn decode(&mut self, to: &Sender<Vec<Event>>) -> Result<(), Error> {
        let tid = self.tid;
        let failed = |event| move |source: io::Error| Error::Read { tid, event, source };
        self.storage.seek(SeekFrom::Start(0)).map_err(failed(0))?;
        let (mut decoder, mut block, mut number) = (Decoder::default(), Vec::new(), 0);
        for len in &self.blocks {
            block.resize(*len, 0);
            self.storage.read_exact(&mut block).map_err(failed(number))?;
            let (mut input, mut events) = (&block[..], Vec::with_capacity(*len));
            while !input.is_empty() {
                events.push(decoder.event(&mut input).map_err(failed(number))?);
                number += 1;
            }
            let len = events.len();
            if to.send(events, len).is_err() {
                break;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use jportal_flow::EventKind;
    use jportal_units::Tsc;
    use std::fs::{File, OpenOptions};
    use std::io::Cursor;

    fn time(t: u64) -> Event {
        Event::decoded(EventKind::Time(Tsc(t)))
    }

    #[test]
    fn events_are_read_in_order() {
        for storage in
            [Box::new(Cursor::new(Vec::new())) as Box<dyn Storage>, Box::new(tempfile::tempfile().unwrap())]
        {
            let mut spool = Spool::new(1, storage);
            // Several blocks.
            (0..200_000).for_each(|i| spool.write(&time(i * i)).unwrap());
            spool.close().unwrap();
            assert!(spool.len() > BLOCK as u64);
            let mut n = 0;
            spool
                .read(|events| {
                    for e in events {
                        assert_eq!(e, time(n * n));
                        n += 1;
                    }
                })
                .unwrap();
            assert_eq!(n, 200_000);
        }
    }

    #[test]
    fn a_full_disk_is_an_error_with_its_place() {
        let full: File = OpenOptions::new().read(true).write(true).open("/dev/full").unwrap();
        let mut spool = Spool::new(7, Box::new(full));
        let failed = (0..1_000_000).find_map(|i| spool.write(&time(i)).err()).unwrap();
        let Error::Write { tid: 7, at: 0, source } = failed else { panic!("{failed}") };
        assert_eq!(source.kind(), io::ErrorKind::StorageFull);
        // Events that do not fill a block are written at the close.
        let full: File = OpenOptions::new().read(true).write(true).open("/dev/full").unwrap();
        let mut spool = Spool::new(7, Box::new(full));
        spool.write(&time(1)).unwrap();
        assert!(matches!(spool.close(), Err(Error::Write { .. })));
    }

    #[test]
    fn what_was_cut_off_is_an_error() {
        let mut spool = Spool::new(3, Box::new(Cursor::new(Vec::new())));
        (0..10).for_each(|i| spool.write(&time(i)).unwrap());
        spool.close().unwrap();
        spool.blocks.push(1);
        let mut events = 0;
        let failed = spool.read(|all| events += all.len()).unwrap_err();
        let Error::Read { tid: 3, event: 10, source } = failed else { panic!("{failed}") };
        assert_eq!(events, 10);
        assert_eq!(source.kind(), io::ErrorKind::UnexpectedEof);
    }
}
