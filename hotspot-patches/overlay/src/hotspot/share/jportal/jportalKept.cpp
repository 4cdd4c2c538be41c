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
#include "code/nmethod.hpp"
#include "jportal/jportal.hpp"
#include "jportal/jportalByAddress.hpp"
#include "jportal/jportalCode.hpp"
#include "jportal/jportalCompat.hpp"
#include "jportal/jportalKept.hpp"
#include "jportal/jportalMethods.hpp"
#include "jportal/jportalMethodStubs.hpp"
#include "jportal/jportalRecords.hpp"
#include "logging/log.hpp"
#include "runtime/mutex.hpp"
#include "runtime/os.inline.hpp"

// This lock is not a Mutex, because a Mutex has a rank, and hooks run under locks of any rank.
static JPortalPlatformMutex* kept_lock = nullptr;

class JPortalKeptLocker : public StackObj {
 public:
  JPortalKeptLocker()  { kept_lock->lock(); }
  ~JPortalKeptLocker() { kept_lock->unlock(); }
};

struct JPortalKeptCode {
  enum : int { MaxEntries = 4 };
  JPortalKeptCode*   next;
  address            begin;
  address            end;
  u1                 kind;
  int                count;
  JPortalKept::Entry entries[MaxEntries];
  char               name[1];   // the rest of the name follows the struct
};

struct JPortalKeptMarkers {
  JPortalKeptMarkers* next;
  address             begin;
  size_t              length;
  u1                  body[1];   // the rest of the body follows the struct
};

static JPortalByAddress<JPortalKeptCode> kept_code;
static JPortalByAddress<JPortalKeptMarkers> kept_markers;

static Method** kept_intrinsics = nullptr;
static int intrinsics_count = 0;
static int intrinsics_capacity = 0;

static void no_memory(const char* what) {
  log_warning(jportal)("no C heap to keep %s: a recording that jcmd starts will lack it", what);
}

void JPortalKept::initialize() {
  kept_lock = new JPortalPlatformMutex();
}

void JPortalKept::keep_code(u1 kind, const char* name, address begin, address end, const Entry* entries, int count) {
  guarantee(count <= JPortalKeptCode::MaxEntries, "more than %d entry points", JPortalKeptCode::MaxEntries);
  const size_t length = strlen(name);
  JPortalKeptCode* c = (JPortalKeptCode*)os::malloc(sizeof(JPortalKeptCode) + length, mtTracing);
  if (c == nullptr) {
    no_memory("the name of a piece of code");
    return;
  }
  c->begin = begin;
  c->end   = end;
  c->kind  = kind;
  c->count = count;
  for (int i = 0; i < count; i++) {
    c->entries[i] = entries[i];
  }
  memcpy(c->name, name, length + 1);
  JPortalKeptLocker locker;
  kept_code.remove(begin);
  kept_code.add(c);
}

void JPortalKept::drop_code(address begin, address end) {
  JPortalKeptLocker locker;
  kept_code.remove_within(begin, end);
}

void JPortalKept::keep_markers(const nmethod* nm, const JPortalBuffer& body) {
  if (body.failed()) return;
  JPortalKeptMarkers* m = (JPortalKeptMarkers*)os::malloc(sizeof(JPortalKeptMarkers) + body.length(), mtTracing);
  if (m == nullptr) {
    no_memory("the path markers of an nmethod");
    return;
  }
  m->begin  = nm->code_begin();
  m->length = body.length();
  memcpy(m->body, body.data(), body.length());
  JPortalKeptLocker locker;
  kept_markers.remove(m->begin);
  kept_markers.add(m);
}

void JPortalKept::drop_markers(const nmethod* nm) {
  JPortalKeptLocker locker;
  kept_markers.remove(nm->code_begin());
}

static bool add_intrinsic(Method* m) {
  JPortalKeptLocker locker;
  if (intrinsics_count == intrinsics_capacity) {
    const int capacity = MAX2(64, intrinsics_capacity * 2);
    Method** all = (Method**)os::realloc(kept_intrinsics, capacity * sizeof(Method*), mtTracing);
    if (all == nullptr) return false;
    kept_intrinsics = all;
    intrinsics_capacity = capacity;
  }
  kept_intrinsics[intrinsics_count++] = m;
  return true;
}

// Logs without the lock, because a log may be a pipe that nobody reads.
void JPortalKept::keep_intrinsic(Method* m) {
  if (!add_intrinsic(m)) {
    no_memory("a method handle intrinsic");
  }
}

static void export_kept(const JPortalKeptCode* c) {
  JPortalCode::commit_blob(c->kind, c->name, c->begin, c->end, c->entries, c->count);
}

// The lock is held while the records are committed. If code is freed in the meantime,
// blob_freed() waits for the lock in drop_code(). So the memory stays valid until the code has
// been exported, and the record CodeFreed follows the record of the code.
void JPortalKept::export_code() {
  JPortalKeptLocker locker;
  kept_code.each(export_kept);
}

void JPortalKept::export_markers(const nmethod* nm) {
  JPortalKeptLocker locker;
  const JPortalKeptMarkers* m = kept_markers.find(nm->code_begin());
  if (m != nullptr) {
    JPortalBuffer::commit(JPortalNMethodMarkers::KIND, m->body, m->length);
  }
}

void JPortalKept::export_intrinsics() {
  JPortalKeptLocker locker;
  for (int i = 0; i < intrinsics_count; i++) {
    JPortalMethodStubTable::export_stub(kept_intrinsics[i]);
    JPortalMethods::export_method(kept_intrinsics[i]);
  }
}
