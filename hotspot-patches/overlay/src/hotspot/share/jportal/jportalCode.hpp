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

#ifndef SHARE_JPORTAL_JPORTALCODE_HPP
#define SHARE_JPORTAL_JPORTALCODE_HPP

#include "jportal/jportalKept.hpp"
#include "memory/allocation.hpp"
#include "utilities/bitMap.hpp"
#include "utilities/globalDefinitions.hpp"

class JPortalBuffer;
class nmethod;

// Exports code and its changes.
//
// A bitmap of the code cache marks the code that has been exported. Only stores into marked code
// are recorded as patches. Stores into code under construction are not, for example the
// relocation of a new copy or a store into a compiler's scratch buffer.
class JPortalCode : AllStatic {
  static address      _low;
  static address      _high;
  static CHeapBitMap* _exported;   // one bit per segment, which two CodeBlobs never share; never freed

 public:
  // The code cache is reserved at [low, high).
  static void initialize(address low, address high);

  // Whether the code at 'a' has been exported; false outside of the code cache.
  static bool is_exported(address a);
  static void set_exported(address begin, address end, bool value);

  // Exports a blob, or part of one, that has no named entry points. The code is also kept for later
  // recordings.
  static void export_code(u1 kind, const char* name, address begin, address end);
  // Only commits the record; keeps nothing for later recordings.
  static void commit_blob(u1 kind, const char* name, address begin, address end,
                          const JPortalKept::Entry* entries = nullptr, int count = 0);
  // Defined in jportalNMethod.cpp.
  static void export_nmethod(nmethod* nm);

  // The clock of the records and of the trace (on x86 the TSC). Defined in jportalCode_x86.cpp.
  static u8 timestamp();
  // Commits a record of a patch, with the present bytes at [at, at + size).
  static void export_patch(address at, int size, u1 reason);
};

#endif // SHARE_JPORTAL_JPORTALCODE_HPP
