/*
 * Copyright (c) 2026, the JPortal authors. All rights reserved.
 * DO NOT ALTER OR REMOVE COPYRIGHT NOTICES OR THIS FILE HEADER.
 *
 * This code is free software; you can redistribute it and/or modify it
 * under the terms of the GNU General Public License version 2 only, as
 * published by the Free Software Foundation.  The copyright holders
 * designate this particular file as subject to the "Classpath" exception
 * as provided in the LICENSE file that accompanied this code.
 *
 * This code is distributed in the hope that it will be useful, but WITHOUT
 * ANY WARRANTY; without even the implied warranty of MERCHANTABILITY or
 * FITNESS FOR A PARTICULAR PURPOSE.  See the GNU General Public License
 * version 2 for more details (a copy is included in the LICENSE file that
 * accompanied this code).
 */

#ifndef SHARE_JPORTAL_JPORTALBRIDGE_HPP
#define SHARE_JPORTAL_JPORTALBRIDGE_HPP

// The recorder (rust-core/recorder), a Rust library inside libjvm, in plain C
// types. jportalBridge.cpp is the only file that includes the generated headers
// of cxx, and it includes no HotSpot header: both define assert.

#include <stddef.h>
#include <stdint.h>

struct JPortalRecorderConfig {
  const char* capture_path;    // already expanded
  const char* vm_version;
  const char* vm_flags;
  const char* java_command;    // may be NULL
  int32_t     source;          // JPortalBridge::Source
  uint64_t    ring_size;
  uint64_t    buffer_size;     // per core, 0: what the source thinks right
  uint64_t    snapshot_size;   // flight recorder: bytes kept per core, 0: record everything
  bool        attach;          // the VM runs already: all of its threads are recorded
  void      (*log)(int level, const char* text);  // level 1 error, 2 warning, 3 info
};

class JPortalBridge {
 public:
  enum Source     { Auto = 0, Perf = 1, Emulated = 2, None = 3, Sideband = 4 };
  enum StopReason { VMExit = 0, AskedFor = 1, VMError = 2 };

  // Opens the capture and its sources and starts the recorder's threads, which
  // have signals blocked, but those of faults, and never attach to the VM. 0 = recording. After stop()
  // it may be called again, for another capture.
  static int32_t start(const JPortalRecorderConfig& config);
  // Whether the trace can be filtered only if the code cache is the memory of a file: that of the
  // recording, else of one that begins later from 'source'.
  static bool filters_files_only(Source source);
  // Makes the code cache that: the reserved, empty [low, high) is committed as a whole, and
  // must not be committed, uncommitted, protected or mapped again. 0 = done; otherwise it is
  // reserved as before. Before set_code_cache().
  static int32_t back_code_cache(uint64_t low, uint64_t high);
  // The reserved code cache, [low, high); once per recording. 0 = tracing.
  static int32_t set_code_cache(uint64_t low, uint64_t high);
  // The calling thread is new. Takes no lock of the VM.
  static void thread_started();
  // Commits a record, waiting for room in the ring. No VM lock, no safepoint;
  // never from a signal handler. False: nothing is recorded (any more).
  static bool write(uint16_t kind, const uint8_t* body, size_t length);
  static bool active();
  // Flushes everything and finishes the file. Idempotent.
  static void stop(StopReason reason);
  // Writes what the flight recorder holds to 'path'; 'reason' stands in it. Waits for files and for
  // threads of the recorder, for no lock of the VM. 0 = done.
  static int32_t dump(const char* path, const char* reason);
  // The same because of a call that was slow: OS thread, method, TSC at its beginning and end.
  static int32_t dump_slow_call(const char* path, const char* reason, uint32_t tid, uint64_t method,
                                uint64_t began, uint64_t ended);
  // Text of the last error, of the state: NUL-terminated, cut to 'size'. Both
  // return the whole length.
  static size_t last_error(char* buffer, size_t size);
  static size_t status(char* buffer, size_t size);
  // Async-signal-safe: the VM crashed, what is in the ring stays.
  static void emergency();
};

#endif // SHARE_JPORTAL_JPORTALBRIDGE_HPP
