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

#ifndef SHARE_JPORTAL_JPORTALFLIGHT_HPP
#define SHARE_JPORTAL_JPORTALFLIGHT_HPP

#include "memory/allocation.hpp"
#include "utilities/globalDefinitions.hpp"

class JavaThread;
class outputStream;

// The flight recorder (-XX:JPortalSnapshot): the recorder keeps the last bytes of trace, and
// these write them out. -XX:JPortalFile itself is the capture of what the VM tells; it gets
// the trace that is held when the VM ends, be it by a fatal error.
class JPortalFlight : AllStatic {
  static volatile int _dumps;

  // The next file without a name of its own. False if it is too long.
  static bool next_path(char* path, size_t size);

 public:
  // By command, from a thread in the VM: 'file' may be NULL. Prints what was done, or why nothing was.
  static void dump(const char* file, outputStream* st, JavaThread* current);
  // For a reason of the VM's own, from a thread that may wait. Says in the log what was done.
  static void dump_because_of(const char* reason);
  // A call was slow: its thread waits while the buffers are copied. Takes no lock of the VM.
  static void dump_slow_call(const char* reason, uint32_t tid, uint64_t method, uint64_t began, uint64_t ended);
};

#endif // SHARE_JPORTAL_JPORTALFLIGHT_HPP
