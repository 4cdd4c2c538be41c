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
#include "jportal/jportalByAddress.hpp"
#include "memory/allocation.hpp"
#include "unittest.hpp"

namespace {

struct Item {
  Item*   next;
  address begin;
};

// The addresses are keys only. Nothing is read from them.
class Table : public CHeapObj<mtTracing> {
 public:
  JPortalByAddress<Item> items;

  Table() { memset(this, 0, sizeof(*this)); }
  ~Table() { items.remove_within((address)CodeCacheSegmentSize, (address)(64 * M)); }

  void add(uintptr_t begin) {
    Item* const item = (Item*)os::malloc(sizeof(Item), mtTracing);
    item->begin = (address)begin;
    items.add(item);
  }

  bool has(uintptr_t begin) const {
    const Item* const item = items.find((address)begin);
    return item != nullptr && item->begin == (address)begin;
  }

  int count() const {
    int n = 0;
    items.each([&n](const Item*) { n++; });
    return n;
  }
};

} // namespace

// Needs the flags of a running VM, hence TEST_VM: CodeCacheSegmentSize.
TEST_VM(JPortalByAddress, finds_what_was_added) {
  Table* const t = new Table();
  EXPECT_FALSE(t->has(M));
  for (uintptr_t i = 0; i < 20000; i++) {   // five times the buckets
    t->add(M + i * 8);
  }
  EXPECT_EQ(20000, t->count());
  for (uintptr_t i = 0; i < 20000; i++) {
    ASSERT_TRUE(t->has(M + i * 8));
  }
  EXPECT_FALSE(t->has(M + 4));
  delete t;
}

TEST_VM(JPortalByAddress, removes_one) {
  Table* const t = new Table();
  t->add(M);
  t->add(M + 8);     // of the same segment, so of the same bucket
  t->add(M + 16);
  t->items.remove((address)(M + 8));
  EXPECT_TRUE(t->has(M));
  EXPECT_FALSE(t->has(M + 8));
  EXPECT_TRUE(t->has(M + 16));
  t->items.remove((address)(M + 8));
  EXPECT_EQ(2, t->count());
  delete t;
}

TEST_VM(JPortalByAddress, removes_a_range) {
  const uintptr_t segment = CodeCacheSegmentSize;
  Table* const t = new Table();
  t->add(M - 1);               // before the range
  t->add(M);                   // its first byte
  t->add(M + 5 * segment + 8); // inside
  t->add(M + 9 * segment - 1); // its last byte
  t->add(M + 9 * segment);     // after it
  t->items.remove_within((address)M, (address)(M + 9 * segment));
  EXPECT_TRUE(t->has(M - 1));
  EXPECT_FALSE(t->has(M));
  EXPECT_FALSE(t->has(M + 5 * segment + 8));
  EXPECT_FALSE(t->has(M + 9 * segment - 1));
  EXPECT_TRUE(t->has(M + 9 * segment));
  EXPECT_EQ(2, t->count());
  delete t;
}

// A range that begins or ends inside a segment leaves the rest of the segment alone.
TEST_VM(JPortalByAddress, removes_a_part_of_a_segment) {
  Table* const t = new Table();
  for (uintptr_t i = 0; i < CodeCacheSegmentSize; i += 8) {
    t->add(M + i);
  }
  const int all = t->count();
  t->items.remove_within((address)(M + 16), (address)(M + 32));
  EXPECT_EQ(all - 2, t->count());
  EXPECT_TRUE(t->has(M + 8));
  EXPECT_FALSE(t->has(M + 16));
  EXPECT_FALSE(t->has(M + 24));
  EXPECT_TRUE(t->has(M + 32));
  delete t;
}

#endif // INCLUDE_JPORTAL
