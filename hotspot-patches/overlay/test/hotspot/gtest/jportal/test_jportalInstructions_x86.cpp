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
#include "utilities/macros.hpp"
#if INCLUDE_JPORTAL && defined(AMD64)
#include "asm/macroAssembler.inline.hpp"
#include "jportalInstructions_x86.hpp"
#include "unittest.hpp"

// What HotSpot's own assembler emits is read back.
class JPortalInstructionsTest : public ::testing::Test {
  enum { Size = 4 * K };
  char _memory[Size];

 protected:
  CodeBuffer buffer;

  JPortalInstructionsTest() : buffer((address)_memory, Size) { memset(_memory, 0xf4, Size); }   // hlt

  static void expect(address at, address end, int condition) {
    const JPortalInstructions::Branch b = JPortalInstructions::branch_at(at);
    EXPECT_EQ(end - at, b.length);
    EXPECT_EQ(condition, b.condition);
  }
};

TEST_VM_F(JPortalInstructionsTest, branches_of_all_conditions) {
  MacroAssembler masm(&buffer);
  for (int condition = 0; condition < 16; condition++) {
    Label near, far;
    masm.bind(near);
    address at = masm.pc();
    masm.jcc((Assembler::Condition)condition, near);   // backwards and close: the short form
    EXPECT_EQ(2, masm.pc() - at);
    expect(at, masm.pc(), condition);
    at = masm.pc();
    masm.jcc((Assembler::Condition)condition, far);    // forwards: the long form
    EXPECT_EQ(6, masm.pc() - at);
    expect(at, masm.pc(), condition);
    masm.bind(far);
  }
  EXPECT_EQ((int)Assembler::equal, (int)JPortalInstructions::Equal);
  EXPECT_EQ((int)Assembler::parity, (int)JPortalInstructions::Parity);
}

TEST_VM_F(JPortalInstructionsTest, jumps_and_nops) {
  MacroAssembler masm(&buffer);
  Label near, far;
  masm.bind(near);
  address at = masm.pc();
  masm.jmp(near);
  EXPECT_EQ(2, masm.pc() - at);
  expect(at, masm.pc(), JPortalInstructions::Always);
  at = masm.pc();
  masm.jmp(far);
  EXPECT_EQ(5, masm.pc() - at);
  expect(at, masm.pc(), JPortalInstructions::Always);
  masm.bind(far);
  at = masm.pc();
  masm.nop();
  expect(at, masm.pc(), JPortalInstructions::Always);
}

TEST_VM_F(JPortalInstructionsTest, other_instructions_are_none) {
  MacroAssembler masm(&buffer);
  address at[8];
  int n = 0;
  at[n++] = masm.pc(); masm.ret(0);
  at[n++] = masm.pc(); masm.movl(rax, 1);
  at[n++] = masm.pc(); masm.jmp(rax);
  at[n++] = masm.pc(); masm.cmovl(Assembler::equal, rax, rbx);   // 0f 4x, not 0f 8x
  at[n++] = masm.pc(); masm.setb(Assembler::equal, rax);         // 0f 9x
  for (int i = 0; i < n; i++) {
    EXPECT_EQ(0, JPortalInstructions::branch_at(at[i]).length);
  }
}

TEST_VM_F(JPortalInstructionsTest, jumps_through_tables) {
  MacroAssembler masm(&buffer);
  const address code = masm.pc();
  masm.mov64(r11, CONST64(0x123456789a));
  const int jump = (int)(masm.pc() - code);
  masm.jmp(Address(r11, rax, Address::times_8, 0));
  const int second = (int)(masm.pc() - code);
  masm.jmp(Address(rbx, rax, Address::times_8, 0));   // without a load of the table's address
  const int third = (int)(masm.pc() - code);
  masm.jmp(rax);                                      // through a register
  const int fourth = (int)(masm.pc() - code);
  masm.call(rax);
  const int end = (int)(masm.pc() - code);
  EXPECT_EQ(jump, JPortalInstructions::jump_through_table(code, 0, second));
  EXPECT_EQ(second, JPortalInstructions::jump_through_table(code, second, third));
  EXPECT_EQ(-1, JPortalInstructions::jump_through_table(code, fourth, end));
  EXPECT_EQ(-1, JPortalInstructions::jump_through_table(code, 0, jump));   // the load fills the range
}

#endif // INCLUDE_JPORTAL && AMD64
