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
#include "jportal/jportal.hpp"

static JPortalHooks::SignalHandler handler_of_vm = nullptr;

__attribute__((force_align_arg_pointer))
static void align_stack_and_handle(int sig, siginfo_t* info, void* context) {
  handler_of_vm(sig, info, context);
}

// The variable locates the rings of the emulated unit. A child of such a VM inherits it; it does no
// harm there.
JPortalHooks::SignalHandler JPortalHooks::signal_handler_for(SignalHandler handler) {
  if (::getenv("JPORTAL_EMULATED_PT") == nullptr) return handler;
  handler_of_vm = handler;
  return align_stack_and_handle;
}
