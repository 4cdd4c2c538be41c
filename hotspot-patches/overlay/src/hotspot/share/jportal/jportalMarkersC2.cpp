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
#include "jportal/jportalMarkersC2.hpp"
#include "jportal/jportalMarkersC2Code.hpp"
#include "jportal/jportalRecords.hpp"
#include "memory/resourceArea.hpp"
#include "opto/callnode.hpp"
#include "opto/cfgnode.hpp"
#include "opto/compile.hpp"
#include "opto/loopnode.hpp"
#include "opto/node.hpp"

// The paths of nodes, and how optimisations change them. jportalMarkersC2Code.cpp has the part for
// machine code.

JPortalC2::JPortalC2(Compile* C)
  : _compile(C),
    _arena(C->comp_arena()),
    _table(new (C->comp_arena()) JPortalMarkerTable(C->comp_arena())),
    _paths(nullptr), _size(0),
    _ideal_paths(nullptr), _ideal_size(0),
    _matched(false),
    _caller(nullptr), _method(nullptr), _context(0),
    _code(nullptr), _leaving(nullptr), _entry_path(nullptr) {}

void* JPortalC2::operator new(size_t size, Arena* arena) throw() {
  return arena->Amalloc(size);
}

JPortalC2* JPortalC2::current() { return Compile::current()->jportal(); }

const JPortalPath** JPortalC2::new_paths(uint size) {
  const JPortalPath** paths = NEW_ARENA_ARRAY(_arena, const JPortalPath*, size);
  for (uint i = 0; i < size; i++) paths[i] = nullptr;
  return paths;
}

void JPortalC2::set_path(const Node* n, const JPortalPath* path) {
  const uint idx = n->_idx;
  if (idx >= _size) {
    if (path == nullptr) return;
    const uint size = MAX2(MAX2(_size * 2, idx + 1), 256u);
    const JPortalPath** paths = new_paths(size);
    for (uint i = 0; i < _size; i++) paths[i] = _paths[i];
    _paths = paths;
    _size = size;
  }
  _paths[idx] = path;
}

void JPortalC2::append(const Node* n, const JPortalPath* path) {
  if (path != nullptr && n != nullptr && !n->is_top() && n->is_CFG()) {
    set_path(n, cat(path_of(n), path));
  }
}

const JPortalPath* JPortalC2::take_path(const Node* n) {
  const JPortalPath* path = path_of(n);
  if (path != nullptr) set_path(n, nullptr);
  return path;
}

u4 JPortalC2::context(ciMethod* method, JVMState* caller) {
  if (caller == nullptr || !caller->has_method()) {
    return _table->context(JPORTAL_NO_CONTEXT, 0, method);
  }
  const u4 parent = context(caller->method(), caller->caller());
  return _table->context(parent, caller->bci(), method);
}

// The path of two folded control flows: their common path, or an ambiguous marker if the paths
// differ.
const JPortalPath* JPortalC2::merge(const JPortalPath* a, const JPortalPath* b, u2 cause) {
  return JPortalPath::equal(a, b) ? a : ambiguous(cause, a, b);
}

// --- Hooks

void JPortalMarkersC2::on_compile_begin(Compile* C) {
  C->set_jportal(is_on() && C->has_method() ? new (C->comp_arena()) JPortalC2(C) : nullptr);
}

void JPortalMarkersC2::block_parsing(Node* control, ciMethod* method, JVMState* caller, int bci) {
  JPortalC2* jp = JPortalC2::current();
  if (jp == nullptr || control == nullptr || control->is_top()) return;
  if (jp->_method != method || jp->_caller != caller) {
    jp->_context = jp->context(method, caller);
    jp->_method = method;
    jp->_caller = caller;
  }
  jp->append(control, jp->_table->block(jp->_context, bci));
}

void JPortalMarkersC2::node_cloned(const Node* from, const Node* to) {
  JPortalC2* jp = JPortalC2::current();
  if (jp != nullptr && !jp->_matched) {
    jp->set_path(to, jp->path_of(from));
  }
}

void JPortalMarkersC2::node_destroyed(Compile* C, uint idx) {
  JPortalC2* jp = C->jportal();
  if (jp != nullptr && idx < jp->_size) {
    jp->_paths[idx] = nullptr;   // the index may be reused
  }
}

void JPortalMarkersC2::nodes_renumbering(Compile* C, Unique_Node_List& useful) {
  JPortalC2* jp = C->jportal();
  if (jp == nullptr) return;
  const JPortalPath** paths = jp->new_paths(useful.size());
  for (uint i = 0; i < useful.size(); i++) {
    paths[i] = jp->path_of(useful.at(i));
  }
  jp->_paths = paths;
  jp->_size = useful.size();
}

void JPortalMarkersC2::matching(Compile* C) {
  JPortalC2* jp = C->jportal();
  if (jp == nullptr) return;
  jp->_ideal_paths = jp->_paths;
  jp->_ideal_size = jp->_size;
  jp->_paths = nullptr;
  jp->_size = 0;
  jp->_matched = true;
}

