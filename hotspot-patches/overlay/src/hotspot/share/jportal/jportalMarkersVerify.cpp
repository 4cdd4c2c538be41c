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
#include "ci/ciExceptionHandler.hpp"
#include "ci/ciMethod.hpp"
#include "ci/ciMethodBlocks.hpp"
#include "ci/ciStreams.hpp"
#include "ci/ciUtilities.inline.hpp"
#include "interpreter/bytecode.hpp"
#include "jportal/jportalMarkersVerify.hpp"
#include "jportal/jportalRecords.hpp"
#include "logging/log.hpp"
#include "logging/logStream.hpp"
#include "memory/resourceArea.hpp"
#include "runtime/atomic.hpp"

static volatile int _compilations = 0;
static volatile int64_t _all_steps = 0;
static volatile int _all_wrong = 0;

JPortalMarkersVerifier::JPortalMarkersVerifier(const JPortalMarkerTable* table, const char* compiler, int compile_id)
  : _table(table), _compiler(compiler), _compile_id(compile_id), _search(0), _steps(0), _wrong(0) {
  memset(_known, 0, sizeof(_known));
}

int JPortalMarkersVerifier::add_node(const JPortalPath* path) {
  Node n = { path, { nullptr, nullptr, true }, -1, 0 };
  return _nodes.append(n);
}

void JPortalMarkersVerifier::append_to_node(int node, const JPortalPath* path) {
  Node* n = _nodes.adr_at(node);
  n->path = _table->cat(n->path, path);
}

void JPortalMarkersVerifier::add_edge(int from, int to, const JPortalPath* path) {
  Edge e = { path, { nullptr, nullptr, true }, to, _nodes.at(from).edges };
  _nodes.adr_at(from)->edges = _edges.append(e);
}

// --- The bytecode

// What a block does at its end, seen from one bci.
struct JPortalBlockEnd {
  bool is_known;     // false: the block may lead anywhere
  bool returns;
  bool leads;        // to the bci that was asked about
  int  limit;
};

static JPortalBlockEnd end_of_block(ciMethod* method, int bci, int to) {
  ciBlock* block = method->get_method_blocks()->block_containing(bci);
  JPortalBlockEnd end = { block != nullptr && !method->has_jsrs(), false, false, bci + 1 };
  if (!end.is_known) return end;
  end.limit = block->limit_bci();
  ciBytecodeStream s(method);
  s.reset_to_bci(block->start_bci());
  s.set_max_bci(block->limit_bci());
  bool falls_through = true;
  while (s.next() != ciBytecodeStream::EOBC()) {
    switch (s.cur_bc()) {
      case Bytecodes::_ifeq:      case Bytecodes::_ifne:      case Bytecodes::_iflt:
      case Bytecodes::_ifge:      case Bytecodes::_ifgt:      case Bytecodes::_ifle:
      case Bytecodes::_if_icmpeq: case Bytecodes::_if_icmpne: case Bytecodes::_if_icmplt:
      case Bytecodes::_if_icmpge: case Bytecodes::_if_icmpgt: case Bytecodes::_if_icmple:
      case Bytecodes::_if_acmpeq: case Bytecodes::_if_acmpne:
      case Bytecodes::_ifnull:    case Bytecodes::_ifnonnull:
        end.leads |= s.get_dest() == to;
        break;
      case Bytecodes::_goto:
        end.leads |= s.get_dest() == to;
        falls_through = false;
        break;
      case Bytecodes::_goto_w:
        end.leads |= s.get_far_dest() == to;
        falls_through = false;
        break;
      case Bytecodes::_tableswitch: {
        Bytecode_tableswitch sw(&s);
        end.leads |= s.cur_bci() + sw.default_offset() == to;
        for (int i = 0; i < sw.length(); i++) end.leads |= s.cur_bci() + sw.dest_offset_at(i) == to;
        falls_through = false;
        break;
      }
      case Bytecodes::_lookupswitch: {
        Bytecode_lookupswitch sw(&s);
        end.leads |= s.cur_bci() + sw.default_offset() == to;
        for (int i = 0; i < sw.number_of_pairs(); i++) end.leads |= s.cur_bci() + sw.pair_at(i).offset() == to;
        falls_through = false;
        break;
      }
      case Bytecodes::_athrow:
        falls_through = false;
        break;
      case Bytecodes::_ireturn: case Bytecodes::_lreturn: case Bytecodes::_freturn:
      case Bytecodes::_dreturn: case Bytecodes::_areturn: case Bytecodes::_return:
        end.returns = true;
        falls_through = false;
        break;
      default:
        break;
    }
  }
  end.leads |= falls_through && end.limit == to;
  return end;
}

// Whether an exception in [from, limit) may come to the handler at 'handler'.
static bool may_be_caught(ciMethod* method, int from, int limit, int handler) {
  for (ciExceptionHandlerStream handlers(method); !handlers.is_done(); handlers.next()) {
    ciExceptionHandler* h = handlers.handler();
    if (h->handler_bci() == handler && h->start() < limit && h->limit() > from) return true;
  }
  return false;
}

