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
#include "code/codeBlob.hpp"
#include "code/codeCache.hpp"
#include "jportal/jportal.hpp"
#include "jportal/jportalCode.hpp"
#include "jportal/jportalCompat.hpp"
#include "jportal/jportalMethodStubs.hpp"
#include "jportal/jportalRecording.hpp"
#include "jportal/jportalRecords.hpp"
#include "logging/log.hpp"
#include "oops/method.hpp"
#include "runtime/atomic.hpp"
#include "runtime/handles.inline.hpp"
#include "runtime/mutexLocker.hpp"
#include "runtime/os.hpp"
#include "utilities/align.hpp"

struct JPortalMethodStubTable::Chunk : public CHeapObj<mtTracing> {
  Chunk*  next;
  address top;   // the first slot that was never used
  address end;
};

const char* const JPortalMethodStubTable::BlobName = "JPortal method stubs";
JPortalMethodStubTable::Chunk* JPortalMethodStubTable::_chunks = nullptr;
JPortalMethodStubTable::SlotList JPortalMethodStubTable::_released = { 0, 0, 0 };
JPortalMethodStubTable::SlotList JPortalMethodStubTable::_resting = { 0, 0, 0 };
JPortalMethodStubTable::SlotList JPortalMethodStubTable::_rested = { 0, 0, 0 };
jlong JPortalMethodStubTable::_moved = 0;
bool volatile JPortalMethodStubTable::_exhausted = false;

u4 JPortalMethodStubTable::number_of(address slot) {
  return (u4)(pointer_delta(slot, align_down(CodeCache::low_bound(), SlotSize), 1) / SlotSize);
}

address JPortalMethodStubTable::slot_of(u4 number) {
  return align_down(CodeCache::low_bound(), SlotSize) + (size_t)number * SlotSize;
}

void JPortalMethodStubTable::SlotList::add(address slot) {
  const u4 number = number_of(slot);
  if (count++ == 0) {
    head = number;
  } else {
    *next_of(slot_of(tail)) = number;
  }
  tail = number;
}

void JPortalMethodStubTable::SlotList::add_all(SlotList* other) {
  if (other->count == 0) return;
  if (count == 0) {
    head = other->head;
  } else {
    *next_of(slot_of(tail)) = other->head;
  }
  tail = other->tail;
  count += other->count;
  other->count = 0;
}

address JPortalMethodStubTable::SlotList::take() {
  if (count == 0) return nullptr;
  address slot = slot_of(head);
  head = *next_of(slot);
  count--;
  fill_unused(slot, SlotSize);
  return slot;
}

void JPortalMethodStubTable::move_rested() {
  if (_released.count + _resting.count == 0) return;
  const jlong now = os::javaTimeNanos();
  if (now - _moved < RestNanos) return;
  _rested.add_all(&_resting);
  _resting.add_all(&_released);
  _moved = now;
}

address JPortalMethodStubTable::allocate_locked(bool resting) {
  MutexLocker ml(CodeCache_lock, Mutex::_no_safepoint_check_flag);
  move_rested();
  address rested = _rested.take();
  if (rested != nullptr) return rested;
  for (Chunk* c = _chunks; c != nullptr; c = c->next) {
    if (c->top < c->end) {
      address slot = c->top;
      c->top += SlotSize;
      return slot;
    }
  }
  if (!resting) return nullptr;
  address slot = _resting.take();
  return slot != nullptr ? slot : _released.take();
}

address JPortalMethodStubTable::allocate() {
  address slot = allocate_locked(false);
  // Other threads may use up a new chunk, hence the loop. After a failure no chunk is requested
  // again: CodeCache would warn each time, and nmethods need the memory that the sweeper frees.
  while (slot == nullptr && !_exhausted && add_chunk()) {
    slot = allocate_locked(false);
  }
  return slot != nullptr ? slot : allocate_locked(true);
}

