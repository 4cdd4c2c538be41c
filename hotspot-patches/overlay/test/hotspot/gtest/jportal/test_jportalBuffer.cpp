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
#include "jportal/jportalBuffer.hpp"
#include "unittest.hpp"

// Longer than the part of a buffer that lies on the stack.
static const int LONG = 5000;

TEST(JPortalBuffer, values_are_little_endian_and_unaligned) {
  JPortalBuffer b;
  b.put_u1(0x01);
  b.put_u2(0x0302);
  b.put_u4(0x07060504);
  b.put_u8(UCONST64(0x0f0e0d0c0b0a0908));
  b.put_i4(-2);
  const u1 wanted[] = { 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 0xfe, 0xff, 0xff, 0xff };
  ASSERT_EQ(sizeof(wanted), b.length());
  EXPECT_EQ(0, memcmp(wanted, b.data(), sizeof(wanted)));
}

TEST(JPortalBuffer, bytes_follow_their_length) {
  JPortalBuffer b;
  b.put_bytes("ab");
  b.put_bytes(JPortalBytes((const char*)nullptr));
  b.put_bytes(JPortalBytes((const Symbol*)nullptr));
  const u1 wanted[] = { 2, 0, 0, 0, 'a', 'b', 0, 0, 0, 0, 0, 0, 0, 0 };
  ASSERT_EQ(sizeof(wanted), b.length());
  EXPECT_EQ(0, memcmp(wanted, b.data(), sizeof(wanted)));
}

TEST(JPortalBuffer, contents_survive_growth) {
  JPortalBuffer b;
  const size_t at = b.reserve_count();
  for (int i = 0; i < LONG; i++) {
    b.put_u2((u2)i);
  }
  b.set_count(at, LONG);
  ASSERT_EQ(sizeof(u4) + LONG * sizeof(u2), b.length());
  u4 count;
  memcpy(&count, b.data(), sizeof(count));
  EXPECT_EQ((u4)LONG, count);
  for (int i = 0; i < LONG; i++) {
    u2 v;
    memcpy(&v, b.data() + sizeof(u4) + i * sizeof(u2), sizeof(v));
    ASSERT_EQ((u2)i, v);
  }
  EXPECT_FALSE(b.failed());
}

TEST(JPortalBuffer, space_is_part_of_the_body) {
  JPortalBuffer b;
  b.put_u1(1);
  u1* const space = b.put_space(LONG);
  ASSERT_TRUE(space != nullptr);
  memset(space, 7, LONG);
  b.put_u1(2);
  ASSERT_EQ((size_t)LONG + 2, b.length());
  EXPECT_EQ(1, b.data()[0]);
  EXPECT_EQ(7, b.data()[1]);
  EXPECT_EQ(7, b.data()[LONG]);
  EXPECT_EQ(2, b.data()[LONG + 1]);
}

// A record that does not fit into memory fails. It neither ends the VM nor writes anywhere. Before
// the VM has parsed its flags, an allocation that fails ends it (NMTPreInit), hence TEST_VM.
TEST_VM(JPortalBuffer, a_body_without_memory_fails) {
  JPortalBuffer b;
  const size_t at = b.reserve_count();
  EXPECT_TRUE(b.put_space((size_t)1 << 60) == nullptr);
  EXPECT_TRUE(b.failed());
  EXPECT_EQ(sizeof(u4), b.length());
  b.set_count(at, 9);
  u4 count;
  memcpy(&count, b.data(), sizeof(count));
  EXPECT_EQ(0u, count);
  // Memory for this body could be had. Its record is incomplete all the same.
  EXPECT_TRUE(b.put_space(LONG) == nullptr);
  EXPECT_TRUE(b.failed());
}

#endif // INCLUDE_JPORTAL
