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

#ifndef CPU_X86_JPORTALINSTRUCTIONS_X86_HPP
#define CPU_X86_JPORTALINSTRUCTIONS_X86_HPP

#include "memory/allocation.hpp"
#include "utilities/globalDefinitions.hpp"

// Decodes the few x86-64 instructions with which the compilers end a block.
class JPortalInstructions : AllStatic {
 public:
  enum : int { Always = -1, Equal = 4, Parity = 10 };

  struct Branch {
    int length;      // 0 if it is neither a direct jump nor a one-byte nop
    int condition;   // the encoded condition; Always for jumps and nops
  };

  static Branch branch_at(const u1* p) {
    if ((p[0] & 0xf0) == 0x70)                      return branch(2, p[0] & 15);
    if (p[0] == 0x0f && (p[1] & 0xf0) == 0x80)      return branch(6, p[1] & 15);
    if (p[0] == 0xeb)                               return branch(2, Always);
    if (p[0] == 0xe9)                               return branch(5, Always);
    if (p[0] == 0x90)                               return branch(1, Always);
    return branch(0, Always);
  }

  // The offset of the "jmp [...]" that follows the optional instruction which loads the address of
  // the table; -1 if [from, to) has other instructions.
  static int jump_through_table(const u1* code, int from, int to) {
    const u1* p = code + from;
    int at = from;
    if ((p[0] & 0xfe) == 0x48 && (p[1] & 0xf8) == 0xb8) {
      at += 10;   // movabs
    } else if ((p[0] & 0xf8) == 0x48 && p[1] == 0x8d && (p[2] & 0xc7) == 0x05) {
      at += 7;    // lea, relative to rip
    }
    if (at >= to) return -1;
    p = code + at;
    if ((p[0] & 0xf0) == 0x40) p++;
    return p[0] == 0xff && ((p[1] >> 3) & 7) == 4 ? at : -1;
  }

 private:
  static Branch branch(int length, int condition) {
    Branch b = { length, condition };
    return b;
  }
};

#endif // CPU_X86_JPORTALINSTRUCTIONS_X86_HPP
