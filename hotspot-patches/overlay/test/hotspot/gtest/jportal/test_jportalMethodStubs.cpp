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
#include "code/codeBlob.hpp"
#include "jportal/jportalMethodStubs.hpp"
#include "runtime/interfaceSupport.inline.hpp"
#include "unittest.hpp"

// Slots of a blob that no method uses.
class JPortalMethodStubsTest : public ::testing::Test {
 protected:
  typedef JPortalMethodStubTable::SlotList SlotList;
  enum { Count = 8, SlotSize = JPortalMethodStubTable::SlotSize };

  BufferBlob* blob;

  JPortalMethodStubsTest() : blob(nullptr) {}

  static const char* chunk_name() { return JPortalMethodStubTable::BlobName; }

  static BufferBlob* create(const char* name) {
    ThreadInVMfromNative in_vm(JavaThread::current());
    return BufferBlob::create(name, (Count + 1) * SlotSize);
  }

  static void free(BufferBlob* blob) {
    ThreadInVMfromNative in_vm(JavaThread::current());
    BufferBlob::free(blob);
  }

  void SetUp() {
    blob = create("slots of a test");
    ASSERT_TRUE(blob != nullptr);
  }

  void TearDown() { free(blob); }

  address slot(int i) { return align_up(blob->content_begin(), SlotSize) + i * SlotSize; }

  void add(SlotList* list, int first, int last) {
    for (int i = first; i <= last; i++) {
      list->add(slot(i));
    }
  }

  void expect(SlotList* list, int first, int last) {
    for (int i = first; i <= last; i++) {
      EXPECT_EQ(slot(i), list->take());
    }
  }

  static bool jumps_to(address at, address target) {
    JPortalMethodStubTable::write_jump(at, target);
    return JPortalMethodStubTable::jump_target(at) == target;
  }
};

TEST_VM_F(JPortalMethodStubsTest, the_oldest_slot_is_taken_first) {
  SlotList list = { 0, 0, 0 };
  EXPECT_TRUE(list.take() == nullptr);
  add(&list, 0, 3);
  expect(&list, 0, 1);
  add(&list, 4, 5);
  expect(&list, 2, 5);
  EXPECT_TRUE(list.take() == nullptr);
  add(&list, 6, 6);   // into a list that has become empty
  expect(&list, 6, 6);
  EXPECT_EQ(0, list.count);
}

TEST_VM_F(JPortalMethodStubsTest, lists_are_joined_in_order) {
  SlotList list = { 0, 0, 0 };
  SlotList other = { 0, 0, 0 };
  list.add_all(&other);   // both are empty
  EXPECT_EQ(0, list.count);
  add(&other, 0, 2);
  list.add_all(&other);   // into an empty list
  EXPECT_EQ(3, list.count);
  EXPECT_TRUE(other.take() == nullptr);
  list.add_all(&other);   // nothing to add
  EXPECT_EQ(3, list.count);
  add(&other, 3, 4);
  list.add_all(&other);
  add(&list, 5, 5);
  expect(&list, 0, 5);
  EXPECT_TRUE(list.take() == nullptr);
}

// Control that reaches a slot without a method stops at once.
TEST_VM_F(JPortalMethodStubsTest, a_slot_that_is_taken_traps) {
  SlotList list = { 0, 0, 0 };
  add(&list, 0, 1);
  const address taken = list.take();
  for (int i = 0; i < SlotSize; i++) {
    EXPECT_EQ(0xCC, taken[i]);
  }
  list.take();
}

TEST_VM_F(JPortalMethodStubsTest, a_stub_names_its_target) {
  EXPECT_TRUE(jumps_to(slot(1), slot(0)));
  EXPECT_TRUE(jumps_to(slot(1), slot(1) + 5));
  EXPECT_TRUE(jumps_to(slot(1), slot(7)));
}

TEST_VM_F(JPortalMethodStubsTest, only_stubs_are_contained) {
  EXPECT_FALSE(JPortalMethodStubTable::contains(slot(1)));
  EXPECT_FALSE(JPortalMethodStubTable::contains(nullptr));
  BufferBlob* chunks[2];
  for (BufferBlob*& chunk : chunks) {
    chunk = create(chunk_name());
    EXPECT_TRUE(JPortalMethodStubTable::contains(chunk->content_begin()));
    EXPECT_TRUE(JPortalMethodStubTable::contains(chunk->content_end() - SlotSize));
    EXPECT_FALSE(JPortalMethodStubTable::contains((address)chunk - 1));
    EXPECT_FALSE(JPortalMethodStubTable::contains(slot(1)));
  }
  for (BufferBlob* chunk : chunks) {
    const address begin = chunk->content_begin();
    EXPECT_TRUE(JPortalMethodStubTable::contains(begin));
    free(chunk);
    EXPECT_FALSE(JPortalMethodStubTable::contains(begin));
  }
}

#endif // INCLUDE_JPORTAL
