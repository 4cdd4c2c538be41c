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
#include "jportal/jportalBridge.hpp"
#include "jportal/jportalBuffer.hpp"
#include "jportal/jportalRecording.hpp"
#include "jportal/jportalRecords.hpp"
#include "oops/symbol.hpp"
#include "runtime/os.hpp"

JPortalBytes::JPortalBytes(const Symbol* s)
  : data(s == nullptr ? nullptr : s->base()), length(s == nullptr ? 0 : s->utf8_length()) {}

JPortalBuffer::~JPortalBuffer() {
  if (_data != _inline) {
    os::free(_data);
  }
}

bool JPortalBuffer::grow(size_t wanted) {
  if (_failed) return false;
  size_t capacity = MAX2(_capacity * 2, _length + wanted);
  u1* data = (u1*)os::malloc(capacity, mtTracing);
  if (data == nullptr) {
    _failed = true;
    return false;
  }
  memcpy(data, _data, _length);
  if (_data != _inline) {
    os::free(_data);
  }
  _data = data;
  _capacity = capacity;
  return true;
}

u1* JPortalBuffer::put_space(size_t n) {
  if (_capacity - _length < n && !grow(n)) return nullptr;
  u1* space = _data + _length;
  _length += n;
  return space;
}

void JPortalBuffer::commit(u2 kind, const u1* body, size_t length) {
  const int recording = JPortalRecording::number();
  if (!JPortalBridge::write(kind, body, length)) {
    JPortalRecording::refused(recording);
  }
}

void JPortalBuffer::commit(u2 kind) {
  if (!_failed) {
    commit(kind, _data, _length);
    return;
  }
  char text[80];
  jio_snprintf(text, sizeof(text), "no C heap for a record of kind %d", kind);
  JPortalNotice notice;
  notice.text = text;
  JPortalBuffer b;
  notice.write(&b);
  b.commit(JPortalNotice::KIND);
}
