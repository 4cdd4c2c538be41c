/*
 * SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0
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

// Interface to the recorder (rust-core/recorder), a Rust library that is linked into libjvm. It
// uses plain C types only. jportalBridge.cpp is the only file that includes the headers that cxx
// generates, and it includes no HotSpot header, because both define assert.

#include <stddef.h>
#include <stdint.h>

struct JPortalRecorderConfig {
  const char* capture_path;    // with %p and %t already expanded
  const char* vm_version;
  const char* vm_flags;
  const char* java_command;    // may be null
  int32_t     source;          // JPortalBridge::Source
  uint64_t    ring_size;
  uint64_t    buffer_size;     // bytes per core; 0: the source chooses
  uint64_t    snapshot_size;   // flight recorder: bytes kept per core; 0: record everything
  bool        attach;          // the VM is already running: record all of its threads
  void      (*log)(int level, const char* text);  // level 1 error, 2 warning, 3 info
};

class JPortalBridge {
 public:
  enum Source : int { Auto = 0, Perf = 1, Emulated = 2, None = 3, Sideband = 4 };
  enum StopReason : int { VMExit = 0, AskedFor = 1, VMError = 2 };

  // Opens the capture and the trace source, and starts the threads of the recorder. These threads
  // block all signals except those of faults, and never attach to the VM. Returns 0 if the
  // recording has begun. After stop() it may be called again, for another capture.
  static int32_t start(const JPortalRecorderConfig& config);
  // Whether the trace can be filtered only if the code cache is the memory of a file. The answer
  // is for the current recording; if there is none, for a later recording from 'source'.
  static bool filters_files_only(Source source);
  // Makes the code cache the memory of a file. The reserved, empty range [low, high) is committed
  // as a whole; the VM must not commit, uncommit, protect or map any part of it afterwards.
  // Returns 0 on success; otherwise the range stays reserved. Call before set_code_cache().
  static int32_t back_code_cache(uint64_t low, uint64_t high);
  // Sets the filter to the reserved code cache [low, high) and begins to trace. Call once per
  // recording. Returns 0 on success.
  static int32_t set_code_cache(uint64_t low, uint64_t high);
  // Reports that the calling thread has started. Takes no VM lock.
  static void thread_started();
  // Commits a record. Waits for no disk, takes no VM lock and reaches no safepoint.
  // Must not be called from a signal handler. Returns false if nothing is being recorded.
  static bool write(uint16_t kind, const uint8_t* body, size_t length);
  // Whether the recorder accepts records. False after stop() or a failure.
  static bool active();
  // Ends the trace, writes everything that is left and completes the capture. Idempotent. With
  // VMError it waits at most about two seconds.
  static void stop(StopReason reason);
  // Writes the contents of the flight recorder to a capture at 'path', which also contains
  // 'reason'. Waits for file I/O and for threads of the recorder, but takes no VM lock. Returns 0
  // on success; 'written' is then the capture's path, which has another number if something had
  // that of 'path'.
  static int32_t dump(const char* path, const char* reason, char* written, size_t size);
  // Same, but only hands the request to a thread of the recorder, which dumps and logs the outcome.
  // May be called in any thread state. Disables events for at most 1 ms; with the emulated unit it
  // waits until that has stopped, at most two seconds. Returns 0 if the request was taken; it is
  // not while earlier dumps begin, or two are not written yet.
  static int32_t request_dump(const char* path, const char* reason);
  // Same, because a call was slow: the OS thread, the Method*, and the TSC at the beginning and at
  // the end of the call.
  static int32_t dump_slow_call(const char* path, const char* reason, uint32_t tid, uint64_t method,
                                uint64_t began, uint64_t ended);
  // Copy the text of the last error, or the status of the recording. The copy is NUL-terminated and
  // cut to 'size' bytes. Both return the length of the whole text.
  static size_t last_error(char* buffer, size_t size);
  static size_t status(char* buffer, size_t size);
  // A thread got SIGBUS at 'address'. Returns whether it may repeat its access. Async-signal-safe.
  static bool bus_error(void* address);
  // The VM has met a fatal error. Stops the trace, for which it takes at most 45 ms.
  // Async-signal-safe.
  static void crash_begins();
  // The process is about to end by a fatal error. Does the same if it was not done, waits until the
  // trace has ended and is saved, and closes the ring. Both take at most 100 ms together; with the
  // emulated unit and a flight recorder, two seconds more. The ring stays, so that its records can
  // be recovered. Async-signal-safe.
  static void emergency();
};

#endif // SHARE_JPORTAL_JPORTALBRIDGE_HPP
