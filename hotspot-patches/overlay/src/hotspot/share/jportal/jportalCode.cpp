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
#include "code/nmethod.hpp"
#include "code/vtableStubs.hpp"
#include "jportal/jportal.hpp"
#include "jportal/jportalAddressList.hpp"
#include "jportal/jportalCode.hpp"
#include "jportal/jportalCompat.hpp"
#include "jportal/jportalHookScope.hpp"
#include "jportal/jportalKept.hpp"
#include "jportal/jportalMarkers.hpp"
#include "jportal/jportalRecording.hpp"
#include "jportal/jportalRecords.hpp"
#include "logging/log.hpp"
#include "runtime/sharedRuntime.hpp"
#include "runtime/stubCodeGenerator.hpp"
#include "utilities/bitMap.inline.hpp"

address JPortalCode::_low = nullptr;
address JPortalCode::_high = nullptr;
CHeapBitMap* JPortalCode::_exported = nullptr;

void JPortalCode::initialize(address low, address high) {
  _low = low;
  _high = high;
  size_t segments = align_up(pointer_delta(high, low, 1), CodeCacheSegmentSize) / CodeCacheSegmentSize;
  _exported = ::new (NEW_C_HEAP_OBJ(CHeapBitMap, mtTracing)) CHeapBitMap(segments, mtTracing);
}

bool JPortalCode::is_exported(address a) {
  return _low <= a && a < _high && _exported->at(pointer_delta(a, _low, 1) / CodeCacheSegmentSize);
}

void JPortalCode::set_exported(address begin, address end, bool value) {
  if (begin == end) return;
  assert(_low <= begin && end <= _high, "code outside of the code cache");
  BitMap::idx_t first = pointer_delta(begin, _low, 1) / CodeCacheSegmentSize;
  BitMap::idx_t last = pointer_delta(end - 1, _low, 1) / CodeCacheSegmentSize;
  _exported->par_at_put_range(first, last + 1, value);
}

// --- Blobs

void JPortalCode::commit_blob(u1 kind, const char* name, address begin, address end,
                              const JPortalKept::Entry* entries, int count) {
  JPortalBlobDefined r;
  r.start = (u8)begin;
  r.kind  = kind;
  r.name  = name;
  r.code  = JPortalBytes(begin, end - begin);
  JPortalBuffer b;
  r.write(&b);
  JPortalAddressList list(&b);
  for (int i = 0; i < count; i++) {
    list.add(entries[i].name, entries[i].at);
  }
  b.commit(JPortalBlobDefined::KIND);
}

// keep_code() must precede the test of is_on(). A recording that begins in between either finds the
// code among the kept code, or has set is_on() before the test.
static void export_blob(u1 kind, const char* name, address begin, address end,
                        const JPortalKept::Entry* entries, int count) {
  JPortalKept::keep_code(kind, name, begin, end, entries, count);
  if (JPortalRecording::is_on()) {
    JPortalCode::commit_blob(kind, name, begin, end, entries, count);
  }
  JPortalCode::set_exported(begin, end, true);
}

void JPortalCode::export_code(u1 kind, const char* name, address begin, address end) {
  export_blob(kind, name, begin, end, nullptr, 0);
}

static u1 kind_of(CodeBlob* blob) {
  if (blob->is_runtime_stub())            return JPortalBlobKinds::RUNTIME_STUB;
  if (blob->is_deoptimization_stub())     return JPortalBlobKinds::DEOPTIMIZATION;
  if (blob->is_uncommon_trap_stub())      return JPortalBlobKinds::UNCOMMON_TRAP;
  if (blob->is_exception_stub())          return JPortalBlobKinds::EXCEPTION;
  if (blob->is_safepoint_stub())          return JPortalBlobKinds::SAFEPOINT;
  if (blob->is_method_handles_adapter_blob()) return JPortalBlobKinds::METHOD_HANDLES_ADAPTER;
  return JPortalBlobKinds::BUFFER;
}

void JPortalHooks::blob_created(CodeBlob* blob, const char* name) {
  JPortalHookScope scope;
  if (!blob->is_deoptimization_stub()) {
    JPortalCode::export_code(kind_of(blob), name, blob->code_begin(), blob->code_end());
    return;
  }
  // The entry unpack_with_exception_in_tls, for C1, is set later. stubs_generated() exports it.
  DeoptimizationBlob* deopt = (DeoptimizationBlob*)blob;
  const JPortalKept::Entry entries[] = {
    { "unpack",                  deopt->unpack() },
    { "unpack_with_exception",   deopt->unpack_with_exception() },
    { "unpack_with_reexecution", deopt->unpack_with_reexecution() }
  };
  export_blob(kind_of(blob), name, blob->code_begin(), blob->code_end(), entries, ARRAY_SIZE(entries));
}

