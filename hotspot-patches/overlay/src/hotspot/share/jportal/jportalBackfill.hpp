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

#ifndef SHARE_JPORTAL_JPORTALBACKFILL_HPP
#define SHARE_JPORTAL_JPORTALBACKFILL_HPP

#include "memory/allocation.hpp"

// Exports what already exists in the VM when a recording begins: threads, code, classes and
// methods.
class JPortalBackfill : AllStatic {
 public:
  // Called at a safepoint, by the VM thread, while JPortalRecording::is_on() is true.
  static void all();
};

#endif // SHARE_JPORTAL_JPORTALBACKFILL_HPP
