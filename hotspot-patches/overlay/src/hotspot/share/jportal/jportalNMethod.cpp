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
#include "code/debugInfo.hpp"
#include "code/debugInfoRec.hpp"
#include "code/exceptionHandlerTable.hpp"
#include "code/nmethod.hpp"
#include "code/pcDesc.hpp"
#include "compiler/oopMap.hpp"
#include "jportal/jportal.hpp"
#include "jportal/jportalCode.hpp"
#include "jportal/jportalRecording.hpp"
#include "jportal/jportalRecords.hpp"
#include "logging/log.hpp"
#include "memory/resourceArea.hpp"
#include "oops/method.hpp"
#include "runtime/atomic.hpp"

static const u4 NoOffset = 0xffffffff;

// The scopes of an nmethod, each once. A PcDesc refers to a scope by its offset in the debug info,
// the record by its index in the list.
class JPortalScopes : public StackObj {
  enum : u4 { Unnumbered = 0xffffffff };

  const nmethod* _nm;
  int            _size;
  u4*            _number;   // by decode offset; null if there is no C heap for it
  u4             _count;

  bool is_scope(int offset) const {
    return _number != nullptr && offset != DebugInformationRecorder::serialized_null && offset < _size;
  }

  // Appends the scope and its callers to the list, if they are not in it.
  void add(int offset, JPortalBuffer* b) {
    while (is_scope(offset) && _number[offset] == (u4)Unnumbered) {
      _number[offset] = _count++;
      DebugInfoReadStream stream(_nm, offset);
      int sender = stream.read_int();
      JPortalScope item;
      item.method = (u8)stream.read_method();
      item.bci    = stream.read_bci();
      // A caller that is not in the list is appended next.
      item.parent = !is_scope(sender) ? JPORTAL_NO_SCOPE
                  : _number[sender] != (u4)Unnumbered ? _number[sender] : _count;
      item.write(b);
      offset = sender;
    }
  }

 public:
  JPortalScopes(const nmethod* nm) : _nm(nm), _size(nm->scopes_data_size()), _number(nullptr), _count(0) {
    if (_size > 0) {
      _number = (u4*)os::malloc(_size * sizeof(u4), mtTracing);
      if (_number != nullptr) {
        memset(_number, 0xff, _size * sizeof(u4));
      } else {
        log_warning(jportal)("no C heap for the scopes of an nmethod: they are missing in the capture");
      }
    }
  }
  ~JPortalScopes() { os::free(_number); }

  u4 number_of(int offset) const {
    return is_scope(offset) ? _number[offset] : JPORTAL_NO_SCOPE;
  }

  void put(JPortalBuffer* b) {
    size_t at = b->reserve_count();
    for (PcDesc* p = _nm->scopes_pcs_begin(); p < _nm->scopes_pcs_end(); p++) {
      add(p->scope_decode_offset(), b);
    }
    b->set_count(at, _count);
  }
};

// The first and the last PcDesc are sentinels.
static bool is_sentinel(const PcDesc* p) {
  return p->pc_offset() == PcDesc::lower_offset_limit || p->pc_offset() == PcDesc::upper_offset_limit;
}

// Whether an oop map exists for 'pc_offset'. A safepoint has one; a PcDesc that DebugNonSafepoints
// adds has none. PcDescs and oop maps are sorted, so the search begins at pair '*at', where the
// previous search ended.
static bool is_safepoint(const ImmutableOopMapSet* maps, int* at, int pc_offset) {
  if (maps == nullptr) return false;
  while (*at < maps->count() && maps->pair_at(*at)->pc_offset() < pc_offset) (*at)++;
  return *at < maps->count() && maps->pair_at(*at)->pc_offset() == pc_offset;
}

static void put_pc_descs(JPortalBuffer* b, const nmethod* nm, const JPortalScopes& scopes) {
  size_t at = b->reserve_count();
  size_t count = 0;
  int map = 0;
  for (PcDesc* p = nm->scopes_pcs_begin(); p < nm->scopes_pcs_end(); p++) {
    if (is_sentinel(p)) continue;
    const bool safepoint = is_safepoint(nm->oop_maps(), &map, p->pc_offset());
    JPortalPcDescriptor item;
    item.pc_offset = (u4)p->pc_offset();
    item.scope     = scopes.number_of(p->scope_decode_offset());
    item.flags     = (p->should_reexecute()        ? JPortalPcFlags::REEXECUTE            : 0u) |
                     (p->rethrow_exception()       ? JPortalPcFlags::RETHROW_EXCEPTION    : 0u) |
                     (p->return_oop()              ? JPortalPcFlags::RETURN_OOP           : 0u) |
                     (p->is_method_handle_invoke() ? JPortalPcFlags::METHOD_HANDLE_INVOKE : 0u) |
                     (!safepoint                   ? JPortalPcFlags::NON_SAFEPOINT        : 0u);
    item.write(b);
    count++;
  }
  b->set_count(at, count);
}