void JPortalMarkersC2::node_matched(Compile* C, const Node* ideal, const Node* mach) {
  JPortalC2* jp = C->jportal();
  if (jp != nullptr && ideal->_idx < jp->_ideal_size) {
    jp->set_path(mach, jp->_ideal_paths[ideal->_idx]);
  }
}

// Whether 'n' has a control use other than itself.
static bool has_control_use(const Node* n) {
  for (DUIterator_Fast imax, i = n->fast_outs(imax); i < imax; i++) {
    const Node* use = n->fast_out(i);
    if (use != n && use->is_CFG()) return true;
  }
  return false;
}

void JPortalMarkersC2::control_replaced(Node* from, Node* to) {
  JPortalC2* jp = JPortalC2::current();
  if (jp == nullptr || from == to || jp->path_of(from) == nullptr) return;
  // Without a control use, 'from' is about to be removed, or its control use does not exist yet.
  if (to->is_top() || has_control_use(from)) {
    jp->append(to, jp->take_path(from));
  }
}

void JPortalMarkersC2::region_split(Node* region) {
  JPortalC2* jp = JPortalC2::current();
  const JPortalPath* path = jp == nullptr ? nullptr : jp->take_path(region);
  if (path == nullptr) return;
  for (uint i = 1; i < region->req(); i++) {
    Node* input = region->in(i);
    if (input == nullptr || input == region) continue;
    uint first = 1;
    while (region->in(first) != input) first++;
    if (first == i) jp->append(input, path);   // each input once
  }
}

void JPortalMarkersC2::drop_path(Node* n) {
  JPortalC2* jp = JPortalC2::current();
  if (jp != nullptr) jp->take_path(n);
}

void JPortalMarkersC2::control_joined(Node* node, Node* skipped) {
  JPortalC2* jp = JPortalC2::current();
  if (jp != nullptr) jp->append(node, jp->path_of(skipped));
}

void JPortalMarkersC2::back_edge_added(Node* node, Node* loop_end) {
  JPortalC2* jp = JPortalC2::current();
  Node* back = jp == nullptr ? nullptr : loop_end->as_If()->proj_out_or_null(1);
  if (back != nullptr) jp->append(node, jp->path_of(back));
}

void JPortalMarkersC2::safepoint_moved(Node* safepoint, Node* loop_end, Node* outer_end) {
  JPortalC2* jp = JPortalC2::current();
  if (jp == nullptr) return;
  if (loop_end->in(0) != safepoint) {
    // Other tests lie between (see PhaseIdealLoop::find_safepoint), so the path cannot move after
    // them.
    jp->set_path(safepoint, jp->cat(jp->_table->poll_state(), jp->path_of(safepoint)));
    return;
  }
  const JPortalPath* path = jp->take_path(safepoint);
  if (path == nullptr) return;
  Node* ways[] = { loop_end->as_If()->proj_out(1), outer_end->as_If()->proj_out(1), outer_end->as_If()->proj_out(0) };
  for (size_t i = 0; i < ARRAY_SIZE(ways); i++) {
    jp->set_path(ways[i], jp->cat(path, jp->path_of(ways[i])));
  }
}

bool JPortalMarkersC2::same_path(Node* a, Node* b) {
  JPortalC2* jp = JPortalC2::current();
  return jp == nullptr || JPortalPath::equal(jp->path_of(a), jp->path_of(b));
}

// Control bypasses 'test'. The test stays in the graph until both projections are dead, and C2 may
// fold it before that: IfNode::dominated_by() would append the paths of the projections to the
// control before the test, which is still live. So the projections lose their paths.
static void test_skipped(JPortalC2* jp, const Node* test) {
  for (DUIterator_Fast imax, i = test->fast_outs(imax); i < imax; i++) {
    jp->take_path(test->fast_out(i));
  }
}

bool JPortalMarkersC2::diamond_removed(Node* arm1, Node* arm2) {
  JPortalC2* jp = JPortalC2::current();
  if (jp == nullptr) return true;
  if (JPortalMarkers::is_exact() && !same_path(arm1, arm2)) return false;
  Node* before = arm1->in(0)->in(0);
  const JPortalPath* path = jp->merge(jp->path_of(arm1), jp->path_of(arm2), JPortalAmbiguities::EMPTY_DIAMOND);
  test_skipped(jp, arm1->in(0));
  jp->append(before, path);
  return true;
}

void JPortalMarkersC2::conditional_move(Node* arm1, Node* arm2) {
  JPortalC2* jp = JPortalC2::current();
  if (jp == nullptr || same_path(arm1, arm2)) return;
  // RegionNode::Ideal() removes the diamond later. With equal paths on both arms it loses nothing.
  const JPortalPath* path = jp->ambiguous(JPortalAmbiguities::CONDITIONAL_MOVE, jp->path_of(arm1), jp->path_of(arm2));
  jp->set_path(arm1, path);
  jp->set_path(arm2, path);
}

