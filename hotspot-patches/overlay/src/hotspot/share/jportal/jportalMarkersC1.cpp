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
#ifdef COMPILER1
#include "c1/c1_Compilation.hpp"
#include "c1/c1_IR.hpp"
#include "c1/c1_Instruction.hpp"
#include "c1/c1_LIR.hpp"
#include "c1/c1_ValueStack.hpp"
#include "ci/ciEnv.hpp"
#include "jportal/jportalMarkersC1.hpp"
#include "jportal/jportalMarkersVerify.hpp"
#include "jportal/jportalPathMap.hpp"
#include "jportal/jportalRecords.hpp"
#include "memory/resourceArea.hpp"
#include CPU_HEADER(jportalInstructions)

// The path markers of one C1 compilation.
class JPortalC1 {
  friend class JPortalMarkersC1;

  // The code of one block, in the order of emission.
  struct Code {
    BlockBegin* block;
    int start;
    int end;
    // The offset of 'pending': after the last operation that may leave the block midway, or
    // before a later operation with a path of its own; initially start.
    int exit;
    int leaving;       // the start of the operation that set exit; initially start
    int branch;        // index in _branches if the last operation is a conditional branch, or -1
    bool is_jump;      // the last operation never falls through
    bool is_call;      // the operation that ends at exit is a call
    // Passed at exit, and not in the table yet. If it remains when the block is complete, the block
    // has no instruction at exit.
    const JPortalPath* pending;
  };
  struct Branch {
    LIR_OpBranch* op;
    int from;
    int to;
    int code;          // index in _code of its block
  };

  Arena*                 _arena;
  JPortalMarkerTable*    _table;
  JPortalPathMap         _behind;      // passed after an HIR instruction or a LIR operation
  JPortalPathMap         _before;      // passed before a LIR operation
  JPortalPathMap         _taken;       // passed when a branch is taken
  JPortalPathMap         _unordered;   // passed when a float branch is taken on unordered operands
  JPortalPathMap         _fall;        // passed when control falls through at the end of a block
  GrowableArray<Code>*   _code;
  GrowableArray<Branch>* _branches;
  GrowableArray<int>*    _index;       // index in _code, by block id
  bool                   _emitting;    // code of a block is being emitted, not code outside blocks
  int                    _op_offset;   // the start of the current operation

 public:
  JPortalC1(Arena* arena)
    : _arena(arena),
      _table(new (arena) JPortalMarkerTable(arena)),
      _behind(arena), _before(arena), _taken(arena), _unordered(arena), _fall(arena),
      _code(new (arena) GrowableArray<Code>(arena, 32, 0, Code())),
      _branches(new (arena) GrowableArray<Branch>(arena, 32, 0, Branch())),
      _index(new (arena) GrowableArray<int>(arena, 32, 0, -1)),
      _emitting(false), _op_offset(0) {}

  void* operator new(size_t size, Arena* arena) throw() { return arena->Amalloc(size); }
  static JPortalC1* current() { return Compilation::current()->jportal(); }

  const JPortalPath* cat(const JPortalPath* a, const JPortalPath* b) const { return _table->cat(a, b); }
  void append(JPortalPathMap* map, const void* key, const JPortalPath* path) {
    if (path != nullptr) map->put(key, cat(map->get(key), path));
  }

  u4 context(ValueStack* state);
  const JPortalPath* path_of_arm(BlockBegin* arm) const;
  const JPortalPath* path_through(BlockBegin* empty) const;
  void skip_empty(int index, const JPortalPath** path) const;
  void put_fall(int index);
  void put_branch(int index, const u1* code);
  void put_pending(Code* c, int offset);
  void verify(int compile_id) const;
};

void JPortalMarkersC1::on_compile_begin(Compilation* compilation) {
  Arena* arena = compilation->env()->arena();
  compilation->set_jportal(is_on() ? new (arena) JPortalC1(arena) : nullptr);
}

// --- HIR

u4 JPortalC1::context(ValueStack* state) {
  ValueStack* caller = state->caller_state();
  const u4 parent = caller == nullptr ? JPORTAL_NO_CONTEXT : context(caller);
  return _table->context(parent, caller == nullptr ? 0 : caller->bci(), state->scope()->method());
}

void JPortalMarkersC1::block_parsing(Instruction* last, ValueStack* state, int bci) {
  JPortalC1* jp = JPortalC1::current();
  jp->append(&jp->_behind, last, jp->_table->block(jp->context(state), bci));
}

