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
#ifdef COMPILER2
#include "asm/codeBuffer.hpp"
#include "jportal/jportalMarkersC2.hpp"
#include "jportal/jportalMarkersC2Code.hpp"
#include "jportal/jportalMarkersVerify.hpp"
#include "jportal/jportalRecords.hpp"
#include "memory/resourceArea.hpp"
#include "opto/block.hpp"
#include "opto/cfgnode.hpp"
#include "opto/compile.hpp"
#include "opto/machnode.hpp"
#include CPU_HEADER(jportalInstructions)

// Moves the paths of mach nodes to code offsets and edges.
//
// Before scheduling, blocks_built() collects the paths of each block. The paths of the edge into
// the block, of its head and of its control nodes up to the first safepoint become the path of the
// head. The paths after a safepoint become the path of that safepoint. Control may leave the block
// at a safepoint, so it passes the markers after the safepoint only if it continues there.

// Appends to '*path' the paths of the blocks without code from 'block' on. Such a block has the
// address of the next block with code, which control reaches in other ways as well. So its path
// belongs to the edge that leads to it. Returns the block with code.
Block* JPortalC2::skip_empty(Block* block, const JPortalPath** path) const {
  int limit = _code->length();
  while (limit-- > 0 && block->_num_succs == 1) {
    const Code& c = _code->at(block->_pre_order);
    if (!block->is_connector() && c.end != c.start) break;
    *path = cat(*path, path_of(block->head()));
    block = block->_succs[0];
  }
  return block;
}

// The offset that a branch to the block targets. A block without code may precede the alignment
// padding of a loop header, so the code that it leads to begins at another offset.
int JPortalC2::label_of(Block* block) const {
  return _code->at(block->non_connector()->_pre_order).start;
}

static bool is_leaving(const Node* n) { return n->is_MachSafePoint(); }

void JPortalMarkersC2::blocks_built(PhaseCFG* cfg) {
  JPortalC2* jp = JPortalC2::current();
  if (jp == nullptr) return;
  ResourceMark rm;
  GrowableArray<Node*> chain;
  // Several blocks may read the path of one projection, so all paths are read before any is stored.
  GrowableArray<const JPortalPath*> paths;
  GrowableArray<Node*> owners;
  for (uint i = 0; i < cfg->number_of_blocks(); i++) {
    Block* block = cfg->get_block(i);
    Node* head = block->head();
    if (head->is_Root()) continue;
    const JPortalPath* path = nullptr;
    if (block->num_preds() == 2) {
      Node* pred = block->pred(1);
      if (pred->is_Proj() && pred->is_block_proj() != pred && !pred->is_Start()) {
        path = jp->path_of(pred);
      }
    }
    path = jp->cat(path, jp->path_of(head));
    Node* owner = head;
    chain.clear();
    // Before scheduling, the block lists only its head and its end.
    for (Node* n = block->end(); n != head && n != nullptr; n = n->in(0)) {
      assert((uint)chain.length() <= jp->_compile->unique(), "a block without a head");
      if (n != block->end()) chain.push(n);
    }
    while (chain.is_nonempty()) {
      Node* n = chain.pop();
      if (is_leaving(n)) {
        owners.push(owner);
        paths.push(path);
        owner = n;
        path = nullptr;
      }
      path = jp->cat(path, jp->path_of(n));
    }
    owners.push(owner);
    paths.push(path);
  }
  jp->_paths = nullptr;
  jp->_size = 0;
  for (int i = 0; i < owners.length(); i++) {
    // The prolog will replace the StartNode.
    if (owners.at(i)->is_Start()) jp->_entry_path = paths.at(i);
    else jp->set_path(owners.at(i), paths.at(i));
  }
}

// If two outcomes of a test or table lead to the same address through empty blocks with different
// paths, puts a nop into one of these blocks, so that the addresses differ.
static void keep_apart(JPortalC2* jp, PhaseCFG* cfg, Block* block) {
  ResourceMark rm;
  const uint count = block->_num_succs;
  Block** ends = NEW_RESOURCE_ARRAY(Block*, count);
  const JPortalPath** paths = NEW_RESOURCE_ARRAY(const JPortalPath*, count);
  for (uint i = 0; i < count; i++) {
    ends[i] = block->_succs[i];
    paths[i] = nullptr;
    uint limit = cfg->number_of_blocks();
    while (limit-- > 0 && ends[i]->is_Empty() != Block::not_empty && ends[i]->_num_succs == 1) {
      paths[i] = jp->cat(paths[i], jp->path_of(ends[i]->head()));
      ends[i] = ends[i]->_succs[0];
    }
  }
  for (uint i = 0; i + 1 < count; i++) {
    for (uint k = i + 1; k < count; k++) {
      if (ends[i] != ends[k] || JPortalPath::equal(paths[i], paths[k])) continue;
      const uint way = block->_succs[i] != ends[i] ? i : k;
      Block* own = block->_succs[way];
      if (own->num_preds() != 2) continue;
      Node* nop = new MachNopNode(1);
      own->insert_node(nop, own->end_idx());
      cfg->map_node_to_block(nop, own);
      ends[way] = own;   // this block is not empty now
    }
  }
}