bool JPortalMethodStubTable::add_chunk() {
  BufferBlob* blob = BufferBlob::create(BlobName, ChunkSize);
  if (blob == nullptr) {
    return false;
  }
  Chunk* chunk = new (std::nothrow) Chunk();
  if (chunk == nullptr) {
    BufferBlob::free(blob);
    return false;
  }
  address const begin = align_up(blob->content_begin(), SlotSize);
  chunk->top = begin;
  chunk->end = align_down(blob->content_end(), SlotSize);
  fill_unused(begin, chunk->end - begin);
  JPortalCode::export_code(JPortalBlobKinds::METHOD_STUBS, BlobName, begin, chunk->end);
  log_debug(jportal, codecache)("method stubs " PTR_FORMAT " .. " PTR_FORMAT, p2i(begin), p2i(chunk->end));

  MutexLocker ml(CodeCache_lock, Mutex::_no_safepoint_check_flag);
  chunk->next = _chunks;
  _chunks = chunk;
  return true;
}

void JPortalMethodStubTable::note_exhausted() {
  if (Atomic::cmpxchg(&_exhausted, false, true)) return;
  static const char* const text = "no room in the code cache for more method entry stubs: "
                                  "interpreted calls of methods linked from now on do not name their callee; "
                                  "a larger -XX:ReservedCodeCacheSize or -XX:NonNMethodCodeHeapSize helps";
  log_warning(jportal)("%s", text);
  if (!JPortalRecording::is_on()) return;
  JPortalNotice r;
  r.text = text;
  JPortalBuffer::commit_record(r);
}

address JPortalMethodStubTable::entry_for(const methodHandle& m, address entry) {
  address stub = m->interpreter_entry();
  if (stub == nullptr || !contains(stub)) {   // else an earlier attempt to link has set it
    stub = allocate();
  }
  if (stub == nullptr) {
    note_exhausted();
    return entry;
  }
  write_jump(stub, entry);
  if (JPortalRecording::is_on()) {
    commit_stub(m(), stub, entry);
  }
  return stub;
}

void JPortalMethodStubTable::commit_stub(Method* m, address stub, address target) {
  JPortalMethodStub r;
  r.method  = (u8)m;
  r.address = (u8)stub;
  r.target  = (u8)target;
  JPortalBuffer::commit_record(r);
}

void JPortalMethodStubTable::export_stub(Method* m) {
  address stub = m->interpreter_entry();
  if (stub != nullptr && contains(stub)) {
    commit_stub(m, stub, jump_target(stub));
  }
}

bool JPortalMethodStubTable::contains(address entry) {
  const CodeBlob* const blob = JPortalCompat::blob_at(entry);
  return blob != nullptr && blob->name() == BlobName;
}

address JPortalMethodStubTable::target_of(address entry) {
  return contains(entry) ? jump_target(entry) : entry;
}

void JPortalMethodStubTable::release(address entry) {
  if (!contains(entry)) return;
  MutexLocker ml(CodeCache_lock->owned_by_self() ? nullptr : CodeCache_lock, Mutex::_no_safepoint_check_flag);
  release_locked(entry);
}

void JPortalMethodStubTable::release_locked(address entry) {
  assert_lock_strong(CodeCache_lock);
  fill_unused(entry, SlotSize);
  _released.add(entry);
}

void JPortalMethodStubTable::release_all(Array<Method*>* methods) {
  MutexLocker ml(CodeCache_lock->owned_by_self() ? nullptr : CodeCache_lock, Mutex::_no_safepoint_check_flag);
  for (int i = 0; i < methods->length(); i++) {
    Method* const m = methods->at(i);
    address const entry = m->interpreter_entry();
    if (entry == nullptr) continue;
    if (contains(entry)) {
      release_locked(entry);
    }
    m->set_interpreter_entry(nullptr);
  }
}

address JPortalHooks::method_entry_for(const methodHandle& m, address entry) {
  return JPortalMethodStubs ? JPortalMethodStubTable::entry_for(m, entry) : entry;
}

address JPortalHooks::method_entry_target(address entry) {
  return JPortalMethodStubTable::target_of(entry);
}
