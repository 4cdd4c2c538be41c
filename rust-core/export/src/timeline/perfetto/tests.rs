// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0

use super::super::testing::{CLOCK, show};
use super::*;

#[derive(Clone, Default)]
struct PerfettoBytes(Arc<Mutex<Vec<u8>>>);

impl Write for PerfettoBytes {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn written() -> Vec<u8> {
    let kept = PerfettoBytes::default();
    let process = Process { pid: 70, name: "app".to_owned() };
    let file = Perfetto::new(kept.clone(), CLOCK, &process).unwrap();
    let all = file.clone();
    let shown = show(move |info| Box::new(all.thread(info)));
    file.flush().unwrap();
    assert_eq!((shown.total.slices, shown.total.gaps), (6, 2));
    kept.0.lock().unwrap().clone()
}

/// The packets of one sequence as text.
fn texts(trace: &Trace, sequence: u32) -> Vec<String> {
    let (mut names, mut all) = (HashMap::new(), Vec::new());
    let own = |p: &&TracePacket| p.trusted_packet_sequence_id == Some(sequence);
    for p in trace.packet.iter().filter(own) {
        for named in p.interned_data.iter().flat_map(|i| &i.event_names) {
            let new = names.insert(named.iid.unwrap(), named.name.clone().unwrap());
            assert!(new.is_none(), "a name is described once");
        }
        let Some(e) = &p.track_event else { continue };
        let name = e.name_iid.map_or_else(String::new, |iid| names[&iid].clone());
        let notes = e.debug_annotations.iter().map(|n| {
            let value = n.string_value.clone().or(n.uint_value.map(|v| v.to_string()));
            format!(" {}={}", NOTES[n.name_iid.unwrap() as usize - 1], value.unwrap_or_default())
        });
        let track = e.track_uuid.unwrap() - u64::from(sequence) * TRACKS - PROCESS;
        let value = e.double_counter_value.map_or_else(String::new, |v| format!("{v}"));
        let what = ["", "begin", "end", "instant", "counter"][e.r#type.unwrap() as usize];
        let notes: String = notes.collect();
        all.push(format!("{} {track} {what} {name}{value}{notes}", p.timestamp.unwrap()));
    }
    all
}

#[test]
fn slices_gaps_and_counters() {
    let trace = Trace::decode(&*written()).unwrap();
    let process = trace.packet[0].track_descriptor.clone().unwrap();
    assert_eq!(process.process.unwrap().pid, Some(70));
    for (sequence, name) in [(1, "t\u{1}5"), (2, "t\u{1}6")] {
        let mut own = trace.packet.iter().filter(|p| p.trusted_packet_sequence_id == Some(sequence));
        let head = own.next().unwrap();
        assert_eq!(head.sequence_flags, Some(INCREMENTAL));
        let track = head.track_descriptor.clone().unwrap();
        let thread = track.thread.unwrap();
        assert_eq!((thread.tid, thread.pid, thread.thread_name.as_deref()), (Some(77), Some(70), Some(name)));
        let counters: Vec<_> = own.filter_map(|p| p.track_descriptor.clone()).collect();
        assert_eq!(counters[1].name.as_deref(), Some("bytecodes in C1"));
        assert!(counters.iter().all(|c| c.parent_uuid == track.uuid && c.counter.is_some()));
        let all = texts(&trace, sequence);
        let slices: Vec<&str> = all.iter().map(String::as_str).filter(|t| !t.contains("counter")).collect();
        assert_eq!(
            slices,
            [
                "0 0 begin a.A.main()V begin=called by the VM or native code source=A.java",
                "10000 0 begin a.A.work\u{202e}()V line of call=10 source=A.java",
                "40000 0 end  tier at end=interpreter",
                "50000 0 begin a.A.work\u{202e}()V line of call=10 source=A.java",
                "60000 0 end  end=exception tier at end=C2",
                "90000 0 end  end=not seen tier at end=interpreter",
                "90000 0 instant lost reason=truncated lost bytes=100",
            ]
        );
        // Two bytecodes in 40 µs.
        let counts: Vec<&str> = all.iter().map(String::as_str).filter(|t| t.contains("counter")).collect();
        assert_eq!(counts[..3], ["0 1 counter 0.05", "0 2 counter 0", "0 3 counter 0"]);
    }
}

const INCREMENTAL: u32 = proto::INCREMENTAL_STATE_CLEARED;

/// Writes the file for a check by hand with Perfetto's own tools.
#[test]
#[ignore = "writes the file that JPORTAL_PERFETTO names"]
fn write_a_file() {
    if let Some(path) = std::env::var_os("JPORTAL_PERFETTO") {
        std::fs::write(path, written()).unwrap();
    }
}
