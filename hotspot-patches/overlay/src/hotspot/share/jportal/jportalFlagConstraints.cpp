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
#include "jportal/jportalFlagConstraints.hpp"
#include "jportal/jportalSlowCalls.hpp"
#include "utilities/globalDefinitions.hpp"

// Whether 'value' is one of the words of 'list', which commas separate.
static JVMFlag::Error one_of(const char* list, const char* flag, ccstr value, bool verbose) {
  const size_t length = value == nullptr ? 0 : strlen(value);
  for (const char* word = list; length > 0 && word != nullptr; ) {
    const char* const comma = strchr(word, ',');
    const size_t size = comma == nullptr ? strlen(word) : (size_t)(comma - word);
    if (size == length && strncmp(word, value, size) == 0) return JVMFlag::SUCCESS;
    word = comma == nullptr ? nullptr : comma + 2;
  }
  JVMFlag::printError(verbose, "-XX:%s=%s is none of %s\n", flag, value == nullptr ? "" : value, list);
  return JVMFlag::VIOLATES_CONSTRAINT;
}

JVMFlag::Error JPortalSourceConstraintFunc(ccstr value, bool verbose) {
  return one_of("auto, perf, emulated, none, sideband", "JPortalSource", value, verbose);
}

JVMFlag::Error JPortalCodeCacheConstraintFunc(ccstr value, bool verbose) {
  return one_of("auto, anonymous, memfd", "JPortalCodeCache", value, verbose);
}

JVMFlag::Error JPortalPrecisionConstraintFunc(ccstr value, bool verbose) {
  return one_of("default, exact", "JPortalPrecision", value, verbose);
}

JVMFlag::Error JPortalTriggerConstraintFunc(ccstr value, bool verbose) {
  if (value == nullptr || JPortalSlowCalls::is_trigger(value)) return JVMFlag::SUCCESS;
  JVMFlag::printError(verbose, "-XX:JPortalTrigger is class.method,millis\n");
  return JVMFlag::VIOLATES_CONSTRAINT;
}
