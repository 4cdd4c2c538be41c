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

#ifndef SHARE_JPORTAL_JPORTALINTERPRETER_HPP
#define SHARE_JPORTAL_JPORTALINTERPRETER_HPP

#include "asm/register.hpp"
#include "memory/allocation.hpp"
#include "utilities/globalDefinitions.hpp"

class InterpreterMacroAssembler;

// Reveals. A processor trace has the outcome of every conditional branch and the
// target of every indirect one, and nothing else. Where a bytecode template takes
// its way by data alone (a load from the table of a tableswitch, say), the code
// emitted here turns the datum into branch outcomes, least significant bit first:
//
//   loop: shr   value, 1
//         jnc   skip          taken: the bit is 0
//         nop                 keeps the two ways apart for a tracer that sees
//   skip: test  value, value  addresses and not directions
//         jnz   loop          taken: more bits follow
//
// Emitted only with -XX:+JPortal. Each instance is exported among the interpreter's
// entries: its first address under its name, the first address behind it under the
// name with ".end".
class JPortalReveal : AllStatic {
 public:
  // Shifts the low 32 bits of 'value' out. Kills 'value' and the flags.
  static void emit(InterpreterMacroAssembler* masm, const char* name, Register value);
  // The same with a copy of 'value' in 'temp'; kills 'temp' and the flags.
  static void value(InterpreterMacroAssembler* masm, const char* name, Register value, Register temp);
  // The bci of the current bcp register; kills the temps and the flags.
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
  // A debug VM has an aside in each template that profiles.
  enum { MaxInstances = 96 DEBUG_ONLY(+ 512) };
  static Instance _instances[MaxInstances];
  static int      _count;

  static void note(const char* name, address begin, address end);
};

// Code inside a bytecode template that decides nothing about the bytecode, such as what
// a debug VM verifies: a reader of the trace must not take its branches for the bytecode's.
// Covers what is emitted in its scope; exported as the entries "aside" and "aside.end".
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
  static void export_interpreter();
  // What the runtime jumps to by address; when all stubs made at VM start are there.
  static void export_entries();
};

#endif // SHARE_JPORTAL_JPORTALINTERPRETER_HPP