void JPortalMarkersC1::instruction_removed(Instruction* removed, Instruction* before) {
  JPortalC1* jp = JPortalC1::current();
  jp->append(&jp->_behind, before, jp->_behind.get(removed));
  jp->_behind.put(removed, nullptr);
}

// The path of an arm of a conditional expression. An arm is a block begin, perhaps a constant, and
// a goto.
const JPortalPath* JPortalC1::path_of_arm(BlockBegin* arm) const {
  const JPortalPath* path = nullptr;
  for (Instruction* i = arm; i != nullptr; i = i->next()) {
    path = cat(path, _behind.get(i));
  }
  return path;
}

bool JPortalMarkersC1::same_path(BlockBegin* arm1, BlockBegin* arm2) {
  JPortalC1* jp = JPortalC1::current();
  return JPortalPath::equal(jp->path_of_arm(arm1), jp->path_of_arm(arm2));
}

void JPortalMarkersC1::conditional_expression(BlockBegin* arm1, BlockBegin* arm2, Instruction* before) {
  JPortalC1* jp = JPortalC1::current();
  const JPortalPath* path = jp->path_of_arm(arm1);
  if (!JPortalPath::equal(path, jp->path_of_arm(arm2))) {
    path = jp->_table->ambiguous(JPortalAmbiguities::CONDITIONAL_EXPRESSION);
  }
  jp->append(&jp->_behind, before, path);
}

// --- LIR

// Linear scan and later passes insert and delete moves. A move without debug info cannot leave the
// block, so a path after trailing moves may be attached to the operation before them.
void JPortalMarkersC1::instruction_generated(Instruction* instruction, LIR_List* lir) {
  JPortalC1* jp = JPortalC1::current();
  const JPortalPath* path = jp->_behind.get(instruction);
  if (path == nullptr) return;
  LIR_OpList* ops = lir->instructions_list();
  int i = ops->length() - 1;   // the label of the block is the first
  while (i > 0 && ops->at(i)->code() == lir_move && ops->at(i)->info() == nullptr) i--;
  jp->append(&jp->_behind, ops->at(i), path);
}

// The path through a block that consists of its label and a jump.
const JPortalPath* JPortalC1::path_through(BlockBegin* empty) const {
  LIR_OpList* ops = empty->lir()->instructions_list();
  return cat(_behind.get(ops->at(0)), _taken.get(ops->last()));
}

void JPortalMarkersC1::branch_retargeted(LIR_OpBranch* branch, BlockBegin* from) {
  JPortalC1* jp = JPortalC1::current();
  jp->append(&jp->_taken, branch, jp->path_through(from));
}

void JPortalMarkersC1::unordered_branch_retargeted(LIR_OpBranch* branch, BlockBegin* from) {
  JPortalC1* jp = JPortalC1::current();
  jp->append(&jp->_unordered, branch, jp->path_through(from));
}

void JPortalMarkersC1::jump_deleted(BlockBegin* block, LIR_OpBranch* jump) {
  JPortalC1* jp = JPortalC1::current();
  jp->append(&jp->_fall, block, jp->_taken.get(jump));
}

void JPortalMarkersC1::branch_negated(BlockBegin* block, LIR_OpBranch* branch, LIR_OpBranch* jump) {
  JPortalC1* jp = JPortalC1::current();
  jp->append(&jp->_fall, block, jp->_taken.get(branch));
  jp->_taken.put(branch, jp->_taken.get(jump));
}

void JPortalMarkersC1::return_copied(LIR_Op* jump, BlockBegin* from, LIR_Op* copy) {
  JPortalC1* jp = JPortalC1::current();
  LIR_OpList* ops = from->lir()->instructions_list();
  const JPortalPath* path = jp->cat(jp->_taken.get(jump), jp->_behind.get(ops->at(0)));
  jp->_before.put(copy, jp->cat(path, jp->_before.get(ops->last())));
}

// --- Emission

void JPortalC1::put_pending(Code* c, int offset) {
  if (c->exit < offset) {
    _table->add_offset(c->exit, c->pending);
    c->pending = nullptr;
  }
}

// Whether the operation may throw, call Java code or deoptimise. Some operations have their debug
// info in a stub, and their info() is null.
static bool may_leave(LIR_Op* op) {
  if (op->info() != nullptr) return true;
  switch (op->code()) {
    case lir_std_entry:  case lir_osr_entry:   case lir_safepoint:
    case lir_return:     case lir_throw:       case lir_unwind:
    case lir_alloc_object: case lir_alloc_array: case lir_arraycopy:
    case lir_lock:       case lir_unlock:
    case lir_checkcast:  case lir_store_check:
    case lir_static_call: case lir_optvirtual_call: case lir_icvirtual_call: case lir_dynamic_call:
      return true;
    case lir_instanceof:   // only if it has to load its class
      return op->as_OpTypeCheck()->info_for_patch() != nullptr;
    case lir_branch: case lir_cond_float_branch:
      return op->as_OpBranch()->stub() != nullptr;
    default:
      return false;
  }
}

