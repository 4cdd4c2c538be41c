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

// The hooks that C2 calls during a compilation.
//
// A control node has a path: the markers that control passes with the node. Paths are stored in a
// side table by node index; a clone of a node has the same path. The hooks maintain this invariant
// through all changes of the graph: for each control flow through the graph, the concatenated paths
// of its control nodes are the bytecode blocks that this control flow executes. Where C2 has lost
// the information, the path has an ambiguous marker.
//
// A hook that begins with may_ or refuses_ decides whether C2 makes a fold that loses a path.
// Without -XX:JPortalPrecision=exact, C2 makes every such fold. may_remove_diamond() and
// may_merge_tests() also update the paths if C2 makes the fold.
class JPortalMarkersC2 : AllStatic {
  static bool is_on() { return JPortalMarkers::is_on(); }

 public:
  static void on_compile_begin(Compile* C);

  // --- Parsing
  // The bytecode block at 'bci' of 'method' is about to be parsed. It begins at 'control'.
  static void on_block_parsing(Node* control, ciMethod* method, JVMState* caller, int bci) {
    if (is_on()) block_parsing(control, method, caller, bci);
  }

  // --- Nodes
  static void on_node_cloned(const Node* from, const Node* to) { if (is_on()) node_cloned(from, to); }
  static void on_node_destroyed(Compile* C, uint idx)          { if (is_on()) node_destroyed(C, idx); }
  static void on_nodes_renumbering(Compile* C, Unique_Node_List& useful) {
    if (is_on()) nodes_renumbering(C, useful);
  }
  // Mach nodes are about to be created, with indices from 0 on. on_node_matched() gives them their
  // paths.
  static void on_matching(Compile* C)                          { if (is_on()) matching(C); }
  static void on_node_matched(Compile* C, const Node* ideal, const Node* mach) {
    if (is_on()) node_matched(C, ideal, mach);
  }

  // --- Control flow
  // Control will pass 'to' instead of 'from'. Appends the path of 'from' to that of 'to'. If 'from'
  // has no control use, control does not pass it, and 'to' does not get its path.
  static void on_control_replaced(Node* from, Node* to)        { if (is_on()) control_replaced(from, to); }
  // The region is about to be split, and its inputs will lead to different nodes. Appends the path
  // of the region to that of each input.
  static void on_region_split(Node* region)                    { if (is_on()) region_split(region); }
  // Control passes both 'clone' and the node that it was cloned from. The original keeps the path;
  // 'clone' loses it.
  static void on_cloned_in_series(Node* clone)                 { if (is_on()) drop_path(clone); }
  // The clones of 'n' keep its path. 'n' loses it, so that the node that replaces 'n' does not get
  // the path a second time.
  static void on_path_taken_over(Node* n)                      { if (is_on()) drop_path(n); }
  // Control that passes 'node' bypasses 'skipped', but executes its bytecode blocks. Appends the
  // path of 'skipped' to that of 'node'.
  static void on_control_joined(Node* node, Node* skipped)     { if (is_on()) control_joined(node, skipped); }
  // 'node' leads into a copy of a loop, as the back edge of 'loop_end' leads to the loop head.
  // Appends the path of the back edge to that of 'node'.
  static void on_back_edge_added(Node* node, Node* loop_end)   { if (is_on()) back_edge_added(node, loop_end); }
  // 'safepoint' moves out of a counted loop. It preceded the loop test 'loop_end', and its clone
  // precedes 'outer_end', the test of the outer strip mined loop. If it directly preceded
  // 'loop_end', its path moves to the back edge of 'loop_end' and, after the clone, to both
  // projections of 'outer_end'. If other tests lie between, the path stays, and a POLL_STATE marker
  // precedes it: the blocks from there on have not happened if the clone deoptimises.
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
  // 'outer' is the projection of the first test that leads to the second test. 'out' is the
  // projection of the second test that leads to the same place as the sibling of 'outer'.
  static bool may_fold_compares(Node* outer, Node* out) {
    return !JPortalMarkers::is_exact() || compares_fold_exactly(outer, out);
  }
  // One test is left. Control takes 'in' if both conditions hold, and 'out' if one fails.
  static void on_compares_folded(Node* outer, Node* out, Node* in) {
    if (is_on()) compares_folded(outer, out, in);
  }
  // 'same1' and 'same2', projections of two tests, lead to the same place. 'other1' and 'other2'
  // are their siblings. The test of 'same2' would remain.
  static bool may_merge_tests(Node* same1, Node* same2, Node* other1, Node* other2) {
    return !is_on() || tests_merged(same1, same2, other1, other2);
  }
  static bool refuses_clipping()                               { return JPortalMarkers::is_exact(); }
  // Control bypasses 'test1' and 'test2'. The other nodes are projections of the new tests.
  static void on_clipping(Node* test1, Node* test2, Node* min, Node* max, Node* between) {
    if (is_on()) clipping(test1, test2, min, max, between);
  }
  static bool refuses_loop_removal(const IdealLoopTree* loop) {
    return JPortalMarkers::is_exact() && has_markers(loop);
  }
  // 'entry' leads to the loop. The last iteration remains.
  static void on_empty_loop_removed(Node* entry)               { if (is_on()) empty_loop_removed(entry); }
  static void on_fill_loop_removed(Node* call)                 { if (is_on()) fill_loop_removed(call); }
  // GraphKit::builtin_throw() would throw a preallocated exception at 'control'. No debug info
  // there gives the bci of the bytecode that throws.
  static bool refuses_prepared_exception()                     { return JPortalMarkers::is_exact(); }
  static void on_prepared_exception(Node* control)             { if (is_on()) prepared_exception(control); }
  // 'arm1' and 'arm2' are the projections of a test that is about to become constant.
  static void on_string_test_removed(Node* arm1, Node* arm2)   { if (is_on()) string_test_removed(arm1, arm2); }

  // --- Machine code
  // Critical edges are split, and nothing is scheduled yet.
  static void on_blocks_built(PhaseCFG* cfg)                   { if (is_on()) blocks_built(cfg); }
  // Empty blocks are about to be removed.
  static void on_blocks_ordering(PhaseCFG* cfg)                { if (JPortalMarkers::is_exact()) keep_ways_apart(cfg); }
  static void on_block_emitting(Block* block, int offset)      { if (is_on()) block_emitting(block, offset); }
  static void on_node_emitting(Node* n, int offset)            { if (is_on()) node_emitting(n, offset); }
  // The code of the block is complete. Padding may follow.
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
