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
#include "code/codeCache.hpp"
#include "jportal/jportal.hpp"
#include "jportal/jportalBridge.hpp"
#include "jportal/jportalCode.hpp"
#include "jportal/jportalKept.hpp"
#include "jportal/jportalMarkers.hpp"
#include "jportal/jportalMarkersVerify.hpp"
#include "jportal/jportalRecording.hpp"
#include "jportal/jportalSlowCalls.hpp"
#include "jportal/jportalThreads.hpp"
#include "logging/log.hpp"
#include "runtime/init.hpp"

void JPortalHooks::create_vm() {
  assert(!is_init_completed(), "no Java code has run");
  const char* misfit = JPortalMarkers::misfit();
  if (misfit == nullptr) misfit = JPortalSlowCalls::misfit();
  if (misfit != nullptr) {
    JPortalRecording::cannot_record(misfit);
    return;
  }
  JPortalKept::initialize();
  if (JPortalStart && !JPortalRecording::start_with_vm()) return;
  JPortalThreads::primordial_started();
}

bool JPortalHooks::code_space_reserved(char* base, size_t size, bool special) {
  return JPortalRecording::back_code_cache(base, size, special);
}

void JPortalHooks::code_cache_reserved() {
  address low = CodeCache::low_bound();
  address high = CodeCache::high_bound();
  JPortalCode::initialize(low, high);
  if (!JPortalRecording::code_cache_reserved(low, high)) return;
  // Only now is it certain that the feature stays on. No code has been generated.
  JPortalMarkers::initialize();
  JPortalSlowCalls::initialize();
  log_debug(jportal, codecache)("code cache " PTR_FORMAT " .. " PTR_FORMAT, p2i(low), p2i(high));
}

// The VM has several exit paths, and one exit may call this hook more than once. stop() is
// idempotent.
void JPortalHooks::vm_exit() {
  JPortalBridge::stop(JPortalBridge::VMExit);
  if (JPortalVerifyMarkers && JPortalMarkers::is_on()) JPortalMarkersVerifier::print_totals();
}

void JPortalHooks::vm_error() {
  JPortalBridge::crash_begins();
}

bool JPortalHooks::bus_error(void* address) {
  return JPortalBridge::bus_error(address);
}

void JPortalHooks::vm_error_reported() {
  JPortalBridge::emergency();
}
