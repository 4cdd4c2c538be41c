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
#include "classfile/classLoaderData.inline.hpp"
#include "interpreter/bytecodes.hpp"
#include "interpreter/interpreter.hpp"
#include "jportal/jportal.hpp"
#include "jportal/jportalCompat.hpp"
#include "jportal/jportalHookScope.hpp"
#include "jportal/jportalMethodStubs.hpp"
#include "jportal/jportalKept.hpp"
#include "jportal/jportalMethods.hpp"
#include "jportal/jportalRecording.hpp"
#include "jportal/jportalSlowCalls.hpp"
#include "jportal/jportalRecords.hpp"
#include "logging/log.hpp"
#include "memory/resourceArea.hpp"
#include "oops/constantPool.inline.hpp"
#include "oops/instanceKlass.hpp"
#include "oops/klass.inline.hpp"
#include "oops/method.inline.hpp"
#include "runtime/handles.inline.hpp"
#include "runtime/init.hpp"
#include "runtime/mutexLocker.hpp"
#include "utilities/bytes.hpp"

// --- Classes

// The class name of the loader, a space, and its name_and_id(); empty for the boot loader.
static const char* loader_name(ClassLoaderData* cld, char* buf, size_t size) {
  buf[0] = '\0';
  Klass* k = cld->class_loader_klass();
  if (k == nullptr) return buf;
  Symbol* klass = k->name();
  Symbol* name = cld->name_and_id();
  jio_snprintf(buf, size, "%.*s %.*s", klass->utf8_length(), (const char*)klass->base(),
               name == nullptr ? 0 : name->utf8_length(), name == nullptr ? "" : (const char*)name->base());
  return buf;
}

enum : int { LoaderNameSize = 512 };

// Fills in the fields that the records of a class have in common. 'loader' has LoaderNameSize bytes
// and must outlive the record.
template <typename R> static void describe(R* r, InstanceKlass* ik, char* loader) {
  // The ClassLoaderData of the loader. A hidden class may have a ClassLoaderData of its own.
  ClassLoaderData* cld = ClassLoaderData::class_loader_data_or_null(ik->class_loader());
  if (cld == nullptr) {
    cld = ik->class_loader_data();
  }
  r->klass        = (u8)ik;
  r->super_klass  = (u8)ik->super();
  r->loader       = cld->is_boot_class_loader_data() ? 0 : (u8)cld;
  r->access_flags = ik->access_flags().as_int() & JVM_ACC_WRITTEN_FLAGS;
  r->flags        = (ik->is_hidden() ? JPortalClassFlags::HIDDEN : 0u) |
                    (ik->is_shared() ? JPortalClassFlags::SHARED : 0u);
  r->name         = ik->name();
  r->loader_name  = loader_name(cld, loader, LoaderNameSize);
}

void JPortalMethods::export_loaded_class(InstanceKlass* ik, u4 tid) {
  char loader[LoaderNameSize];
  JPortalClassLoaded r;
  describe(&r, ik, loader);
  r.tid = tid;
  JPortalBuffer b;
  r.write(&b);
  Array<InstanceKlass*>* interfaces = ik->local_interfaces();
  b.put_count(interfaces->length());
  for (int i = 0; i < interfaces->length(); i++) {
    JPortalClassPointer item;
    item.klass = (u8)interfaces->at(i);
    item.write(&b);
  }
  b.commit(JPortalClassLoaded::KIND);
}

void JPortalMethods::export_class(InstanceKlass* ik) {
  char loader[LoaderNameSize];
  JPortalClassDefined r;
  describe(&r, ik, loader);
  r.source_file = ik->source_file_name();
  JPortalBuffer::commit_record(r);
  export_constants(ik);

  Array<Method*>* methods = ik->methods();
  for (int i = 0; i < methods->length(); i++) {
    Method* m = methods->at(i);
    export_method(m, m->method_holder() == ik ? ik->constants() : nullptr);
  }
}

