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

// Generated from rust-core/capture/src/schema.rs by its program
// jportal-records-hpp. Do not edit: change the schema and generate again.

#ifndef SHARE_JPORTAL_JPORTALRECORDS_HPP
#define SHARE_JPORTAL_JPORTALRECORDS_HPP

#include "jportal/jportalBuffer.hpp"

// A record is its kind and a body. The body is the fields of the struct, in
// order, without padding: write() appends them. Lists come last in a body and
// are not members: each is appended after the head, in the order named, as
//   b->put_count(n), then n times item.write(b).

// `parent` of a `Scope` that is the outermost frame, `scope` of a `PcDescriptor`
// without one.
const u4 JPORTAL_NO_SCOPE = 4294967295u;
// `parent` of an `InlineContext` that is the outermost frame, `context` of a
// `PathMarker` that names no block but an ambiguous stretch.
const u4 JPORTAL_NO_CONTEXT = 4294967295u;
// `context` of a `PathMarker` that names no block but the position of the next
// safepoint poll's state. If that poll deoptimises, the markers in between did not take
// effect.
const u4 JPORTAL_POLL_STATE = 4294967294u;
// HotSpot's `SynchronizationEntryBCI`: the position before the first bytecode.
const int32_t JPORTAL_SYNCHRONIZATION_ENTRY_BCI = -1;
// `osr_bci` of an nmethod that is entered at the method's start (`InvocationEntryBci`).
const int32_t JPORTAL_INVOCATION_ENTRY_BCI = -1;

struct JPortalPcFlags : AllStatic {
  // `PcDesc::should_reexecute`.
  static const u1 REEXECUTE = 1u;
  // `PcDesc::rethrow_exception`.
  static const u1 RETHROW_EXCEPTION = 2u;
  // `PcDesc::return_oop`.
  static const u1 RETURN_OOP = 4u;
  // `PcDesc::is_method_handle_invoke`.
  static const u1 METHOD_HANDLE_INVOKE = 8u;
  // The instruction is no safepoint, and the scope is only roughly the position
  // (`DebugInformationRecorder::add_non_safepoint`, made with
  // `-XX:+DebugNonSafepoints`).
  static const u1 NON_SAFEPOINT = 16u;
};

struct JPortalClassFlags : AllStatic {
  // A hidden class (`InstanceKlass::is_hidden`).
  static const u4 HIDDEN = 1u;
  // Loaded from the CDS archive (`Klass::is_shared`).
  static const u4 SHARED = 2u;
};

struct JPortalThreadFlags : AllStatic {
  // A Java thread (`Thread::is_Java_thread`) that can run bytecode.
  static const u4 JAVA = 1u;
  // A compiler thread.
  static const u4 COMPILER = 2u;
  // The thread that created the VM.
  static const u4 MAIN = 4u;
};

struct JPortalTables : AllStatic {
  // `TemplateInterpreter::_normal_table`: index = bytecode.
  static const u1 NORMAL = 0u;
  // `Interpreter::_wentry_point`: templates of `wide` bytecodes; state is meaningless
  // (0).
  static const u1 WIDE = 1u;
  // `TemplateInterpreter::_safept_table`: index = bytecode.
  static const u1 SAFEPOINT = 2u;
  // `_return_entry[length]`: `index` of the table = length, entries by TosState.
  static const u1 RETURN = 3u;
  // `_deopt_entry[length]`: as above.
  static const u1 DEOPT = 4u;
  // `_invoke_return_entry`: entries by TosState.
  static const u1 INVOKE_RETURN = 5u;
  // `_invokeinterface_return_entry`: entries by TosState.
  static const u1 INVOKEINTERFACE_RETURN = 6u;
  // `_invokedynamic_return_entry`: entries by TosState.
  static const u1 INVOKEDYNAMIC_RETURN = 7u;
  // `_entry_table`: entries by `AbstractInterpreter::MethodKind`.
  static const u1 METHOD_ENTRY = 8u;
  // `_native_abi_to_tosca`: entries by result handler index.
  static const u1 NATIVE_RESULT = 9u;
  // `_safept_entry`: entries by TosState.
  static const u1 SAFEPOINT_ENTRY = 10u;
};

