#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0
"""Reads a trace that `jportal export perfetto` wrote with Perfetto's own message classes.

Each event must be on a track that was described before, each name must be known in its sequence,
times of a track must not go back, and slices of a track must nest. No message may have a field that
Perfetto does not know. Prints the number of tracks, slices and values of counters. Exit status 1 if
something is wrong.

usage: check.py TRACE [--expect slices=N]
Needs the packages perfetto and protobuf. `trace_processor` itself is on no package index.
"""
import sys

from google.protobuf.message import DecodeError
from google.protobuf.unknown_fields import UnknownFieldSet
from perfetto.protos.perfetto.trace import perfetto_trace_pb2 as proto

CLEARED = proto.TracePacket.SEQ_INCREMENTAL_STATE_CLEARED
EVENT = proto.TrackEvent


class Sequence:
    """What the packets of one sequence have defined."""

    def __init__(self):
        self.names, self.categories, self.annotations = set(), set(), set()


def unknown(message):
    """Whether a message or one in it has a field that its class does not."""
    if len(UnknownFieldSet(message)) > 0:
        return True
    for field, value in message.ListFields():
        if field.message_type is not None:
            for each in value if not hasattr(value, "ListFields") else [value]:
                if unknown(each):
                    return True
    return False


def check(trace):
    """What is wrong with the trace, and the counts."""
    wrong, counts = [], {"tracks": 0, "slices": 0, "counters": 0}
    sequences, tracks, open_slices, times = {}, {}, {}, {}
    for number, packet in enumerate(trace.packet):
        def fault(text, number=number):
            wrong.append(f"packet {number}: {text}")

        if unknown(packet):
            fault("it has a field that Perfetto does not know")
        own = sequences.setdefault(packet.trusted_packet_sequence_id, Sequence())
        if packet.sequence_flags & CLEARED:
            own.__init__()
        interned = packet.interned_data
        own.names.update(name.iid for name in interned.event_names)
        own.categories.update(category.iid for category in interned.event_categories)
        own.annotations.update(name.iid for name in interned.debug_annotation_names)
        if packet.HasField("track_descriptor"):
            track = packet.track_descriptor
            if track.HasField("parent_uuid") and track.parent_uuid not in tracks:
                fault(f"the parent {track.parent_uuid} of a track is not described")
            tracks[track.uuid] = track.HasField("counter")
            counts["tracks"] += 1
        if not packet.HasField("track_event"):
            continue
        event, time = packet.track_event, packet.timestamp
        track = event.track_uuid
        if track not in tracks:
            fault(f"the track {track} is not described")
            continue
        if time < times.get(track, 0):
            fault(f"the time of track {track} goes back from {times[track]} to {time}")
        times[track] = time
        if event.type == EVENT.TYPE_COUNTER:
            counts["counters"] += 1
            if not tracks[track]:
                fault(f"the track {track} has no counter")
        elif event.type == EVENT.TYPE_SLICE_BEGIN:
            counts["slices"] += 1
            open_slices[track] = open_slices.get(track, 0) + 1
            if event.name_iid not in own.names:
                fault(f"the name {event.name_iid} is not known")
            if not set(event.category_iids) <= own.categories:
                fault(f"of the categories {list(event.category_iids)} not all are known")
            if any(note.name_iid not in own.annotations for note in event.debug_annotations):
                fault("an argument has a name that is not known")
        elif event.type == EVENT.TYPE_SLICE_END:
            open_slices[track] = open_slices.get(track, 0) - 1
            if open_slices[track] < 0:
                fault(f"a slice of track {track} ends that has not begun")
        else:
            fault(f"an event of the type {event.type}")
    for track, depth in open_slices.items():
        if depth > 0:
            wrong.append(f"{depth} slices of track {track} do not end")
    return wrong, counts


def main(arguments):
    path, expected = arguments[0], arguments[2:] if "--expect" in arguments else []
    trace = proto.Trace()
    try:
        with open(path, "rb") as file:
            trace.ParseFromString(file.read())
    except DecodeError as error:
        return f"{path} is no trace: {error}"
    wrong, counts = check(trace)
    print("\n".join(f"{what}: {n}" for what, n in counts.items()))
    for pair in expected:
        what, n = pair.split("=")
        if counts[what] != int(n):
            wrong.append(f"{counts[what]} {what} instead of {n}")
    return "\n".join(wrong[:20]) or None


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
