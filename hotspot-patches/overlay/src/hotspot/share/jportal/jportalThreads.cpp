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
#include "classfile/javaClasses.hpp"
#include "jportal/jportal.hpp"
#include "jportal/jportalBridge.hpp"
#include "jportal/jportalCompat.hpp"
#include "jportal/jportalHookScope.hpp"
#include "jportal/jportalRecording.hpp"
#include "jportal/jportalRecords.hpp"
#include "jportal/jportalSlowCalls.hpp"
#include "jportal/jportalThreads.hpp"
#include "logging/log.hpp"
#include "runtime/jniHandles.inline.hpp"
#include "runtime/os.hpp"
#include "runtime/threadSMR.inline.hpp"

enum : int { NameSize = 512 };

static u4 main_tid = 0;

static u8 java_tid_of(JavaThread* t) {
  oop obj = t->threadObj();
  return obj == nullptr ? 0 : (u8)java_lang_Thread::thread_id(obj);
}

// The name of the java.lang.Thread; empty while the thread attaches.
static const char* name_of(JavaThread* t, char* buf, int size) {
  assert(SafepointSynchronize::is_at_safepoint() || JavaThread::current()->thread_state() == _thread_in_vm, "reads the heap");
  oop obj = t->threadObj();
  oop name = obj == nullptr ? (oop)nullptr : java_lang_Thread::name(obj);
  return name == nullptr ? "" : java_lang_String::as_utf8_string(name, buf, size);
}

void JPortalThreads::primordial_started() {
  main_tid = (u4)os::current_thread_id();
  if (!JPortalRecording::is_on()) return;
  JPortalThreadStarted r;
  r.tid      = main_tid;
  r.flags    = JPortalThreadFlags::JAVA | JPortalThreadFlags::MAIN;
  r.java_tid = 0;
  r.name     = "main";
  JPortalBuffer::commit_record(r);
}

void JPortalHooks::thread_start(Thread* t) {
  JPortalHookScope scope;
  assert(t == Thread::current(), "a thread reports itself");
  if (JPortalRecording::is_on()) {
    JPortalBridge::thread_started();
    JPortalThreads::export_thread(t);
  }
}

void JPortalThreads::export_thread(Thread* t) {
  // A thread that is being created has no OS thread id. Its hook will report it.
  if (t->osthread() == nullptr || t->osthread()->thread_id() == 0) return;
  char buf[NameSize];
  JPortalThreadStarted r;
  r.tid      = JPortalCompat::tid_of(t);
  r.flags    = 0;
  r.java_tid = 0;
  if (t->is_Java_thread()) {
    JavaThread* jt = JPortalCompat::as_java_thread(t);
    r.flags    = JPortalThreadFlags::JAVA;
    r.java_tid = java_tid_of(jt);
    r.name     = name_of(jt, buf, sizeof(buf));
  } else {
    r.name     = t->name();
  }
  if (t->is_Compiler_thread()) {
    r.flags |= JPortalThreadFlags::COMPILER;
  }
  if (r.tid == main_tid) {
    r.flags |= JPortalThreadFlags::MAIN;
  }
  JPortalBuffer::commit_record(r);
  log_debug(jportal, thread)("thread %u \"%s\" starts", r.tid, (const char*)r.name.data);
}

void JPortalHooks::thread_exit(JavaThread* t) {
  JPortalHookScope scope;
  assert(t == Thread::current(), "a thread ends itself");
  JPortalSlowCalls::on_thread_exit();
  if (!JPortalRecording::is_on()) return;
  char buf[NameSize];
  JPortalThreadExited r;
  r.tid      = JPortalCompat::tid_of(t);
  r.java_tid = java_tid_of(t);
  r.name     = name_of(t, buf, sizeof(buf));
  JPortalBuffer::commit_record(r);
  log_debug(jportal, thread)("thread %u exits", r.tid);
}

void JPortalHooks::thread_renamed(jobject thread, jobject new_name) {
  JPortalHookScope scope;
  if (!JPortalRecording::is_on()) return;
  ThreadsListHandle tlh;
  JavaThread* t = nullptr;
  // False for a thread that has not started or has ended.
  if (!tlh.cv_internal_thread_to_JavaThread(thread, &t, nullptr)) return;
  oop name = JNIHandles::resolve_non_null(new_name);
  char buf[NameSize];
  JPortalThreadRenamed r;
  r.tid  = JPortalCompat::tid_of(t);
  r.name = java_lang_String::as_utf8_string(name, buf, sizeof(buf));
  JPortalBuffer::commit_record(r);
}