struct JPortalBlobKinds : AllStatic {
  // `BufferBlob` and anything not named below.
  static const u1 BUFFER = 0u;
  // `AdapterBlob`: i2c and c2i; `entries` name i2c, c2i, c2i_unverified,
  // c2i_no_clinit_check.
  static const u1 ADAPTER = 1u;
  // `RuntimeStub` (both compilers' slow paths included).
  static const u1 RUNTIME_STUB = 2u;
  // `DeoptimizationBlob`.
  static const u1 DEOPTIMIZATION = 3u;
  // `UncommonTrapBlob`.
  static const u1 UNCOMMON_TRAP = 4u;
  // `ExceptionBlob`.
  static const u1 EXCEPTION = 5u;
  // `SafepointBlob`.
  static const u1 SAFEPOINT = 6u;
  // `MethodHandlesAdapterBlob`.
  static const u1 METHOD_HANDLES_ADAPTER = 7u;
  // One vtable or itable stub (`VtableStub`).
  static const u1 VTABLE_STUB = 8u;
  // One stub of `StubRoutines` or another `StubCodeDesc`, inside a `BufferBlob`.
  static const u1 STUB_ROUTINE = 9u;
  // One inline-cache transition stub (`ICStub`).
  static const u1 IC_STUB = 10u;
  // A block of method entry stubs.
  static const u1 METHOD_STUBS = 11u;
  // The template interpreter as a whole.
  static const u1 INTERPRETER = 12u;
};

struct JPortalPatchReasons : AllStatic {
  // Anything not named below.
  static const u1 OTHER = 0u;
  // `NativeCall`: destination of a direct call.
  static const u1 CALL = 1u;
  // `NativeJump`/`NativeGeneralJump`: destination of a jump.
  static const u1 JUMP = 2u;
  // `NativeJump::patch_verified_entry`: the nmethod became not entrant.
  static const u1 VERIFIED_ENTRY = 3u;
  // `NativeMovConstReg`: inline-cache data, never a branch target.
  static const u1 MOV_CONST = 4u;
  // C1's `Runtime1::patch_code`.
  static const u1 C1_PATCH = 5u;
};

struct JPortalNmethodStates : AllStatic {
  // `not_entrant`.
  static const u1 NOT_ENTRANT = 1u;
  // `zombie`.
  static const u1 ZOMBIE = 2u;
  // `unloaded`.
  static const u1 UNLOADED = 3u;
};

struct JPortalPathPrecisions : AllStatic {
  // The compiler optimised as usual; markers say that a folded path is ambiguous.
  static const u1 DEFAULT = 0u;
  // The compiler refused the folds that lose a path.
  static const u1 EXACT = 1u;
};

struct JPortalEdgeOutcomes : AllStatic {
  // The conditional branch was taken.
  static const u1 TAKEN = 0u;
  // Control continued at the next instruction; this one may be of any kind.
  static const u1 NOT_TAKEN = 1u;
  // The indirect jump through a jump table led to `to`.
  static const u1 JUMP_TABLE = 2u;
  // The call whose *return address* is `from` returned there.
  static const u1 CALL_RETURN = 3u;
  // The call whose *return address* is `from` ended with an exception, and the handler
  // at `to` runs.
  static const u1 EXCEPTION = 4u;
  // The instruction faulted (implicit exception) and control continued at `to`.
  static const u1 FAULT = 5u;
};

