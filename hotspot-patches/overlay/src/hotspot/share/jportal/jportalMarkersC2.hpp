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

#ifndef SHARE_JPORTAL_JPORTALMARKERSC2_HPP
#define SHARE_JPORTAL_JPORTALMARKERSC2_HPP

#include "jportal/jportalMarkers.hpp"

class Block;
class CodeBuffer;
class Compile;
class IdealLoopTree;
class JPortalC2;
class JVMState;
class Node;
class PhaseCFG;
class Unique_Node_List;
class ciMethod;

// What C2 tells JPortal while it compiles.
//
// A control node has a path: the markers passed when control passes the node. It
// is kept beside the graph, by node index; copies of a node have its path. The
// hooks keep to this: whatever is done to the graph, concatenating the paths of
// the control nodes on any way through it gives the bytecode blocks that this
// way stands for, or an ambiguous marker where C2 no longer knows.
//
// A hook that begins with may_ or refuses_ decides whether a fold that loses a
// path is made; without -XX:JPortalPrecision=exact it always is.
class JPortalMarkersC2 : AllStatic {
  static bool is_on() { return JPortalMarkers::is_on(); }

 public:
  static void on_compile_begin(Compile* C);

  // --- Parsing
  static void on_block_parsing(Node* control, ciMethod* method, JVMState* caller, int bci) {
    if (is_on()) block_parsing(control, method, caller, bci);
  }

  // --- Nodes
  static void on_node_cloned(const Node* from, const Node* to) { if (is_on()) node_cloned(from, to); }
  static void on_node_destroyed(Compile* C, uint idx)          { if (is_on()) node_destroyed(C, idx); }
  static void on_nodes_renumbering(Compile* C, Unique_Node_List& useful) {
    if (is_on()) nodes_renumbering(C, useful);
  }
  // New nodes are numbered from 0 on; paths reach them through on_node_matched.
  static void on_matching(Compile* C)                          { if (is_on()) matching(C); }
  static void on_node_matched(Compile* C, const Node* ideal, const Node* mach) {
    if (is_on()) node_matched(C, ideal, mach);
  }

  // --- Control flow
  // Control passes 'to' where it passed 'from'; from's path goes behind to's. A node that control is not led on
  // from is passed no more: it says nothing of 'to'.
  static void on_control_replaced(Node* from, Node* to)        { if (is_on()) control_replaced(from, to); }
  // The inputs of the region will go different ways: each takes its path along.
  static void on_region_split(Node* region)                    { if (is_on()) region_split(region); }
  // The node stands in a row with the one it was cloned from, which keeps the path.
  static void on_cloned_in_series(Node* clone)                 { if (is_on()) drop_path(clone); }
  // Copies of the node have its path; what takes its place must not get it too.
  static void on_path_taken_over(Node* n)                      { if (is_on()) drop_path(n); }
  // Control that passes 'node' skips 'skipped' and must have passed it.
  static void on_control_joined(Node* node, Node* skipped)     { if (is_on()) control_joined(node, skipped); }
  // 'node' leads to a copy of a loop as the loop's back edge led to its head.
  static void on_back_edge_added(Node* node, Node* loop_end)   { if (is_on()) back_edge_added(node, loop_end); }
  // The safepoint before the test of a loop, 'loop_end', stands behind the loop now, before the test of the outer
  // strip mined one: what was passed behind it is passed behind either test. If other tests stood between, it is
  // passed before, and a marker says from where on it has not happened when the safepoint deoptimises.
  static void on_safepoint_moved(Node* safepoint, Node* loop_end, Node* outer_end) {
    if (is_on()) safepoint_moved(safepoint, loop_end, outer_end);
  }

