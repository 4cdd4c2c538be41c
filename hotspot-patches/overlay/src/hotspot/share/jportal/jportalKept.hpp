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

#ifndef SHARE_JPORTAL_JPORTALKEPT_HPP
#define SHARE_JPORTAL_JPORTALKEPT_HPP

#include "memory/allocation.hpp"
#include "utilities/globalDefinitions.hpp"

class JPortalBuffer;
class Method;
class nmethod;

// Keeps what a later recording needs and HotSpot itself does not keep: names, kinds and entry
// points of code that is not an nmethod, the path markers of nmethods, and the methods that no
// class lists.
//
// The data has its own lock, which may be taken while any VM lock is held. A thread that holds it
// waits only for the recorder.
class JPortalKept : AllStatic {
 public:
  // An entry point. The name must be a string literal, because only the pointer is kept.
  struct Entry { const char* name; address at; };

  static void initialize();

  // Keeps the code at [begin, end). It replaces kept code with the same 'begin'.
  static void keep_code(u1 kind, const char* name, address begin, address end, const Entry* entries, int count);
  // Drops all kept code that begins in [begin, end), because its memory is about to be freed.
  static void drop_code(address begin, address end);
  // Keeps 'body', the body of the record NMethodMarkers of 'nm'.
  static void keep_markers(const nmethod* nm, const JPortalBuffer& body);
  static void drop_markers(const nmethod* nm);
  // Keeps a method handle intrinsic, which no class lists.
  static void keep_intrinsic(Method* m);

  // Commit the records of what is kept, with the present bytes of the code.
  static void export_code();
  static void export_markers(const nmethod* nm);
  static void export_intrinsics();
};

#endif // SHARE_JPORTAL_JPORTALKEPT_HPP
