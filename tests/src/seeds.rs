// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

//! First inputs for the fuzz targets (`rust-core/fuzz`), from small captures: a target that begins
//! with nothing spends its time on the magic number.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use jportal_capture::CaptureReader;
use jportal_capture::ring_file;
use jportal_perf_abi::emulated::{EmulatedUnit, Mode, UnitConfig};

use crate::mutate::{Model, Part, write_sample};
use crate::{Result, process};

/// How long a command may take on the small capture.
const LIMIT: Duration = Duration::from_secs(60);
/// The longest seed.
const LONGEST: usize = 16 << 10;
/// Seeds of each kind of record of a real capture.
const EACH: usize = 6;
/// Pieces of each core of a real capture.
const PIECES: usize = 20;
/// Bytes of a ring file's first page that inputs have: all that is used.
const RING_HEAD: usize = 200;

const COMPILATION_LOG: &str = "<hotspot_log><tty>
<task_queued compile_id='1' method='T f (I)V' comment='tiered' stamp='0.1'/>
<nmethod compile_id='1' compiler='c2' level='4' method='T f (I)V' stamp='0.15'/>
<uncommon_trap thread='9' reason='class_check' action='maybe_recompile' compile_id='1' level='4' stamp='0.3'>
<jvms bci='4' method='T f (I)V'/></uncommon_trap>
<make_not_entrant thread='9' compile_id='1' compiler='c2' level='4' stamp='0.3'/>
</tty><compilation_log thread='8'>
<task compile_id='1' method='T f (I)V' stamp='0.12'><type id='1' name='void'/><type id='2' name='int'/><klass id='3' name='T'/>
<method id='4' holder='3' name='f' return='1' arguments='2'/>
<parse method='4'><bc code='154' bci='2'/><branch target_bci='7' taken='1' not_taken='2' cnt='3' prob='0.3'/>
<bc code='184' bci='5'/><call method='4' count='-1' prof_factor='1' inline='1'/><inline_fail reason='recursive'/></parse>
<failure reason='x' phase='parse'/><task_done success='1' stamp='0.2'/></task></compilation_log><hotspot_log_done stamp='1'/></hotspot_log>";

/// What `jfr print --json` prints of one sample.
const JFR_SAMPLE: &str = r#"{"recording": {"events": [{"type": "jdk.ExecutionSample", "values": {
  "startTime": "2026-11-28T10:00:00.000000001Z", "sampledThread": {"osThreadId": 7, "javaName": "main"},
  "stackTrace": {"truncated": false, "frames": [{"method": {"type": {"name": "A"}, "name": "f",
  "descriptor": "(I)I"}, "bytecodeIndex": 3, "type": "Interpreted"}]}}}]}}"#;

/// The plan of the methods of the target `witness`, and a log: `f` begins, calls `g` twice, and
/// returns.
const WITNESS_PLAN: &str = "\
id\tkind\tclass\tmethod\tdescriptor\tbci\tlogged\tchecked\ttargets
0\tcall\tA\tf\t(I)I\t0\t1\t0\t4
1\treturn\tA\tf\t(I)I\t8\t1\t0\t
2\texit\tA\tf\t(I)I\t\t\t\t
3\treturn\tA\tg\t(I)I\t1\t0\t0\t
4\texit\tA\tg\t(I)I\t\t\t\t
";
const WITNESS: [u32; 5] = [0x9020_0000, 2, 0, 0, 1];

const JACOCO_LISTING: &str = "jacoco\t0.8.6\nclass\ta/B\tran\nmethod\tf\t(I)I\t5 6 1 2\tL 1 J4 P0+ 1 K5:1+ L 1 P2- R3+ S t1:2:3+\ti0:2 r1:4:5 m1:2\n\
    method\tg\t()V\t-\tinlined\t-\nclass\tc/D\tfailed\twhy\nclass\tE\tsilent\n";

/// A record `MethodFreed`: length, kind, time and body.
const FRAME: &[u8] = &[24, 0, 0, 0, 12, 0, 0, 0, 1, 1, 0, 0, 0, 0, 0, 0, 9, 0, 0, 0, 0, 0, 0, 0];