// Describes the entry of the constant pool at 'index'. Returns whether a bytecode may refer to it.
static bool describe_entry(ConstantPool* cp, int index, JPortalPoolReference* entry) {
  constantTag tag(cp->tag_at(index).non_error_value());
  entry->index      = (u2)index;
  entry->tag        = (u1)tag.value();
  entry->class_name = 0;
  entry->name       = 0;
  entry->signature  = 0;
  int name_and_type = 0;
  if (tag.is_klass() || tag.is_unresolved_klass()) {
    entry->tag        = JVM_CONSTANT_Class;
    entry->class_name = (u2)cp->klass_name_index_at(index);
  } else if (tag.is_field_or_method()) {
    entry->class_name = (u2)cp->klass_name_index_at(cp->uncached_klass_ref_index_at(index));
    name_and_type     = cp->uncached_name_and_type_ref_index_at(index);
  } else if (tag.has_bootstrap()) {
    name_and_type     = cp->bootstrap_name_and_type_ref_index_at(index);
  } else {
    return tag.is_loadable_constant();
  }
  if (name_and_type != 0) {
    entry->name      = (u2)cp->name_ref_index_at(name_and_type);
    entry->signature = (u2)cp->signature_ref_index_at(name_and_type);
  }
  return true;
}

static void note_index(u1* bits, u2 index) {
  bits[index / BitsPerByte] |= (u1)(1 << index % BitsPerByte);
}

void JPortalMethods::export_constants(InstanceKlass* ik) {
  ConstantPool* cp = ik->constants();
  JPortalClassConstants r;
  r.klass = (u8)ik;
  JPortalBuffer b;
  r.write(&b);
  // One bit for each index: whether an entry names the text there.
  u1 named[(max_jushort + 1) / BitsPerByte];
  memset(named, 0, cp->length() / BitsPerByte + 1);
  size_t at = b.reserve_count();
  size_t count = 0;
  for (int i = 1; i < cp->length(); i++) {
    JPortalPoolReference entry;
    if (!describe_entry(cp, i, &entry)) continue;
    entry.write(&b);
    count++;
    note_index(named, entry.class_name);
    note_index(named, entry.name);
    note_index(named, entry.signature);
  }
  b.set_count(at, count);

  at = b.reserve_count();
  count = 0;
  for (int i = 1; i < cp->length(); i++) {
    if ((named[i / BitsPerByte] & (1 << i % BitsPerByte)) == 0) continue;
    JPortalPoolText item;
    item.index = (u2)i;
    item.text  = cp->symbol_at(i);
    item.write(&b);
    count++;
  }
  b.set_count(at, count);
  b.commit(JPortalClassConstants::KIND);
}

// --- Methods

void JPortalMethods::export_method(Method* m, ConstantPool* exported) {
  JPortalMethodDefined r;
  r.method       = (u8)m;
  r.klass        = (u8)m->method_holder();
  r.access_flags = m->access_flags().as_int() & JVM_ACC_WRITTEN_FLAGS;
  r.entry_kind   = (u1)Interpreter::method_kind(methodHandle(Thread::current(), m));
  r.intrinsic    = (u2)vmIntrinsics::as_int(m->intrinsic_id());
  r.max_stack    = (u2)m->verifier_max_stack();
  r.max_locals   = (u2)m->max_locals();
  r.idnum        = m->method_idnum();
  r.name         = m->name();
  r.signature    = m->signature();

  u1* code = nullptr;
  if (m->code_size() > 0) {
    code = (u1*)os::malloc(m->code_size(), mtTracing);
    if (code == nullptr) {
      log_warning(jportal)("no C heap for the bytecodes of a method: it is missing in the capture");
      return;
    }
    copy_original_bytecodes(m, code);
    r.code = JPortalBytes(code, m->code_size());
  }
  JPortalBuffer b;
  r.write(&b);
  put_exceptions(&b, m);
  put_lines(&b, m);
  if (m->constants() == exported) {
    b.put_count(0);   // of invokes; no list of constants follows
  } else {
    put_invokes(&b, m, code);
    put_constants(&b, m, code);
  }
  b.commit(JPortalMethodDefined::KIND);
  os::free(code);
}

