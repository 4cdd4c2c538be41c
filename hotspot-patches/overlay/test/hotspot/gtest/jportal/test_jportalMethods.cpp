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

#include "precompiled.hpp"
#include "utilities/macros.hpp"
#if INCLUDE_JPORTAL
#include "classfile/vmClasses.hpp"
#include "interpreter/bytecodes.hpp"
#include "jportal/jportalMethods.hpp"
#include "memory/resourceArea.hpp"
#include "oops/constantPool.hpp"
#include "oops/method.hpp"
#include "runtime/interfaceSupport.inline.hpp"
#include "unittest.hpp"
#include "utilities/bytes.hpp"

// The classes are linked: their bytecodes are rewritten, some of them quickened. In a class file,
// each operand is an index into the constant pool, of the kind that the bytecode wants.
static int check(InstanceKlass* ik) {
  ConstantPool* const cp = ik->constants();
  int checked = 0;
  for (int i = 0; i < ik->methods()->length(); i++) {
    Method* const m = ik->methods()->at(i);
    if (m->code_size() == 0) continue;
    u1* const code = NEW_RESOURCE_ARRAY(u1, m->code_size());
    JPortalMethods::copy_original_bytecodes(m, code);
    for (int bci = 0; bci < m->code_size(); ) {
      const Bytecodes::Code op = (Bytecodes::Code)code[bci];
      EXPECT_LT((int)op, (int)Bytecodes::number_of_java_codes);
      const int length = Bytecodes::java_length_at(m, m->bcp_from(bci));
      EXPECT_GT(length, 0);
      if (length <= 0) break;
      const int wide = length > 2 ? Bytes::get_Java_u2(code + bci + 1) : code[bci + 1];
      switch (op) {
        case Bytecodes::_getstatic:
        case Bytecodes::_putstatic:
        case Bytecodes::_getfield:
        case Bytecodes::_putfield:
          EXPECT_TRUE(cp->tag_at(wide).is_field());
          checked++;
          break;
        case Bytecodes::_invokevirtual:
          EXPECT_TRUE(cp->tag_at(wide).is_method());
          checked++;
          break;
        case Bytecodes::_invokespecial:
        case Bytecodes::_invokestatic:
          EXPECT_TRUE(cp->tag_at(wide).is_method() || cp->tag_at(wide).is_interface_method());
          checked++;
          break;
        case Bytecodes::_invokeinterface:
          EXPECT_TRUE(cp->tag_at(wide).is_interface_method());
          EXPECT_EQ(0, code[bci + 4]);
          checked++;
          break;
        case Bytecodes::_invokedynamic:
          EXPECT_TRUE(cp->tag_at(wide).is_invoke_dynamic());
          EXPECT_EQ(0, code[bci + 3] | code[bci + 4]);
          checked++;
          break;
        case Bytecodes::_ldc:
        case Bytecodes::_ldc_w:
          EXPECT_TRUE(cp->tag_at(wide).is_loadable_constant());
          checked++;
          break;
        case Bytecodes::_new:
        case Bytecodes::_checkcast:
        case Bytecodes::_instanceof:
        case Bytecodes::_anewarray:
          EXPECT_TRUE(cp->tag_at(wide).is_klass_or_reference());
          checked++;
          break;
        default:
          break;
      }
      bci += length;
    }
  }
  return checked;
}

TEST_VM(JPortalMethods, original_bytecodes_name_the_constant_pool) {
  ThreadInVMfromNative in_vm(JavaThread::current());
  ResourceMark rm;
  EXPECT_GT(check(vmClasses::String_klass()), 100);
  EXPECT_GT(check(vmClasses::Class_klass()), 100);
  EXPECT_GT(check(vmClasses::System_klass()), 100);
  EXPECT_GT(check(vmClasses::Thread_klass()), 100);
}

#endif // INCLUDE_JPORTAL
