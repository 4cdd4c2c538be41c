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
#if INCLUDE_JPORTAL
#include "ci/ciMethod.hpp"
#include "jportal/jportalMarkers.hpp"
#include "jportal/jportalPathMap.hpp"
#include "jportal/jportalRecords.hpp"
#include "memory/arena.hpp"
#include "memory/resourceArea.hpp"
#include "unittest.hpp"

namespace {

// Markers at bcis, such as "1 2 3", of one table.
class Fixture : public ::testing::Test {
  Arena _arena;

 protected:
  JPortalMarkerTable table;

  Fixture() : _arena(mtTest), table(&_arena) {}

  Arena* arena() { return &_arena; }

  const JPortalPath* at(int bci) { return table.block(0, bci); }

  // The path from 'first' to 'last', built from the left or from the right.
  const JPortalPath* run(int first, int last, bool left) {
    const JPortalPath* path = nullptr;
    for (int i = first; i <= last; i++) {
      path = left ? table.cat(path, at(i)) : table.cat(at(last - (i - first)), path);
    }
    return path;
  }

  // Shared halves make the longest path from 15 nodes.
  const JPortalPath* longest() {
    const JPortalPath* path = at(1);
    while (JPortalPath::length(path) < JPortalMarkerTable::MaxPathLength) {
      path = table.cat(path, path);
    }
    return path;
  }
};

bool is_cause(const JPortalPath* path, u2 cause) {
  return path->context() == JPORTAL_NO_CONTEXT && path->bci() == cause;
}

} // namespace

class JPortalPathTest : public Fixture {};
class JPortalMarkerTableTest : public Fixture {};
class JPortalPathMapTest : public Fixture {};

TEST_VM_F(JPortalPathTest, equality_ignores_the_shape) {
  EXPECT_TRUE(JPortalPath::equal(run(1, 100, true), run(1, 100, false)));
  EXPECT_FALSE(JPortalPath::equal(run(1, 100, true), run(1, 99, true)));
  EXPECT_FALSE(JPortalPath::equal(run(1, 100, true), run(2, 101, true)));
  EXPECT_FALSE(JPortalPath::equal(at(1), table.block(1, 1)));
  EXPECT_TRUE(JPortalPath::equal(nullptr, nullptr));
  EXPECT_FALSE(JPortalPath::equal(nullptr, at(1)));
  EXPECT_FALSE(JPortalPath::equal(at(1), nullptr));
}

TEST_VM_F(JPortalPathTest, the_empty_path_is_neutral) {
  const JPortalPath* const a = at(1);
  EXPECT_EQ(a, table.cat(a, nullptr));
  EXPECT_EQ(a, table.cat(nullptr, a));
  EXPECT_TRUE(table.cat(nullptr, nullptr) == nullptr);
}

TEST_VM_F(JPortalPathTest, markers_come_in_order) {
  ResourceMark rm;
  GrowableArray<const JPortalPath*> markers;
  JPortalPath::append_markers(table.cat(run(1, 50, false), run(51, 90, true)), &markers);
  ASSERT_EQ(90, markers.length());
  for (int i = 0; i < 90; i++) {
    EXPECT_EQ(i + 1, markers.at(i)->bci());
  }
}

// One marker more than the maximum is too many.
TEST_VM_F(JPortalPathTest, a_path_that_is_too_long_becomes_ambiguous) {
  const JPortalPath* const path = longest();
  EXPECT_FALSE(JPortalPath::is_ambiguous(path, JPortalAmbiguities::TOO_MANY));
  EXPECT_TRUE(is_cause(table.cat(path, at(2)), JPortalAmbiguities::TOO_MANY));
  EXPECT_TRUE(is_cause(table.cat(at(2), path), JPortalAmbiguities::TOO_MANY));
  EXPECT_TRUE(is_cause(table.cat(path, path), JPortalAmbiguities::TOO_MANY));
}

TEST_VM_F(JPortalPathTest, a_lost_loop_is_the_larger_loss) {
  const JPortalPath* const loop = table.cat(at(1), table.ambiguous(JPortalAmbiguities::EMPTY_LOOP));
  const u2 cause = JPortalAmbiguities::CONDITIONAL_MOVE;
  EXPECT_TRUE(is_cause(table.ambiguous(cause, at(1), at(2)), cause));
  EXPECT_TRUE(is_cause(table.ambiguous(cause, nullptr, nullptr), cause) );
  EXPECT_TRUE(is_cause(table.ambiguous(cause, loop, at(2)), JPortalAmbiguities::EMPTY_DIAMOND));
  EXPECT_TRUE(is_cause(table.ambiguous(cause, at(2), loop), JPortalAmbiguities::EMPTY_DIAMOND));
}

