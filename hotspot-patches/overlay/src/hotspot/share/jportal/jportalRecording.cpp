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
#include "jportal/jportalBackfill.hpp"
#include "jportal/jportalBridge.hpp"
#include "jportal/jportalRecording.hpp"
#include "logging/log.hpp"
#include "runtime/arguments.hpp"
#include "runtime/globals_extension.hpp"
#include "runtime/interfaceSupport.inline.hpp"
#include "runtime/init.hpp"
#include "runtime/java.hpp"
#include "runtime/os.hpp"
#include "runtime/vmOperations.hpp"
#include "runtime/vmThread.hpp"
#include "runtime/vm_version.hpp"
#include "services/memTracker.hpp"
#include "utilities/debug.hpp"
#include "utilities/macros.hpp"
#include "utilities/ostream.hpp"

static const char* const DefaultFile = "hs_jportal_pid%p.jportal";

volatile int JPortalRecording::_state = JPortalRecording::Idle;
volatile int JPortalRecording::_on = 0;

static address code_cache_low = nullptr;
static address code_cache_high = nullptr;
// The number of recordings in this process. Changed only by the thread that has claimed the state.
static int recordings = 0;

// Also called by threads of the recorder, which are not attached to the VM.
static void log_line(int level, const char* text) {
  switch (level) {
    case 1:  log_error(jportal)("%s", text);   break;
    case 2:  log_warning(jportal)("%s", text); break;
    default: log_info(jportal)("%s", text);    break;
  }
}

// A value of a flag whose values are words. The flag's constraint allows no other word.
struct NamedValue { const char* name; int32_t value; };

static int32_t value_of(const char* given, const NamedValue* values, size_t count) {
  for (size_t i = 0; i < count; i++) {
    if (strcmp(given, values[i].name) == 0) {
      return values[i].value;
    }
  }
  return values[0].value;
}

static JPortalBridge::Source requested_source() {
  static const NamedValue sources[] = {
    { "auto",     JPortalBridge::Auto },
    { "perf",     JPortalBridge::Perf },
    { "emulated", JPortalBridge::Emulated },
    { "none",     JPortalBridge::None },
    { "sideband", JPortalBridge::Sideband }
  };
  return (JPortalBridge::Source)value_of(JPortalSource, sources, ARRAY_SIZE(sources));
}

enum CodeMemory : int { AsNeeded, Anonymous, Memfd };

static int32_t requested_code_memory() {
  static const NamedValue kinds[] = {
    { "auto",      AsNeeded },
    { "anonymous", Anonymous },
    { "memfd",     Memfd }
  };
  return value_of(JPortalCodeCache, kinds, ARRAY_SIZE(kinds));
}

