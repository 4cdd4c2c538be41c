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

#ifndef SHARE_JPORTAL_JPORTALMARKERSC1_HPP
#define SHARE_JPORTAL_JPORTALMARKERSC1_HPP

#include "jportal/jportalMarkers.hpp"

class BlockBegin;
class Compilation;
class Instruction;
class JPortalC1;
class LIR_List;
class LIR_Op;
class LIR_OpBranch;
class ValueStack;

// The hooks that C1 calls during a compilation.
//
// C1 keeps its blocks, so paths are stored in side tables and the IR is unchanged. Control passes
// the path of an HIR instruction after the instruction. When LIR is generated, the path moves to
// a LIR operation, and control passes it after that operation. Control passes the path of a branch
// when the branch is taken.
class JPortalMarkersC1 : AllStatic {
  static bool is_on() { return JPortalMarkers::is_on(); }

 public:
  static void on_compile_begin(Compilation* compilation);

  // --- HIR
  // The bytecodes from 'bci' on are about to be parsed; their instructions follow 'last'.
  // 'is_block': a bytecode block begins at 'bci'.
  static void on_block_parsing(Instruction* last, ValueStack* state, int bci, bool is_block) {
    if (is_on() && is_block) block_parsing(last, state, bci);
  }
  // 'removed' is removed from its position after 'before', which takes over its path.
  static void on_instruction_removed(Instruction* removed, Instruction* before) {
    if (is_on()) instruction_removed(removed, before);
  }
  // Whether the two arms must not become a conditional expression, because their paths differ.
  static bool refuses_conditional_expression(BlockBegin* arm1, BlockBegin* arm2) {
    return JPortalMarkers::is_exact() && !same_path(arm1, arm2);
  }
  // A conditional expression after 'before' replaces the two arms.
  static void on_conditional_expression(BlockBegin* arm1, BlockBegin* arm2, Instruction* before) {
    if (is_on()) conditional_expression(arm1, arm2, before);
  }

  // --- LIR
  // The LIR of 'instruction', if any, has been appended to 'lir'.
  static void on_instruction_generated(Instruction* instruction, LIR_List* lir) {
    if (is_on()) instruction_generated(instruction, lir);
  }
  // The branch to the empty block 'from' is about to lead to the successor of 'from'.
  static void on_branch_retargeted(LIR_OpBranch* branch, BlockBegin* from) {
    if (is_on()) branch_retargeted(branch, from);
  }
  // The same for the target of a float branch on unordered operands.
  static void on_unordered_branch_retargeted(LIR_OpBranch* branch, BlockBegin* from) {
    if (is_on()) unordered_branch_retargeted(branch, from);
  }
  // 'jump', the last operation of 'block', is about to be deleted: control falls through to its
  // target.
  static void on_jump_deleted(BlockBegin* block, LIR_OpBranch* jump) {
    if (is_on()) jump_deleted(block, jump);
  }
  // 'jump' follows 'branch' at the end of 'block' and is about to be deleted: 'branch' is negated
  // and leads to the target of 'jump', and control falls through to the old target of 'branch'.
  static void on_branch_negated(BlockBegin* block, LIR_OpBranch* branch, LIR_OpBranch* jump) {
    if (is_on()) branch_negated(block, branch, jump);
  }
  // 'copy' has replaced 'jump'. It is a copy of the return of 'from', a block that only returns.
  static void on_return_copied(LIR_Op* jump, BlockBegin* from, LIR_Op* copy) {
    if (is_on()) return_copied(jump, from, copy);
  }

  // --- Machine code
  static void on_block_emitting(BlockBegin* block, int offset)  { if (is_on()) block_emitting(block, offset); }
  static void on_op_emitting(LIR_Op* op, int offset)            { if (is_on()) op_emitting(op, offset); }
  static void on_op_emitted(LIR_Op* op, int offset)             { if (is_on()) op_emitted(op, offset); }
  // Whether the block, which ends at 'offset', needs a nop at its end: without it, two control
  // flows with different paths would have the same addresses.
  static bool wants_nop(int offset)          { return JPortalMarkers::is_exact() && ways_meet(offset); }
  static void on_block_emitted(int offset)                      { if (is_on()) block_emitted(offset); }
  // All labels are bound. 'code' is the address of offset 0.
  static void on_blocks_emitted(Compilation* compilation, address code) {
    if (is_on()) blocks_emitted(compilation, code);
  }

 private:
  static void block_parsing(Instruction* last, ValueStack* state, int bci);
  static void instruction_removed(Instruction* removed, Instruction* before);
  static bool same_path(BlockBegin* arm1, BlockBegin* arm2);
  static void conditional_expression(BlockBegin* arm1, BlockBegin* arm2, Instruction* before);
  static void instruction_generated(Instruction* instruction, LIR_List* lir);
  static void branch_retargeted(LIR_OpBranch* branch, BlockBegin* from);
  static void unordered_branch_retargeted(LIR_OpBranch* branch, BlockBegin* from);
  static void jump_deleted(BlockBegin* block, LIR_OpBranch* jump);
  static void branch_negated(BlockBegin* block, LIR_OpBranch* branch, LIR_OpBranch* jump);
  static void return_copied(LIR_Op* jump, BlockBegin* from, LIR_Op* copy);
  static void block_emitting(BlockBegin* block, int offset);
  static void op_emitting(LIR_Op* op, int offset);
  static void op_emitted(LIR_Op* op, int offset);
  static bool ways_meet(int offset);
  static void block_emitted(int offset);
  static void blocks_emitted(Compilation* compilation, address code);
};

#endif // SHARE_JPORTAL_JPORTALMARKERSC1_HPP
