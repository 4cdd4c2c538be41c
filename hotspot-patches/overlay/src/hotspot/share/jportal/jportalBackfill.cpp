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
#include "classfile/classLoaderDataGraph.hpp"
#include "code/codeCache.hpp"
#include "code/nmethod.hpp"
#include "jportal/jportal.hpp"
#include "jportal/jportalBackfill.hpp"
#include "jportal/jportalCode.hpp"
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
#include "runtime/thread.inline.hpp"
#include "runtime/threadSMR.inline.hpp"

static int classes = 0;
static int nmethods = 0;

// --- Classes and methods
//
// Java threads and compiler threads change the class loader data graph in the VM only, so
// not at a safepoint. A collector that unloads classes beside the program takes their loaders
// out of the graph at a safepoint of its own; what is freed afterwards is reported then.

// Whether the hook of the class's linking has run: it does when all methods have their entry points,
// some time before the class counts as linked.
static bool is_reported(InstanceKlass* ik) {
  if (ik->is_linked()) return true;
  if (!ik->is_rewritten()) return false;
  for (int i = 0; i < ik->methods()->length(); i++) {
    if (ik->methods()->at(i)->interpreter_entry() == NULL) return false;
  }
  return true;
}

// Superseded versions of redefined classes are classes of their own in the graph.
static void backfill_class(Klass* k) {
  if (!k->is_instance_klass()) return;
  InstanceKlass* ik = InstanceKlass::cast(k);
  // Methods of a class that is being linked may have theirs already.
  for (int i = 0; i < ik->methods()->length(); i++) {
    JPortalMethodStubTable::export_stub(ik->methods()->at(i));
  }
  if (is_reported(ik)) {
    JPortalMethods::export_class(ik);
    classes++;
  }
}

// --- Compiled code
//
// nmethods are made, patched and freed by Java threads and the sweeper in the VM, so not at a safepoint;
// collectors that unload beside the program free none without CodeCache_lock. The bytes are those of
// now: every patch until now is in them, and every later one is reported.

static void backfill_nmethod(nmethod* nm) {
  nmethods++;
  if (!nm->is_alive()) {
    // Nothing of it runs but its entry, which leads away; its methods may be gone.
    JPortalCode::commit_blob(JPortalBlobKinds::BUFFER, "dead nmethod", nm->code_begin(), nm->code_end());
    return;
  }
  JPortalCode::export_nmethod(nm);
  JPortalKept::export_markers(nm);
  if (nm->is_not_entrant()) {
    JPortalHooks::on_nmethod_state_change(nm, CompiledMethod::not_entrant);
  }
}

static void backfill_nmethods() {
  MutexLocker ml(CodeCache_lock, Mutex::_no_safepoint_check_flag);
  NMethodIterator iter(NMethodIterator::all_blobs);
  while (iter.next()) {
    backfill_nmethod(iter.method());
  }
}

// --- Threads
//
// A thread is in its list before it calls its hook, and calls that of its end before it leaves the list.

static void backfill_threads() {
  JavaThreadIteratorWithHandle java;
  while (JavaThread* t = java.next()) {
    JPortalThreads::export_thread(t);
  }
  for (NonJavaThread::Iterator other; !other.end(); other.step()) {
    JPortalThreads::export_thread(other.current());
  }
}

// In the order in which a record may refer to another one: code to run in, methods, code made of them.
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
  log_info(jportal)("told of %d classes and %d nmethods that were there", classes, nmethods);
}