void JPortalMarkersC2::keep_ways_apart(PhaseCFG* cfg) {
  JPortalC2* jp = JPortalC2::current();
  if (jp == nullptr) return;
  for (uint i = 1; i < cfg->number_of_blocks(); i++) {
    Block* block = cfg->get_block(i);
    if (block->_num_succs > 1 && !block->end()->is_Catch()) {
      keep_apart(jp, cfg, block);
    }
  }
}

// --- Emission

// Called before each node and at the end of the block. Code has been emitted up to 'offset', so the
// path of the last safepoint or prolog, if any, is passed at 'offset'.
void JPortalC2::settle(Code* c, int offset) {
  if (_leaving == nullptr) return;
  const JPortalPath* behind = path_of(_leaving);
  _leaving = nullptr;
  if (offset == c->exit) {
    c->pending = cat(c->pending, behind);
  } else {
    _table->add_offset(c->exit, c->pending);
    c->exit = offset;
    c->pending = behind;
  }
}

void JPortalMarkersC2::block_emitting(Block* block, int offset) {
  JPortalC2* jp = JPortalC2::current();
  if (jp == nullptr) return;
  if (jp->_code == nullptr) {
    jp->_code = new (jp->_arena) GrowableArray<JPortalC2::Code>(jp->_arena, 64, 0, JPortalC2::Code());
  }
  JPortalC2::Code c = { offset, offset, offset, -1, false, false, -1, -1, nullptr, nullptr };
  if (block->head()->is_Mach()) {
    jp->set_path(block->head(), jp->_entry_path);   // the prolog
  } else if (!block->is_connector()) {
    c.pending = jp->path_of(block->head());
  }
  jp->_code->push(c);
}

void JPortalMarkersC2::node_emitting(Node* n, int offset) {
  JPortalC2* jp = JPortalC2::current();
  if (jp == nullptr) return;
  JPortalC2::Code* c = jp->_code->adr_at(jp->_code->length() - 1);
  jp->settle(c, offset);
  if (!n->is_Mach()) return;
  MachNode* mach = n->as_Mach();
  const bool is_prolog = offset == c->start && n == jp->_compile->cfg()->get_block(jp->_code->length() - 1)->head();
  if (is_leaving(n) || is_prolog) {
    c->leaving = offset;
    c->is_call = n->is_MachCall();
    c->is_prolog = is_prolog;
    jp->_leaving = n;
  } else if (n->is_MachBranch() || mach->ideal_Opcode() == Op_Jump) {
    c->branch = offset;
  } else if (!n->is_MachNullCheck() && !n->is_Proj()) {
    c->previous = offset;
  }
}

void JPortalMarkersC2::block_emitted(int offset) {
  JPortalC2* jp = JPortalC2::current();
  if (jp == nullptr) return;
  JPortalC2::Code* c = jp->_code->adr_at(jp->_code->length() - 1);
  jp->settle(c, offset);
  c->end = offset;
  if (c->start == offset) {
    c->pending = nullptr;   // no code: skip_empty() handles the path
    return;
  }
  Block* block = jp->_compile->cfg()->get_block(jp->_code->length() - 1);
  uint last = block->number_of_nodes() - 1;
  // PhaseCFG::fixup_flow() has removed all other projections of the last instruction.
  while (block->get_node(last)->is_JumpProj()) last--;
  c->last = block->get_node(last);
  if (c->exit < offset) {
    jp->_table->add_offset(c->exit, c->pending);
    c->pending = nullptr;
  }
}

