// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0
/*
 * AsyncGetCallTrace of HotSpot (forte.cpp), which no header of the JDK declares, and what it needs
 * of an agent that uses it.
 */
#ifndef JPORTAL_ASGCT_HPP
#define JPORTAL_ASGCT_HPP

#include <dlfcn.h>
#include <jvmti.h>

namespace asgct {

struct CallFrame {
  jint lineno;
  jmethodID method_id;
};
struct CallTrace {
  JNIEnv *env_id;
  jint num_frames;
  CallFrame *frames;
};
using AsyncGetCallTrace = void (*)(CallTrace *, jint depth, void *ucontext);

/* Null: this VM has none. */
inline AsyncGetCallTrace find() {
  void *libjvm = dlopen("libjvm.so", RTLD_LAZY | RTLD_NOLOAD);
  return reinterpret_cast<AsyncGetCallTrace>(libjvm ? dlsym(libjvm, "AsyncGetCallTrace") : nullptr);
}

/* AsyncGetCallTrace finds only methods that have an id already. */
inline void prime(jvmtiEnv *jvmti, jclass type) {
  jint count = 0;
  jmethodID *ids = nullptr;
  if (jvmti->GetClassMethods(type, &count, &ids) == JVMTI_ERROR_NONE) {
    jvmti->Deallocate(reinterpret_cast<unsigned char *>(ids));
  }
}

/* The same for all classes that are loaded. */
inline jvmtiError prime_all(jvmtiEnv *jvmti, JNIEnv *env) {
  jint count = 0;
  jclass *types = nullptr;
  const jvmtiError error = jvmti->GetLoadedClasses(&count, &types);
  if (error == JVMTI_ERROR_NONE) {
    for (jint i = 0; i < count; i++) {
      prime(jvmti, types[i]);
      env->DeleteLocalRef(types[i]);
    }
    jvmti->Deallocate(reinterpret_cast<unsigned char *>(types));
  }
  return error;
}

/* For the event ClassPrepare. */
inline void JNICALL on_class_prepare(jvmtiEnv *jvmti, JNIEnv *, jthread, jclass type) { prime(jvmti, type); }

/* AsyncGetCallTrace refuses to work unless somebody takes the event ClassLoad (forte.cpp). */
inline void JNICALL on_class_load(jvmtiEnv *, JNIEnv *, jthread, jclass) {}

}  // namespace asgct

#endif  // JPORTAL_ASGCT_HPP
