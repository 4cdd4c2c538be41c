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
#include "asm/assembler.hpp"
#include "jportal/jportal.hpp"
#include "jportal/jportalCode.hpp"
#include "jportal/jportalRecording.hpp"
#include "jportal/jportalRecords.hpp"
#include "nativeInst_x86.hpp"
#include "rdtsc_x86.hpp"

u8 JPortalCode::timestamp() {
  return (u8)Rdtsc::raw();
}

// Whether this is the comparison in the entry barrier of an nmethod, cmpl [r15 + disp8], imm32
// (NativeNMethodCmpBarrier in barrierSetNMethod_x86.cpp). No other instruction of this form is
// changed.
static bool is_entry_barrier(address instruction, int offset) {
  return offset == 4 && instruction[0] == (Assembler::REX | Assembler::REX_B) &&
         instruction[1] == 0x81 && instruction[2] == 0x7f;
}

// NativeInstruction::wrote() passes the offset of the store, but not its size. The stores are of
// three kinds: displacements, immediates, and those of NativeGeneralJump::replace_mt_safe(), which
// writes the first four bytes of the instruction and its fifth byte. Only Runtime1::patch_code()
// calls replace_mt_safe().
//
// The immediate of an entry barrier is not recorded: the trace has the branch after it, and a
// concurrent collector disarms every nmethod in every cycle.
void JPortalHooks::instruction_written(address instruction, int offset) {
  if (!JPortalRecording::is_on() || !JPortalCode::is_exported(instruction)) return;
  if (is_entry_barrier(instruction, offset)) return;
  const u1 opcode = *instruction;
  const bool self_jump = opcode == NativeGeneralJump::unconditional_short_jump;
  if (opcode == NativeCall::instruction_code && offset == NativeCall::displacement_offset) {
    JPortalCode::export_patch(instruction, NativeCall::instruction_size, JPortalPatchReasons::CALL);
  } else if (opcode == NativeJump::instruction_code && offset == NativeJump::data_offset) {
    JPortalCode::export_patch(instruction, NativeJump::instruction_size, JPortalPatchReasons::JUMP);
  } else if (offset == 0 || (self_jump && offset == 4)) {
    JPortalCode::export_patch(instruction, NativeGeneralJump::instruction_size, JPortalPatchReasons::C1_PATCH);
  } else if (offset == NativeMovConstReg::data_offset && nativeInstruction_at(instruction)->is_mov_literal64()) {
    JPortalCode::export_patch(instruction, NativeMovConstReg::instruction_size, JPortalPatchReasons::MOV_CONST);
  } else {
    JPortalCode::export_patch(instruction + offset, sizeof(jint), JPortalPatchReasons::OTHER);
  }
}

void JPortalHooks::code_patched(address at, int size) {
  if (!JPortalRecording::is_on() || !JPortalCode::is_exported(at)) return;
  const u1 opcode = *at;
  JPortalCode::export_patch(at, size, opcode == NativeCall::instruction_code ? JPortalPatchReasons::CALL
                                    : opcode == NativeJump::instruction_code ? JPortalPatchReasons::JUMP
                                    : JPortalPatchReasons::OTHER);
}

// The first five bytes still hold the jump to the patch stub, so they are not exported here:
// replace_mt_safe() writes them next.
void JPortalHooks::code_tail_patched(address at, int size) {
  const int head = NativeGeneralJump::instruction_size;
  if (size > head && JPortalRecording::is_on() && JPortalCode::is_exported(at)) {
    JPortalCode::export_patch(at + head, size - head, JPortalPatchReasons::C1_PATCH);
  }
}
