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

#ifndef SHARE_JPORTAL_JPORTALFLAGCONSTRAINTS_HPP
#define SHARE_JPORTAL_JPORTALFLAGCONSTRAINTS_HPP

#include "runtime/flags/jvmFlag.hpp"

// The constraints of flags whose values are words. The VM checks them when it has parsed its
// arguments.
#define JPORTAL_CONSTRAINTS(f)               \
  f(ccstr, JPortalSourceConstraintFunc)      \
  f(ccstr, JPortalCodeCacheConstraintFunc)   \
  f(ccstr, JPortalTriggerConstraintFunc)     \
  f(ccstr, JPortalPrecisionConstraintFunc)

JPORTAL_CONSTRAINTS(DECLARE_CONSTRAINT)

#endif // SHARE_JPORTAL_JPORTALFLAGCONSTRAINTS_HPP