// Places 'path', which control passes at the end of a block with one successor.
void JPortalC2::put_behind(const Code& c, const JPortalPath* path) {
  if (path == nullptr) return;
  if (c.exit < c.end) {
    _table->add_offset(c.exit, path);   // control cannot leave the block midway after 'exit'
  } else if (c.is_call) {
    _table->add_edge(c.end, c.end, JPortalEdgeOutcomes::CALL_RETURN, path);
  } else if (c.is_prolog) {
    _table->add_offset(c.start, path);
  } else {
    _table->add_edge(c.leaving, c.end, JPortalEdgeOutcomes::NOT_TAKEN, path);
  }
}

// Places the paths of a conditional branch. A float comparison branches twice: on unordered
// operands, then on the condition.
void JPortalC2::put_branch(const u1* code, const Code& c, int to_taken, const JPortalPath* taken,
                           const JPortalPath* fall) {
  if (taken == nullptr && fall == nullptr) return;
  int at[2];
  bool equal = false;
  int count = 0;
  for (int offset = c.branch; offset < c.end; ) {
    JPortalInstructions::Branch b = JPortalInstructions::branch_at(code + offset);
    if (b.length == 0 || (b.condition >= 0 && count == 2)) {
      count = 0;
      break;
    }
    if (b.condition >= 0) {
      at[count++] = offset;
      equal = b.condition == JPortalInstructions::Equal;
    }
    offset += b.length;
  }
  if (count == 0) {
    _table->add_offset(c.exit, ambiguous(JPortalAmbiguities::UNKNOWN_INSTRUCTION));
    return;
  }
  if (count == 2) {
    _table->add_edge(at[0], equal ? c.end : to_taken, JPortalEdgeOutcomes::TAKEN, equal ? fall : taken);
  }
  _table->add_edge(at[count - 1], to_taken, JPortalEdgeOutcomes::TAKEN, taken);
  _table->add_edge(at[count - 1], c.end, JPortalEdgeOutcomes::NOT_TAKEN, fall);
}

void JPortalC2::put_table(const u1* code, const Code& c, Block* block) {
  bool marked = false;
  for (uint i = 0; i < block->_num_succs; i++) {
    const JPortalPath* path = nullptr;
    skip_empty(block->_succs[i], &path);
    marked |= path != nullptr;
  }
  if (!marked) return;
  const int jump = JPortalInstructions::jump_through_table(code, c.branch, c.end);
  if (jump < 0) {
    _table->add_offset(c.exit, ambiguous(JPortalAmbiguities::UNKNOWN_INSTRUCTION));
    return;
  }
  for (uint i = 0; i < block->_num_succs; i++) {
    const JPortalPath* path = nullptr;
    skip_empty(block->_succs[i], &path);
    _table->add_edge(jump, label_of(block->_succs[i]), JPortalEdgeOutcomes::JUMP_TABLE, path);
  }
}

void JPortalC2::put_catch(const Code& c, Block* block) {
  bool marked = false;
  for (uint i = 0; i < block->_num_succs; i++) {
    const JPortalPath* path = c.pending;
    skip_empty(block->_succs[i], &path);
    marked |= path != nullptr;
  }
  for (uint i = 0; marked && i < block->_num_succs; i++) {
    const JPortalPath* path = c.pending;
    Block* first = block->_succs[i];
    skip_empty(first, &path);
    for (uint k = 1; k < first->num_preds(); k++) {
      Node* pred = first->pred(k);
      if (!pred->is_CatchProj() || pred->in(0) != c.last) continue;
      if (pred->as_CatchProj()->_con == CatchProjNode::fall_through_index) {
        _table->add_edge(c.exit, c.exit, JPortalEdgeOutcomes::CALL_RETURN, path);
      } else {
        _table->add_edge(c.exit, label_of(first), JPortalEdgeOutcomes::EXCEPTION, path);
      }
    }
  }
}

void JPortalC2::put_ways(const u1* code, Block* block) {
  const Code& c = _code->at(block->_pre_order);
  if (block->is_connector() || c.end == c.start || block->_num_succs == 0) return;
  Node* end = c.last;
  if (end->is_Catch()) {
    put_catch(c, block);
    return;
  }
  if (end->is_Mach() && end->as_Mach()->ideal_Opcode() == Op_Jump) {
    put_table(code, c, block);
    return;
  }
  const JPortalPath* first = c.pending;
  skip_empty(block->_succs[0], &first);
  const int to_first = label_of(block->_succs[0]);
  if (block->_num_succs == 1) {
    put_behind(c, first);
    return;
  }
  const JPortalPath* second = c.pending;
  skip_empty(block->_succs[1], &second);
  if (end->is_MachNullCheck()) {
    if (first != nullptr)  _table->add_edge(c.previous, to_first, JPortalEdgeOutcomes::FAULT, first);
    if (second != nullptr) _table->add_edge(c.previous, c.end, JPortalEdgeOutcomes::NOT_TAKEN, second);
  } else if (block->_num_succs == 2 && c.branch >= 0) {
    put_branch(code, c, to_first, first, second);
  } else if (first != nullptr || second != nullptr) {
    assert(false, "unknown end of a block");
    _table->add_offset(c.exit, ambiguous(JPortalAmbiguities::UNKNOWN_INSTRUCTION));
  }
}

