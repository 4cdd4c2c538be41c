// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0
/*
 * Profilers as the papers compare with: two samplers, and one that hears every call.
 *
 * -agentpath:libjportal_samplers.so=mode=MODE,out=FILE[,period=MS]
 *
 * asgct  SIGPROF each 10 ms of processor time; the thread that gets it takes its own stack by
 *        AsyncGetCallTrace. Stands for profilers of today.
 * gst    a thread takes the stacks of all threads that can run, by JVMTI's GetAllStackTraces, each
 *        10 ms. Threads are stopped at safepoints for that. Stands for HotSpot's -Xprof.
 * times  JVMTI's events MethodEntry and MethodExit, with a whole stack for each. While they are on,
 *        the VM interprets. Stands for hprof's cpu=times.
 *
 * FILE is collapsed stacks: frames from the outermost one, separated by semicolons, and a weight.
 * That is the number of samples, or nanoseconds that the innermost method took itself (times: of
 * the last four frames, as hprof has it).
 */
#include <signal.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include <jvmti.h>

#include "asgct.hpp"

namespace {

using asgct::CallFrame;
using asgct::CallTrace;

constexpr jint DEPTH = 1024;
/* Frames of a stack in mode times. */
constexpr size_t CONTEXT = 4;
/* Words of the pool of samples. The memory is touched as it is used. */
constexpr size_t POOL = size_t{1} << 26;

enum class Mode { asgct, gst, times };

Mode mode;
std::string file;
long period_ms = 10;
jvmtiEnv *jvmti;
asgct::AsyncGetCallTrace async_get_call_trace;

using Stack = std::vector<jmethodID>;
std::mutex lock;
/* Weights by stack, innermost frame first. */
std::map<Stack, uint64_t> weights;

/* Samples: the number of frames, then the frames. */
uintptr_t *pool;
std::atomic<size_t> pool_used{0};
std::atomic<uint64_t> without_java{0}, dropped{0};
std::atomic<bool> stopping{false};

__attribute__((tls_model("initial-exec"))) thread_local JNIEnv *own_env = nullptr;
__attribute__((tls_model("initial-exec"))) thread_local CallFrame *own_frames = nullptr;

void require(jvmtiError error, const char *what) {
  if (error != JVMTI_ERROR_NONE) {
    fprintf(stderr, "jportal-samplers: %s fails with %d\n", what, static_cast<int>(error));
    abort();
  }
}

// --- asgct

void on_signal(int, siginfo_t *, void *context) {
  if (own_env == nullptr || own_frames == nullptr || stopping.load(std::memory_order_relaxed)) {
    without_java++;
    return;
  }
  CallTrace trace = {own_env, 0, own_frames};
  async_get_call_trace(&trace, DEPTH, context);
  if (trace.num_frames <= 0) {
    without_java++;
    return;
  }
  const size_t count = static_cast<size_t>(trace.num_frames);
  const size_t at = pool_used.fetch_add(count + 1);
  if (at + count + 1 > POOL) {
    dropped++;
    return;
  }
  for (size_t i = 0; i < count; i++) pool[at + 1 + i] = reinterpret_cast<uintptr_t>(own_frames[i].method_id);
  pool[at] = count;
}

void JNICALL on_thread_start(jvmtiEnv *, JNIEnv *env, jthread) {
  if (own_frames == nullptr) own_frames = static_cast<CallFrame *>(calloc(DEPTH, sizeof(CallFrame)));
  own_env = env;
}

void JNICALL on_thread_end(jvmtiEnv *, JNIEnv *, jthread) {
  own_env = nullptr;
  CallFrame *frames = own_frames;
  own_frames = nullptr;
  free(frames);
}

bool start_timer() {
  struct sigaction action;
  memset(&action, 0, sizeof(action));
  action.sa_sigaction = on_signal;
  action.sa_flags = SA_SIGINFO | SA_RESTART;
  struct itimerval timer = {{period_ms / 1000, period_ms % 1000 * 1000}, {period_ms / 1000, period_ms % 1000 * 1000}};
  return sigaction(SIGPROF, &action, nullptr) == 0 && setitimer(ITIMER_PROF, &timer, nullptr) == 0;
}

void stop_timer() {
  struct itimerval off;
  memset(&off, 0, sizeof(off));
  setitimer(ITIMER_PROF, &off, nullptr);
  stopping = true;
}

void add_up_pool() {
  const size_t end = std::min(pool_used.load(), POOL);
  for (size_t at = 0; at < end && pool[at] != 0; at += pool[at] + 1) {
    Stack stack;
    for (size_t i = 0; i < pool[at]; i++) stack.push_back(reinterpret_cast<jmethodID>(pool[at + 1 + i]));
    weights[stack]++;
  }
}

// --- gst

void JNICALL sample(jvmtiEnv *, JNIEnv *env, void *) {
  while (!stopping) {
    struct timespec wait = {period_ms / 1000, period_ms % 1000 * 1000000};
    nanosleep(&wait, nullptr);
    jvmtiStackInfo *all = nullptr;
    jint count = 0;
    if (stopping || jvmti->GetAllStackTraces(DEPTH, &all, &count) != JVMTI_ERROR_NONE) continue;
    std::lock_guard<std::mutex> held(lock);
    for (jint i = 0; i < count; i++) {
      const jvmtiStackInfo &of = all[i];
      if ((of.state & JVMTI_THREAD_STATE_RUNNABLE) != 0 && of.frame_count > 0) {
        Stack stack;
        for (jint f = 0; f < of.frame_count; f++) stack.push_back(of.frame_buffer[f].method);
        weights[stack]++;
      }
      env->DeleteLocalRef(of.thread);
    }
    jvmti->Deallocate(reinterpret_cast<unsigned char *>(all));
  }
}

void start_sampler(JNIEnv *env) {
  jclass type = env->FindClass("java/lang/Thread");
  jmethodID init = type == nullptr ? nullptr : env->GetMethodID(type, "<init>", "(Ljava/lang/String;)V");
  jstring name = env->NewStringUTF("sampler");
  jobject thread = init == nullptr || name == nullptr ? nullptr : env->NewObject(type, init, name);
  if (thread == nullptr) abort();
  require(jvmti->RunAgentThread(static_cast<jthread>(thread), sample, nullptr, JVMTI_THREAD_MAX_PRIORITY),
          "RunAgentThread");
}

// --- times

struct TimedFrame {
  Stack context;
  uint64_t began;
  uint64_t in_callees;
};
thread_local std::vector<TimedFrame> timed;

uint64_t now() {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return static_cast<uint64_t>(time.tv_sec) * 1000000000 + static_cast<uint64_t>(time.tv_nsec);
}

const jvmtiFrameInfo *whole_stack(jthread thread, jint *count) {
  thread_local std::vector<jvmtiFrameInfo> frames(DEPTH);
  require(jvmti->GetStackTrace(thread, 0, DEPTH, frames.data(), count), "GetStackTrace");
  return frames.data();
}

void JNICALL on_entry(jvmtiEnv *, JNIEnv *, jthread thread, jmethodID) {
  jint count = 0;
  const jvmtiFrameInfo *frames = whole_stack(thread, &count);
  TimedFrame frame = {{}, 0, 0};
  for (size_t i = 0; i < static_cast<size_t>(count) && i < CONTEXT; i++) frame.context.push_back(frames[i].method);
  frame.began = now();
  timed.push_back(std::move(frame));
}

void JNICALL on_exit(jvmtiEnv *, JNIEnv *, jthread thread, jmethodID, jboolean, jvalue) {
  jint count = 0;
  whole_stack(thread, &count);
  if (timed.empty()) return; /* It began before the events. */
  TimedFrame frame = std::move(timed.back());
  timed.pop_back();
  const uint64_t took = now() - frame.began;
  if (!timed.empty()) timed.back().in_callees += took;
  std::lock_guard<std::mutex> held(lock);
  weights[frame.context] += took > frame.in_callees ? took - frame.in_callees : 0;
}

// --- All

/* Frees what JVMTI allocated. */
std::string taken(char *text) {
  std::string copy = text;
  jvmti->Deallocate(reinterpret_cast<unsigned char *>(text));
  return copy;
}

/* package.Class.method */
std::string describe(JNIEnv *env, jmethodID method) {
  jclass type = nullptr;
  char *signature = nullptr, *name = nullptr;
  if (jvmti->GetMethodDeclaringClass(method, &type) != JVMTI_ERROR_NONE ||
      jvmti->GetClassSignature(type, &signature, nullptr) != JVMTI_ERROR_NONE ||
      jvmti->GetMethodName(method, &name, nullptr, nullptr) != JVMTI_ERROR_NONE) {
    return "[unloaded]";
  }
  env->DeleteLocalRef(type);
  std::string of = taken(signature);
  of = of.substr(1, of.size() - 2);
  for (char &c : of) c = c == '/' ? '.' : c == ';' ? ':' : c;
  return of + "." + taken(name);
}

void JNICALL on_vm_init(jvmtiEnv *, JNIEnv *env, jthread) {
  if (mode == Mode::asgct) {
    on_thread_start(jvmti, env, nullptr);
    require(asgct::prime_all(jvmti, env), "GetLoadedClasses");
    if (!start_timer()) {
      perror("jportal-samplers: the timer");
      abort();
    }
  } else if (mode == Mode::gst) {
    start_sampler(env);
  } else {
    require(jvmti->SetEventNotificationMode(JVMTI_ENABLE, JVMTI_EVENT_METHOD_ENTRY, nullptr), "MethodEntry");
    require(jvmti->SetEventNotificationMode(JVMTI_ENABLE, JVMTI_EVENT_METHOD_EXIT, nullptr), "MethodExit");
  }
}

void JNICALL on_vm_death(jvmtiEnv *, JNIEnv *env) {
  if (mode == Mode::asgct) {
    stop_timer();
    add_up_pool();
  }
  stopping = true;
  if (mode == Mode::times) {
    jvmti->SetEventNotificationMode(JVMTI_DISABLE, JVMTI_EVENT_METHOD_ENTRY, nullptr);
    jvmti->SetEventNotificationMode(JVMTI_DISABLE, JVMTI_EVENT_METHOD_EXIT, nullptr);
  }
  std::lock_guard<std::mutex> held(lock);
  FILE *out = fopen(file.c_str(), "w");
  if (out == nullptr) {
    perror(file.c_str());
    abort();
  }
  std::unordered_map<jmethodID, std::string> names;
  for (const auto &[stack, weight] : weights) {
    std::string line;
    for (size_t i = stack.size(); i-- > 0;) {
      auto found = names.find(stack[i]);
      if (found == names.end()) found = names.emplace(stack[i], describe(env, stack[i])).first;
      line += (line.empty() ? "" : ";") + found->second;
    }
    if (weight > 0) fprintf(out, "%s %llu\n", line.c_str(), static_cast<unsigned long long>(weight));
  }
  if (fclose(out) != 0) {
    perror(file.c_str());
    abort();
  }
  if (dropped > 0) {
    fprintf(stderr, "jportal-samplers: %llu samples were dropped\n", static_cast<unsigned long long>(dropped.load()));
  }
}

bool parse(char *options) {
  bool has_mode = false;
  for (char *option = strtok(options, ","); option != nullptr; option = strtok(nullptr, ",")) {
    char *value = strchr(option, '=');
    if (value == nullptr) return false;
    *value++ = 0;
    if (strcmp(option, "out") == 0) {
      file = value;
    } else if (strcmp(option, "period") == 0) {
      period_ms = strtol(value, nullptr, 10);
    } else if (strcmp(option, "mode") == 0) {
      has_mode = true;
      if (strcmp(value, "asgct") == 0) {
        mode = Mode::asgct;
      } else if (strcmp(value, "gst") == 0) {
        mode = Mode::gst;
      } else if (strcmp(value, "times") == 0) {
        mode = Mode::times;
      } else {
        return false;
      }
    } else {
      return false;
    }
  }
  return has_mode && !file.empty() && period_ms > 0;
}

}  // namespace