// The path from 'outer', a projection of the first test, to the second test. 'take': the nodes lose
// their paths.
static const JPortalPath* path_between(JPortalC2* jp, Node* outer, Node* test, bool take) {
  const JPortalPath* path = nullptr;
  for (Node* n = test->in(0); n != nullptr; n = n->in(0)) {
    path = jp->cat(take ? jp->take_path(n) : jp->path_of(n), path);
    if (n == outer) break;
  }
  return path;
}

bool JPortalMarkersC2::compares_fold_exactly(Node* outer, Node* out) {
  JPortalC2* jp = JPortalC2::current();
  if (jp == nullptr) return true;
  Node* sibling = outer->as_Proj()->other_if_proj();
  const JPortalPath* second = jp->cat(path_between(jp, outer, out->in(0), false), jp->path_of(out));
  return JPortalPath::equal(jp->path_of(sibling), second);
}

void JPortalMarkersC2::compares_folded(Node* outer, Node* out, Node* in) {
  JPortalC2* jp = JPortalC2::current();
  if (jp == nullptr) return;
  Node* sibling = outer->as_Proj()->other_if_proj();
  Node* meet = out->unique_ctrl_out();
  const bool shared = meet != nullptr && meet->is_Region() && sibling->unique_ctrl_out() == meet;
  const bool first_is_gone = outer->in(0)->in(1)->is_Con();
  if (shared && !first_is_gone) return;   // the first test decides the second: no path is lost
  const JPortalPath* between = path_between(jp, outer, out->in(0), true);
  if (shared) {
    jp->set_path(out, jp->merge(jp->path_of(sibling), jp->cat(between, jp->path_of(out)),
                                JPortalAmbiguities::FOLDED_COMPARES));
  } else {
    // Both lead to uncommon traps. The remaining trap has the state before the first test, so the
    // interpreter executes both tests again.
    jp->set_path(out, jp->path_of(sibling));
  }
  jp->set_path(in, jp->cat(between, jp->path_of(in)));
}

bool JPortalMarkersC2::tests_merged(Node* same1, Node* same2, Node* other1, Node* other2) {
  JPortalC2* jp = JPortalC2::current();
  if (jp == nullptr) return true;
  // The test of 'same2' remains. It is the first or the second of the two.
  const bool second = other1->unique_ctrl_out() == same2->in(0);
  const JPortalPath* way1 = jp->path_of(same1);
  const JPortalPath* way2 = jp->path_of(same2);
  if (second) {
    way2 = jp->cat(jp->path_of(other1), way2);
  } else {
    way1 = jp->cat(jp->path_of(other2), way1);
  }
  if (JPortalMarkers::is_exact() && !JPortalPath::equal(way1, way2)) return false;
  jp->set_path(same2, jp->merge(way1, way2, JPortalAmbiguities::TRICHOTOMY));
  if (second) {
    jp->set_path(other2, jp->cat(jp->take_path(other1), jp->path_of(other2)));
  }
  return true;
}

void JPortalMarkersC2::clipping(Node* test1, Node* test2, Node* min, Node* max, Node* between) {
  JPortalC2* jp = JPortalC2::current();
  if (jp == nullptr) return;
  const JPortalPath* path = jp->ambiguous(JPortalAmbiguities::CLIPPING,
                                          jp->cat(jp->path_of(min), jp->path_of(max)), jp->path_of(between));
  test_skipped(jp, test1);
  test_skipped(jp, test2);
  jp->set_path(min, path);
  jp->set_path(max, path);
  jp->set_path(between, path);
}

bool JPortalMarkersC2::has_markers(const IdealLoopTree* loop) {
  JPortalC2* jp = JPortalC2::current();
  if (jp == nullptr) return false;
  for (uint i = 0; i < loop->_body.size(); i++) {
    if (jp->path_of(loop->_body.at(i)) != nullptr) return true;
  }
  return jp->path_of(loop->_head) != nullptr;
}

void JPortalMarkersC2::empty_loop_removed(Node* entry) {
  JPortalC2* jp = JPortalC2::current();
  if (jp != nullptr) jp->append(entry, jp->ambiguous(JPortalAmbiguities::EMPTY_LOOP));
}

void JPortalMarkersC2::fill_loop_removed(Node* call) {
  JPortalC2* jp = JPortalC2::current();
  if (jp != nullptr) jp->append(call, jp->ambiguous(JPortalAmbiguities::ARRAY_FILL));
}

void JPortalMarkersC2::prepared_exception(Node* control) {
  JPortalC2* jp = JPortalC2::current();
  if (jp != nullptr) jp->append(control, jp->ambiguous(JPortalAmbiguities::PREPARED_EXCEPTION));
}

void JPortalMarkersC2::string_test_removed(Node* arm1, Node* arm2) {
  JPortalC2* jp = JPortalC2::current();
  if (jp == nullptr || same_path(arm1, arm2)) return;
  const JPortalPath* path = jp->ambiguous(JPortalAmbiguities::STRING_CONCATENATION, jp->path_of(arm1), jp->path_of(arm2));
  jp->set_path(arm1, path);
  jp->set_path(arm2, path);
}

#endif // COMPILER2