// --- Verification

// Whether control comes to the block after the call has returned, and not by an exception.
static bool is_after_call(Block* block, const Node* call_end) {
  for (uint k = 1; k < block->num_preds(); k++) {
    Node* pred = block->pred(k);
    if (pred->is_CatchProj() && pred->in(0) == call_end) {
      return pred->as_CatchProj()->_con == CatchProjNode::fall_through_index;
    }
  }
  return true;
}

// The path that the finished table has for the way from 'block' to its successor 'way'.
// 'first' is the index of the first edge of the table at or after the start of the block.
const JPortalPath* JPortalC2::way_in_table(Block* block, uint way, int first) const {
  const Code& c = _code->at(block->_pre_order);
  Block* next = block->_succs[way];
  const bool is_last = way + 1 == block->_num_succs;
  for (int i = first; i < _table->edge_count() && _table->edge_at(i).from <= (u4)c.end; i++) {
    const JPortalMarkerTable::Edge& e = _table->edge_at(i);
    // 'from' of these two is a return address, which may be the start of the next block.
    const bool is_from_call = c.is_call && (int)e.from == c.exit;
    bool matches = false;
    switch (e.outcome) {
      case JPortalEdgeOutcomes::CALL_RETURN:
        matches = is_from_call && is_after_call(next, c.last);
        break;
      case JPortalEdgeOutcomes::EXCEPTION:
        matches = is_from_call && (int)e.to == label_of(next) && !is_after_call(next, c.last);
        break;
      case JPortalEdgeOutcomes::NOT_TAKEN:
        matches = (int)e.from < c.end && is_last;
        break;
      default:
        matches = (int)e.from < c.end && (int)e.to == label_of(next);
        break;
    }
    if (matches) return e.path;
  }
  return nullptr;
}

// Checks the finished table.
void JPortalC2::verify(PhaseCFG* cfg) const {
  ResourceMark rm;
  JPortalMarkersVerifier verifier(_table, "C2", _compile->compile_id());
  int offset = 0;
  for (int i = 0; i < _code->length(); i++) {
    const Code& c = _code->at(i);
    const JPortalPath* path = nullptr;
    for (; offset < _table->offset_count() && _table->offset_at(offset).offset < (u4)c.end; offset++) {
      path = cat(path, _table->offset_at(offset).path);
    }
    verifier.add_node(path);
  }
  int edge = 0;
  for (uint i = 0; i < cfg->number_of_blocks(); i++) {
    Block* block = cfg->get_block(i);
    const Code& c = _code->at(block->_pre_order);
    // The root has the inline-cache check before the frame exists, and a copy of the entry's path.
    if (block == cfg->get_root_block()) continue;
    if (block->is_connector() || c.end == c.start) continue;   // part of the ways that lead to it
    while (edge < _table->edge_count() && _table->edge_at(edge).from < (u4)c.start) edge++;
    for (uint k = 0; k < block->_num_succs; k++) {
      if (block->_succs[k] == cfg->get_root_block()) continue;   // the compiled method ends there
      const JPortalPath* unused = nullptr;
      Block* next = skip_empty(block->_succs[k], &unused);
      verifier.add_edge((int)block->_pre_order, (int)next->_pre_order, way_in_table(block, k, edge));
    }
  }
  verifier.verify();
}

void JPortalMarkersC2::blocks_emitted(CodeBuffer* cb) {
  JPortalC2* jp = JPortalC2::current();
  if (jp == nullptr || jp->_code == nullptr) return;
  PhaseCFG* cfg = jp->_compile->cfg();
  for (uint i = 0; i < cfg->number_of_blocks(); i++) {
    jp->put_ways(cb->insts_begin(), cfg->get_block(i));
  }
  jp->_table->finish(jp->_compile->compile_id(), jp->_compile->entry_bci());
  if (JPortalVerifyMarkers) jp->verify(cfg);
}

#endif // COMPILER2