/// Where seeds go: a folder for each target.
struct Corpus {
    root: PathBuf,
    written: usize,
}

impl Corpus {
    /// Seeds have names of their own, so that the same call writes the same files again.
    fn add(&mut self, target: &str, name: &str, bytes: &[u8]) -> Result<()> {
        let folder = self.root.join(target);
        fs::create_dir_all(&folder)?;
        fs::write(folder.join(format!("seed-{name}")), &bytes[..bytes.len().min(LONGEST)])?;
        self.written += 1;
        Ok(())
    }
    /// A seed of two parts: the length of the first one is at the end.
    fn add_two(&mut self, target: &str, name: &str, first: &[u8], second: &[u8]) -> Result<()> {
        let len = (first.len() as u32).to_le_bytes();
        self.add(target, name, &[first, second, &len].concat())
    }
    /// A capture, for the targets that take one. Whether its last byte is even decides whether a
    /// target makes its checksums right.
    fn add_capture(&mut self, name: &str, bytes: &[u8]) -> Result<()> {
        for target in ["capture", "degrade", "perf_export"] {
            self.add(target, name, &[bytes, &[0]].concat())?;
        }
        for (n, options) in (0..=7).map(|kind| (kind << 3) | (kind % 8)).enumerate() {
            self.add("whole", &format!("{name}-{n}"), &[bytes, &[0, options]].concat())?;
        }
        Ok(())
    }
}

/// Writes seeds for all targets to folders in `to`, from the sample capture and from `captures`.
/// Returns their number. `jportal` is the command.
///
/// # Errors
/// If a capture cannot be read, a seed cannot be written, or the command fails on the sample.
pub fn write(to: &Path, jportal: &Path, captures: &[PathBuf]) -> Result<usize> {
    let mut corpus = Corpus { root: to.to_owned(), written: 0 };
    let folder = tempfile::tempdir()?;
    let sample = folder.path().join("sample.jportal");
    write_sample(&sample)?;
    corpus.add_capture("sample", &fs::read(&sample)?)?;
    let mut model = Model::read(&sample)?;
    model.complete()?;
    let complete = model.file(&model.chunks());
    corpus.add_capture("complete", &complete)?;
    parts(&mut corpus, "sample", &model)?;
    streams(&mut corpus, "sample", &sample)?;
    ring(&mut corpus, &sample, &complete)?;
    results(&mut corpus, jportal, &sample, folder.path())?;
    unit(&mut corpus, folder.path())?;
    corpus.add("compilation_log", "log", COMPILATION_LOG.as_bytes())?;
    corpus.add("jacoco_listing", "listing", JACOCO_LISTING.as_bytes())?;
    corpus.add("profile", "collapsed", b"java/lang/Thread.run;A.f_[j];A.g 7\nA.f 1\n")?;
    corpus.add("profile", "jfr", JFR_SAMPLE.as_bytes())?;
    let words: Vec<u8> = WITNESS.iter().flat_map(|word| word.to_le_bytes()).collect();
    corpus.add_two("witness", "loop", WITNESS_PLAN.as_bytes(), &words)?;
    let log = [&b"JPPROBE\0"[..], &[1, 0, 0, 0, 100, 0, 0, 0], &[0; 16], &[1, 0, 0, 0, 2, 0, 0, 0]].concat();
    corpus.add("probe_log", "log", &log)?;
    for (n, path) in captures.iter().enumerate() {
        let name = format!("real{n}");
        parts(&mut corpus, &name, &Model::read(path)?)?;
        streams(&mut corpus, &name, path)?;
    }
    Ok(corpus.written)
}