struct JPortalAmbiguities : AllStatic {
  // Two arms became a conditional move, minimum, maximum or the like (C2).
  static const u2 CONDITIONAL_MOVE = 1u;
  // Two arms without instructions were removed together with their test (C2).
  static const u2 EMPTY_DIAMOND = 2u;
  // Two comparisons became one unsigned comparison (C2).
  static const u2 FOLDED_COMPARES = 3u;
  // Two comparisons of the same values became one (C2).
  static const u2 TRICHOTOMY = 4u;
  // Two comparisons that clip a number moved after its conversion (C2).
  static const u2 CLIPPING = 5u;
  // A loop without effect was removed; its last iteration follows (C2).
  static const u2 EMPTY_LOOP = 6u;
  // A loop became a call that fills an array (C2).
  static const u2 ARRAY_FILL = 7u;
  // Edges with different markers lead from one jump table or call to one address (C2).
  static const u2 SHARED_TARGET = 8u;
  // A conditional expression without a branch (C1).
  static const u2 CONDITIONAL_EXPRESSION = 9u;
  // More markers at one place, or in an nmethod, than are kept.
  static const u2 TOO_MANY = 10u;
  // A machine instruction that the exporter of the markers does not know.
  static const u2 UNKNOWN_INSTRUCTION = 11u;
  // A concatenation of strings was rewritten together with tests inside it (C2).
  static const u2 STRING_CONCATENATION = 12u;
  // A bytecode of the block throws, without a call, an exception that exists already
  // (C2).
  static const u2 PREPARED_EXCEPTION = 13u;
};

struct JPortalCompilers : AllStatic {
  // No compiler: a native wrapper.
  static const u1 NATIVE_WRAPPER = 0u;
  // C1.
  static const u1 C1 = 1u;
  // C2.
  static const u1 C2 = 2u;
  // A compiler that uses JVMCI, such as Graal. It writes no path markers. A value that a
  // reader does not know means the same: a compiler that only debug info describes.
  static const u1 JVMCI = 3u;
};

// Bytes of the frame header that the recorder puts before a body.
const size_t JPORTAL_FRAME_HEADER = 16;

// Row of a method's exception table (JVMS 4.7.3), in table order.
struct JPortalExceptionEntry {
  // First covered bci.
  u2 start_bci;
  // First bci after the range.
  u2 end_bci;
  // Handler.
  u2 handler_bci;
  // Class caught, empty for any.
  JPortalBytes catch_type;

  void write(JPortalBuffer* b) const {
    b->put_u2(start_bci);
    b->put_u2(end_bci);
    b->put_u2(handler_bci);
    b->put_bytes(catch_type);
  }
};

// Row of a line number table.
struct JPortalLineEntry {
  // First bci of the line.
  u2 bci;
  // Source line.
  u2 line;

  void write(JPortalBuffer* b) const {
    b->put_u2(bci);
    b->put_u2(line);
  }
};

// Symbolic target of the invoke bytecode at `bci`.
struct JPortalInvokeTarget {
  // Of the invoke bytecode.
  u2 bci;
  // Class named in the constant pool; empty for `invokedynamic`.
  JPortalBytes class_name;
  // Method name.
  JPortalBytes name;
  // Method descriptor.
  JPortalBytes signature;

  void write(JPortalBuffer* b) const {
    b->put_u2(bci);
    b->put_bytes(class_name);
    b->put_bytes(name);
    b->put_bytes(signature);
  }
};

// Entry of a method's own constant pool that a field access, `new`, `anewarray`,
// `multianewarray`, `checkcast`, `instanceof` or `ldc` refers to.
struct JPortalPoolConstant {
  // Its index, as it is in the operands of the bytecodes.
  u2 index;
  // Its tag (JVMS table 4.4-A).
  u1 tag;
  // The class itself (`java/lang/Object`, `[I`), or that of a field; empty for other
  // constants.
  JPortalBytes class_name;
  // Name of a field or dynamic constant.
  JPortalBytes name;
  // Descriptor of a field or dynamic constant.
  JPortalBytes signature;

  void write(JPortalBuffer* b) const {
    b->put_u2(index);
    b->put_u1(tag);
    b->put_bytes(class_name);
    b->put_bytes(name);
    b->put_bytes(signature);
  }
};

