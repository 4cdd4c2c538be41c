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

#ifndef SHARE_JPORTAL_JPORTALBYADDRESS_HPP
#define SHARE_JPORTAL_JPORTALBYADDRESS_HPP

#include "runtime/globals.hpp"
#include "runtime/os.hpp"
#include "utilities/align.hpp"
#include "utilities/globalDefinitions.hpp"

// A hash table of items by the start address of their code. An item has the members 'next' and
// 'begin', and lies in the C heap: the table frees it with os::free(). A table whose memory is zero
// is empty.
template <typename T> class JPortalByAddress {
  enum : int { Buckets = 4096 };
  T* _buckets[Buckets];

  static uint bucket(address a) { return (uint)((uintptr_t)a / CodeCacheSegmentSize * 2654435761u) % Buckets; }

 public:
  T* find(address a) const {
    for (T* t = _buckets[bucket(a)]; t != nullptr; t = t->next) {
      if (t->begin == a) return t;
    }
    return nullptr;
  }

  void add(T* t) {
    T** head = &_buckets[bucket(t->begin)];
    t->next = *head;
    *head = t;
  }

  void remove(address a) {
    for (T** p = &_buckets[bucket(a)]; *p != nullptr; p = &(*p)->next) {
      if ((*p)->begin == a) {
        T* t = *p;
        *p = t->next;
        os::free(t);
        return;
      }
    }
  }

  // Walks the bucket of each segment of the range; those that share a segment share a bucket.
  void remove_within(address begin, address end) {
    const address last = align_down(end - 1, CodeCacheSegmentSize);
    for (address a = align_down(begin, CodeCacheSegmentSize); a <= last; a += CodeCacheSegmentSize) {
      for (T** p = &_buckets[bucket(a)]; *p != nullptr; ) {
        T* t = *p;
        if (begin <= t->begin && t->begin < end) {
          *p = t->next;
          os::free(t);
        } else {
          p = &t->next;
        }
      }
    }
  }

  template <typename F> void each(F f) const {
    for (int i = 0; i < Buckets; i++) {
      for (T* t = _buckets[i]; t != nullptr; t = t->next) f(t);
    }
  }
};

#endif // SHARE_JPORTAL_JPORTALBYADDRESS_HPP
