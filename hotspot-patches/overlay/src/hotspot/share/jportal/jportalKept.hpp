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

#ifndef SHARE_JPORTAL_JPORTALKEPT_HPP
#define SHARE_JPORTAL_JPORTALKEPT_HPP

#include "memory/allocation.hpp"
#include "utilities/globalDefinitions.hpp"

class JPortalBuffer;
class Method;
class nmethod;

// What a later recording needs and HotSpot itself does not keep: names, kinds and entry
// points of code that is no nmethod, the path markers of nmethods, and the methods
// that no class lists.
//
// Has a lock of its own, below every lock of the VM: nobody waits for anything but the
// recorder while holding it.
class JPortalKept : AllStatic {
 public:
  // An entry point; its name is a literal.
  struct Entry { const char* name; address at; };

  static void initialize();

  // Code at [begin, end), which replaces what was known there.
  static void keep_code(u1 kind, const char* name, address begin, address end, const Entry* entries, int count);
  // The code in [begin, end) is given back.
  static void drop_code(address begin, address end);
  // The body of the record NMethodMarkers of 'nm'.
  static void keep_markers(const nmethod* nm, const JPortalBuffer& body);
  static void drop_markers(const nmethod* nm);
  static void keep_intrinsic(Method* m);

  // Commit the records, with the code as it is now.
  static void export_code();
  static void export_markers(const nmethod* nm);
  static void export_intrinsics();
};

#endif // SHARE_JPORTAL_JPORTALKEPT_HPP