// Entry of a class's constant pool that a bytecode may refer to. The other fields are the
// indices of its texts, 0 for none.
struct JPortalPoolReference {
  // Its index.
  u2 index;
  // As in `PoolConstant`; that of an invoke is `Methodref`, `InterfaceMethodref` or
  // `InvokeDynamic`.
  u1 tag;
  // The class itself, or that of a field or method.
  u2 class_name;
  // Name of a field, method, or dynamic constant or call.
  u2 name;
  // Descriptor of the same.
  u2 signature;

  void write(JPortalBuffer* b) const {
    b->put_u2(index);
    b->put_u1(tag);
    b->put_u2(class_name);
    b->put_u2(name);
    b->put_u2(signature);
  }
};

// A text in a class's constant pool.
struct JPortalPoolText {
  // Its index.
  u2 index;
  // The text.
  JPortalBytes text;

  void write(JPortalBuffer* b) const {
    b->put_u2(index);
    b->put_bytes(text);
  }
};

// A class.
struct JPortalClassPointer {
  // `InstanceKlass*`.
  u8 klass;

  void write(JPortalBuffer* b) const {
    b->put_u8(klass);
  }
};

// A named address.
struct JPortalNamedAddress {
  // HotSpot's name for it.
  JPortalBytes name;
  // Where.
  u8 address;

  void write(JPortalBuffer* b) const {
    b->put_bytes(name);
    b->put_u8(address);
  }
};

// One code address.
struct JPortalCodeAddress {
  // Where; 0 for none.
  u8 address;

  void write(JPortalBuffer* b) const {
    b->put_u8(address);
  }
};

// One frame of a scope chain (`ScopeDesc`), shared by the PcDescs that refer to it.
struct JPortalScope {
  // Index of the caller's scope in the same list, `NO_SCOPE` for the outermost.
  u4 parent;
  // The frame's method.
  u8 method;
  // Position in it; `SYNCHRONIZATION_ENTRY_BCI` before the first bytecode.
  int32_t bci;

  void write(JPortalBuffer* b) const {
    b->put_u4(parent);
    b->put_u8(method);
    b->put_i4(bci);
  }
};

// One `PcDesc`, by ascending `pc_offset`.
struct JPortalPcDescriptor {
  // Offset of the *return address* or safepoint from `code_begin`.
  u4 pc_offset;
  // Innermost scope, index into `scopes`.
  u4 scope;
  // `pc_flags`.
  u1 flags;

  void write(JPortalBuffer* b) const {
    b->put_u4(pc_offset);
    b->put_u4(scope);
    b->put_u1(flags);
  }
};

// Row of an nmethod's `ExceptionHandlerTable`, flattened.
struct JPortalHandlerEntry {
  // Return-address offset of the call that may throw.
  u4 pc_offset;
  // Bci of the handler.
  int32_t handler_bci;
  // Inlining depth of the handler's frame.
  u4 scope_depth;
  // Offset of the handler's code.
  u4 handler_offset;

  void write(JPortalBuffer* b) const {
    b->put_u4(pc_offset);
    b->put_i4(handler_bci);
    b->put_u4(scope_depth);
    b->put_u4(handler_offset);
  }
};

// Row of an nmethod's `ImplicitExceptionTable`.
struct JPortalImplicitEntry {
  // Offset of the faulting instruction.
  u4 pc_offset;
  // Where execution continues; 0 means deoptimise.
  u4 continuation;

  void write(JPortalBuffer* b) const {
    b->put_u4(pc_offset);
    b->put_u4(continuation);
  }
};

// One frame of an inline chain: `method`, inlined at `call_bci` of the frame `parent`.
struct JPortalInlineContext {
  // Index of the caller in the same list, smaller than this one's; `NO_CONTEXT` for the
  // outermost frame.
  u4 parent;
  // Bci of the call in the caller; meaningless for the outermost frame.
  u2 call_bci;
  // The frame's method.
  u8 method;

  void write(JPortalBuffer* b) const {
    b->put_u4(parent);
    b->put_u2(call_bci);
    b->put_u8(method);
  }
};