static bool is_call(LIR_Op* op) {
  return op->code() == lir_rtcall || (op->code() > begin_opJavaCall && op->code() < end_opJavaCall);
}

void JPortalMarkersC1::block_emitting(BlockBegin* block, int offset) {
  JPortalC1* jp = JPortalC1::current();
  JPortalC1::Code c = { block, offset, offset, offset, offset, -1, false, false, nullptr };
  jp->_index->at_put_grow(block->block_id(), jp->_code->length(), -1);
  jp->_code->push(c);
  jp->_emitting = true;
}

void JPortalMarkersC1::op_emitting(LIR_Op* op, int offset) {
  JPortalC1* jp = JPortalC1::current();
  if (!jp->_emitting) return;
  jp->_op_offset = offset;
  JPortalC1::Code* c = jp->_code->adr_at(jp->_code->length() - 1);
  const JPortalPath* path = jp->_before.get(op);
  if (op->code() == lir_branch && op->as_OpBranch()->cond() == lir_cond_always) {
    // The jump is always taken, so its path may be passed before it.
    path = jp->cat(path, jp->_taken.get(op));
  }
  if (path != nullptr) {
    jp->put_pending(c, offset);
    c->exit = offset;
    c->leaving = offset;
    c->is_call = false;
    c->pending = jp->cat(c->pending, path);
  }
}

void JPortalMarkersC1::op_emitted(LIR_Op* op, int offset) {
  JPortalC1* jp = JPortalC1::current();
  if (!jp->_emitting) return;
  JPortalC1::Code* c = jp->_code->adr_at(jp->_code->length() - 1);
  LIR_OpBranch* branch = op->as_OpBranch();
  c->branch = -1;
  c->is_jump = op->code() == lir_return || op->code() == lir_throw || op->code() == lir_unwind;
  if (branch != nullptr && branch->block() != nullptr) {
    c->is_jump = branch->cond() == lir_cond_always;
    if (!c->is_jump) c->branch = jp->_branches->length();
    JPortalC1::Branch b = { branch, jp->_op_offset, offset, jp->_code->length() - 1 };
    jp->_branches->push(b);
  }
  const JPortalPath* path = jp->_behind.get(op);
  if (!may_leave(op) || offset == jp->_op_offset) {
    // The operation cannot leave the block, so its path may be passed before it.
    c->pending = jp->cat(c->pending, path);
    return;
  }
  jp->put_pending(c, offset);
  c->pending = jp->cat(c->pending, path);
  c->exit = offset;
  c->leaving = jp->_op_offset;
  c->is_call = is_call(op);
}

bool JPortalMarkersC1::ways_meet(int offset) {
  JPortalC1* jp = JPortalC1::current();
  const JPortalC1::Code& c = jp->_code->at(jp->_code->length() - 1);
  if (c.exit == offset && c.pending != nullptr) return true;
  if (c.branch >= 0 && jp->_taken.get(jp->_branches->at(c.branch).op) != nullptr) return true;
  return jp->_fall.get(c.block) != nullptr;
}

void JPortalMarkersC1::block_emitted(int offset) {
  JPortalC1* jp = JPortalC1::current();
  JPortalC1::Code* c = jp->_code->adr_at(jp->_code->length() - 1);
  jp->put_pending(c, offset);
  c->end = offset;
  jp->_emitting = false;
}

// Appends to '*path' the paths of the blocks without code from block 'index' on. Such a block has
// the address of the next block with code, which control reaches in other ways as well. So its
// path belongs to the edge that leads to it.
void JPortalC1::skip_empty(int index, const JPortalPath** path) const {
  for (; index + 1 < _code->length() && _code->at(index).start == _code->at(index).end; index++) {
    const Code& c = _code->at(index);
    *path = cat(*path, cat(c.pending, _fall.get(c.block)));
  }
}