extern "C" JNIEXPORT jint JNICALL Agent_OnLoad(JavaVM *vm, char *options, void *) {
  std::string copy = options == nullptr ? "" : options;
  if (!parse(copy.data())) {
    fputs("jportal-samplers: write -agentpath:libjportal_samplers.so=mode=asgct|gst|times,out=FILE[,period=MS]\n", stderr);
    return JNI_ERR;
  }
  if (vm->GetEnv(reinterpret_cast<void **>(&jvmti), JVMTI_VERSION_11) != JNI_OK) return JNI_ERR;
  jvmtiCapabilities wanted;
  memset(&wanted, 0, sizeof(wanted));
  jvmtiEventCallbacks callbacks;
  memset(&callbacks, 0, sizeof(callbacks));
  callbacks.VMInit = on_vm_init;
  callbacks.VMDeath = on_vm_death;
  std::vector<jvmtiEvent> events = {JVMTI_EVENT_VM_INIT, JVMTI_EVENT_VM_DEATH};
  if (mode == Mode::asgct) {
    async_get_call_trace = asgct::find();
    void *memory = mmap(nullptr, POOL * sizeof(*pool), PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (async_get_call_trace == nullptr || memory == MAP_FAILED) {
      fputs("jportal-samplers: no AsyncGetCallTrace in this VM, or no memory\n", stderr);
      return JNI_ERR;
    }
    pool = static_cast<uintptr_t *>(memory);
    callbacks.ClassPrepare = asgct::on_class_prepare;
    callbacks.ClassLoad = asgct::on_class_load;
    callbacks.ThreadStart = on_thread_start;
    callbacks.ThreadEnd = on_thread_end;
    events.insert(events.end(), {JVMTI_EVENT_CLASS_PREPARE, JVMTI_EVENT_CLASS_LOAD, JVMTI_EVENT_THREAD_START,
                                 JVMTI_EVENT_THREAD_END});
  } else if (mode == Mode::times) {
    wanted.can_generate_method_entry_events = 1;
    wanted.can_generate_method_exit_events = 1;
    callbacks.MethodEntry = on_entry;
    callbacks.MethodExit = on_exit;
  }
  require(jvmti->AddCapabilities(&wanted), "AddCapabilities");
  require(jvmti->SetEventCallbacks(&callbacks, sizeof(callbacks)), "SetEventCallbacks");
  for (jvmtiEvent event : events) {
    require(jvmti->SetEventNotificationMode(JVMTI_ENABLE, event, nullptr), "SetEventNotificationMode");
  }
  return JNI_OK;
}