void JPortalHooks::adapter_created(AdapterBlob* blob, AdapterHandlerEntry* entry) {
  JPortalHookScope scope;
  const JPortalKept::Entry entries[] = {
    { "i2c",                 entry->get_i2c_entry() },
    { "c2i",                 entry->get_c2i_entry() },
    { "c2i_unverified",      entry->get_c2i_unverified_entry() },
    { "c2i_no_clinit_check", entry->get_c2i_no_clinit_check_entry() }
  };
  export_blob(JPortalBlobKinds::ADAPTER, blob->name(), blob->code_begin(), blob->code_end(),
              entries, ARRAY_SIZE(entries));
}

void JPortalHooks::stub_generated(const StubCodeDesc* desc) {
  JPortalHookScope scope;
  char name[256];
  jio_snprintf(name, sizeof(name), "%s::%s", desc->group(), desc->name());
  JPortalCode::export_code(JPortalBlobKinds::STUB_ROUTINE, name, desc->begin(), desc->end());
}

void JPortalHooks::vtable_stub_created(VtableStub* s, bool is_vtable_stub, int index) {
  JPortalHookScope scope;
  char name[64];
  jio_snprintf(name, sizeof(name), "%s stub %d", is_vtable_stub ? "vtable" : "itable", index);
  JPortalCode::export_code(JPortalBlobKinds::VTABLE_STUB, name, s->code_begin(), s->code_end());
}

void JPortalHooks::ic_stub_assembled(address begin, int size) {
  JPortalHookScope scope;
  JPortalCode::export_code(JPortalBlobKinds::IC_STUB, "IC stub", begin, begin + size);
}

void JPortalHooks::code_generated(const char* name, address begin, address end) {
  JPortalHookScope scope;
  JPortalCode::export_code(JPortalBlobKinds::BUFFER, name, begin, end);
}

// --- nmethods

void JPortalHooks::nmethod_installed(nmethod* nm) {
  JPortalHookScope scope;
  assert_lock_strong(CodeCache_lock);
  JPortalMarkers::keep_markers(nm);
  if (JPortalRecording::is_on()) {
    JPortalCode::export_nmethod(nm);
    JPortalKept::export_markers(nm);
  }
  JPortalCode::set_exported(nm->code_begin(), nm->code_end(), true);
}

void JPortalHooks::nmethod_state_change(nmethod* nm, int state) {
  JPortalHookScope scope;
  if (!JPortalRecording::is_on()) return;
  JPortalNMethodStateChanged r;
  r.nmethod = (u8)nm;
  switch (state) {
    case JPortalCompat::not_entrant: r.state = JPortalNmethodStates::NOT_ENTRANT; break;
    case JPortalCompat::zombie:      r.state = JPortalNmethodStates::ZOMBIE;      break;
    case JPortalCompat::unloaded:    r.state = JPortalNmethodStates::UNLOADED;    break;
    default: return;
  }
  JPortalBuffer::commit_record(r);
}

void JPortalHooks::blob_freed(CodeBlob* blob) {
  JPortalHookScope scope;
  assert_lock_strong(CodeCache_lock);
  if (blob->code_size() <= 0 || !JPortalCode::is_exported(blob->code_begin())) return;
  JPortalCode::set_exported(blob->code_begin(), blob->code_end(), false);
  if (blob->is_nmethod()) {
    JPortalKept::drop_markers(blob->as_nmethod());
  } else {
    JPortalKept::drop_code(blob->code_begin(), blob->code_end());
  }
  if (!JPortalRecording::is_on()) return;
  JPortalCodeFreed r;
  r.start = (u8)blob->code_begin();
  r.size  = (u8)blob->code_size();
  JPortalBuffer::commit_record(r);
}

// --- Patches

// A TSC before the thread's next store into code, or 0 if the thread has not stored into code yet.
static THREAD_LOCAL u8 writing_since = 0;

void JPortalHooks::code_writing() {
  writing_since = JPortalCode::timestamp();
}

void JPortalCode::export_patch(address at, int size, u1 reason) {
  JPortalCodePatched r;
  r.address = (u8)at;
  r.reason  = reason;
  r.code    = JPortalBytes(at, size);
  r.tid     = JPortalCompat::tid_of(Thread::current());
  r.since   = writing_since;
  JPortalBuffer::commit_record(r);
  // A change may consist of several stores, each with its own record. The next store is later.
  writing_since = timestamp();
}

void JPortalHooks::verified_entry_patched(address at, int size) {
  JPortalHookScope scope;
  if (JPortalRecording::is_on() && JPortalCode::is_exported(at)) {
    JPortalCode::export_patch(at, size, JPortalPatchReasons::VERIFIED_ENTRY);
  }
}

// instruction_written(), code_patched() and code_tail_patched() depend on the instruction set and
// are in jportalCode_x86.cpp.

// --- Calls

void JPortalHooks::resolution(JavaThread* current) {
  JPortalHookScope scope;
  assert(current == Thread::current() && current->has_last_Java_frame(), "the last frame is that of the stub");
  if (!JPortalRecording::is_on()) return;
  JPortalResolution r;
  r.tid            = JPortalCompat::tid_of(current);
  r.return_address = (u8)JPortalCompat::return_address_of_last_frame(current);
  JPortalBuffer::commit_record(r);
}
