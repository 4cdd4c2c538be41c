// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0
/*
 * The mode jvmti of the baselines: counts calls of native methods by JVMTI's events MethodEntry.
 * They are on from VMInit to VMDeath, in all threads. While they are on, the VM interprets.
 *
 * -agentpath:libjportal_natives.so=FILE
 *
 * FILE is a table: native method, method that called it, whether the caller is one of the
 * application (as jportal's reports define it), calls. The caller is the frame below, so a call by
 * the VM counts as one of the frame that stood there; without a frame below, the caller is empty.
 */
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <string>
#include <unordered_map>
#include <utility>

#include <jvmti.h>

namespace {

std::string file;
std::mutex lock;
/* Calls by native method and caller. */
std::map<std::pair<jmethodID, jmethodID>, uint64_t> calls;

void require(jvmtiError error, const char *what) {
  if (error != JVMTI_ERROR_NONE) {
    fprintf(stderr, "jportal-natives: %s fails with %d\n", what, static_cast<int>(error));
    abort();
  }
}

bool is_native(jvmtiEnv *jvmti, jmethodID method) {
  thread_local std::unordered_map<jmethodID, bool> known;
  auto found = known.find(method);
  if (found == known.end()) {
    jboolean native = JNI_FALSE;
    require(jvmti->IsMethodNative(method, &native), "IsMethodNative");
    found = known.emplace(method, native == JNI_TRUE).first;
  }
  return found->second;
}

void JNICALL method_entry(jvmtiEnv *jvmti, JNIEnv *, jthread thread, jmethodID method) {
  if (!is_native(jvmti, method)) {
    return;
  }
  jvmtiFrameInfo frames[2];
  jint count = 0;
  require(jvmti->GetStackTrace(thread, 0, 2, frames, &count), "GetStackTrace");
  std::lock_guard<std::mutex> held(lock);
  calls[{method, count > 1 ? frames[1].method : nullptr}]++;
}

/* Frees what JVMTI allocated. */
std::string taken(jvmtiEnv *jvmti, char *text) {
  std::string copy = text;
  jvmti->Deallocate(reinterpret_cast<unsigned char *>(text));
  return copy;
}

std::string class_name(jvmtiEnv *jvmti, jclass type) {
  char *signature = nullptr;
  require(jvmti->GetClassSignature(type, &signature, nullptr), "GetClassSignature");
  std::string name = taken(jvmti, signature);
  name = name.substr(1, name.size() - 2);
  for (char &c : name) {
    c = c == '/' ? '.' : c;
  }
  return name;
}

/* The method as jportal's reports write it. Sets whether its class is one of the application. */
std::string describe(jvmtiEnv *jvmti, JNIEnv *jni, jmethodID method, bool *application) {
  jclass type = nullptr;
  jobject loader = nullptr;
  char *name = nullptr, *descriptor = nullptr;
  require(jvmti->GetMethodDeclaringClass(method, &type), "GetMethodDeclaringClass");
  require(jvmti->GetMethodName(method, &name, &descriptor, nullptr), "GetMethodName");
  require(jvmti->GetClassLoader(type, &loader), "GetClassLoader");
  *application = false;
  if (loader != nullptr) {
    std::string of = class_name(jvmti, jni->GetObjectClass(loader));
    *application = of.find("PlatformClassLoader") == std::string::npos &&
                   of.find("reflect.DelegatingClassLoader") == std::string::npos;
  }
  return class_name(jvmti, type) + "." + taken(jvmti, name) + taken(jvmti, descriptor);
}

void JNICALL vm_init(jvmtiEnv *jvmti, JNIEnv *, jthread) {
  require(jvmti->SetEventNotificationMode(JVMTI_ENABLE, JVMTI_EVENT_METHOD_ENTRY, nullptr), "JVMTI_ENABLE");
}

void JNICALL vm_death(jvmtiEnv *jvmti, JNIEnv *jni) {
  require(jvmti->SetEventNotificationMode(JVMTI_DISABLE, JVMTI_EVENT_METHOD_ENTRY, nullptr), "JVMTI_DISABLE");
  std::lock_guard<std::mutex> held(lock);
  FILE *out = fopen(file.c_str(), "w");
  if (out == nullptr) {
    perror(file.c_str());
    abort();
  }
  fputs("native\tcaller\tapplication\tcalls\n", out);
  for (const auto &[pair, count] : calls) {
    if (jni->PushLocalFrame(16) != 0) {
      abort();
    }
    bool application = false;
    std::string native = describe(jvmti, jni, pair.first, &application);
    application = false;
    std::string caller = pair.second == nullptr ? "" : describe(jvmti, jni, pair.second, &application);
    fprintf(out, "%s\t%s\t%d\t%llu\n", native.c_str(), caller.c_str(), application ? 1 : 0,
            static_cast<unsigned long long>(count));
    jni->PopLocalFrame(nullptr);
  }
  if (fclose(out) != 0) {
    perror(file.c_str());
    abort();
  }
}

}  // namespace

extern "C" JNIEXPORT jint JNICALL Agent_OnLoad(JavaVM *vm, char *options, void *) {
  if (options == nullptr || *options == 0) {
    fputs("jportal-natives: no file; write -agentpath:libjportal_natives.so=FILE\n", stderr);
    return JNI_ERR;
  }
  file = options;
  jvmtiEnv *jvmti = nullptr;
  if (vm->GetEnv(reinterpret_cast<void **>(&jvmti), JVMTI_VERSION_11) != JNI_OK) {
    return JNI_ERR;
  }
  jvmtiCapabilities wanted;
  memset(&wanted, 0, sizeof(wanted));
  wanted.can_generate_method_entry_events = 1;
  require(jvmti->AddCapabilities(&wanted), "AddCapabilities");
  jvmtiEventCallbacks callbacks;
  memset(&callbacks, 0, sizeof(callbacks));
  callbacks.VMInit = vm_init;
  callbacks.VMDeath = vm_death;
  callbacks.MethodEntry = method_entry;
  require(jvmti->SetEventCallbacks(&callbacks, sizeof(callbacks)), "SetEventCallbacks");
  require(jvmti->SetEventNotificationMode(JVMTI_ENABLE, JVMTI_EVENT_VM_INIT, nullptr), "VMInit");
  require(jvmti->SetEventNotificationMode(JVMTI_ENABLE, JVMTI_EVENT_VM_DEATH, nullptr), "VMDeath");
  return JNI_OK;
}