// Whether control may come to the block of 'to' next after that of 'from'.
bool JPortalMarkersVerifier::is_way(const JPortalPath* from, const JPortalPath* to) const {
  const JPortalMarkerTable::Context& target = context(to->context());
  u4 c = from->context();
  int at = from->bci();
  bool called = false;      // control has left the call at 'at', of a method that is inlined
  bool returned = true;     // by a return. In any case it may have left it by an exception.
  while (true) {
    ciMethod* method = context(c).method;
    const JPortalBlockEnd end = end_of_block(method, at, to->bci());
    if (!end.is_known) return true;
    if (to->context() == c) {
      if (returned && end.leads) return true;
      if (may_be_caught(method, at, returned ? end.limit : at + 1, to->bci())) return true;
    } else if (returned && target.parent == c && to->bci() == 0) {
      const int call = target.call_bci;
      if ((called ? call > at : call >= at) && call < end.limit) return true;
    }
    if (context(c).parent == JPORTAL_NO_CONTEXT) return false;
    returned = returned && end.returns;
    called = true;
    at = context(c).call_bci;
    c = context(c).parent;
  }
}

// --- The graph

void JPortalMarkersVerifier::report(const JPortalPath* from, const JPortalPath* to) {
  if (++_wrong > MaxReports) return;
  LogTarget(Warning, jportal) target;
  if (!target.is_enabled()) return;
  ResourceMark rm;
  LogStream log(target);
  log.print("impossible path markers, %s %d:", _compiler, _compile_id);
  const JPortalPath* ends[] = { from, to };
  for (int i = 0; i < 2; i++) {
    log.print(i == 0 ? " from" : " to");
    int bci = ends[i]->bci();
    for (u4 c = ends[i]->context(); c != JPORTAL_NO_CONTEXT; c = context(c).parent) {
      stringStream name;
      context(c).method->print_short_name(&name);
      log.print("%s @ %d", name.as_string(), bci);
      bci = context(c).call_bci;
    }
  }
  log.cr();
}

void JPortalMarkersVerifier::check_step(const JPortalPath* from, const JPortalPath* to) {
  _steps++;
  const uint hash = ((from->context() * 31 + from->bci()) * 31 + to->context()) * 31 + to->bci();
  Step* known = &_known[hash % KnownSteps];
  if (known->is_known && known->from == from->context() && known->from_bci == from->bci() &&
      known->to == to->context() && known->to_bci == to->bci()) {
    return;
  }
  Step step = { from->context(), to->context(), from->bci(), to->bci(), true };
  *known = step;
  if (!is_way(from, to)) report(from, to);
}

// Checks the steps inside a path.
JPortalMarkersVerifier::Markers JPortalMarkersVerifier::check_path(const JPortalPath* path) {
  Markers markers = { nullptr, nullptr, true };
  _flat.clear();
  JPortalPath::append_markers(path, &_flat);
  for (int i = 0; i < _flat.length(); i++) {
    const JPortalPath* marker = _flat.at(i);
    if (marker->context() == JPORTAL_POLL_STATE) continue;
    if (marker->context() == JPORTAL_NO_CONTEXT) marker = nullptr;
    if (markers.is_empty) {
      markers.first = marker;
    } else if (markers.last != nullptr && marker != nullptr) {
      check_step(markers.last, marker);
    }
    markers.is_empty = false;
    markers.last = marker;
  }
  return markers;
}

// Checks the step from the block 'from' to the first marker. Returns false if there is none.
bool JPortalMarkersVerifier::check_first(const Markers& markers, const JPortalPath* from) {
  if (markers.first != nullptr) check_step(from, markers.first);
  return !markers.is_empty;
}

void JPortalMarkersVerifier::visit(int node, const JPortalPath* from) {
  Node* n = _nodes.adr_at(node);
  if (n->seen == _search) return;
  n->seen = _search;
  if (!check_first(n->markers, from)) _open.push(node);
}

// Follows the edges of all open nodes to the next markers. Control is in the block 'from'.
void JPortalMarkersVerifier::follow(const JPortalPath* from) {
  while (_open.is_nonempty()) {
    int i = _nodes.at(_open.pop()).edges;
    for (; i >= 0; i = _edges.at(i).next) {
      if (!check_first(_edges.at(i).markers, from)) visit(_edges.at(i).to, from);
    }
  }
}

void JPortalMarkersVerifier::verify() {
  for (int i = 0; i < _nodes.length(); i++) {
    Markers markers = check_path(_nodes.at(i).path);
    _nodes.adr_at(i)->markers = markers;
  }
  for (int i = 0; i < _edges.length(); i++) {
    Markers markers = check_path(_edges.at(i).path);
    _edges.adr_at(i)->markers = markers;
  }
  for (int i = 0; i < _nodes.length(); i++) {
    const JPortalPath* last = _nodes.at(i).markers.last;
    if (last == nullptr) continue;
    _search++;
    _open.push(i);
    follow(last);
  }
  for (int i = 0; i < _edges.length(); i++) {
    const JPortalPath* last = _edges.at(i).markers.last;
    if (last == nullptr) continue;
    _search++;
    visit(_edges.at(i).to, last);
    follow(last);
  }
  Atomic::inc(&_compilations);
  Atomic::add(&_all_steps, (int64_t)_steps);
  Atomic::add(&_all_wrong, _wrong);
}

void JPortalMarkersVerifier::print_totals() {
  static volatile int printed = 0;   // the VM may call this more than once
  if (Atomic::xchg(&printed, 1) != 0) return;
  log_info(jportal)("path markers: %d compilations, " INT64_FORMAT " steps checked, %d impossible",
                    Atomic::load(&_compilations), Atomic::load(&_all_steps), Atomic::load(&_all_wrong));
}
