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

#ifndef SHARE_JPORTAL_JPORTALHOOKSCOPE_HPP
#define SHARE_JPORTAL_JPORTALHOOKSCOPE_HPP

#include "memory/allocation.hpp"
#include "runtime/safepointVerifiers.hpp"
#include "runtime/thread.hpp"

// The scope of a hook. A debug build checks what jportal.hpp promises: the hook reaches no
// safepoint, and its thread is in the same state afterwards.
class JPortalHookScope : public StackObj {
#ifdef ASSERT
  const NoSafepointVerifier _verifier;
  const JavaThreadState     _state;

  static JavaThreadState state() {
    Thread* const t = Thread::current();
    return t->is_Java_thread() ? t->as_Java_thread()->thread_state() : _thread_in_vm;
  }

 public:
  JPortalHookScope() : _state(state()) {}
  ~JPortalHookScope() { assert(state() == _state, "a hook makes no transition"); }
#else
 public:
  JPortalHookScope() {}
  ~JPortalHookScope() {}
#endif
};

#endif // SHARE_JPORTAL_JPORTALHOOKSCOPE_HPP
