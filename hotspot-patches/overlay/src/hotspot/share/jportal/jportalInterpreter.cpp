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
#include "interpreter/bytecodes.hpp"
#include "interpreter/interpreter.hpp"
#include "jportal/jportal.hpp"
#include "jportal/jportalAddressList.hpp"
#include "jportal/jportalCode.hpp"
#include "jportal/jportalInterpreter.hpp"
#include "jportal/jportalRecording.hpp"
#include "jportal/jportalRecords.hpp"
#include "logging/log.hpp"
#include "runtime/sharedRuntime.hpp"
#include "runtime/stubRoutines.hpp"

JPortalReveal::Instance JPortalReveal::_instances[MaxInstances];
int JPortalReveal::_count = 0;

void JPortalReveal::note(const char* name, address begin, address end) {
  guarantee(_count < MaxInstances, "more than %d reveals", MaxInstances);
  Instance i = { name, begin, end };
  _instances[_count++] = i;
}

// A subclass of Interpreter, because the interpreter's tables are protected static members.
class JPortalInterpreterExport : public Interpreter {
  static void codelets();
  static void table(u1 table, u1 index, const address* entries, int n);
  static void table(u1 table, u1 index, const EntryPoint& entry);
  static void tables();
  static void bytecode_names();
  static void entries();
  static void add_by_state(JPortalAddressList* list, const char* name, const EntryPoint& entry);

 public:
  static void all();
};

void JPortalInterpreterExport::codelets() {
  StubQueue* queue = code();
  for (Stub* s = queue->first(); s != nullptr; s = queue->next(s)) {
    InterpreterCodelet* codelet = (InterpreterCodelet*)s;
    JPortalInterpreterCodelet r;
    r.start       = (u8)codelet->code_begin();
    r.bytecode    = codelet->bytecode();
    r.description = codelet->description();
    r.code        = JPortalBytes(codelet->code_begin(), codelet->code_size());
    JPortalBuffer::commit_record(r);
  }
}

void JPortalInterpreterExport::table(u1 table, u1 index, const address* entries, int n) {
  JPortalInterpreterTable r;
  r.table = table;
  r.index = index;
  JPortalBuffer b;
  r.write(&b);
  b.put_count(n);
  for (int i = 0; i < n; i++) {
    JPortalCodeAddress item;
    item.address = (u8)entries[i];
    item.write(&b);
  }
  b.commit(JPortalInterpreterTable::KIND);
}

void JPortalInterpreterExport::table(u1 id, u1 index, const EntryPoint& entry) {
  address entries[number_of_states];
  for (int i = 0; i < number_of_states; i++) {
    entries[i] = entry.entry((TosState)i);
  }
  table(id, index, entries, number_of_states);
}

void JPortalInterpreterExport::tables() {
  for (int state = 0; state < number_of_states; state++) {
    table(JPortalTables::NORMAL,    state, _normal_table.table_for((TosState)state), DispatchTable::length);
    table(JPortalTables::SAFEPOINT, state, _safept_table.table_for((TosState)state), DispatchTable::length);
  }
  table(JPortalTables::WIDE, 0, _wentry_point, DispatchTable::length);
  for (int length = 0; length < number_of_return_entries; length++) {
    table(JPortalTables::RETURN, length, _return_entry[length]);
  }
  for (int length = 0; length < number_of_deopt_entries; length++) {
    table(JPortalTables::DEOPT, length, _deopt_entry[length]);
  }
  table(JPortalTables::INVOKE_RETURN,          0, _invoke_return_entry,          number_of_return_addrs);
  table(JPortalTables::INVOKEINTERFACE_RETURN, 0, _invokeinterface_return_entry, number_of_return_addrs);
  table(JPortalTables::INVOKEDYNAMIC_RETURN,   0, _invokedynamic_return_entry,   number_of_return_addrs);
  table(JPortalTables::METHOD_ENTRY,           0, _entry_table,                  number_of_method_entries);
  table(JPortalTables::NATIVE_RESULT,          0, _native_abi_to_tosca,          number_of_result_handlers);
  table(JPortalTables::SAFEPOINT_ENTRY,        0, _safept_entry);
}

void JPortalInterpreterExport::bytecode_names() {
  JPortalBuffer b;
  b.put_count(Bytecodes::number_of_codes);
  for (int i = 0; i < Bytecodes::number_of_codes; i++) {
    JPortalNamedAddress item;
    item.address = i;
    if (Bytecodes::is_defined(i)) {
      Bytecodes::Code code = Bytecodes::cast(i);
      item.name = Bytecodes::name(code);
      item.address |= ((u8)Bytecodes::java_code(code) << 16) | ((u8)Bytecodes::length_for(code) << 8);
    }
    item.write(&b);
  }
  b.commit(JPortalBytecodeNames::KIND);
}

void JPortalInterpreterExport::add_by_state(JPortalAddressList* list, const char* name, const EntryPoint& entry) {
  static const char* const states[] = {
    "btos", "ztos", "ctos", "stos", "itos", "ltos", "ftos", "dtos", "atos", "vtos"
  };
  STATIC_ASSERT(ARRAY_SIZE(states) == number_of_states);
  char full[64];
  for (int i = 0; i < number_of_states; i++) {
    jio_snprintf(full, sizeof(full), "%s.%s", name, states[i]);
    list->add(full, entry.entry((TosState)i));
  }
}