/// Records of metadata and sideband: the smallest of each kind, one by one and together.
fn parts(corpus: &mut Corpus, name: &str, model: &Model) -> Result<()> {
    let mut kinds = BTreeMap::<(&str, u32), Vec<&[u8]>>::new();
    for part in &model.parts {
        let (target, kind_at, all) = match part {
            Part::Metadata(all) => ("records", 4..6, all),
            Part::Sideband(_, all) => ("sideband", 0..4, all),
            Part::Other(..) => continue,
        };
        for record in all {
            let kind =
                record[kind_at.clone()].iter().rev().fold(0, |kind, byte| kind << 8 | u32::from(*byte));
            let some = kinds.entry((target, kind)).or_default();
            some.push(record);
            some.sort_by_key(|record| record.len());
            some.truncate(EACH);
        }
    }
    for (target, also) in [("records", Some("image")), ("sideband", None)] {
        let of_target = || kinds.iter().filter(|(key, _)| key.0 == target);
        for ((_, kind), records) in of_target() {
            corpus.add(target, &format!("{name}-{kind:x}"), &records.concat())?;
        }
        // In the order of the file, because records refer to earlier ones.
        let wanted = |record: &[u8]| of_target().any(|(_, all)| all.iter().take(2).any(|one| *one == record));
        let all = model.parts.iter().flat_map(|part| match part {
            Part::Metadata(all) if target == "records" => &all[..],
            Part::Sideband(_, all) if target == "sideband" => &all[..],
            _ => &[],
        });
        let all: Vec<&[u8]> = all.map(Vec::as_slice).filter(|record| wanted(record)).collect();
        corpus.add(also.unwrap_or(target), &format!("{name}-all"), &all.concat())?;
    }
    Ok(())
}

/// Trace of each core.
fn streams(corpus: &mut Corpus, name: &str, path: &Path) -> Result<()> {
    const SEED: usize = 2 << 10;
    let reader = CaptureReader::open(path)?;
    for core in reader.cores() {
        for (n, piece) in reader.pt(core).iter().take(PIECES).enumerate() {
            let bytes = reader.read(piece)?;
            corpus.add("packets", &format!("{name}-{}-{n}", core.get()), &bytes[..bytes.len().min(SEED)])?;
        }
    }
    Ok(())
}

/// A capture that was cut off, and the ring that holds the rest of its metadata.
fn ring(corpus: &mut Corpus, sample: &Path, complete: &[u8]) -> Result<()> {
    let end = CaptureReader::open(sample)?.metadata_bytes();
    let mut page = [0; RING_HEAD];
    let mut put = |at: usize, bytes: &[u8]| page[at..at + bytes.len()].copy_from_slice(bytes);
    let size = 2048_u64;
    put(0, &ring_file::MAGIC);
    put(8, &ring_file::VERSION.to_le_bytes());
    put(ring_file::SIZE, &size.to_le_bytes());
    put(ring_file::OVERFLOW_SIZE, &size.to_le_bytes());
    for at in [ring_file::HEAD, ring_file::BOUNDARY] {
        put(at, &(end + FRAME.len() as u64).to_le_bytes());
    }
    put(ring_file::TAIL, &end.to_le_bytes());
    // The record is in the overflow, which follows the ring.
    put(ring_file::OVERFLOW_FROM, &end.to_le_bytes());
    let mut bytes = vec![0; 2 * size as usize];
    (end..).zip(FRAME).for_each(|(at, byte)| bytes[(size + at % size) as usize] = *byte);
    let ring = [&page[..], &bytes].concat();
    let whole = fs::read(sample)?;
    // The end chunk is the last one; the writer that reopens the capture refuses one that has it.
    let cut = whole.len() - whole.windows(4).rev().position(|w| w == b"JPCH").ok_or("no chunk")? - 4;
    corpus.add_two("ring_file", "cut", &whole[..cut], &ring)?;
    corpus.add_two("ring_file", "torn", &whole[..cut + 9], &ring)?;
    corpus.add_two("ring_file", "whole", complete, &ring)
}

