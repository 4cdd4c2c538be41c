// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0
// Plays the VM's side of the bridge, compiled with HotSpot's restrictions: no exceptions, no RTTI,
// hidden visibility. Part of tests/linkage.rs.
#include "jportal-recorder/src/bridge.rs.h"

#include <cstdio>
#include <cstring>
#include <string.h>
#include <sys/mman.h>

static void log_line(int level, const char* text) {
  std::printf("log %d %s\n", level, text);
}

static void print_last_error(const char* what, int code) {
  char text[512];
  size_t length = jportal::recorder_last_error(text, sizeof text);
  std::printf("%s %d %s\n", what, code, length == 0 ? "-" : text);
}

extern "C" __attribute__((visibility("default"))) int host_main(const char* capture, const char* second) {
  // Nothing is recorded yet: every call must say so and return.
  std::uint8_t body[8] = {0};
  if (jportal::recorder_active() || jportal::recorder_ring_write(12, body, 8)) return 1;
  if (jportal::recorder_stop(0) != 9 || jportal::recorder_set_code_cache(1, 2) != 9) return 2;
  jportal::recorder_crash_begins();
  jportal::recorder_emergency();
  if (jportal::recorder_dump_slow_call("a.dump", "slow", 1, 2, 3, 4) != 10) return 18;
  if (jportal::recorder_filters_files_only(3)) return 15;

  // The code cache may be a file's memory before anything is recorded, and without.
  const size_t size = 1 << 20;
  void* reserved = mmap(nullptr, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  const std::uint64_t low = reinterpret_cast<std::uint64_t>(reserved);
  if (reserved == MAP_FAILED || jportal::recorder_back_code_cache(low, low + size) != 0) return 16;
  static_cast<char*>(reserved)[size - 1] = 1;
  print_last_error("crooked", jportal::recorder_back_code_cache(low + 1, low + size));

  jportal::RecorderConfig config{};
  config.log = reinterpret_cast<size_t>(&log_line);
  print_last_error("nameless", jportal::recorder_start(config));
  config.capture_path = "/nowhere/a.jportal";
  config.source = 3;
  print_last_error("nowhere", jportal::recorder_start(config));
  config.source = 77;
  print_last_error("unknown", jportal::recorder_start(config));

  config.capture_path = capture;
  config.vm_version = "host";
  config.source = 3;
  if (jportal::recorder_start(config) != 0 || !jportal::recorder_active()) return 3;
  print_last_error("again", jportal::recorder_start(config));
  if (jportal::recorder_set_code_cache(0x1000, 0x2000) != 0) return 4;
  for (std::uint64_t n = 0; n < 100000; n++) {
    memcpy(body, &n, 8);
    if (!jportal::recorder_ring_write(12, body, 8)) return 5;
  }
  if (!jportal::recorder_ring_write(9999, nullptr, 0)) return 6;

  char status[16];
  size_t whole = jportal::recorder_status(status, sizeof status);
  if (whole <= sizeof status || strcmp(status, "state: recordin") != 0) return 7;
  if (jportal::recorder_status(nullptr, 0) < 100) return 8;
  if (jportal::recorder_stop(0) != 0 || jportal::recorder_active()) return 9;
  if (jportal::recorder_ring_write(12, body, 8)) return 10;

  // Another one in the same process.
  config.capture_path = second;
  config.vm_version = "host again";
  if (jportal::recorder_start(config) != 0 || !jportal::recorder_active()) return 11;
  if (jportal::recorder_filters_files_only(3)) return 17;
  if (jportal::recorder_set_code_cache(low, low + size) != 0) return 12;
  for (std::uint64_t n = 0; n < 10; n++) {
    memcpy(body, &n, 8);
    if (!jportal::recorder_ring_write(12, body, 8)) return 13;
  }
  if (jportal::recorder_stop(1) != 0 || jportal::recorder_active()) return 14;
  return 0;
}

#ifdef HOST_PROGRAM
int main(int, char** arguments) { return host_main(arguments[1], arguments[2]); }
#endif