// "The bytecode block at `bci` begins", or "the path is not known from here to the next
// marker".
struct JPortalPathMarker {
  // Index into `contexts`; `NO_CONTEXT` for an ambiguous stretch, `POLL_STATE`.
  u4 context;
  // First bci of the block; one of `ambiguities` without a context.
  u2 bci;

  void write(JPortalBuffer* b) const {
    b->put_u4(context);
    b->put_u2(bci);
  }
};

// Markers passed, in order, whenever control reaches the instruction at `offset`.
struct JPortalMarkedOffset {
  // From `code_begin`.
  u4 offset;
  // First of them, index into `markers`.
  u4 first;
  // How many.
  u4 count;

  void write(JPortalBuffer* b) const {
    b->put_u4(offset);
    b->put_u4(first);
    b->put_u4(count);
  }
};

// Markers passed, in order, when control takes an edge: after those of the offset at
// `from` and before those of the offset it leads to.
struct JPortalMarkedEdge {
  // Offset of the instruction that decides, or of a call's return address: see
  // `edge_outcomes`.
  u4 from;
  // Offset of the instruction that runs next.
  u4 to;
  // `edge_outcomes`.
  u1 outcome;
  // First of them, index into `markers`.
  u4 first;
  // How many; 0 where only another outcome of the same instruction has markers.
  u4 count;

  void write(JPortalBuffer* b) const {
    b->put_u4(from);
    b->put_u4(to);
    b->put_u1(outcome);
    b->put_u4(first);
    b->put_u4(count);
  }
};

// A thread exists: it may execute from now on.
struct JPortalThreadStarted {
  static const u2 KIND = 1;
  // OS thread id.
  u4 tid;
  // `thread_flags`.
  u4 flags;
  // `java.lang.Thread.getId()`, 0 when not a Java thread or not known yet.
  u8 java_tid;
  // Name.
  JPortalBytes name;

  void write(JPortalBuffer* b) const {
    b->put_u4(tid);
    b->put_u4(flags);
    b->put_u8(java_tid);
    b->put_bytes(name);
  }
};

// A thread ends; name and id as they were at the end.
struct JPortalThreadExited {
  static const u2 KIND = 2;
  // OS thread id.
  u4 tid;
  // `java.lang.Thread.getId()`.
  u8 java_tid;
  // Name.
  JPortalBytes name;

  void write(JPortalBuffer* b) const {
    b->put_u4(tid);
    b->put_u8(java_tid);
    b->put_bytes(name);
  }
};

// A thread got another name.
struct JPortalThreadRenamed {
  static const u2 KIND = 3;
  // OS thread id.
  u4 tid;
  // Name.
  JPortalBytes name;

  void write(JPortalBuffer* b) const {
    b->put_u4(tid);
    b->put_bytes(name);
  }
};

// A class was linked (CDS, boot, application and hidden ones alike) or redefined.
struct JPortalClassDefined {
  static const u2 KIND = 8;
  // `InstanceKlass*`.
  u8 klass;
  // Super class, 0 for `java.lang.Object`.
  u8 super_klass;
  // `ClassLoaderData` identity of the loader; 0 = boot.
  u8 loader;
  // JVM access flags.
  u4 access_flags;
  // `class_flags`.
  u4 flags;
  // Internal name (`java/lang/Object`).
  JPortalBytes name;
  // Loader's class and name, empty for boot.
  JPortalBytes loader_name;
  // `SourceFile`, may be empty.
  JPortalBytes source_file;

  void write(JPortalBuffer* b) const {
    b->put_u8(klass);
    b->put_u8(super_klass);
    b->put_u8(loader);
    b->put_u4(access_flags);
    b->put_u4(flags);
    b->put_bytes(name);
    b->put_bytes(loader_name);
    b->put_bytes(source_file);
  }
};

// A class was unloaded, and its methods with it. Older captures have a `MethodFreed` for
// each of them as well.
struct JPortalClassUnloaded {
  static const u2 KIND = 9;
  // `InstanceKlass*`.
  u8 klass;

