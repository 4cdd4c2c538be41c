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

#ifndef SHARE_JPORTAL_JPORTALCOMPAT_HPP
#define SHARE_JPORTAL_JPORTALCOMPAT_HPP

#include "code/codeCache.hpp"
#include "code/compiledMethod.hpp"
#include "memory/allocation.hpp"
#include "oops/constantPool.hpp"
#include "oops/cpCache.hpp"
#include "runtime/frame.inline.hpp"
#include "runtime/os.inline.hpp"
#include "runtime/osThread.hpp"
#include "runtime/registerMap.hpp"
#include "runtime/thread.inline.hpp"
#include "services/diagnosticCommand.hpp"
#include "utilities/globalDefinitions.hpp"

// What the overlay uses of HotSpot and other releases name or shape differently. A port to another
// release changes this file, so that the rest of the overlay stays as it is. The comments say what
// became of each item. Differences that concern the compilers or the interpreter are in patches.

// A lock without a rank. 21: PlatformMutex.
typedef os::PlatformMutex JPortalPlatformMutex;

class JPortalCompat : AllStatic {
 public:
  // 19: JavaThread::cast.
  static JavaThread* as_java_thread(Thread* t) { return t->as_Java_thread(); }

  // The kernel's id of a thread that has started.
  static u4 tid_of(Thread* t) { return (u4)t->osthread()->thread_id(); }

  // The address to which the last frame of 't', which is that of a stub, returns. 19: RegisterMap
  // takes enums.
  static address return_address_of_last_frame(JavaThread* t) {
    RegisterMap map(t, false);
    return t->last_frame().sender(&map).pc();
  }

  // The blob that has this address, or null. Takes no lock. 20: find_blob.
  static CodeBlob* blob_at(address a) { return CodeCache::find_blob_unsafe(a); }

  // The constant pool indices that belong to the operand of a rewritten bytecode. 21 has
  // ResolvedIndyEntry, 22 ResolvedFieldEntry and ResolvedMethodEntry.
  static u2 index_of_member(ConstantPool* cp, int operand) {
    return (u2)cp->cache()->entry_at(operand)->constant_pool_index();
  }
  static u2 index_of_dynamic_call(ConstantPool* cp, int operand) {
    return (u2)cp->invokedynamic_cp_cache_entry_at(operand)->constant_pool_index();
  }

  // States of nmethods. 20 has neither of the last two, 23 names the first nmethod::not_entrant.
  enum NMethodState : int {
    not_entrant = CompiledMethod::not_entrant,
    zombie      = CompiledMethod::zombie,
    unloaded    = CompiledMethod::unloaded
  };

  // Makes a command available in jcmd and over JMX. 24: DCmd::register_dcmd.
  template <typename D> static void register_dcmd() {
    const uint32_t everywhere = DCmd_Source_Internal | DCmd_Source_AttachAPI | DCmd_Source_MBean;
    DCmdFactory::register_DCmdFactory(new DCmdFactoryImpl<D>(everywhere, true, false));
  }
};

#endif // SHARE_JPORTAL_JPORTALCOMPAT_HPP
