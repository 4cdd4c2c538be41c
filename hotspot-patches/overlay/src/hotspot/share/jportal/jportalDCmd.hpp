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

#ifndef SHARE_JPORTAL_JPORTALDCMD_HPP
#define SHARE_JPORTAL_JPORTALDCMD_HPP

#include "services/diagnosticCommand.hpp"

class JPortalStatusDCmd : public DCmd {
 public:
  JPortalStatusDCmd(outputStream* output, bool heap) : DCmd(output, heap) {}
  static const char* name()        { return "JPortal.status"; }
  static const char* description() { return "Print what the JPortal recording does."; }
  static const char* impact()      { return "Low"; }
  static const JavaPermission permission() {
    JavaPermission p = { "java.lang.management.ManagementPermission", "monitor", nullptr };
    return p;
  }
  virtual void execute(DCmdSource source, TRAPS);
};

// Base class of the commands that start, stop or dump a recording.
class JPortalControlDCmd : public DCmdWithParser {
 protected:
  // Whether JPortal is on. If it is off, prints how to turn it on.
  bool is_possible();
  // Whether this source of commands may name a file. JMX may not: a remote client would choose
  // where this process writes. Prints the refusal.
  bool may_name_file(DCmdSource source, DCmdArgument<char*>& file);

 public:
  JPortalControlDCmd(outputStream* output, bool heap) : DCmdWithParser(output, heap) {}
  static const JavaPermission permission() {
    JavaPermission p = { "java.lang.management.ManagementPermission", "control", nullptr };
    return p;
  }
};

class JPortalStartDCmd : public JPortalControlDCmd {
  DCmdArgument<char*> _file;

 public:
  JPortalStartDCmd(outputStream* output, bool heap);
  static const char* name()        { return "JPortal.start"; }
  static const char* description() { return "Begin a JPortal recording."; }
  static const char* impact() {
    return "Medium: a safepoint whose length depends on the number of loaded and compiled methods; then as recording does.";
  }
  virtual void execute(DCmdSource source, TRAPS);
};

class JPortalStopDCmd : public JPortalControlDCmd {
 public:
  JPortalStopDCmd(outputStream* output, bool heap) : JPortalControlDCmd(output, heap) {}
  static const char* name()        { return "JPortal.stop"; }
  static const char* description() { return "End the JPortal recording; the program goes on."; }
  static const char* impact()      { return "Low"; }
  virtual void execute(DCmdSource source, TRAPS);
};

class JPortalDumpDCmd : public JPortalControlDCmd {
  DCmdArgument<char*> _file;

 public:
  JPortalDumpDCmd(outputStream* output, bool heap);
  static const char* name()        { return "JPortal.dump"; }
  static const char* description() { return "Write what the JPortal flight recorder holds (-XX:JPortalSnapshot)."; }
  static const char* impact() {
    return "Low: nothing is traced while the buffers are copied; what is traced until then is not in a later dump.";
  }
  virtual void execute(DCmdSource source, TRAPS);
};

#endif // SHARE_JPORTAL_JPORTALDCMD_HPP
