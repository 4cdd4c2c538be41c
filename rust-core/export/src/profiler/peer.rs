// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! A profiler's process for tests: reads the stream with code of its own, and adds up what it
//! says.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;

use fastrand::Rng;

/// Invocations and bytecodes by path.
pub(super) type Sums = BTreeMap<String, (i64, u64)>;

/// What the process saw.
#[derive(Default, Debug)]
pub(super) struct SeenByPeer {
    /// All reports of all threads.
    pub(super) sums: Sums,
    /// For each report the thread, what was added to it, and the granularity that it ended.
    pub(super) reports: Vec<(usize, u64, u32)>,
    pub(super) names: Vec<String>,
    pub(super) threads: Vec<String>,
    pub(super) ended: usize,
    pub(super) exact: Option<bool>,
    pub(super) reason: String,
}

/// What the process does otherwise than a working one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum PeerFault {
    None,
    /// Fails in this report.
    Fails(usize),
    /// Closes the stream in this report.
    Closes(usize),
    /// Answers this byte in the first report.
    Answers(u8),
    /// Answers this granularity, of one byte.
    Granularity(u8),
}

struct PeerStream(UnixStream);

impl PeerStream {
    fn byte(&mut self) -> Option<u8> {
        let mut one = [0];
        self.0.read_exact(&mut one).ok().map(|()| one[0])
    }
    fn number(&mut self) -> u64 {
        let byte = self.byte().unwrap();
        if byte < 0x80 { byte.into() } else { u64::from(byte - 0x80) + (self.number() << 7) }
    }
    fn signed(&mut self) -> i64 {
        let n = self.number();
        if n.is_multiple_of(2) { (n / 2) as i64 } else { -(n.div_ceil(2) as i64) }
    }
    fn text(&mut self) -> String {
        let mut text = vec![0; self.number() as usize];
        self.0.read_exact(&mut text).unwrap();
        String::from_utf8(text).unwrap()
    }
    fn granularity(&mut self, value: u32) {
        let mut bytes = vec![1];
        let mut rest = value;
        while rest > 0x7f {
            bytes.push(rest as u8 | 0x80);
            rest >>= 7;
        }
        bytes.push(rest as u8);
        self.0.write_all(&bytes).unwrap();
    }
}

/// Plays the process until the stream ends.
pub(super) fn play(stream: UnixStream, seed: u64, fault: PeerFault) -> SeenByPeer {
    let (mut stream, mut rng, mut seen) = (PeerStream(stream), Rng::with_seed(seed), SeenByPeer::default());
    let mut head = [0; 8];
    stream.0.read_exact(&mut head).unwrap();
    assert_eq!((&head, stream.number()), (b"JPREPLAY", 1));
    stream.0.write_all(b"JPREPLAY\x01\x00").unwrap();
    let (mut nodes, mut granularities) = (Vec::<Vec<String>>::new(), Vec::<u32>::new());
    let next = |rng: &mut Rng| {
        let bits = rng.u32(1..12);
        if seed == 0 { 1 } else { rng.u32(1..1 << bits) }
    };
    while let Some(kind) = stream.byte() {
        match kind {
            1 => {
                let (class, loader, method) = (stream.text(), stream.text(), stream.text());
                seen.names.push(format!("{loader}:{class}.{method}"));
            }
            2 => {
                let label = stream.text();
                seen.names.push(label);
            }
            3 => {
                let name = stream.text();
                seen.threads.push(format!("{name} {} {}", stream.number(), stream.number()));
                nodes.push(vec![String::new()]);
                granularities.push(next(&mut rng));
                stream.granularity(granularities[granularities.len() - 1]);
            }
            4 => {
                let thread = stream.number() as usize;
                for _ in 0..stream.number() {
                    let (caller, name) = (stream.number() as usize, stream.number() as usize);
                    let path = format!("{} > {}", nodes[thread][caller], seen.names[name]);
                    nodes[thread].push(path);
                }
                let (mut node, mut bytecodes) = (0, 0);
                for _ in 0..stream.number() {
                    node += stream.number() as usize;
                    let (invocations, executed) = (stream.signed(), stream.number());
                    let sum = seen.sums.entry(nodes[thread][node].clone()).or_default();
                    *sum = (sum.0 + invocations, sum.1 + executed);
                    bytecodes += executed;
                    node += 1;
                }
                assert!((stream.number() as usize) < nodes[thread].len(), "the current node");
                let before = granularities[thread];
                seen.reports.push((thread, bytecodes, before));
                let number = seen.reports.len();
                match fault {
                    PeerFault::Fails(n) if n == number => {
                        stream.0.write_all(b"\x02\x0bit is \xffbroken").unwrap();
                        return seen;
                    }
                    PeerFault::Closes(n) if n == number => return seen,
                    PeerFault::Answers(byte) => stream.0.write_all(&[byte]).unwrap(),
                    PeerFault::Granularity(n) => stream.0.write_all(&[1, n]).unwrap(),
                    _ => {
                        granularities[thread] = next(&mut rng);
                        stream.granularity(granularities[thread]);
                    }
                }
            }
            5 => {
                stream.number();
                seen.ended += 1;
            }
            6 => {
                seen.exact = Some(stream.byte() == Some(1));
                seen.reason = stream.text();
                stream.0.write_all(&[3]).unwrap();
            }
            other => panic!("a message of kind {other}"),
        }
    }
    seen
}