  // --- Folds that may lose a path
  static bool may_remove_diamond(Node* arm1, Node* arm2) {
    return !is_on() || diamond_removed(arm1, arm2);
  }
  static bool refuses_conditional_move(Node* arm1, Node* arm2) {
    return JPortalMarkers::is_exact() && !same_path(arm1, arm2);
  }
  static void on_conditional_move(Node* arm1, Node* arm2)      { if (is_on()) conditional_move(arm1, arm2); }
  // 'inner' tests behind 'outer', a projection of the first test, and 'out' leads
  // where outer's sibling leads.
  static bool may_fold_compares(Node* outer, Node* out) {
    return !JPortalMarkers::is_exact() || compares_fold_exactly(outer, out);
  }
  // One of the tests is gone: 'in' is taken when both held, 'out' when one failed.
  static void on_compares_folded(Node* outer, Node* out, Node* in) {
    if (is_on()) compares_folded(outer, out, in);
  }
  // 'same1' and 'same2' lead to one place, 'other1' and 'other2' are their siblings.
  static bool may_merge_tests(Node* same1, Node* same2, Node* other1, Node* other2) {
    return !is_on() || tests_merged(same1, same2, other1, other2);
  }
  static bool refuses_clipping()                               { return JPortalMarkers::is_exact(); }
  // 'test1' and 'test2' are passed no more; the others are new.
  static void on_clipping(Node* test1, Node* test2, Node* min, Node* max, Node* between) {
    if (is_on()) clipping(test1, test2, min, max, between);
  }
  static bool refuses_loop_removal(const IdealLoopTree* loop) {
    return JPortalMarkers::is_exact() && has_markers(loop);
  }
  // Its last iteration remains.
  static void on_empty_loop_removed(Node* entry)               { if (is_on()) empty_loop_removed(entry); }
  static void on_fill_loop_removed(Node* call)                 { if (is_on()) fill_loop_removed(call); }
  // An exception that exists already would be thrown where 'control' is: nothing
  // tells the bytecode, for the frame has no debug information there.
  static bool refuses_prepared_exception()                     { return JPortalMarkers::is_exact(); }
  static void on_prepared_exception(Node* control)             { if (is_on()) prepared_exception(control); }
  // The test will be made constant.
  static void on_string_test_removed(Node* arm1, Node* arm2)   { if (is_on()) string_test_removed(arm1, arm2); }

  // --- Machine code
  // Every way between two blocks is an edge of its own; nothing is scheduled yet.
  static void on_blocks_built(PhaseCFG* cfg)                   { if (is_on()) blocks_built(cfg); }
  // Empty blocks are about to go.
  static void on_blocks_ordering(PhaseCFG* cfg)                { if (JPortalMarkers::is_exact()) keep_ways_apart(cfg); }
  static void on_block_emitting(Block* block, int offset)      { if (is_on()) block_emitting(block, offset); }
  static void on_node_emitting(Node* n, int offset)            { if (is_on()) node_emitting(n, offset); }
  // Padding may follow.
  static void on_block_emitted(int offset)                     { if (is_on()) block_emitted(offset); }
  // All labels are bound.
  static void on_blocks_emitted(CodeBuffer* cb)                { if (is_on()) blocks_emitted(cb); }

 private:
  static void block_parsing(Node* control, ciMethod* method, JVMState* caller, int bci);
  static void node_cloned(const Node* from, const Node* to);
  static void node_destroyed(Compile* C, uint idx);
  static void nodes_renumbering(Compile* C, Unique_Node_List& useful);
  static void matching(Compile* C);
  static void node_matched(Compile* C, const Node* ideal, const Node* mach);
  static void control_replaced(Node* from, Node* to);
  static void region_split(Node* region);
  static void drop_path(Node* n);
  static void control_joined(Node* node, Node* skipped);
  static void back_edge_added(Node* node, Node* loop_end);
  static void safepoint_moved(Node* safepoint, Node* loop_end, Node* outer_end);
  static bool same_path(Node* a, Node* b);
  static bool diamond_removed(Node* arm1, Node* arm2);
  static void conditional_move(Node* arm1, Node* arm2);
  static bool compares_fold_exactly(Node* outer, Node* out);
  static void compares_folded(Node* outer, Node* out, Node* in);
  static bool tests_merged(Node* same1, Node* same2, Node* other1, Node* other2);
  static void clipping(Node* test1, Node* test2, Node* min, Node* max, Node* between);
  static bool has_markers(const IdealLoopTree* loop);
  static void empty_loop_removed(Node* entry);
  static void fill_loop_removed(Node* call);
  static void prepared_exception(Node* control);
  static void string_test_removed(Node* arm1, Node* arm2);
  static void blocks_built(PhaseCFG* cfg);
  static void keep_ways_apart(PhaseCFG* cfg);
  static void block_emitting(Block* block, int offset);
  static void node_emitting(Node* n, int offset);
  static void block_emitted(int offset);
  static void blocks_emitted(CodeBuffer* cb);
};

#endif // SHARE_JPORTAL_JPORTALMARKERSC2_HPP