void JPortalC1::put_fall(int index) {
  const Code& c = _code->at(index);
  if (c.start == c.end || c.is_jump || index + 1 == _code->length()) return;
  const JPortalPath* path = cat(c.pending, _fall.get(c.block));
  skip_empty(index + 1, &path);
  if (c.branch >= 0 || path == nullptr) {
    return;   // nothing to place, or put_branch() does it
  }
  if (c.exit < c.end) {
    _table->add_offset(c.exit, path);
  } else if (c.is_call) {
    _table->add_edge(c.end, c.end, JPortalEdgeOutcomes::CALL_RETURN, path);
  } else {
    // The slow path of the operation may return to the end of the block, which is the start of the
    // next block. No instruction tells the two ways apart. Markers before the operation stay exact.
    _table->add_offset(c.leaving, _table->ambiguous(JPortalAmbiguities::UNKNOWN_INSTRUCTION));
  }
}

void JPortalC1::put_branch(int index, const u1* code) {
  const Branch& b = _branches->at(index);
  const int target = _index->at(b.op->block()->block_id());
  if (b.op->cond() == lir_cond_always) {
    const JPortalPath* path = nullptr;   // op_emitting() has placed the path of the jump itself
    skip_empty(target, &path);
    _table->add_offset(b.from, path);
    return;
  }
  const JPortalPath* taken = _taken.get(b.op);
  // An empty block may precede the alignment padding of a loop header. The branch leads to the
  // label of the empty block.
  skip_empty(target, &taken);
  const int to_taken = _code->at(target).start;
  const JPortalPath* fall = nullptr;
  const Code& c = _code->at(b.code);
  if (c.branch == index) {
    fall = cat(c.pending, _fall.get(c.block));
    skip_empty(b.code + 1, &fall);
  }
  const JPortalPath* unordered = _unordered.get(b.op);
  int to_unordered = to_taken;
  if (b.op->ublock() != nullptr) {
    const int target = _index->at(b.op->ublock()->block_id());
    skip_empty(target, &unordered);
    to_unordered = _code->at(target).start;
  }
  if (taken == nullptr && unordered == nullptr && fall == nullptr) return;
  int at = b.from;
  for (int way = b.op->ublock() != nullptr ? 0 : 1; way < 2; way++) {
    const JPortalInstructions::Branch x = JPortalInstructions::branch_at(code + at);
    if (x.condition < 0) {
      assert(false, "no conditional branch");
      _table->add_offset(b.from, _table->ambiguous(JPortalAmbiguities::UNKNOWN_INSTRUCTION));
      return;
    }
    _table->add_edge(at, way == 0 ? to_unordered : to_taken, JPortalEdgeOutcomes::TAKEN,
                     way == 0 ? unordered : taken);
    at += x.length;
    if (way == 1) _table->add_edge(at - x.length, at, JPortalEdgeOutcomes::NOT_TAKEN, fall);
  }
}

// Checks the markers of the final LIR. Exceptions are not followed: C1 dispatches them in the
// runtime.
void JPortalC1::verify(int compile_id) const {
  ResourceMark rm;
  JPortalMarkersVerifier verifier(_table, "C1", compile_id);
  for (int i = 0; i < _code->length(); i++) verifier.add_node(nullptr);
  for (int i = 0; i < _code->length(); i++) {
    BlockBegin* block = _code->at(i).block;
    LIR_OpList* ops = block->lir()->instructions_list();
    int node = i;
    for (int k = 0; k < ops->length(); k++) {
      LIR_Op* op = ops->at(k);
      verifier.append_to_node(node, _before.get(op));
      LIR_OpBranch* branch = op->as_OpBranch();
      if (branch != nullptr && branch->block() != nullptr) {
        if (branch->ublock() != nullptr) {
          verifier.add_edge(node, _index->at(branch->ublock()->block_id()), _unordered.get(op));
        }
        verifier.add_edge(node, _index->at(branch->block()->block_id()), _taken.get(op));
        // What follows is passed only if the branch is not taken.
        const int rest = verifier.add_node(nullptr);
        if (branch->cond() != lir_cond_always) verifier.add_edge(node, rest, nullptr);
        node = rest;
      }
      verifier.append_to_node(node, _behind.get(op));
    }
    if (!_code->at(i).is_jump && i + 1 < _code->length()) {
      verifier.add_edge(node, i + 1, _fall.get(block));
    }
  }
  verifier.verify();
}

void JPortalMarkersC1::blocks_emitted(Compilation* compilation, address code) {
  JPortalC1* jp = compilation->jportal();
  if (JPortalVerifyMarkers) jp->verify(compilation->env()->compile_id());
  for (int i = 0; i < jp->_code->length(); i++) {
    jp->put_fall(i);
  }
  for (int i = 0; i < jp->_branches->length(); i++) {
    jp->put_branch(i, (const u1*)code);
  }
  jp->_table->finish(compilation->env()->compile_id(), compilation->osr_bci());
}

#endif // COMPILER1