// Expands %p, %t and %% in the last component of a path only. Returns false if the result does not
// fit.
static bool expand_path(const char* pattern, char* path, size_t size) {
  const char* slash = strrchr(pattern, '/');
  const char* name = slash == nullptr ? pattern : slash + 1;
  stringStream st(path, size);
  st.write(pattern, name - pattern);
  for (const char* c = name; *c != '\0'; c++) {
    if (c[0] != '%') {
      st.put(*c);
      continue;
    }
    switch (*++c) {
      case 'p': st.print("%d", os::current_process_id()); break;
      case 't': {
        time_t now = time(nullptr);
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

// Prints the flags as they were given: from the environment and files, then from the command line.
static void print_flags(outputStream* st) {
  for (int i = 0; i < Arguments::num_jvm_flags(); i++) {
    st->print("%s ", Arguments::jvm_flags_array()[i]);
  }
  for (int i = 0; i < Arguments::num_jvm_args(); i++) {
    st->print("%s ", Arguments::jvm_args_array()[i]);
  }
}

// Returns 0, or an error that JPortalBridge::last_error() explains.
static int32_t open_at(const char* path, bool attach) {
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
  // 0: the recorder chooses the size, as the limit on locked memory allows.
  config.buffer_size  = FLAG_IS_DEFAULT(JPortalBufferSize) ? 0 : JPortalBufferSize;
  config.snapshot_size = JPortalSnapshot;
  config.attach       = attach;
  config.log          = log_line;
  return JPortalBridge::start(config);
}

void JPortalRecording::set_on(bool on) {
  // The fence: hooks must see the new value before the walk begins.
  Atomic::release_store_fence(&_on, on ? recordings : 0);
}

static bool path_for(const char* file, char* path, size_t size) {
  const char* pattern = file != nullptr ? file : JPortalFile != nullptr ? JPortalFile : DefaultFile;
  if (!expand_path(pattern, path, size)) return false;
  if (file == nullptr && recordings > 0) {
    // The number keeps this recording from overwriting an earlier capture.
    const size_t length = strlen(path);
    return jio_snprintf(path + length, size - length, ".%d", recordings + 1) > 0;
  }
  return true;
}

bool JPortalRecording::expand(const char* file, char* path, size_t size) {
  const char* pattern = file != nullptr ? file : JPortalFile != nullptr ? JPortalFile : DefaultFile;
  return expand_path(pattern, path, size);
}

// Whether JDK_JAVA_OPTIONS has the flag. The launcher inserts its words into the command line, so
// their origin is not ENVIRON_VAR.
static bool is_in_launcher_options() {
  const char* const flag = "-XX:+JPortal";
  const char* at = ::getenv("JDK_JAVA_OPTIONS");
  while (at != nullptr && (at = strstr(at, flag)) != nullptr) {
    at += strlen(flag);
    if (!isalnum((unsigned char)*at)) return true;
  }
  return false;
}

// Whether -XX:+JPortal stands in JAVA_TOOL_OPTIONS, _JAVA_OPTIONS or JDK_JAVA_OPTIONS, which child
// processes inherit: a VM that nobody meant to record must not fail because it cannot.
static bool is_from_environment() {
  return JVMFlag::flag_from_enum(FLAG_MEMBER_ENUM(JPortal))->get_origin() == JVMFlagOrigin::ENVIRON_VAR ||
         is_in_launcher_options();
}

void JPortalRecording::cannot_record(const char* reason) {
  if (!is_from_environment()) {
    vm_exit_during_initialization("JPortal cannot record", reason);
  }
  warning("JPortal, which the environment asks for, does not record: %s", reason);
  FLAG_SET_ERGO(JPortal, false);
}

static void cannot_record_last_error() {
  char detail[1024];
  JPortalBridge::last_error(detail, sizeof(detail));
  JPortalRecording::cannot_record(detail);
}

bool JPortalRecording::start_with_vm() {
  char path[JVM_MAXPATHLEN];
  if (!path_for(nullptr, path, sizeof(path))) {
    cannot_record("-XX:JPortalFile= is too long");
    return false;
  }
  if (open_at(path, false) != 0) {
    cannot_record_last_error();
    return false;
  }
  recordings++;
  set_on(true);
  settle(Recording);
  return true;
}

static bool wants_memfd() {
  switch (requested_code_memory()) {
    case Memfd:    return true;
    case AsNeeded: return JPortalBridge::filters_files_only(requested_source());
    default:       return false;
  }
}

bool JPortalRecording::back_code_cache(char* base, size_t size, bool special) {
  if (base == nullptr || !wants_memfd()) return false;
  char error[1024] = "";
  if (special) {
    jio_snprintf(error, sizeof(error), "the code cache cannot be the memory of a file: it has explicit large pages");
  } else if (LINUX_ONLY(UseOprofile ||) false) {
    // UseOprofile maps a file of its own over each piece that is committed.
    jio_snprintf(error, sizeof(error), "the code cache cannot be the memory of a file: not with -XX:+UseOprofile");
  } else if (JPortalBridge::back_code_cache((uint64_t)base, (uint64_t)base + size) != 0) {
    JPortalBridge::last_error(error, sizeof(error));
  }
  if (error[0] != '\0') {
    log_warning(jportal, codecache)("%s. It is anonymous memory.", error);
    return false;
  }
  MemTracker::record_virtual_memory_commit(base, size, CALLER_PC);
  log_info(jportal, codecache)("the code cache is a memfd");
  return true;
}

bool JPortalRecording::code_cache_reserved(address low, address high) {
  assert(!is_init_completed(), "no code has been generated");
  code_cache_low = low;
  code_cache_high = high;
  if (!is_on() || JPortalBridge::set_code_cache((uint64_t)low, (uint64_t)high) == 0) return true;
  cannot_record_last_error();
  close();
  settle(Idle);
  return false;
}

// --- Commands

class VM_JPortalStart : public VM_Operation {
  int _result;

 public:
  VM_JPortalStart() : _result(0) {}
  VMOp_Type type() const { return VMOp_JPortalStart; }
  void doit()            { _result = JPortalRecording::begin_at_safepoint(); }
  int result() const     { return _result; }
};

// Tracing begins after the walk, so the records of all code that the trace can show precede it.
// open_at() has opened the kernel's events for each thread. set_code_cache() opens them anew if
// there is another thread now; at the safepoint no Java thread can create one meanwhile.
int JPortalRecording::begin_at_safepoint() {
  set_on(true);
  JPortalBackfill::all();
  return JPortalBridge::set_code_cache((uint64_t)code_cache_low, (uint64_t)code_cache_high);
}

static void print_last_error(outputStream* st) {
  char detail[1024];
  JPortalBridge::last_error(detail, sizeof(detail));
  st->print_cr("JPortal cannot record: %s", detail);
}

static void print_status(outputStream* st) {
  char text[4096];
  JPortalBridge::status(text, sizeof(text));
  st->print_raw(text);
}

// Hooks commit records until the trace has ended, so the capture has every record that the trace
// needs.
void JPortalRecording::close() {
  JPortalBridge::stop(JPortalBridge::AskedFor);
  set_on(false);
}

void JPortalRecording::start(const char* file, outputStream* st, JavaThread* current) {
  if (claim(Recording)) {
    if (JPortalBridge::active()) {
      settle(Recording);
      st->print_cr("JPortal records already. Use JPortal.stop first.");
      return;
    }
    // The recording has failed, but nobody has stopped it. Close it before the next one begins.
    ThreadToNativeFromVM native(current);
    close();
    settle(Idle);
  }
  if (!claim(Idle)) {
    st->print_cr("Another command starts or stops the JPortal recording.");
    return;
  }
  char path[JVM_MAXPATHLEN];
  if (!path_for(file, path, sizeof(path))) {
    settle(Idle);
    st->print_cr("JPortal cannot record: the name of the file is too long.");
    return;
  }
  int32_t result;
  {
    // Creates files and threads.
    ThreadToNativeFromVM native(current);
    result = open_at(path, true);
  }
  if (result != 0) {
    settle(Idle);
    print_last_error(st);
    return;
  }
  recordings++;
  VM_JPortalStart operation;
  VMThread::execute(&operation);
  if (operation.result() != 0) {
    print_last_error(st);
    {
      ThreadToNativeFromVM native(current);
      close();
    }
    settle(Idle);
    return;
  }
  settle(Recording);
  print_status(st);
}

void JPortalRecording::stop(outputStream* st, JavaThread* current) {
  if (!claim(Recording)) {
    st->print_cr("JPortal does not record.");
    return;
  }
  {
    ThreadToNativeFromVM native(current);
    close();
  }
  settle(Idle);
  print_status(st);
}