void JPortalInterpreterExport::entries() {
  JPortalBuffer b;
  JPortalAddressList e(&b);
  e.add("rethrow_exception",                     _rethrow_exception_entry);
  e.add("throw_exception",                       _throw_exception_entry);
  e.add("throw_ArrayIndexOutOfBoundsException",  _throw_ArrayIndexOutOfBoundsException_entry);
  e.add("throw_ArrayStoreException",             _throw_ArrayStoreException_entry);
  e.add("throw_ArithmeticException",             _throw_ArithmeticException_entry);
  e.add("throw_ClassCastException",              _throw_ClassCastException_entry);
  e.add("throw_NullPointerException",            _throw_NullPointerException_entry);
  e.add("throw_StackOverflowError",              _throw_StackOverflowError_entry);
  e.add("remove_activation",                     _remove_activation_entry);
  e.add("remove_activation_preserving_args",     _remove_activation_preserving_args_entry);
  e.add("deopt_reexecute_return",                _deopt_reexecute_return_entry);
  e.add("slow_signature_handler",                _slow_signature_handler);
  add_by_state(&e, "earlyret", _earlyret_entry);
  for (int i = 0; i < JPortalReveal::instances(); i++) {
    const JPortalReveal::Instance& reveal = JPortalReveal::instance(i);
    char end[64];
    jio_snprintf(end, sizeof(end), "%s.end", reveal.name);
    e.add(reveal.name, reveal.begin);
    e.add(end, reveal.end);
  }
  b.commit(JPortalInterpreterEntries::KIND);
}

void JPortalInterpreterExport::all() {
  codelets();
  tables();
  bytecode_names();
  entries();
}

void JPortalInterpreter::export_interpreter() {
  JPortalInterpreterExport::all();
}

void JPortalHooks::interpreter_generated() {
  JPortalCode::set_exported(Interpreter::code()->code_start(), Interpreter::code()->code_end(), true);
  if (!JPortalRecording::is_on()) return;
  JPortalInterpreter::export_interpreter();
  log_debug(jportal)("interpreter exported: %d codelets, %d reveals",
                     Interpreter::code()->number_of_stubs(), JPortalReveal::instances());
}

// Gives access to the return address of the call stub, a protected static member. Java code that
// C++ called returns to that address.
class JPortalCallStub : public StubRoutines {
 public:
  static address return_address() { return _call_stub_return_address; }
};

// Exports the entry points that the runtime jumps to by address, except those of the interpreter,
// which export_interpreter() exports. The hook is called at the end of init_globals(), before any
// Java code runs. It must not be later: the flow of a thread cannot be decoded without the return
// address of the call stub, and the process may be killed at any time.
void JPortalHooks::stubs_generated() {
  if (JPortalRecording::is_on()) {
    JPortalInterpreter::export_entries();
  }
}

void JPortalInterpreter::export_entries() {
  JPortalBuffer b;
  JPortalAddressList e(&b);
  e.add("call_stub",               CAST_FROM_FN_PTR(address, StubRoutines::call_stub()));
  e.add("call_stub_return",        JPortalCallStub::return_address());
  e.add("forward_exception",       StubRoutines::forward_exception_entry());
  e.add("catch_exception",         StubRoutines::catch_exception_entry());
  e.add("handle_wrong_method",     SharedRuntime::get_handle_wrong_method_stub());
  e.add("handle_wrong_method_abstract", SharedRuntime::get_handle_wrong_method_abstract_stub());
  e.add("ic_miss",                 SharedRuntime::get_ic_miss_stub());
  e.add("resolve_static_call",     SharedRuntime::get_resolve_static_call_stub());
  e.add("resolve_virtual_call",    SharedRuntime::get_resolve_virtual_call_stub());
  e.add("resolve_opt_virtual_call", SharedRuntime::get_resolve_opt_virtual_call_stub());
  e.add("throw_AbstractMethodError", StubRoutines::throw_AbstractMethodError_entry());
  e.add("throw_IncompatibleClassChangeError", StubRoutines::throw_IncompatibleClassChangeError_entry());
  e.add("throw_NullPointerException_at_call", StubRoutines::throw_NullPointerException_at_call_entry());
  e.add("throw_StackOverflowError_stub", StubRoutines::throw_StackOverflowError_entry());
  e.add("throw_delayed_StackOverflowError", StubRoutines::throw_delayed_StackOverflowError_entry());
  DeoptimizationBlob* deopt = SharedRuntime::deopt_blob();
  e.add("deopt.unpack",                 deopt->unpack());
  e.add("deopt.unpack_with_exception",  deopt->unpack_with_exception());
  e.add("deopt.unpack_with_reexecution", deopt->unpack_with_reexecution());
  COMPILER1_PRESENT(e.add("deopt.unpack_with_exception_in_tls", deopt->unpack_with_exception_in_tls());)
#if INCLUDE_JVMCI
  e.add("deopt.uncommon_trap",          deopt->uncommon_trap());
#endif
  b.commit(JPortalInterpreterEntries::KIND);
}
