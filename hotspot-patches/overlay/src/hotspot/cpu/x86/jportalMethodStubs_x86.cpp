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
#include "jportal/jportalMethodStubs.hpp"
#include "nativeInst_x86.hpp"
#include "runtime/icache.hpp"

void JPortalMethodStubTable::write_jump(address at, address target) {
  // NativeJump::insert() is not used, because its hook would record a patch. The record MethodStub
  // defines these bytes.
  STATIC_ASSERT((int)NativeJump::instruction_size <= (int)SlotSize);
  const intptr_t displacement = target - (at + NativeJump::instruction_size);
  guarantee(displacement == (intptr_t)(int32_t)displacement, "the code cache is one 2 GB range");
  *at = NativeJump::instruction_code;
  *(int32_t*)(at + NativeJump::data_offset) = (int32_t)displacement;
  ICache::invalidate_range(at, NativeJump::instruction_size);
}

address JPortalMethodStubTable::jump_target(address at) {
  return nativeJump_at(at)->jump_destination();
}

void JPortalMethodStubTable::fill_unused(address at, size_t size) {
  memset(at, 0xCC, size);   // int3
}
