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
#include "jportal/jportalBridge.hpp"
#include "jportal/jportalCompat.hpp"
#include "jportal/jportalDCmd.hpp"
#include "jportal/jportalFlight.hpp"
#include "jportal/jportalRecording.hpp"
#include "services/diagnosticFramework.hpp"

void JPortalStatusDCmd::execute(DCmdSource source, TRAPS) {
  if (!JPortal) {
    output()->print_cr("JPortal is off. Start the VM with -XX:+JPortal to record.");
    return;
  }
  char text[4096];
  JPortalBridge::status(text, sizeof(text));
  output()->print_raw(text);
}

bool JPortalControlDCmd::is_possible() {
  if (!JPortal) {
    output()->print_cr("JPortal is off. Start the VM with -XX:+JPortal, and with -XX:-JPortalStart "
                       "if it shall not record from its start.");
  }
  return JPortal;
}

bool JPortalControlDCmd::may_name_file(DCmdSource source, DCmdArgument<char*>& file) {
  if (source != DCmd_Source_MBean || !file.is_set()) return true;
  output()->print_cr("JPortal does nothing: file= is not accepted over JMX, because it would choose where this "
                     "process writes. Leave it out to use -XX:JPortalFile, or use jcmd.");
  return false;
}

JPortalStartDCmd::JPortalStartDCmd(outputStream* output, bool heap)
  : JPortalControlDCmd(output, heap),
    _file("file", "The capture; in its own name %p is replaced by the process id, %t by the time. Without it "
          "the capture is that of -XX:JPortalFile, with a number after it from the second recording on. "
          "Not accepted over JMX.",
          "STRING", false) {
  _dcmdparser.add_dcmd_option(&_file);
}

void JPortalStartDCmd::execute(DCmdSource source, TRAPS) {
  if (is_possible() && may_name_file(source, _file)) {
    JPortalRecording::start(_file.value(), output(), THREAD);
  }
}

void JPortalStopDCmd::execute(DCmdSource source, TRAPS) {
  if (is_possible()) {
    JPortalRecording::stop(output(), THREAD);
  }
}

JPortalDumpDCmd::JPortalDumpDCmd(outputStream* output, bool heap)
  : JPortalControlDCmd(output, heap),
    _file("file", "The capture; in its own name %p is replaced by the process id, %t by the time. Without it "
          "that of -XX:JPortalFile, with .dump and a number after it. Not accepted over JMX.", "STRING", false) {
  _dcmdparser.add_dcmd_option(&_file);
}

void JPortalDumpDCmd::execute(DCmdSource source, TRAPS) {
  if (is_possible() && may_name_file(source, _file)) {
    JPortalFlight::dump(_file.value(), output(), THREAD);
  }
}

void JPortalHooks::register_dcmds() {
  JPortalCompat::register_dcmd<JPortalStatusDCmd>();
  JPortalCompat::register_dcmd<JPortalStartDCmd>();
  JPortalCompat::register_dcmd<JPortalStopDCmd>();
  JPortalCompat::register_dcmd<JPortalDumpDCmd>();
}
