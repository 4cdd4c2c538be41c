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

#ifndef SHARE_JPORTAL_JPORTALMETHODS_HPP
#define SHARE_JPORTAL_JPORTALMETHODS_HPP

#include "memory/allocation.hpp"
#include "utilities/globalDefinitions.hpp"

class ConstantPool;
class InstanceKlass;
class JPortalBuffer;
class Method;

// Exports classes and methods. The caller guarantees that they do not change meanwhile: they are
// being linked, or the VM is at a safepoint.
class JPortalMethods : AllStatic {
 public:
  // 'tid' is the OS thread id of the thread that loaded the class, 0 if it is not known.
  static void export_loaded_class(InstanceKlass* ik, u4 tid);
  static void export_class(InstanceKlass* ik);
  // Exports a method with all that its bytecodes refer to in the constant pool.
  static void export_method(Method* m) { export_method(m, nullptr); }

  // Copies the bytecodes of 'm' as they are in its class file to 'to', which has code_size() bytes.
  // Rewritten, quickened and breakpoint bytecodes are replaced by the original ones, constant pool
  // cache indices by constant pool indices.
  static void copy_original_bytecodes(Method* m, u1* to);

 private:
  // 'exported' is the constant pool of the method's class that was exported, or null.
  static void export_method(Method* m, ConstantPool* exported);
  static void export_constants(InstanceKlass* ik);
  static void put_exceptions(JPortalBuffer* b, Method* m);
  static void put_lines(JPortalBuffer* b, Method* m);
  static void put_invokes(JPortalBuffer* b, Method* m, const u1* code);
  static void put_constants(JPortalBuffer* b, Method* m, const u1* code);
  static void put_constant(JPortalBuffer* b, ConstantPool* cp, int index);
};

#endif // SHARE_JPORTAL_JPORTALMETHODS_HPP
