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

#ifndef SHARE_JPORTAL_JPORTAL_HPP
#define SHARE_JPORTAL_JPORTAL_HPP

#include "jni.h"
#include "jportal/jportal_globals.hpp"
#include "memory/allocation.hpp"
#include "oops/oopsHierarchy.hpp"
#include "utilities/globalDefinitions.hpp"

#include <signal.h>

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

// The hooks through which the VM reports events to JPortal. A hook is named after the moment that
// it reports. HotSpot's own code calls only these hooks, those of the compilers
// (jportalMarkersC1.hpp, jportalMarkersC2.hpp) and the generators of interpreter code
// (jportalInterpreter.hpp, jportalSlowCalls.hpp). Each call is under JPORTAL_ONLY. With
// -XX:-JPortal a hook only tests one flag.
//
// While JPortalRecording::is_on() is false, a hook commits no record. It keeps what a later
// recording needs (jportalKept.hpp) and returns.
//
// A hook waits for no disk: a full ring ends the recording. A hook takes no HotSpot lock except
// those named below, reaches no safepoint, makes no thread state transition and allocates on the C
// heap only. Hooks are therefore called with any VM lock held, at safepoints, and by threads that
// are not JavaThreads. One hook is an exception: interpreter_entry_for() may allocate in the code
// cache.
class JPortalHooks : AllStatic {
 public:
  // --- Start and end of the VM

  // Arguments and the os module are initialized; no code has been generated. If the flags do not
  // fit together, or the recording cannot start, the VM exits with a message. If the environment
  // asked for the feature, it only warns and turns the feature off, here or in the next two hooks.
  static void on_create_vm()                      { if (JPortal) create_vm(); }
  // Address space for the code cache is reserved at [base, base + size). 'special' is that of the
  // ReservedSpace: the range is already committed. Returns true if the hook has committed the
  // whole range; the caller must then treat the space as special, and leave its mapping as it is.
  static bool on_code_space_reserved(char* base, size_t size, bool special) {
    return JPortal && code_space_reserved(base, size, special);
  }
  // The code cache is reserved and empty.
  static void on_code_cache_reserved()            { if (JPortal) code_cache_reserved(); }
  // The template interpreter and its dispatch tables are complete.
  static void on_interpreter_generated()          { if (JPortal) interpreter_generated(); }
  // init_globals() has made all of its stubs and adapters; no Java code has run.
  static void on_stubs_generated()                { if (JPortal) stubs_generated(); }
  // No Java code runs any more, or the process is about to end in any case. Waits until the
  // capture is complete.
  static void on_vm_exit()                        { if (JPortal) vm_exit(); }
  // The first OutOfMemoryError of the VM. Called by the thread that ran out of memory. Requests a
  // dump of the flight recorder and does not wait for it.
  static void on_java_out_of_memory()             { if (JPortal && JPortalSnapshot != 0) java_out_of_memory(); }
  // The VM is about to install 'handler' for a signal. Returns what to install. QEMU's user mode,
  // which runs the emulated PT unit, enters handlers with a stack that is 8 bytes off the ABI's
  // alignment; there it is a function that aligns the stack first.
  typedef void (*SignalHandler)(int, siginfo_t*, void*);
  static SignalHandler on_signal_handler_set(SignalHandler handler) {
    return JPortal ? signal_handler_for(handler) : handler;
  }
  // A thread got SIGBUS at 'address'. Returns whether it may repeat its access: a process has
  // truncated the recorder's ring, and other memory has taken its place. Async-signal-safe.
  static bool on_bus_error(void* address)         { return JPortal && bus_error(address); }
  // The VM has met a fatal error, and the error handler has saved what it knows of it. Ends the
  // trace, for which it takes at most 45 ms. Async-signal-safe.
  static void on_vm_error()                       { if (JPortal) vm_error(); }
  // The report of a fatal error is written, or there will be none. Waits for the threads of the
  // recorder; with on_vm_error(), at most 100 ms. Async-signal-safe.
  static void on_vm_error_reported()              { if (JPortal) vm_error_reported(); }

  // --- Code. Unless said otherwise, called when the code is complete and before it can run.

