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

#include "precompiled.hpp"
#include "jportal/jportal.hpp"
#include "jportal/jportalBridge.hpp"
#include "jportal/jportalFlight.hpp"
#include "jportal/jportalRecording.hpp"
#include "runtime/atomic.hpp"
#include "runtime/interfaceSupport.inline.hpp"
#include "utilities/ostream.hpp"

volatile int JPortalFlight::_dumps = 0;

bool JPortalFlight::next_path(char* path, size_t size) {
  if (!JPortalRecording::expand(nullptr, path, size)) return false;
  const size_t length = strlen(path);
  const int number = Atomic::add(&_dumps, 1);
  return jio_snprintf(path + length, size - length, ".dump%d", number) > 0;
}

void JPortalFlight::dump(const char* file, outputStream* st, JavaThread* current) {
  char path[JVM_MAXPATHLEN];
  const bool fits = file != nullptr ? JPortalRecording::expand(file, path, sizeof(path)) : next_path(path, sizeof(path));
  if (!fits) {
    st->print_cr("JPortal cannot dump: the name of the file is too long.");
    return;
  }
  char written[JVM_MAXPATHLEN];
  int32_t result;
  {
    // The call waits for file I/O and for threads of the recorder.
    ThreadToNativeFromVM native(current);
    result = JPortalBridge::dump(path, "asked for", written, sizeof(written));
  }
  if (result != 0) {
    char detail[1024];
    JPortalBridge::last_error(detail, sizeof(detail));
    st->print_cr("JPortal cannot dump: %s", detail);
    return;
  }
  st->print_cr("dumped to: %s", written);
}

void JPortalFlight::request_dump(const char* reason) {
  char path[JVM_MAXPATHLEN];
  if (!next_path(path, sizeof(path))) return;
  // The recorder counts the requests that it does not take.
  JPortalBridge::request_dump(path, reason);
}

void JPortalFlight::dump_slow_call(const char* reason, uint32_t tid, uint64_t method, uint64_t began, uint64_t ended) {
  char path[JVM_MAXPATHLEN];
  if (!next_path(path, sizeof(path))) return;
  // The recorder counts the requests that it does not take.
  JPortalBridge::dump_slow_call(path, reason, tid, method, began, ended);
}

// report_java_out_of_memory() calls this hook once per VM, as it dumps the heap once. The caller
// may hold the lock of Shenandoah's heap (ShenandoahHeapRegion::do_commit), for which a safepoint
// waits.
void JPortalHooks::java_out_of_memory() {
  JPortalFlight::request_dump("OutOfMemoryError");
}
