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

#ifndef SHARE_JPORTAL_JPORTAL_HPP
#define SHARE_JPORTAL_JPORTAL_HPP

#include "jportal/jportal_globals.hpp"
#include "memory/allocation.hpp"
#include "oops/oopsHierarchy.hpp"
#include "utilities/globalDefinitions.hpp"

class AdapterBlob;
class AdapterHandlerEntry;
class CodeBlob;
class InstanceKlass;
class JavaThread;
class Method;
class StubCodeDesc;
class Thread;
class VtableStub;
class methodHandle;
class nmethod;

// What the VM tells JPortal, named by the moment. Existing files call these and
// nothing else, one line each, under JPORTAL_ONLY. With -XX:-JPortal a hook is
// the test of one flag.
//
// While JPortalRecording::is_on() is false a hook makes no record: it keeps what a
// recording that begins later needs to be told (jportalKept.hpp) and returns.
//
// A hook may wait until the recorder has room for the record: metadata is never
// dropped. It takes no lock but those named below, reaches no safepoint, makes
// no thread state transition and allocates on the C heap only, so hooks are
// called with any VM lock held, at safepoints and by threads that are no
// JavaThreads.
class JPortalHooks : AllStatic {
 public:
  // --- The VM's life

  // Arguments and the os module are ready; no code has been generated. Exits the
  // VM with a message when there is nothing to record with.
  static void on_create_vm()                      { if (JPortal) create_vm(); }
  // Address space for the code cache is reserved at [base, base + size); 'special' says that it is memory already. True: it is
  // memory now, and stays as it is mapped.
  static bool on_code_space_reserved(char* base, size_t size, bool special) {
    return JPortal && code_space_reserved(base, size, special);
  }
  // The code cache is reserved and empty.
  static void on_code_cache_reserved()            { if (JPortal) code_cache_reserved(); }
  // The template interpreter and its dispatch tables are complete.
  static void on_interpreter_generated()          { if (JPortal) interpreter_generated(); }
  // All stubs and adapters that the VM makes at its start are there.
  static void on_stubs_generated()                { if (JPortal) stubs_generated(); }
  // No Java thread runs any more (or the process is about to end anyway).
  static void on_vm_exit()                        { if (JPortal) vm_exit(); }
  // The first OutOfMemoryError, by the thread that met it, in the VM.
  static void on_java_out_of_memory()             { if (JPortal && JPortalSnapshot != 0) java_out_of_memory(); }
  // The VM crashed. Async-signal-safe.
  static void on_vm_error()                       { if (JPortal) vm_error(); }

  // --- Code. Each is called when the code is complete and before it can run.

  static void on_blob_created(CodeBlob* blob, const char* name) {
    if (JPortal && blob != NULL) blob_created(blob, name);
  }
  static void on_adapter_created(AdapterBlob* blob, AdapterHandlerEntry* entry) {
    if (JPortal) adapter_created(blob, entry);
  }
  static void on_stub_generated(const StubCodeDesc* desc)  { if (JPortal) stub_generated(desc); }
  static void on_vtable_stub_created(VtableStub* s, bool is_vtable_stub, int index) {
    if (JPortal) vtable_stub_created(s, is_vtable_stub, index);
  }
  static void on_ic_stub_assembled(address begin, int size) {
    if (JPortal) ic_stub_assembled(begin, size);
  }
  // Code made outside the schemes above.
  static void on_code_generated(const char* name, address begin, address end) {
    if (JPortal) code_generated(name, begin, end);
  }
  // Under CodeCache_lock: nobody else has seen the nmethod.
  static void on_nmethod_installed(nmethod* nm)   { if (JPortal) nmethod_installed(nm); }
  // Right after the transition, with the new state.
  static void on_nmethod_state_change(nmethod* nm, int state) {
    if (JPortal) nmethod_state_change(nm, state);
  }
  // Memory of any blob is about to be given back. Under CodeCache_lock.
  static void on_blob_freed(CodeBlob* blob)       { if (JPortal) blob_freed(blob); }

  // --- Changes of code, right after the store.

