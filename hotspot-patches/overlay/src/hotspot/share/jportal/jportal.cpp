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

#include "precompiled.hpp"
#include "code/codeCache.hpp"
#include "jportal/jportal.hpp"
#include "jportal/jportalBridge.hpp"
#include "jportal/jportalCode.hpp"
#include "jportal/jportalMarkers.hpp"
#include "jportal/jportalThreads.hpp"
#include "logging/log.hpp"
#include "runtime/arguments.hpp"
#include "runtime/globals_extension.hpp"
#include "runtime/java.hpp"
#include "runtime/os.hpp"
#include "runtime/vm_version.hpp"
#include "utilities/ostream.hpp"

static const char* const DefaultFile = "hs_jportal_pid%p.jportal";

// Called by threads of the recorder too, which are not attached to the VM.
static void log_line(int level, const char* text) {
  switch (level) {
    case 1:  log_error(jportal)("%s", text);   break;
    case 2:  log_warning(jportal)("%s", text); break;
    default: log_info(jportal)("%s", text);    break;
  }
}

static void fail(const char* detail) {
  vm_exit_during_initialization("JPortal cannot record", detail);
}

static void fail_with_last_error() {
  char detail[1024];
  JPortalBridge::last_error(detail, sizeof(detail));
  fail(detail);
}

static int32_t requested_source() {
  static const struct { const char* name; JPortalBridge::Source source; } sources[] = {
    { "auto",     JPortalBridge::Auto },
    { "perf",     JPortalBridge::Perf },
    { "emulated", JPortalBridge::Emulated },
    { "none",     JPortalBridge::None },
    { "sideband", JPortalBridge::Sideband }
  };
  for (size_t i = 0; i < ARRAY_SIZE(sources); i++) {
    if (JPortalSource != NULL && strcmp(JPortalSource, sources[i].name) == 0) {
      return sources[i].source;
    }
  }
  err_msg detail("-XX:JPortalSource=%s is none of auto, perf, emulated, none, sideband",
                 JPortalSource == NULL ? "" : JPortalSource);
  fail(detail);
  return JPortalBridge::None;
}

// Expands %p, %t and %%. False if the result does not fit.
static bool expand_path(const char* pattern, char* path, size_t size) {
  stringStream st(path, size);
  for (const char* c = pattern; *c != '\0'; c++) {
    if (c[0] != '%') {
      st.put(*c);
      continue;
    }
    switch (*++c) {
      case 'p': st.print("%d", os::current_process_id()); break;
      case 't': {
        time_t now = time(NULL);
        struct tm local;
        char stamp[32];
        strftime(stamp, sizeof(stamp), "%Y-%m-%d_%H-%M-%S", localtime_r(&now, &local));
        st.print("%s", stamp);
        break;
      }
      case '%': st.put('%'); break;
      default:  st.put('%'); c--; break;
    }
  }
  return st.size() < size - 1;
}

// As given: from the environment and files, then from the command line.
static void print_flags(outputStream* st) {
  for (int i = 0; i < Arguments::num_jvm_flags(); i++) {
    st->print("%s ", Arguments::jvm_flags_array()[i]);
  }
  for (int i = 0; i < Arguments::num_jvm_args(); i++) {
    st->print("%s ", Arguments::jvm_args_array()[i]);
  }
}

void JPortalHooks::create_vm() {
  JPortalMarkers::initialize();
  char path[JVM_MAXPATHLEN];
  const char* pattern = JPortalFile != NULL ? JPortalFile : DefaultFile;
  if (!expand_path(pattern, path, sizeof(path))) {
    fail("-XX:JPortalFile= is too long");
  }
  char text[4096];
  stringStream flags(text, sizeof(text));
  print_flags(&flags);

  JPortalRecorderConfig config;
  config.capture_path = path;
  config.vm_version   = VM_Version::internal_vm_info_string();
  config.vm_flags     = flags.base();
  config.java_command = Arguments::java_command();
  config.source       = requested_source();
  config.ring_size    = JPortalRingSize;
  // Not asked for: the recorder takes what the limit on locked memory allows.
  config.buffer_size  = FLAG_IS_DEFAULT(JPortalBufferSize) ? 0 : JPortalBufferSize;
  config.code_cache_fd = -1;
  config.log          = log_line;
  if (JPortalBridge::start(config) != 0) {
    fail_with_last_error();
  }
  JPortalThreads::primordial_started();
}

void JPortalHooks::code_cache_reserved() {
  address low = CodeCache::low_bound();
  address high = CodeCache::high_bound();
  JPortalCode::initialize(low, high);
  if (JPortalBridge::set_code_cache((uint64_t)low, (uint64_t)high) != 0) {
    fail_with_last_error();
  }
  log_debug(jportal, codecache)("code cache " PTR_FORMAT " .. " PTR_FORMAT, p2i(low), p2i(high));
}

// Several paths lead out of a VM and some cross each other: stop() is idempotent.
void JPortalHooks::vm_exit() {
  JPortalBridge::stop(JPortalBridge::VMExit);
}

void JPortalHooks::vm_error() {
  JPortalBridge::emergency();
}
