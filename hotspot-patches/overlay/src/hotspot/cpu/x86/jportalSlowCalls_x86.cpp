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
#include "interpreter/interp_masm.hpp"
#include "jportal/jportalSlowCalls.hpp"
#include "oops/method.hpp"

#define __ masm->

// Calls function(thread, method, fp); the Method* is in c_rarg1. The two generators below skip the
// call unless the method is marked as not compilable by C2. JPortalSlowCalls::on_class_defined()
// marks the method of the trigger, and other methods may be marked as well.
void JPortalSlowCalls::generate_call(InterpreterMacroAssembler* masm, address function) {
  __ movptr(c_rarg2, rbp);
  __ call_VM_leaf(function, r15_thread, c_rarg1, c_rarg2);
}

void JPortalSlowCalls::generate_begin(InterpreterMacroAssembler* masm) {
  if (!is_on()) return;
  Label skip;
  __ get_method(c_rarg1);
  __ testl(Address(c_rarg1, Method::access_flags_offset()), JVM_ACC_NOT_C2_COMPILABLE);
  __ jcc(Assembler::zero, skip);
  generate_call(masm, CAST_FROM_FN_PTR(address, begin));
  __ bind(skip);
}

void JPortalSlowCalls::generate_end(InterpreterMacroAssembler* masm, TosState state) {
  if (!is_on()) return;
  Label skip;
  __ get_method(c_rarg1);
  __ testl(Address(c_rarg1, Method::access_flags_offset()), JVM_ACC_NOT_C2_COMPILABLE);
  __ jcc(Assembler::zero, skip);
  __ push(state);
  generate_call(masm, CAST_FROM_FN_PTR(address, end));
  __ pop(state);
  __ bind(skip);
}
