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

#ifndef SHARE_JPORTAL_JPORTALMETHODSTUBS_HPP
#define SHARE_JPORTAL_JPORTALMETHODSTUBS_HPP

#include "memory/allocation.hpp"
#include "oops/array.hpp"
#include "utilities/globalDefinitions.hpp"

class Method;
class methodHandle;

// One stub per method: a jump to the shared interpreter entry. Method::_i2i_entry points to the
// stub, and so does _from_interpreted_entry of a method without compiled code. So the target of an
// interpreted call, an upcall or a c2i adapter is an address that belongs to one method only, and
// the trace names the callee.
//
// The stubs are slots in BufferBlobs of one size, which are never freed. The slot of a freed method
// rests for at least RestNanos before another method gets it: a trace with a coarse clock does not
// give the exact time at which a stub ran, and could not tell two methods apart that used the slot
// shortly after each other. If the code cache has no room, resting slots are used; then a method
// gets the shared entry, and the first time, the capture gets a notice.
class JPortalMethodStubTable : AllStatic {
  friend class JPortalMethodStubsTest;   // test/hotspot/gtest/jportal

  enum : int {
    SlotSize  = 8,
    ChunkSize = 16 * K
  };
  static const jlong RestNanos = 2 * NANOSECS_PER_SEC;
  struct Chunk;

  // Free slots, oldest first. A free slot begins with traps and ends with the number of the next
  // one. So a release needs no memory, and the C heap stays as it is without stubs: its layout
  // decides the order of symbols, and that the order of methods.
  struct SlotList {
    u4  head;
    u4  tail;
    int count;

    void    add(address slot);
    void    add_all(SlotList* other);   // 'other' is empty afterwards
    address take();                     // null if the list is empty
  };

  // The name of all blobs with stubs, and of no other: the pointers are equal.
  static const char* const BlobName;

  // Guarded by CodeCache_lock. Chunks are prepended and never removed. Slots are released to the
  // list _released. After RestNanos, all of them rest; after RestNanos more, they may be used
  // again.
  static Chunk*        _chunks;
  static SlotList      _released;
  static SlotList      _resting;
  static SlotList      _rested;
  static jlong         _moved;      // when slots were last moved from one list to the next
  static bool volatile _exhausted;  // the notice has been given

  // The number of a slot is its distance from the begin of the code cache, in slots.
  static u4      number_of(address slot);
  static address slot_of(u4 number);
  static u4*     next_of(address slot) { return (u4*)(slot + SlotSize - sizeof(u4)); }

  static void    move_rested();
  static address allocate_locked(bool resting);
  static void    release_locked(address entry);
  static address allocate();
  static bool    add_chunk();
  static void    note_exhausted();

  static void    commit_stub(Method* m, address stub, address target);
  static void    write_jump(address at, address target);
  static address jump_target(address at);
  static void    fill_unused(address at, size_t size);

 public:
  // The interpreter entry for 'm': its stub, which jumps to 'entry', or 'entry' if no slot is free.
  static address entry_for(const methodHandle& m, address entry);
  // Whether 'entry' is a stub. The time does not depend on the number of chunks, because a GC pause
  // asks this for each method that it unloads.
  static bool    contains(address entry);
  // Commits the record of the stub of 'm', if 'm' has one.
  static void    export_stub(Method* m);
  // The target of the stub at 'entry'; 'entry' itself if it is no stub.
  static address target_of(address entry);
  // Frees the stub at 'entry', if it is one: from now on it traps. The caller has committed the
  // record MethodFreed.
  static void    release(address entry);
  // Frees the stubs of all these methods, which lose their entries. The caller has committed the
  // record ClassUnloaded.
  static void    release_all(Array<Method*>* methods);
};

#endif // SHARE_JPORTAL_JPORTALMETHODSTUBS_HPP