TEST_VM_F(JPortalMarkerTableTest, contexts_are_added_once) {
  ciMethod* const m = (ciMethod*)(intptr_t)8;   // compared, never read
  const u4 root = table.context(JPORTAL_NO_CONTEXT, 0, m);
  const u4 inlined = table.context(root, 5, m);
  EXPECT_NE(root, inlined);
  EXPECT_EQ(inlined, table.context(root, 5, m));
  EXPECT_NE(inlined, table.context(root, 6, m));
  EXPECT_NE(inlined, table.context(inlined, 5, m));
  EXPECT_NE(inlined, table.context(root, 5, (ciMethod*)(intptr_t)16));
  EXPECT_EQ(root, table.context_at(inlined).parent);
  EXPECT_EQ(5, table.context_at(inlined).call_bci);
}

TEST_VM_F(JPortalMarkerTableTest, offsets_are_sorted_and_merged) {
  table.add_offset(20, at(3));
  table.add_offset(10, at(1));
  table.add_offset(30, nullptr);   // the empty path needs no place
  table.add_offset(20, at(4));
  table.add_offset(10, at(2));
  table.finish(0, InvocationEntryBci);
  ASSERT_EQ(2, table.offset_count());
  EXPECT_EQ(10u, table.offset_at(0).offset);
  EXPECT_TRUE(JPortalPath::equal(run(1, 2, true), table.offset_at(0).path));
  EXPECT_EQ(20u, table.offset_at(1).offset);
  EXPECT_TRUE(JPortalPath::equal(run(3, 4, true), table.offset_at(1).path));
}

// The trace does not distinguish edges with the same end points and outcome.
TEST_VM_F(JPortalMarkerTableTest, edges_that_look_the_same_are_merged) {
  table.add_edge(8, 40, 1, at(1));
  table.add_edge(8, 40, 0, at(2));
  table.add_edge(8, 40, 1, at(1));   // the same path
  table.add_edge(4, 40, 0, at(5));
  table.add_edge(8, 40, 0, at(3));   // another path
  table.finish(0, InvocationEntryBci);
  ASSERT_EQ(3, table.edge_count());
  EXPECT_EQ(4u, table.edge_at(0).from);
  EXPECT_TRUE(JPortalPath::equal(at(5), table.edge_at(0).path));
  EXPECT_EQ(0, table.edge_at(1).outcome);
  EXPECT_TRUE(is_cause(table.edge_at(1).path, JPortalAmbiguities::SHARED_TARGET));
  EXPECT_EQ(1, table.edge_at(2).outcome);
  EXPECT_TRUE(JPortalPath::equal(at(1), table.edge_at(2).path));
}

TEST_VM_F(JPortalMarkerTableTest, the_markers_of_an_nmethod_are_limited) {
  const int fit = JPortalMarkerTable::MaxMarkers / JPortalMarkerTable::MaxPathLength;
  for (int i = 0; i < fit - 1; i++) {
    table.add_offset(i, longest());
  }
  table.add_edge(0, 1, 0, longest());
  table.add_edge(1, 2, 0, nullptr);
  table.finish(0, InvocationEntryBci);   // exactly as many as may be
  EXPECT_EQ(JPortalPath::length(longest()), JPortalPath::length(table.offset_at(0).path));

  table.add_offset(fit, at(1));
  table.finish(0, InvocationEntryBci);
  for (int i = 0; i < fit - 1; i++) {
    EXPECT_TRUE(is_cause(table.offset_at(i).path, JPortalAmbiguities::TOO_MANY));
  }
  EXPECT_EQ(1, table.offset_at(fit - 1).path->bci());   // short paths stay
  EXPECT_TRUE(is_cause(table.edge_at(0).path, JPortalAmbiguities::TOO_MANY));
  EXPECT_TRUE(table.edge_at(1).path == nullptr);
}

TEST_VM_F(JPortalPathMapTest, keys_survive_growth) {
  JPortalPathMap map(arena());
  const int n = 10000;   // the map begins with 64 entries
  u8* const keys = NEW_ARENA_ARRAY(arena(), u8, n);
  for (int i = 0; i < n; i++) {
    map.put(&keys[i], at(i));
  }
  for (int i = 0; i < n; i++) {
    ASSERT_TRUE(map.get(&keys[i]) != nullptr);
    ASSERT_EQ(i, map.get(&keys[i])->bci());
  }
  EXPECT_TRUE(map.get(keys + n) == nullptr);
}

TEST_VM_F(JPortalPathMapTest, the_last_path_counts) {
  JPortalPathMap map(arena());
  u8 key[2];
  map.put(&key[0], nullptr);
  EXPECT_TRUE(map.get(&key[0]) == nullptr);
  map.put(&key[0], at(1));
  map.put(&key[1], at(2));
  map.put(&key[0], at(3));
  EXPECT_EQ(3, map.get(&key[0])->bci());
  map.put(&key[0], nullptr);
  EXPECT_TRUE(map.get(&key[0]) == nullptr);
  EXPECT_EQ(2, map.get(&key[1])->bci());
}

#endif // INCLUDE_JPORTAL
