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
#include "classfile/classLoaderDataGraph.hpp"
#include "code/codeCache.hpp"
#include "code/nmethod.hpp"
#include "jportal/jportal.hpp"
#include "jportal/jportalBackfill.hpp"
#include "jportal/jportalBridge.hpp"
#include "jportal/jportalCode.hpp"
#include "jportal/jportalCompat.hpp"
#include "jportal/jportalInterpreter.hpp"
#include "jportal/jportalKept.hpp"
#include "jportal/jportalMethods.hpp"
#include "jportal/jportalMethodStubs.hpp"
#include "jportal/jportalRecording.hpp"
#include "jportal/jportalRecords.hpp"
#include "jportal/jportalThreads.hpp"
#include "logging/log.hpp"
#include "oops/instanceKlass.hpp"
#include "oops/klass.inline.hpp"
#include "oops/method.hpp"
#include "runtime/mutexLocker.hpp"
#include "runtime/nonJavaThread.hpp"
#include "runtime/safepoint.hpp"
#include "runtime/threadSMR.inline.hpp"

static int classes = 0;
static int nmethods = 0;

// --- Classes and methods
//
// The class loader data graph does not change during the walk. Java threads and compiler threads
// change it only while they are in the VM, so not at a safepoint. A GC that unloads classes
// concurrently unlinks dead loaders as a member of the suspendible thread set, so not at a
// safepoint either. It frees their methods later, and the hooks report that.

// Whether on_class_linked() has run for the class. It runs as soon as all methods have their entry
// points, some time before the class is linked. If it is only about to run, the class is reported
// twice, which is harmless.
static bool is_reported(InstanceKlass* ik) {
  if (ik->is_linked()) return true;
  if (!ik->is_rewritten()) return false;
  for (int i = 0; i < ik->methods()->length(); i++) {
    if (ik->methods()->at(i)->interpreter_entry() == nullptr) return false;
  }
  return true;
}

// The graph also contains the previous versions of redefined classes, each as a class of its own.
static void backfill_class(Klass* k) {
  if (!k->is_instance_klass() || !JPortalBridge::active()) return;
  InstanceKlass* ik = InstanceKlass::cast(k);
  // If the class is being linked, some of its methods may already have their stubs.
  for (int i = 0; i < ik->methods()->length(); i++) {
    JPortalMethodStubTable::export_stub(ik->methods()->at(i));
  }
  if (ik->is_loaded() && !ik->is_scratch_class()) {
    JPortalMethods::export_loaded_class(ik, 0);
  }
  if (is_reported(ik)) {
    JPortalMethods::export_class(ik);
    classes++;
  }
}

// --- Compiled code
//
// Java threads, compiler threads and the sweeper create, patch and free nmethods only while they
// are in the VM, so not at a safepoint. A GC that unloads concurrently frees no nmethod without
// CodeCache_lock. The exported bytes are the present ones: they contain every patch made before the
// walk, and the hooks report every later patch.

static void backfill_nmethod(nmethod* nm) {
  nmethods++;
  if (!nm->is_alive()) {
    // Only its entry can still run, and it leaves the nmethod. The methods of its scopes may have
    // been freed, so only the code is exported.
    JPortalCode::commit_blob(JPortalBlobKinds::BUFFER, "dead nmethod", nm->code_begin(), nm->code_end());
    return;
  }
  JPortalCode::export_nmethod(nm);
  JPortalKept::export_markers(nm);
  if (nm->is_not_entrant()) {
    JPortalHooks::on_nmethod_state_change(nm, JPortalCompat::not_entrant);
  }
}

static void backfill_nmethods() {
  MutexLocker ml(CodeCache_lock, Mutex::_no_safepoint_check_flag);
  NMethodIterator iter(NMethodIterator::all_blobs);
  while (iter.next() && JPortalBridge::active()) {
    backfill_nmethod(iter.method());
  }
}

// --- Threads
//
// A thread is added to its thread list before it calls on_thread_start(), and a JavaThread calls
// on_thread_exit() before it is removed from the list.

static void backfill_threads() {
  JavaThreadIteratorWithHandle java;
  while (JavaThread* t = java.next()) {
    JPortalThreads::export_thread(t);
  }
  for (NonJavaThread::Iterator other; !other.end(); other.step()) {
    JPortalThreads::export_thread(other.current());
  }
}

// Exports in the order in which one record may refer to another: threads, the interpreter and other
// blobs, then classes and methods, then the nmethods compiled from them. Ends early when the
// recorder has refused a record.
void JPortalBackfill::all() {
  assert(SafepointSynchronize::is_at_safepoint() && JPortalRecording::is_on(), "the order is what makes it complete");
  classes = nmethods = 0;
  backfill_threads();
  JPortalInterpreter::export_interpreter();
  JPortalKept::export_code();
  JPortalInterpreter::export_entries();
  ClassLoaderDataGraph::classes_do(backfill_class);
  JPortalKept::export_intrinsics();
  backfill_nmethods();
  log_info(jportal)("exported %d classes and %d nmethods that existed before", classes, nmethods);
}