/// Results of the command on the sample, in the formats that JPortal reads again.
fn results(corpus: &mut Corpus, jportal: &Path, sample: &Path, folder: &Path) -> Result<()> {
    let run = |words: &[&str]| -> Result<String> {
        let mut command = Command::new(jportal);
        let finished = process::run(command.args(words).arg(sample).current_dir(folder), LIMIT)?;
        if !finished.status.success() {
            return Err(format!("jportal {}: {}", words.join(" "), finished.stderr).into());
        }
        Ok(finished.text())
    };
    for kind in ["call-tree", "hot-methods", "calls", "coverage"] {
        let json = run(&["report", kind, "--format", "json"])?;
        corpus.add_two("documents", kind, json.as_bytes(), json.as_bytes())?;
    }
    run(&["export", "perf-data", "-o", "perf"])?;
    corpus.add("perf_data", "sample", &fs::read(folder.join("perf/perf.data"))?)?;
    for (form, words) in [("plain", &[][..]), ("deflated", &["--deflate"])] {
        run(&[&["export", "call-trace", "-o", "calls"], words].concat())?;
        run(&[&["export", "block-trace", "-o", "blocks"], words].concat())?;
        let sites = fs::read(folder.join("calls/sites.tsv")).unwrap_or_default();
        for (target, name) in [("call_trace", "calls"), ("block_trace", "blocks")] {
            for (n, entry) in fs::read_dir(folder.join(name))?.enumerate() {
                let bytes = fs::read(entry?.path())?;
                match target {
                    "call_trace" => corpus.add_two(target, &format!("{form}-{n}"), &sites, &bytes)?,
                    _ => corpus.add(target, &format!("{form}-{n}"), &bytes)?,
                }
            }
            fs::remove_dir_all(folder.join(name))?;
        }
    }
    Ok(())
}

/// The shared file of an emulated unit with small rings.
fn unit(corpus: &mut Corpus, folder: &Path) -> Result<()> {
    let path = folder.join("unit");
    let config = UnitConfig {
        cores: 1,
        data_bytes: 4096,
        aux_bytes: 8192,
        tsc_khz: 2_400_000,
        mode: Mode::Drop,
        ..UnitConfig::default()
    };
    let unit = EmulatedUnit::create(&path, config)?;
    unit.set_detail("unit");
    let mut producer = unit.producer(0, 100)?;
    let full = |_| "the ring of the unit is full";
    producer.switch_in(100, 10).map_err(full)?;
    producer.aux.write(&[0; 100]).map_err(full)?;
    producer.end_aux(100, 20, 0).map_err(full)?;
    producer.switch_out(100, 21, false).map_err(full)?;
    drop(unit);
    corpus.add("unit", "small", &fs::read(&path)?)
}

/// Whether `path` is a capture that can be read: seeds are made of those alone.
///
/// # Errors
/// If it is not.
pub fn check(path: &Path) -> Result<()> {
    CaptureReader::open(path).map(drop).map_err(|e| format!("{}: {e}", path.display()).into())
}

#[cfg(test)]
mod tests {
    use jportal_capture::CaptureWriter;

    use super::*;

    #[test]
    fn a_cut_capture_is_completed_from_its_ring() {
        let folder = tempfile::tempdir().unwrap();
        let sample = folder.path().join("a.jportal");
        write_sample(&sample).unwrap();
        let mut corpus = Corpus { root: folder.path().join("corpus"), written: 0 };
        ring(&mut corpus, &sample, &[]).unwrap();
        let seed = fs::read(folder.path().join("corpus/ring_file/seed-cut")).unwrap();
        let (rest, len) = seed.split_last_chunk::<4>().unwrap();
        let (capture, ring) = rest.split_at(u32::from_le_bytes(*len) as usize);
        fs::write(&sample, capture).unwrap();
        CaptureWriter::reopen(&sample).unwrap();
        let mut file = ring[..RING_HEAD].to_vec();
        file.resize(ring_file::BYTES, 0);
        file.extend(&ring[RING_HEAD..]);
        fs::write(ring_file::path_of(&sample), file).unwrap();
        let recovered = ring_file::recover(&sample).unwrap();
        assert_eq!(recovered, ring_file::Recovery::Done { bytes: 24, crashed: false });
    }
}
