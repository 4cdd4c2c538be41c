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

#ifndef SHARE_JPORTAL_JPORTALADDRESSLIST_HPP
#define SHARE_JPORTAL_JPORTALADDRESSLIST_HPP

#include "jportal/jportalRecords.hpp"

// Builds a list of named addresses at the end of a record.
class JPortalAddressList : public StackObj {
  JPortalBuffer* _buffer;
  size_t         _at;
  size_t         _count;

 public:
  // Begins an empty list after the contents of 'buffer'. From here on, only add() may append to
  // 'buffer'.
  JPortalAddressList(JPortalBuffer* buffer) : _buffer(buffer), _at(buffer->reserve_count()), _count(0) {}

  // Appends one entry. Does nothing if the address is null.
  void add(const char* name, address a) {
    if (a == nullptr) return;
    JPortalNamedAddress item;
    item.name = name;
    item.address = (u8)a;
    item.write(_buffer);
    _buffer->set_count(_at, ++_count);
  }
};

#endif // SHARE_JPORTAL_JPORTALADDRESSLIST_HPP