  static void on_blob_created(CodeBlob* blob, const char* name) {
    if (JPortal && blob != nullptr) blob_created(blob, name);
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
  // Code that no hook above reports: fast JNI accessors and native signature handlers.
  static void on_code_generated(const char* name, address begin, address end) {
    if (JPortal) code_generated(name, begin, end);
  }
  // Called under CodeCache_lock: no other thread has seen the nmethod.
  static void on_nmethod_installed(nmethod* nm)   { if (JPortal) nmethod_installed(nm); }
  // Called right after the transition, with the new state.
  static void on_nmethod_state_change(nmethod* nm, int state) {
    if (JPortal) nmethod_state_change(nm, state);
  }
  // The memory of a blob of any kind is about to be freed. Called under CodeCache_lock.
  static void on_blob_freed(CodeBlob* blob)       { if (JPortal) blob_freed(blob); }

  // --- Changes of code. Unless said otherwise, called right after the store.

  // The current thread is about to store into code. The hook notes the time, because no thread can
  // execute the new bytes earlier.
  static void on_code_writing()                                { if (JPortal) code_writing(); }
  // A NativeInstruction was changed by a store at 'offset' bytes from its start.
  static void on_instruction_written(address instruction, int offset) {
    if (JPortal) instruction_written(instruction, offset);
  }
  // An instruction of 'size' bytes was written at 'at'.
  static void on_code_patched(address at, int size)            { if (JPortal) code_patched(at, size); }
  // The jump was written to the verified entry of an nmethod that is made not entrant.
  static void on_verified_entry_patched(address at, int size)  { if (JPortal) verified_entry_patched(at, size); }
  // Runtime1::patch_code wrote the bytes after its jump at 'at'. 'size' includes the jump.
  static void on_code_tail_patched(address at, int size)       { if (JPortal) code_tail_patched(at, size); }

  // --- Calls

  // A stub called the VM to resolve a call of compiled code, or the instruction of a patch stub of
  // C1. The last frame of 'current' is that of the stub. No safepoint may occur in this hook,
  // because only the callee describes the arguments of the call.
  static void on_resolution(JavaThread* current)               { if (JPortal) resolution(current); }

  // --- Classes and methods

  // The class is in the class hierarchy and not linked. Called under Compile_lock.
  static void on_class_loaded(InstanceKlass* ik)     { if (JPortal) class_loaded(ik); }
  // All methods are rewritten and have their entry points; none can have been called.
  static void on_class_linked(InstanceKlass* ik)     { if (JPortal) class_defined(ik); }
  // The new method versions are in place. Called at a safepoint.
  static void on_class_redefined(InstanceKlass* ik)  { if (JPortal) class_redefined(ik); }
  // The class is about to be unloaded with its methods, at a safepoint or by a concurrent GC. Takes
  // CodeCache_lock once. on_method_freed() does nothing for these methods.
  static void on_class_unloaded(InstanceKlass* ik)   { if (JPortal) class_unloaded(ik); }
  // A method handle intrinsic was created. No class lists it among its methods.
  static void on_method_intrinsic_created(Method* m) { if (JPortal) method_intrinsic_created(m); }
  // The Method is about to lose its contents or its memory. Takes CodeCache_lock.
  static void on_method_freed(Method* m)             { if (JPortal) method_freed(m); }

  // Returns the interpreter entry for a method that is being linked: a stub that belongs to this
  // method alone and jumps to 'entry', or 'entry' itself. Takes CodeCache_lock.
  static address interpreter_entry_for(const methodHandle& m, address entry) {
    return JPortal ? method_entry_for(m, entry) : entry;
  }
  // The inverse: returns the 'entry' that was passed to interpreter_entry_for(), given its result.
  static address shared_interpreter_entry(address entry) {
    return JPortal ? method_entry_target(entry) : entry;
  }

  // --- Threads. Unless said otherwise, called by the thread itself.

  // The thread has started. The hook is called again when the name or the Java thread id of the
  // thread becomes known.
  static void on_thread_start(Thread* t)             { if (JPortal) thread_start(t); }
  // The thread will not run Java code any more.
  static void on_thread_exit(JavaThread* t)          { if (JPortal) thread_exit(t); }
  // java.lang.Thread.setName. Called by any thread, in the VM. 'thread' is the java.lang.Thread,
  // which may not run.
  static void on_thread_renamed(jobject thread, jobject name) {
    if (JPortal) thread_renamed(thread, name);
  }

  // --- Diagnostic commands

  // Registers the commands, with -XX:-JPortal as well: they then print that JPortal is off.
  static void register_dcmds();

 private:
  static void create_vm();
  static bool code_space_reserved(char* base, size_t size, bool special);
  static void code_cache_reserved();
  static void interpreter_generated();
  static void stubs_generated();
  static void vm_exit();
  static SignalHandler signal_handler_for(SignalHandler handler);
  static bool bus_error(void* address);
  static void vm_error();
  static void vm_error_reported();
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

  static void class_loaded(InstanceKlass* ik);
  static void class_defined(InstanceKlass* ik);
  static void class_redefined(InstanceKlass* ik);
  static void class_unloaded(InstanceKlass* ik);
  static void method_intrinsic_created(Method* m);
  static void method_freed(Method* m);
  static address method_entry_for(const methodHandle& m, address entry);
  static address method_entry_target(address entry);

  static void thread_start(Thread* t);
  static void thread_exit(JavaThread* t);
  static void thread_renamed(jobject thread, jobject name);
};

#endif // SHARE_JPORTAL_JPORTAL_HPP