  void write(JPortalBuffer* b) const {
    b->put_u8(klass);
  }
};

// A method version can run from now on (`Method::link_method`). Without `constants`, it
// uses the constant pool of its class, the last one that `ClassConstants` describes, and
// has no `invokes` either. Before version 2.3, methods have `invokes` and no `constants`.
struct JPortalMethodDefined {
  static const u2 KIND = 10;
  // `Method*`.
  u8 method;
  // Holder.
  u8 klass;
  // JVM access flags.
  u4 access_flags;
  // `AbstractInterpreter::MethodKind`.
  u1 entry_kind;
  // `vmIntrinsicID`.
  u2 intrinsic;
  // `max_stack`.
  u2 max_stack;
  // `max_locals`.
  u2 max_locals;
  // `Method::method_idnum`.
  u2 idnum;
  // Name.
  JPortalBytes name;
  // Descriptor.
  JPortalBytes signature;
  // Original bytecodes: quickening and constant-pool-cache indices reversed.
  JPortalBytes code;
  // list exceptions: JPortalExceptionEntry. Exception table.
  // list lines: JPortalLineEntry. Line number table.
  // list invokes: JPortalInvokeTarget. Targets of the invoke bytecodes.
  // list constants: JPortalPoolConstant. What the other bytecodes refer to; each index once.

  void write(JPortalBuffer* b) const {
    b->put_u8(method);
    b->put_u8(klass);
    b->put_u4(access_flags);
    b->put_u1(entry_kind);
    b->put_u2(intrinsic);
    b->put_u2(max_stack);
    b->put_u2(max_locals);
    b->put_u2(idnum);
    b->put_bytes(name);
    b->put_bytes(signature);
    b->put_bytes(code);
  }
};

// A method got its own interpreter entry: the jump at `address` names it. The five
// bytes at `address` are `jmp rel32` to `target` from now on; no `CodePatched` repeats
// them. They lie in a blob of kind `METHOD_STUBS`.
struct JPortalMethodStub {
  static const u2 KIND = 11;
  // `Method*`.
  u8 method;
  // Address of the stub.
  u8 address;
  // Where the stub jumps.
  u8 target;

  void write(JPortalBuffer* b) const {
    b->put_u8(method);
    b->put_u8(address);
    b->put_u8(target);
  }
};

// A `Method*` was freed while its class stays; the address may be used again.
struct JPortalMethodFreed {
  static const u2 KIND = 12;
  // `Method*`.
  u8 method;

  void write(JPortalBuffer* b) const {
    b->put_u8(method);
  }
};

// A class was loaded: it is in the class hierarchy, and not yet linked
// (`SystemDictionary::add_to_hierarchy`). Committed before its `ClassDefined`, if one
// follows. The classes that were there when the recording began have a `tid` of 0.
struct JPortalClassLoaded {
  static const u2 KIND = 13;
  // `InstanceKlass*`.
  u8 klass;
  // Super class, 0 for `java.lang.Object`; `java.lang.Object` for interfaces.
  u8 super_klass;
  // As in `ClassDefined`.
  u8 loader;
  // JVM access flags.
  u4 access_flags;
  // `class_flags`.
  u4 flags;
  // OS thread id of the thread that loaded it; 0 if not known.
  u4 tid;
  // Internal name (`java/lang/Object`).
  JPortalBytes name;
  // Loader's class and name, empty for boot.
  JPortalBytes loader_name;
  // list interfaces: JPortalClassPointer. The interfaces that the class names, in its order.

  void write(JPortalBuffer* b) const {
    b->put_u8(klass);
    b->put_u8(super_klass);
    b->put_u8(loader);
    b->put_u4(access_flags);
    b->put_u4(flags);
    b->put_u4(tid);
    b->put_bytes(name);
    b->put_bytes(loader_name);
  }
};

