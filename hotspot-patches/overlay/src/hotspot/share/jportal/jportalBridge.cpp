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

// This file includes no HotSpot header, not even precompiled.hpp. jportalBridge.hpp says why.

#include "jportalBridge.hpp"
#include "jportal-recorder/src/bridge.rs.h"

int32_t JPortalBridge::start(const JPortalRecorderConfig& config) {
  jportal::RecorderConfig c{};
  c.capture_path = config.capture_path;
  c.vm_version   = config.vm_version;
  c.vm_flags     = config.vm_flags;
  c.java_command = config.java_command;
  c.source       = config.source;
  c.ring_size    = config.ring_size;
  c.buffer_size  = config.buffer_size;
  c.snapshot_size = config.snapshot_size;
  c.attach       = config.attach;
  c.log          = reinterpret_cast<size_t>(config.log);
  return jportal::recorder_start(c);
}

bool JPortalBridge::filters_files_only(Source source) {
  return jportal::recorder_filters_files_only(source);
}

int32_t JPortalBridge::back_code_cache(uint64_t low, uint64_t high) {
  return jportal::recorder_back_code_cache(low, high);
}

int32_t JPortalBridge::set_code_cache(uint64_t low, uint64_t high) {
  return jportal::recorder_set_code_cache(low, high);
}

void JPortalBridge::thread_started() {
  jportal::recorder_thread_started();
}

bool JPortalBridge::write(uint16_t kind, const uint8_t* body, size_t length) {
  return jportal::recorder_ring_write(kind, body, length);
}

bool JPortalBridge::active() {
  return jportal::recorder_active();
}

void JPortalBridge::stop(StopReason reason) {
  jportal::recorder_stop(reason);
}

int32_t JPortalBridge::dump(const char* path, const char* reason, char* written, size_t size) {
  return jportal::recorder_dump(path, reason, written, size);
}

int32_t JPortalBridge::request_dump(const char* path, const char* reason) {
  return jportal::recorder_request_dump(path, reason);
}

int32_t JPortalBridge::dump_slow_call(const char* path, const char* reason, uint32_t tid, uint64_t method,
                                      uint64_t began, uint64_t ended) {
  return jportal::recorder_dump_slow_call(path, reason, tid, method, began, ended);
}

size_t JPortalBridge::last_error(char* buffer, size_t size) {
  return jportal::recorder_last_error(buffer, size);
}

size_t JPortalBridge::status(char* buffer, size_t size) {
  return jportal::recorder_status(buffer, size);
}

void JPortalBridge::crash_begins() {
  jportal::recorder_crash_begins();
}

bool JPortalBridge::bus_error(void* address) {
  return jportal::recorder_bus_error(reinterpret_cast<uintptr_t>(address));
}

void JPortalBridge::emergency() {
  jportal::recorder_emergency();
}
