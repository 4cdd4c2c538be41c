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

#ifndef SHARE_JPORTAL_JPORTALPATHMAP_HPP
#define SHARE_JPORTAL_JPORTALPATHMAP_HPP

#include "jportal/jportalMarkers.hpp"
#include "memory/arena.hpp"

// A map from the address of an instruction, operation or block to its path: a hash table with open
// addressing, in an arena.
class JPortalPathMap {
  struct Entry { const void* key; const JPortalPath* path; };

  Arena* _arena;
  Entry* _entries;
  uint   _size;    // a power of two
  uint   _used;

  Entry* find(const void* key) const {
    uint i = (uint)((uintptr_t)key >> 3) * 2654435761u;
    for (;; i++) {
      Entry* e = &_entries[i & (_size - 1)];
      if (e->key == key || e->key == nullptr) return e;
    }
  }

  void resize(uint size) {
    Entry* old = _entries;
    const uint old_size = _size;
    _entries = NEW_ARENA_ARRAY(_arena, Entry, size);
    _size = size;
    for (uint i = 0; i < size; i++) _entries[i].key = nullptr;
    for (uint i = 0; i < old_size; i++) {
      if (old[i].key != nullptr) *find(old[i].key) = old[i];
    }
  }

 public:
  JPortalPathMap(Arena* arena) : _arena(arena), _entries(nullptr), _size(0), _used(0) { resize(64); }

  const JPortalPath* get(const void* key) const {
    const Entry* e = find(key);
    return e->key == nullptr ? nullptr : e->path;
  }

  void put(const void* key, const JPortalPath* path) {
    Entry* e = find(key);
    if (e->key == nullptr) {
      if (path == nullptr) return;
      if (++_used * 2 > _size) {
        resize(_size * 2);
        e = find(key);
      }
      e->key = key;
    }
    e->path = path;
  }
};

#endif // SHARE_JPORTAL_JPORTALPATHMAP_HPP
