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

#ifndef SHARE_JPORTAL_JPORTALMETHODSTUBS_HPP
#define SHARE_JPORTAL_JPORTALMETHODSTUBS_HPP

#include "memory/allocation.hpp"
#include "utilities/globalDefinitions.hpp"

class Method;
class methodHandle;

// A jump to the shared interpreter entry for each method. Method::_i2i_entry and
// with it _from_interpreted_entry of a method without compiled code point to it,
// so the target of an interpreted call (or of an upcall, or of a c2i adapter) is
// an address that only this method has: the trace names the callee.
//
// Stubs live in BufferBlobs of one size that are never freed; a freed method's
// stub is used again, but not before many others were freed: a trace with a coarse
// clock does not say exactly when a stub was run, and so not for which of two methods
// that had it shortly after each other. Without room in the code cache a method gets the shared
// entry and the capture says so once.
class JPortalMethodStubTable : AllStatic {
  enum {
    SlotSize     = 8,
    ChunkSize    = 16 * K,
    RestingSlots = 8 * K     // free ones that are kept, while the code cache has room
  };
  struct Chunk;

  static Chunk* volatile _chunks;     // only ever prepended
  static address         _free_head;  // list through the slots, oldest first, under CodeCache_lock
  static address         _free_tail;
  static int             _free_count;
  static bool volatile   _exhausted;  // notice given

  static address allocate_locked(int resting);
  static address allocate();
  static bool    add_chunk();
  static void    note_exhausted();

  static void    commit_stub(Method* m, address stub, address target);
  static void    write_jump(address at, address target);
  static address jump_target(address at);
  static void    fill_unused(address at, size_t size);

 public:
  static address entry_for(const methodHandle& m, address entry);
  static bool    contains(address entry);
  // Commits the record of the stub that 'm' has, if it has one.
  static void    export_stub(Method* m);
  // 'entry' itself when it is no stub.
  static address target_of(address entry);
  // The record MethodFreed must be committed before.
  static void    release(address entry);
};

#endif // SHARE_JPORTAL_JPORTALMETHODSTUBS_HPP
