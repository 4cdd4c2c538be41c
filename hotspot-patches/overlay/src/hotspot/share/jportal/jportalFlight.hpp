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

#ifndef SHARE_JPORTAL_JPORTALFLIGHT_HPP
#define SHARE_JPORTAL_JPORTALFLIGHT_HPP

#include "memory/allocation.hpp"
#include "utilities/globalDefinitions.hpp"

class JavaThread;
class outputStream;

// The flight recorder (-XX:JPortalSnapshot): the recorder keeps the last bytes of trace of each
// core, and the functions below write them to a separate capture. The capture of -XX:JPortalFile
// contains the metadata. When the recording or the VM ends, also by a fatal error, the recorder
// adds the trace that it holds at that time.
class JPortalFlight : AllStatic {
  static volatile int _dumps;

  // The path of the next dump for which no file was named. Returns false if the path is too long.
  static bool next_path(char* path, size_t size);

 public:
  // For the diagnostic command. Called by a thread in the VM; 'file' may be null. Prints the
  // path of the dump, or the reason of the failure.
  static void dump(const char* file, outputStream* st, JavaThread* current);
  // For an event in the VM. Called in any thread state and with any lock held, so it neither waits
  // nor logs: a thread of the recorder dumps, and logs the outcome.
  static void request_dump(const char* reason);
  // The same for a call that was slow. Called by a thread in _thread_in_Java.
  static void dump_slow_call(const char* reason, uint32_t tid, uint64_t method, uint64_t began, uint64_t ended);
};

#endif // SHARE_JPORTAL_JPORTALFLIGHT_HPP
