// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0
/* A JVMTI agent that makes System.nanoTime() return a constant until the VM is initialised.
   java.util.ImmutableCollections computes its salt from nanoTime(). The salt decides the order of
   the elements of immutable sets and maps, and compilers fold it into code. So without this agent,
   two runs of the same program differ. */
#include <jvmti.h>
#include <stdatomic.h>
#include <string.h>

typedef jlong (JNICALL *nano_time)(JNIEnv *, jclass);

static _Atomic(nano_time) original_;
static atomic_int initialized_;

static jlong JNICALL steady(JNIEnv *env, jclass type) {
  nano_time original = atomic_load(&original_);
  return atomic_load(&initialized_) && original != NULL ? original(env, type) : 20261120;
}

static void JNICALL on_bind(jvmtiEnv *jvmti, JNIEnv *env, jthread thread, jmethodID method, void *address, void **place) {
  (void)env;
  (void)thread;
  char *name = NULL;
  if ((*jvmti)->GetMethodName(jvmti, method, &name, NULL, NULL) != JVMTI_ERROR_NONE) return;
  if (strcmp(name, "nanoTime") == 0) {
    atomic_store(&original_, (nano_time)address);
    *place = (void *)steady;
  }
  (*jvmti)->Deallocate(jvmti, (unsigned char *)name);
}

static void JNICALL on_init(jvmtiEnv *jvmti, JNIEnv *env, jthread thread) {
  (void)jvmti;
  (void)env;
  (void)thread;
  atomic_store(&initialized_, 1);
}

JNIEXPORT jint JNICALL Agent_OnLoad(JavaVM *vm, char *options, void *reserved) {
  (void)options;
  (void)reserved;
  jvmtiEnv *jvmti;
  if ((*vm)->GetEnv(vm, (void **)&jvmti, JVMTI_VERSION_11) != JNI_OK) return JNI_ERR;
  jvmtiCapabilities wanted = {0};
  wanted.can_generate_native_method_bind_events = 1;
  wanted.can_generate_early_vmstart = 1;
  jvmtiEventCallbacks callbacks = {0};
  callbacks.NativeMethodBind = on_bind;
  callbacks.VMInit = on_init;
  if ((*jvmti)->AddCapabilities(jvmti, &wanted) != JVMTI_ERROR_NONE ||
      (*jvmti)->SetEventCallbacks(jvmti, &callbacks, sizeof(callbacks)) != JVMTI_ERROR_NONE ||
      (*jvmti)->SetEventNotificationMode(jvmti, JVMTI_ENABLE, JVMTI_EVENT_NATIVE_METHOD_BIND, NULL) != JVMTI_ERROR_NONE ||
      (*jvmti)->SetEventNotificationMode(jvmti, JVMTI_ENABLE, JVMTI_EVENT_VM_INIT, NULL) != JVMTI_ERROR_NONE) {
    return JNI_ERR;
  }
  return JNI_OK;
}