// The constant pool of a class, as far as bytecodes may refer to it. Committed after the
// `ClassDefined`, and before the methods that use it.
struct JPortalClassConstants {
  static const u2 KIND = 14;
  // `InstanceKlass*`.
  u8 klass;
  // list references: JPortalPoolReference. The entries, by index.
  // list texts: JPortalPoolText. The texts that the entries name, by index.

  void write(JPortalBuffer* b) const {
    b->put_u8(klass);
  }
};

// One `InterpreterCodelet`.
struct JPortalInterpreterCodelet {
  static const u2 KIND = 16;
  // First byte.
  u8 start;
  // `Bytecodes::Code` of the template, -1 for none.
  int32_t bytecode;
  // HotSpot's description.
  JPortalBytes description;
  // Machine code.
  JPortalBytes code;

  void write(JPortalBuffer* b) const {
    b->put_u8(start);
    b->put_i4(bytecode);
    b->put_bytes(description);
    b->put_bytes(code);
  }
};

// One table of interpreter entry points.
struct JPortalInterpreterTable {
  static const u2 KIND = 17;
  // `tables`.
  u1 table;
  // TosState, or length for return and deopt entries.
  u1 index;
  // list entries: JPortalCodeAddress. By bytecode, TosState or method kind.

  void write(JPortalBuffer* b) const {
    b->put_u1(table);
    b->put_u1(index);
  }
};

// Single entry points of the interpreter (`rethrow_exception_entry`, ...).
struct JPortalInterpreterEntries {
  static const u2 KIND = 18;
  // list entries: JPortalNamedAddress. Name and address.

  void write(JPortalBuffer* b) const {
  }
};

// Names of the `Bytecodes::Code` values of this VM, internal ones included.
struct JPortalBytecodeNames {
  static const u2 KIND = 19;
  // list names: JPortalNamedAddress. Name; the address is java_code << 16 | length << 8 | code.

  void write(JPortalBuffer* b) const {
  }
};

// A code blob that is not an nmethod.
struct JPortalBlobDefined {
  static const u2 KIND = 24;
  // First byte of code.
  u8 start;
  // `blob_kinds`.
  u1 kind;
  // Name.
  JPortalBytes name;
  // Machine code after relocation.
  JPortalBytes code;
  // list entries: JPortalNamedAddress. Entry points.

  void write(JPortalBuffer* b) const {
    b->put_u8(start);
    b->put_u1(kind);
    b->put_bytes(name);
    b->put_bytes(code);
  }
};

// Compiled code was installed (or a native wrapper); committed before it can run.
struct JPortalNMethodInstalled {
  static const u2 KIND = 25;
  // `code_begin()`: base of every offset below.
  u8 start;
  // Outermost method.
  u8 method;
  // `nmethod*`, names it in `NMethodStateChanged`.
  u8 nmethod;
  // Compile id as `-XX:+PrintCompilation` shows it.
  u4 compile_id;
  // `compilers`.
  u1 compiler;
  // `CompLevel`.
  u1 level;
  // Bci of the OSR entry or `INVOCATION_ENTRY_BCI`.
  int32_t osr_bci;
  // `frame_size()` in words.
  u4 frame_words;
  // Unverified entry point.
  u4 entry;
  // Verified entry point.
  u4 verified_entry;
  // OSR entry point (0 when not OSR).
  u4 osr_entry;
  // Start of the stub section (also the end of the instructions).
  u4 stub;
  // Exception handler; `u32::MAX` for none, as in the next two.
  u4 exception_handler;
  // Deopt handler.
  u4 deopt_handler;
  // Deopt handler of method-handle call sites.
  u4 deopt_mh_handler;
  // Unwind handler (C1); `u32::MAX` for none.
  u4 unwind_handler;
  // Instructions and stubs after relocation, from `start` on.
  JPortalBytes code;
  // list scopes: JPortalScope. Scopes; a parent precedes its children or follows: resolve by index.
  // list pc_descs: JPortalPcDescriptor. By ascending `pc_offset`.
  // list handlers: JPortalHandlerEntry. Exception handlers.
  // list implicit: JPortalImplicitEntry. Implicit exceptions.

