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

#ifndef SHARE_JPORTAL_JPORTALBUFFER_HPP
#define SHARE_JPORTAL_JPORTALBUFFER_HPP

#include "memory/allocation.hpp"
#include "utilities/globalDefinitions.hpp"

class Symbol;

// A string or a sequence of bytes. The struct does not own the memory.
struct JPortalBytes {
  const void* data;
  size_t      length;

  JPortalBytes() : data(nullptr), length(0) {}
  JPortalBytes(const void* d, size_t n) : data(d), length(n) {}
  JPortalBytes(const char* s) : data(s), length(s == nullptr ? 0 : strlen(s)) {}
  JPortalBytes(const Symbol* s);   // null is the empty string
};

// Builds the body of one metadata record: little-endian, unaligned
// (rust-core/capture/src/codec.rs). The buffer is on the stack. A body that outgrows the inline
// part moves to the C heap, so a record can be built by any thread, at a safepoint and under any
// lock. If C heap memory runs out, the record is dropped and a notice is committed instead,
// because the VM must not exit for it.
class JPortalBuffer : public StackObj {
  enum : int { InlineSize = 1024 };

  u1*    _data;
  size_t _length;
  size_t _capacity;
  bool   _failed;
  u1     _inline[InlineSize];

  NONCOPYABLE(JPortalBuffer);

  bool grow(size_t wanted);

  void put(const void* data, size_t n) {
    if (_capacity - _length < n && !grow(n)) return;
    memcpy(_data + _length, data, n);
    _length += n;
  }

 public:
  JPortalBuffer() : _data(_inline), _length(0), _capacity(InlineSize), _failed(false) {}
  ~JPortalBuffer();

  void put_u1(u1 v)       { put(&v, sizeof(v)); }
  void put_u2(u2 v)       { put(&v, sizeof(v)); }
  void put_u4(u4 v)       { put(&v, sizeof(v)); }
  void put_u8(u8 v)       { put(&v, sizeof(v)); }
  void put_i4(int32_t v)  { put(&v, sizeof(v)); }
  void put_count(size_t n) { put_u4((u4)n); }
  void put_bytes(const JPortalBytes& v) {
    put_u4((u4)v.length);
    if (v.length != 0) put(v.data, v.length);
  }

  // Appends 'n' bytes, which the caller must fill in before the next put. Returns null if there is
  // no memory.
  u1* put_space(size_t n);

  // For a list whose length is known only after its last item: reserve_count() appends a count and
  // returns its position, set_count() fills it in.
  size_t reserve_count()                    { size_t at = _length; put_u4(0); return at; }
  void   set_count(size_t at, size_t n)     { u4 v = (u4)n; if (!_failed) memcpy(_data + at, &v, sizeof(v)); }

  // Hands the body to the recorder. May wait for room in the ring, but takes no VM lock and makes
  // no thread state transition.
  void commit(u2 kind);
  // Same, for a body that is not in a JPortalBuffer.
  static void commit(u2 kind, const u1* body, size_t length);

  const u1* data() const { return _data; }
  size_t length() const  { return _length; }
  bool failed() const    { return _failed; }

  // Commits a record that has no lists.
  template <typename R> static void commit_record(const R& record) {
    JPortalBuffer b;
    record.write(&b);
    b.commit(R::KIND);
  }
};

#endif // SHARE_JPORTAL_JPORTALBUFFER_HPP