  // The thread is about to store into code: no thread can execute earlier what it stores.
  static void on_code_writing()                                { if (JPortal) code_writing(); }
  // A NativeInstruction stored at 'offset' bytes behind its start.
  static void on_instruction_written(address instruction, int offset) {
    if (JPortal) instruction_written(instruction, offset);
  }
  // An instruction was put at 'at'.
  static void on_code_patched(address at, int size)            { if (JPortal) code_patched(at, size); }
  // The jump of a not entrant nmethod.
  static void on_verified_entry_patched(address at, int size)  { if (JPortal) verified_entry_patched(at, size); }
  // Runtime1::patch_code wrote what stands behind the jump at 'at'.
  static void on_code_tail_patched(address at, int size)       { if (JPortal) code_tail_patched(at, size); }

  // --- Calls

  // A thread has come to the VM to have a call of compiled code resolved, or the instruction of a patch stub of C1; its last
  // frame is that of the stub which called the VM. May hold arguments that nobody knows: no safepoint.
  static void on_resolution(JavaThread* current)               { if (JPortal) resolution(current); }

  // --- Classes and methods

  // Every method is rewritten and has its entry points; none can have been called.
  static void on_class_linked(InstanceKlass* ik)     { if (JPortal) class_defined(ik); }
  // New method versions are in place; at a safepoint.
  static void on_class_redefined(InstanceKlass* ik)  { if (JPortal) class_defined(ik); }
  static void on_class_unloaded(InstanceKlass* ik)   { if (JPortal) class_unloaded(ik); }
  // A method handle intrinsic, which no class lists.
  static void on_method_intrinsic_created(Method* m) { if (JPortal) method_intrinsic_created(m); }
  // The Method is about to lose its contents or its memory. Takes CodeCache_lock.
  static void on_method_freed(Method* m)             { if (JPortal) method_freed(m); }

  // The interpreter entry for a method that is being linked: a jump of its own
  // to 'entry', or 'entry' itself. Takes CodeCache_lock.
  static address interpreter_entry_for(const methodHandle& m, address entry) {
    return JPortal ? method_entry_for(m, entry) : entry;
  }
  // What interpreter_entry_for() was given, from what it returned.
  static address shared_interpreter_entry(address entry) {
    return JPortal ? method_entry_target(entry) : entry;
  }

  // --- Threads. Called by the thread itself unless said otherwise.

  // It can run Java code from now on. Called again when its name or id becomes known.
  static void on_thread_start(Thread* t)             { if (JPortal) thread_start(t); }
  // It will not run Java code any more.
  static void on_thread_exit(JavaThread* t)          { if (JPortal) thread_exit(t); }
  // java.lang.Thread.setName, called by any thread; 't' is NULL when it has ended.
  static void on_thread_renamed(JavaThread* t, oop name) {
    if (JPortal && t != NULL) thread_renamed(t, name);
  }

  // --- Diagnostic commands
  static void register_dcmds();

 private:
  static void create_vm();
  static bool code_space_reserved(char* base, size_t size, bool special);
  static void code_cache_reserved();
  static void interpreter_generated();
  static void stubs_generated();
  static void vm_exit();
  static void vm_error();
  static void java_out_of_memory();

  static void blob_created(CodeBlob* blob, const char* name);
  static void adapter_created(AdapterBlob* blob, AdapterHandlerEntry* entry);
  static void stub_generated(const StubCodeDesc* desc);
  static void vtable_stub_created(VtableStub* s, bool is_vtable_stub, int index);
  static void ic_stub_assembled(address begin, int size);
  static void code_generated(const char* name, address begin, address end);
  static void nmethod_installed(nmethod* nm);
  static void nmethod_state_change(nmethod* nm, int state);
  static void blob_freed(CodeBlob* blob);

  static void code_writing();
  static void instruction_written(address instruction, int offset);
  static void code_patched(address at, int size);
  static void verified_entry_patched(address at, int size);
  static void code_tail_patched(address at, int size);

  static void resolution(JavaThread* current);

  static void class_defined(InstanceKlass* ik);
  static void class_unloaded(InstanceKlass* ik);
  static void method_intrinsic_created(Method* m);
  static void method_freed(Method* m);
  static address method_entry_for(const methodHandle& m, address entry);
  static address method_entry_target(address entry);

  static void thread_start(Thread* t);
  static void thread_exit(JavaThread* t);
  static void thread_renamed(JavaThread* t, oop name);
};

#endif // SHARE_JPORTAL_JPORTAL_HPP