  void write(JPortalBuffer* b) const {
    b->put_u8(start);
    b->put_u8(method);
    b->put_u8(nmethod);
    b->put_u4(compile_id);
    b->put_u1(compiler);
    b->put_u1(level);
    b->put_i4(osr_bci);
    b->put_u4(frame_words);
    b->put_u4(entry);
    b->put_u4(verified_entry);
    b->put_u4(osr_entry);
    b->put_u4(stub);
    b->put_u4(exception_handler);
    b->put_u4(deopt_handler);
    b->put_u4(deopt_mh_handler);
    b->put_u4(unwind_handler);
    b->put_bytes(code);
  }
};

// Bytes of code changed in place; `code` has the new bytes.
struct JPortalCodePatched {
  static const u2 KIND = 26;
  // First changed byte.
  u8 address;
  // `patch_reasons`.
  u1 reason;
  // New bytes.
  JPortalBytes code;
  // OS thread id of the thread that wrote them.
  u4 tid;
  // TSC read before they were written: no thread executes them earlier. 0 if not known.
  u8 since;

  void write(JPortalBuffer* b) const {
    b->put_u8(address);
    b->put_u1(reason);
    b->put_bytes(code);
    b->put_u4(tid);
    b->put_u8(since);
  }
};

// An nmethod changed its state.
struct JPortalNMethodStateChanged {
  static const u2 KIND = 27;
  // `nmethod*`.
  u8 nmethod;
  // `nmethod_states`.
  u1 state;

  void write(JPortalBuffer* b) const {
    b->put_u8(nmethod);
    b->put_u1(state);
  }
};

// Memory of a code blob or nmethod was given back.
struct JPortalCodeFreed {
  static const u2 KIND = 28;
  // First byte of code.
  u8 start;
  // Bytes.
  u8 size;

  void write(JPortalBuffer* b) const {
    b->put_u8(start);
    b->put_u8(size);
  }
};

// Path markers of the nmethod whose `NMethodInstalled` the same thread committed just
// before (records of other threads may lie in between); committed before it can run. Not
// there for native wrappers, nor for code compiled with path markers off. `FORMAT.md` says
// what may be concluded from them.
struct JPortalNMethodMarkers {
  static const u2 KIND = 29;
  // `code_begin()` of the nmethod, base of every offset below.
  u8 start;
  // `nmethod*`.
  u8 nmethod;
  // Compile id.
  u4 compile_id;
  // `path_precisions`.
  u1 precision;
  // list contexts: JPortalInlineContext. Inline chains; a caller precedes its callees.
  // list markers: JPortalPathMarker. The lists of the offsets and edges, concatenated.
  // list offsets: JPortalMarkedOffset. By ascending offset, each offset once.
  // list edges: JPortalMarkedEdge. By ascending `from`, `outcome` and `to`; each triple once.

  void write(JPortalBuffer* b) const {
    b->put_u8(start);
    b->put_u8(nmethod);
    b->put_u4(compile_id);
    b->put_u1(precision);
  }
};

// A thread came to the VM to have a call resolved (`SharedRuntime::resolve_helper`,
// `handle_ic_miss_helper`, `handle_wrong_method`) or, from format 2.0 on, the instruction
// of a patch stub (`Runtime1::patch_code`): one record each time, committed between the
// stub's call of the VM and its end, whether or not a `CodePatched` follows.
struct JPortalResolution {
  static const u2 KIND = 30;
  // OS thread id.
  u4 tid;
  // Where the call returns, that of the patch stub if it was one.
  u8 return_address;

  void write(JPortalBuffer* b) const {
    b->put_u4(tid);
    b->put_u8(return_address);
  }
};

// Something the recorder could not do, in words; shown by `jportal info`.
struct JPortalNotice {
  static const u2 KIND = 32;
  // Text.
  JPortalBytes text;

  void write(JPortalBuffer* b) const {
    b->put_bytes(text);
  }
};

#endif // SHARE_JPORTAL_JPORTALRECORDS_HPP