void JPortalMethods::copy_original_bytecodes(Method* m, u1* to) {
  ConstantPool* cp = m->constants();
  const bool rewritten = cp->cache() != nullptr;   // the Rewriter creates it
  const int size = m->code_size();
  memcpy(to, m->code_base(), size);

  for (int bci = 0; bci < size; ) {
    address bcp = m->bcp_from(bci);
    const Bytecodes::Code raw = Bytecodes::code_at(m, bcp);     // the bytecode under a breakpoint
    const Bytecodes::Code code = Bytecodes::java_code(raw);
    const int length = Bytecodes::java_length_at(m, bcp);
    u1* operands = to + bci + 1;
    to[bci] = (u1)code;
    if (rewritten) {
      switch (code) {
        case Bytecodes::_getstatic:
        case Bytecodes::_putstatic:
        case Bytecodes::_getfield:
        case Bytecodes::_putfield:
        case Bytecodes::_invokevirtual:
        case Bytecodes::_invokespecial:
        case Bytecodes::_invokestatic:
        case Bytecodes::_invokeinterface: {
          int index = Bytes::get_native_u2(bcp + 1);
          Bytes::put_Java_u2(operands, JPortalCompat::index_of_member(cp, index));
          break;
        }
        case Bytecodes::_invokedynamic: {
          int index = Bytes::get_native_u4(bcp + 1);
          Bytes::put_Java_u2(operands, JPortalCompat::index_of_dynamic_call(cp, index));
          operands[2] = operands[3] = 0;
          break;
        }
        case Bytecodes::_ldc:
          if (raw == Bytecodes::_fast_aldc) {
            operands[0] = (u1)cp->object_to_cp_index(*(bcp + 1));
          }
          break;
        case Bytecodes::_ldc_w:
          if (raw == Bytecodes::_fast_aldc_w) {
            Bytes::put_Java_u2(operands, (u2)cp->object_to_cp_index(Bytes::get_native_u2(bcp + 1)));
          }
          break;
        default:
          break;
      }
    }
    bci += length;
  }
}

void JPortalMethods::put_exceptions(JPortalBuffer* b, Method* m) {
  ConstantPool* cp = m->constants();
  ExceptionTable table(m);
  b->put_count(table.length());
  for (int i = 0; i < table.length(); i++) {
    JPortalExceptionEntry item;
    item.start_bci   = table.start_pc(i);
    item.end_bci     = table.end_pc(i);
    item.handler_bci = table.handler_pc(i);
    int type = table.catch_type_index(i);
    if (type != 0) {
      item.catch_type = cp->klass_name_at(type);
    }
    item.write(b);
  }
}

void JPortalMethods::put_lines(JPortalBuffer* b, Method* m) {
  size_t at = b->reserve_count();
  size_t count = 0;
  if (m->has_linenumber_table()) {
    CompressedLineNumberReadStream stream(m->compressed_linenumber_table());
    while (stream.read_pair()) {
      JPortalLineEntry item;
      item.bci  = (u2)stream.bci();
      item.line = (u2)stream.line();
      item.write(b);
      count++;
    }
  }
  b->set_count(at, count);
}

void JPortalMethods::put_invokes(JPortalBuffer* b, Method* m, const u1* original) {
  ConstantPool* cp = m->constants();
  size_t at = b->reserve_count();
  size_t count = 0;
  for (int bci = 0; bci < m->code_size(); bci += Bytecodes::java_length_at(m, m->bcp_from(bci))) {
    Bytecodes::Code code = Bytecodes::cast(original[bci]);
    if (!Bytecodes::is_invoke(code)) continue;
    int index = Bytes::get_Java_u2((address)original + bci + 1);
    JPortalInvokeTarget item;
    item.bci = (u2)bci;
    if (code != Bytecodes::_invokedynamic) {
      item.class_name = cp->klass_name_at(cp->uncached_klass_ref_index_at(index));
    }
    item.name      = cp->uncached_name_ref_at(index);
    item.signature = cp->uncached_signature_ref_at(index);
    item.write(b);
    count++;
  }
  b->set_count(at, count);
}

// The index that the bytecode at 'bcp', an original one, has into the constant pool, if it loads a
// constant, accesses a field or names a class; otherwise 0, which is no index.
static int constant_index(const u1* bcp) {
  switch (Bytecodes::cast(*bcp)) {
    case Bytecodes::_ldc:
      return bcp[1];
    case Bytecodes::_ldc_w:
    case Bytecodes::_ldc2_w:
    case Bytecodes::_getstatic:
    case Bytecodes::_putstatic:
    case Bytecodes::_getfield:
    case Bytecodes::_putfield:
    case Bytecodes::_new:
    case Bytecodes::_anewarray:
    case Bytecodes::_checkcast:
    case Bytecodes::_instanceof:
    case Bytecodes::_multianewarray:
      return Bytes::get_Java_u2((address)bcp + 1);
    default:
      return 0;
  }
}

