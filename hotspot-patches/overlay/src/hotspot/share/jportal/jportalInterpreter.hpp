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

#ifndef SHARE_JPORTAL_JPORTALINTERPRETER_HPP
#define SHARE_JPORTAL_JPORTALINTERPRETER_HPP

#include "asm/register.hpp"
#include "memory/allocation.hpp"
#include "utilities/globalDefinitions.hpp"

class InterpreterMacroAssembler;

// Emits reveals. A processor trace contains the outcome of every conditional branch and the
// target of every indirect branch, and nothing else. Some bytecode templates find the next
// bytecode by data alone, for example by a load from the table of a tableswitch. There, a reveal
// turns the value into branch outcomes, least significant bit first:
//
//   loop: shr   value, 1
//         jnc   skip          taken: the bit is 0
//         nop
//   skip: test  value, value
//         jnz   loop          taken: more bits follow
//
// The nop is needed for a tracer that sees the executed addresses but not the outcomes: without it,
// both outcomes of jnc would lead to the same address.
//
// Reveals are emitted only with -XX:+JPortal. Each instance is exported among the entries of the
// interpreter: its first address under its name, and the first address after it under the name with
// ".end" appended.
class JPortalReveal : AllStatic {
 public:
  // Reveals the low 32 bits of 'value'. Kills 'value' and the flags.
  static void emit(InterpreterMacroAssembler* masm, const char* name, Register value);
  // Same, but preserves 'value': it is copied to 'temp' first. Kills 'temp' and the flags.
  static void value(InterpreterMacroAssembler* masm, const char* name, Register value, Register temp);
  // Reveals the bci of the current bcp. Kills the temps and the flags.
  static void bci(InterpreterMacroAssembler* masm, const char* name, Register temp1, Register temp2);

  struct Instance {
    const char* name;
    address     begin;
    address     end;
  };
  static int instances()                     { return _count; }
  static const Instance& instance(int i)     { assert(i < _count, "bounds"); return _instances[i]; }

 private:
  friend class JPortalAside;
  // A debug VM has a JPortalAside in each template that profiles.
  enum : int { MaxInstances = 96 DEBUG_ONLY(+ 512) };
  static Instance _instances[MaxInstances];
  static int      _count;

  static void note(const char* name, address begin, address end);
};

// Marks code inside a bytecode template whose branches do not belong to the bytecode, for
// example the checks of a debug VM. The decoder must not take these branches for those of the
// bytecode. The mark covers the code that is emitted in the scope of the object; it is exported
// as the entries "aside" and "aside.end".
class JPortalAside : public StackObj {
  InterpreterMacroAssembler* const _masm;
  const address                    _begin;

 public:
  explicit JPortalAside(InterpreterMacroAssembler* masm);
  ~JPortalAside();
};

// Exports the interpreter and the entry points of stubs as they are now.
class JPortalInterpreter : AllStatic {
 public:
  // The codelets, the tables, the bytecode names and the entry points of the interpreter.
  static void export_interpreter();
  // The other entry points that the runtime jumps to by address. Call after init_globals() has made
  // all stubs.
  static void export_entries();
};

#endif // SHARE_JPORTAL_JPORTALINTERPRETER_HPP
