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
#include "asm/macroAssembler.hpp"
#include "interp_masm_x86.hpp"
#include "jportal/jportal.hpp"
#include "jportal/jportalInterpreter.hpp"
#include "oops/constMethod.hpp"
#include "oops/method.hpp"

#define __ masm->

void JPortalReveal::emit(InterpreterMacroAssembler* masm, const char* name, Register value) {
  if (!JPortal) return;
  Label loop, skip;
  address begin = __ pc();
  __ bind(loop);
  __ shrl(value, 1);
  __ jccb(Assembler::carryClear, skip);
  __ nop();
  __ bind(skip);
  __ testl(value, value);
  __ jccb(Assembler::notZero, loop);
  note(name, begin, __ pc());
}

void JPortalReveal::value(InterpreterMacroAssembler* masm, const char* name, Register value, Register temp) {
  if (!JPortal) return;
  __ movl(temp, value);
  emit(masm, name, temp);
}

void JPortalReveal::bci(InterpreterMacroAssembler* masm, const char* name, Register temp1, Register temp2) {
  if (!JPortal) return;
  __ get_method(temp1);
  __ movptr(temp2, r13);  // bcp
  __ subptr(temp2, Address(temp1, Method::const_offset()));
  __ subl(temp2, in_bytes(ConstMethod::codes_offset()));
  emit(masm, name, temp2);
}

JPortalAside::JPortalAside(InterpreterMacroAssembler* masm) : _masm(masm), _begin(masm->pc()) {}

JPortalAside::~JPortalAside() {
  if (JPortal) {
    JPortalReveal::note("aside", _begin, _masm->pc());
  }
}

#undef __
