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

#ifndef SHARE_JPORTAL_JPORTALCODE_HPP
#define SHARE_JPORTAL_JPORTALCODE_HPP

#include "memory/allocation.hpp"
#include "utilities/bitMap.hpp"
#include "utilities/globalDefinitions.hpp"

class JPortalBuffer;
class nmethod;

// Exports code and its changes.
//
// A map of the code cache knows which code has been exported: stores into code
// under construction (relocation of a fresh copy, a compiler's scratch buffer)
// are no patches and are not recorded.
class JPortalCode : AllStatic {
  static address     _low;
  static address     _high;
  static CHeapBitMap _exported;   // a bit per segment; two blobs never share one

 public:
  static void initialize(address low, address high);

  static bool is_exported(address a);
  static void set_exported(address begin, address end, bool value);

  // A blob or part of a blob without entry points worth a name; a later recording is told of it too.
  static void export_code(u1 kind, const char* name, address begin, address end);
  // The record alone.
  static void commit_blob(u1 kind, const char* name, address begin, address end);
  // jportalNMethod.cpp
  static void export_nmethod(nmethod* nm);

  // The clock of the records and of the trace. jportalCode_<cpu>.cpp
  static u8 timestamp();
  // The bytes at [at, at + size) as they are now.
  static void export_patch(address at, int size, u1 reason);
};

#endif // SHARE_JPORTAL_JPORTALCODE_HPP