static void put_handlers(JPortalBuffer* b, const nmethod* nm) {
  size_t at = b->reserve_count();
  size_t count = 0;
  const HandlerTableEntry* e = (const HandlerTableEntry*)nm->handler_table_begin();
  const HandlerTableEntry* end = e + nm->handler_table_size() / sizeof(HandlerTableEntry);
  while (e < end) {
    const int length = e->len();
    const int catch_pco = e->pco();
    e++;
    for (int i = 0; i < length && e < end; i++, e++) {
      JPortalHandlerEntry item;
      item.pc_offset      = (u4)catch_pco;
      item.handler_bci    = e->bci();
      item.scope_depth    = (u4)e->scope_depth();
      item.handler_offset = (u4)e->pco();
      item.write(b);
      count++;
    }
  }
  b->set_count(at, count);
}

static void put_implicit(JPortalBuffer* b, const nmethod* nm) {
  ImplicitExceptionTable table(nm);
  b->put_count(table.len());
  for (uint i = 0; i < table.len(); i++) {
    JPortalImplicitEntry item;
    item.pc_offset    = table.get_exec_offset(i);
    item.continuation = table.get_cont_offset(i);
    if (item.continuation == item.pc_offset) {
      item.continuation = 0;   // JVMCI requests a deoptimization this way
    }
    item.write(b);
  }
}

static u4 offset_in_code(const nmethod* nm, address a) {
  return nm->code_begin() <= a && a < nm->code_end() ? (u4)(a - nm->code_begin()) : NoOffset;
}

static u1 compiler_of(const nmethod* nm) {
  switch (nm->compiler_type()) {
    case compiler_c1: return JPortalCompilers::C1;
    case compiler_c2: return JPortalCompilers::C2;
    case compiler_none: return JPortalCompilers::NATIVE_WRAPPER;
    // Code without path markers: the decoder uses its debug info.
    default:          return JPortalCompilers::JVMCI;
  }
}

// The recording that has the notice of note_jvmci().
static volatile int noticed_in = 0;

// Says once in each capture that it has code whose path is not marked.
static void note_jvmci() {
  const int recording = JPortalRecording::number();
  const int last = Atomic::load(&noticed_in);
  if (last == recording || Atomic::cmpxchg(&noticed_in, last, recording) != last) return;
  JPortalNotice r;
  r.text = "some code was compiled by a JVMCI compiler, which writes no path markers: "
           "its path is known only at calls and safepoints, and it counts as code of C2";
  JPortalBuffer::commit_record(r);
}

void JPortalCode::export_nmethod(nmethod* nm) {
  const bool compiled = nm->compiler_type() != compiler_none;
  const bool osr = nm->is_osr_method();
  JPortalNMethodInstalled r;
  r.start             = (u8)nm->code_begin();
  r.method            = (u8)nm->method();
  r.nmethod           = (u8)nm;
  r.compile_id        = (u4)nm->compile_id();
  r.compiler          = compiler_of(nm);
  r.level             = (u1)nm->comp_level();
  r.osr_bci           = osr ? nm->osr_entry_bci() : JPORTAL_INVOCATION_ENTRY_BCI;
  r.frame_words       = (u4)nm->frame_size();
  r.entry             = offset_in_code(nm, nm->entry_point());
  r.verified_entry    = offset_in_code(nm, nm->verified_entry_point());
  r.osr_entry         = osr ? offset_in_code(nm, nm->osr_entry()) : 0;
  r.stub              = compiled ? (u4)(nm->stub_begin() - nm->code_begin()) : (u4)nm->code_size();
  // A native wrapper has none of these; its offsets are placeholders.
  r.exception_handler = compiled ? offset_in_code(nm, nm->exception_begin()) : NoOffset;
  r.deopt_handler     = compiled ? offset_in_code(nm, nm->deopt_handler_begin()) : NoOffset;
  r.deopt_mh_handler  = compiled ? offset_in_code(nm, nm->deopt_mh_handler_begin()) : NoOffset;
  r.unwind_handler    = compiled ? offset_in_code(nm, nm->unwind_handler_begin()) : NoOffset;
  r.code              = JPortalBytes(nm->code_begin(), nm->code_size());

  JPortalBuffer b;
  r.write(&b);
  JPortalScopes scopes(nm);
  scopes.put(&b);
  put_pc_descs(&b, nm, scopes);
  put_handlers(&b, nm);
  put_implicit(&b, nm);
  b.commit(JPortalNMethodInstalled::KIND);
  if (r.compiler == JPortalCompilers::JVMCI) {
    note_jvmci();
  }

  if (log_is_enabled(Debug, jportal, nmethod)) {
    ResourceMark rm;
    log_debug(jportal, nmethod)("%d %s: %d bytes", nm->compile_id(), nm->method()->external_name(), nm->code_size());
  }
}