void JPortalMethods::put_constants(JPortalBuffer* b, Method* m, const u1* original) {
  ConstantPool* cp = m->constants();
  // One bit for each index: whether the entry has been put.
  u1 done[(max_jushort + 1) / BitsPerByte];
  memset(done, 0, cp->length() / BitsPerByte + 1);
  size_t at = b->reserve_count();
  size_t count = 0;
  for (int bci = 0; bci < m->code_size(); bci += Bytecodes::java_length_at(m, m->bcp_from(bci))) {
    int index = constant_index(original + bci);
    u1 bit = (u1)(1 << index % BitsPerByte);
    if (index == 0 || (done[index / BitsPerByte] & bit) != 0) continue;
    done[index / BitsPerByte] |= bit;
    put_constant(b, cp, index);
    count++;
  }
  b->set_count(at, count);
}

void JPortalMethods::put_constant(JPortalBuffer* b, ConstantPool* cp, int index) {
  constantTag tag = cp->tag_at(index);
  JPortalPoolConstant item;
  item.index = (u2)index;
  item.tag   = (u1)tag.non_error_value();
  if (tag.is_klass() || tag.is_unresolved_klass()) {
    item.tag        = JVM_CONSTANT_Class;
    item.class_name = cp->klass_name_at(index);
  } else if (tag.is_field()) {
    item.class_name = cp->klass_name_at(cp->uncached_klass_ref_index_at(index));
    item.name       = cp->uncached_name_ref_at(index);
    item.signature  = cp->uncached_signature_ref_at(index);
  } else if (tag.has_bootstrap()) {
    item.name      = cp->uncached_name_ref_at(index);
    item.signature = cp->uncached_signature_ref_at(index);
  }
  item.write(b);
}

// --- Hooks

void JPortalHooks::class_loaded(InstanceKlass* ik) {
  JPortalHookScope scope;
  assert(Compile_lock->owned_by_self() || !is_init_completed(), "the class hierarchy changes under this lock");
  if (!JPortalRecording::is_on()) return;
  JPortalMethods::export_loaded_class(ik, (u4)os::current_thread_id());
}

void JPortalHooks::class_defined(InstanceKlass* ik) {
  JPortalHookScope scope;
  JPortalSlowCalls::on_class_defined(ik);
  if (!JPortalRecording::is_on()) return;
  JPortalMethods::export_class(ik);
  if (log_is_enabled(Debug, jportal, class)) {
    ResourceMark rm;
    log_debug(jportal, class)("%s: %d methods", ik->external_name(), ik->methods()->length());
  }
}

void JPortalHooks::class_redefined(InstanceKlass* ik) {
  assert_at_safepoint();
  class_defined(ik);
}

// The record stands for all methods of the class. It precedes the release of their stubs, which
// other methods may use from then on.
void JPortalHooks::class_unloaded(InstanceKlass* ik) {
  JPortalHookScope scope;
  assert_locked_or_safepoint(ClassLoaderDataGraph_lock);
  if (JPortalRecording::is_on()) {
    JPortalClassUnloaded r;
    r.klass = (u8)ik;
    JPortalBuffer::commit_record(r);
  }
  JPortalMethodStubTable::release_all(ik->methods());
}

void JPortalHooks::method_intrinsic_created(Method* m) {
  JPortalHookScope scope;
  JPortalKept::keep_intrinsic(m);
  if (JPortalRecording::is_on()) {
    JPortalMethods::export_method(m);
  }
}

void JPortalHooks::method_freed(Method* m) {
  JPortalHookScope scope;
  address entry = m->interpreter_entry();
  if (entry == nullptr) return;   // never linked, handled before, or unloaded with its class
  if (JPortalRecording::is_on()) {
    JPortalMethodFreed r;
    r.method = (u8)m;
    JPortalBuffer::commit_record(r);
  }
  JPortalMethodStubTable::release(entry);
  m->set_interpreter_entry(nullptr);
}
