// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0
/*
 * The stacks agent: takes the stack of a thread with the JVM's own interfaces, and logs it.
 *
 * The oracle agent puts calls of the native method Probe.hit into a program. This library takes
 * the place of the oracle's own one. In a share of the calls it takes the stack in place. The n-th
 * call of Probe.hit in a thread is the n-th entry of that method in the thread's flow, so no clock
 * is needed to find the moment. FORMAT.md describes the log.
 *
 * It also takes stacks at any moment, from a signal handler and from another thread. Those need no
 * probes. Their moment is found by time, and by the address at which the signal stopped the thread.
 */
#include <algorithm>
#include <atomic>
#include <cerrno>
#include <climits>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include <fcntl.h>
#include <jvmti.h>
#include <pthread.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>
#include <x86intrin.h>

#include "asgct.hpp"

namespace {

constexpr uint32_t FORMAT_VERSION = 1;

/* How a stack was taken. FORMAT.md has the numbers. */
enum Api : uint8_t { GST = 1, ASGCT = 2, WALKER = 3, THROWABLE = 4, ASGCT_ASYNC = 5, GST_OTHER = 6 };

using asgct::CallFrame;
using asgct::CallTrace;

struct LogHeader {
  char magic[8];
  uint32_t version;
  uint32_t tid;
  uint64_t start_ns;
  uint64_t start_tsc;
};
static_assert(sizeof(LogHeader) == 32, "FORMAT.md: the header has 32 bytes");

struct LoggedFrame {
  uint64_t method;
  int32_t location;
  uint32_t zero;
};
static_assert(sizeof(LoggedFrame) == 16, "FORMAT.md: a frame has 16 bytes");

struct SampleHeader {
  uint32_t size; /* in bytes, with the frames */
  uint8_t api;
  uint8_t truncated;
  uint16_t zero;
  uint64_t hit;
  uint64_t tsc;
  uint64_t pc;
  int32_t result; /* number of frames, or an error code that is not positive */
  uint32_t probe;
};
static_assert(sizeof(SampleHeader) == 40, "FORMAT.md: a sample begins with 40 bytes");

/* What the agent does wrong on purpose, so that a test can see it found. */
enum class Planted { None, Drop, Swap, Shift, Stale, Native, Null, Error };

struct Options {
  bool gst = false;
  bool asgct = false;
  bool walker = false;
  bool throwable = false;
  bool asgct_async = false;
  bool gst_other = false;
  /* Between two asynchronous stacks, in microseconds. */
  int interval = 10000;
  /* Also of threads that have not run since their last stack was taken. */
  bool idle = false;
  double check = 1.0;
  int max_depth = 1024;
  uint64_t seed = 1;
  Planted fault = Planted::None;
  uint64_t fault_every = 10;
};

Options options;
jvmtiEnv *jvmti;
asgct::AsyncGetCallTrace async_get_call_trace;
char directory[PATH_MAX];
pthread_key_t exit_key;
std::atomic<bool> failed{false};
std::atomic<uint64_t> samples{0}, planted{0}, sent{0};
/* `directory` is set. */
std::atomic<bool> is_open{false};

/* The methods that methods.tsv describes, and the file. */
std::mutex methods_lock;
std::unordered_set<uint64_t> described;
FILE *methods_file;
/* Java's interfaces give names. Such a method has a number of ours, with this bit. */
constexpr uint64_t NAMED = 1ull << 63;
std::unordered_map<std::string, uint64_t> named;

/* The VM stores the elements of a backtrace in arrays of this length (javaClasses.cpp,
   trace_chunk_size), and those of the bcis second in a chunk. The next chunk is the fifth. */
constexpr jint CHUNK = 32;
constexpr jsize CHUNK_BCIS = 1, CHUNK_NEXT = 4;
/* Java's elements end there (-XX:MaxJavaStackTraceDepth). */
constexpr size_t MAX_TRACE = 1024;
/* The code of a sample whose Java code threw an exception. */
constexpr int32_t THREW = -1;
jclass stacks_class;
jmethodID walk_method, thrown_method;
jfieldID backtrace_field;

/* The frames of the sample before, of any thread, for Planted::Stale. */
std::mutex stale_lock;
std::vector<LoggedFrame> stale;

/* The log of one thread. */
struct ThreadLog {
  int fd = -1;
  bool dead = false;
  uint64_t hits = 0;
  uint64_t random = 0;
  std::vector<jvmtiFrameInfo> infos;
  std::vector<CallFrame> call_frames;
  std::vector<char> record;
  /* What Java code gives: all frames, and whether Probe.hit was among them. */
  std::vector<LoggedFrame> java_frames;
  size_t java_count = 0;
  bool seen_hit = false;
};
__thread ThreadLog *log_ __attribute__((tls_model("initial-exec"))) = nullptr;
/* The thread is in the agent: what runs there is not sampled. */
__thread bool inside __attribute__((tls_model("initial-exec"))) = false;

/* A thread of which stacks are taken at any moment. Its signal handler takes them, or the sampler
   does. */
struct SampledThread {
  JNIEnv *env = nullptr;
  jobject thread = nullptr; /* a global reference */
  pid_t tid = 0;
  uint64_t used = 0; /* CPU time when its last stack was taken, in ns */
  std::atomic<int> fd{-1};
  std::atomic<bool> dead{false};
  std::atomic<uint64_t> number{0};
  std::vector<CallFrame> frames;
  /* The whole record, so that the handler writes it with one call. */
  std::vector<char> record;
};
__thread SampledThread *sampled_ __attribute__((tls_model("initial-exec"))) = nullptr;
std::mutex threads_lock;
std::vector<SampledThread *> threads;
std::atomic<bool> stopping{false};

/* The method ids that handlers have seen: a handler cannot ask for names. Entries are never
   removed. */
constexpr size_t SEEN = 1 << 17;
std::atomic<uint64_t> seen_table[SEEN];
std::atomic<uint64_t> seen_order[SEEN];
std::atomic<uint32_t> seen_count{0};
size_t seen_described = 0;

void see(uint64_t id) {
  if (id == 0) return;
  size_t at = (id * 0x9e3779b97f4a7c15u) >> 47;
  for (size_t tries = 0; tries < SEEN; tries++, at = (at + 1) % SEEN) {
    uint64_t known = seen_table[at].load(std::memory_order_relaxed);
    if (known == id) return;
    if (known != 0) continue;
    if (seen_table[at].compare_exchange_strong(known, id)) {
      uint32_t n = seen_count.fetch_add(1);
      if (n < SEEN) seen_order[n].store(id, std::memory_order_release);
      return;
    }
    if (known == id) return;
  }
}

void fail(const char *what, const char *why) {
  if (failed.exchange(true)) return;
  fprintf(stderr, "jportal stacks: %s: %s; the log is incomplete\n", what, why);
  std::string path = std::string(directory) + "/error.txt";
  if (FILE *f = fopen(path.c_str(), "w")) {
    fprintf(f, "%s: %s\n", what, why);
    fclose(f);
  }
}

/* Opens the next free log of a thread, and writes its header. Returns -1 if that fails. */
int create_log(uint32_t tid, const char *ending) {
  int fd = -1;
  for (int n = 0; fd < 0; n++) {
    std::string name = std::string(directory) + "/t" + std::to_string(tid);
    if (n > 0) name += "." + std::to_string(n);
    name += ending;
    fd = open(name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC, 0644);
    if (fd < 0 && errno != EEXIST) {
      fail(name.c_str(), strerror(errno));
      return -1;
    }
  }
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  LogHeader header = {"JPSTACK", FORMAT_VERSION, tid,
                      static_cast<uint64_t>(now.tv_sec) * 1000000000u + static_cast<uint64_t>(now.tv_nsec), __rdtsc()};
  if (write(fd, &header, sizeof header) != sizeof header) {
    fail("cannot write a log", strerror(errno));
    close(fd);
    return -1;
  }
  return fd;
}

ThreadLog *open_log() {
  auto *log = new ThreadLog;
  auto tid = static_cast<uint32_t>(syscall(SYS_gettid));
  log->fd = create_log(tid, ".stacks");
  log->dead = log->fd < 0;
  /* Threads start in no fixed order, so the seed of each is its own. */
  log->random = options.seed * 0x9e3779b97f4a7c15u + tid;
  log->infos.resize(static_cast<size_t>(options.max_depth) + 1);
  log->call_frames.resize(static_cast<size_t>(options.max_depth) + 1);
  pthread_setspecific(exit_key, log);
  return log_ = log;
}

void close_log(void *value) {
  auto *log = static_cast<ThreadLog *>(value);
  log_ = nullptr;
  if (log->fd >= 0) close(log->fd);
  delete log;
}

/* SplitMix64. */
uint64_t next_random(ThreadLog *log) {
  uint64_t x = log->random += 0x9e3779b97f4a7c15u;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

bool is_chosen(ThreadLog *log) {
  return options.check >= 1.0 || static_cast<double>(next_random(log) >> 11) * 0x1p-53 < options.check;
}

/* `Lfoo/Bar;` as `foo/Bar`. In a signature, `.` stands before the suffix of a hidden class; in
   HotSpot's own name, `+` does (InstanceKlass::signature_name). */
std::string internal_name(const char *signature) {
  std::string name = signature;
  if (name.size() > 2 && name[0] == 'L') name = name.substr(1, name.size() - 2);
  size_t dot = name.rfind('.');
  if (dot != std::string::npos) name[dot] = '+';
  return name;
}

/* Writes the line of a method, once. */
void describe(JNIEnv *env, jmethodID method) {
  auto id = reinterpret_cast<uint64_t>(method);
  if (id == 0) return;
  std::lock_guard<std::mutex> guard(methods_lock);
  if (methods_file == nullptr || !described.insert(id).second) return;
  char *name = nullptr, *signature = nullptr, *holder_name = nullptr;
  jclass holder = nullptr;
  jobject loader = nullptr;
  jint loader_hash = 0;
  if (jvmti->GetMethodName(method, &name, &signature, nullptr) == JVMTI_ERROR_NONE &&
      jvmti->GetMethodDeclaringClass(method, &holder) == JVMTI_ERROR_NONE &&
      jvmti->GetClassSignature(holder, &holder_name, nullptr) == JVMTI_ERROR_NONE) {
    if (jvmti->GetClassLoader(holder, &loader) == JVMTI_ERROR_NONE && loader != nullptr) {
      jvmti->GetObjectHashCode(loader, &loader_hash);
    }
    fprintf(methods_file, "%llx\t%s\t%x\t%s\t%s\n", static_cast<unsigned long long>(id),
            internal_name(holder_name).c_str(), static_cast<unsigned>(loader_hash), name, signature);
  }
  for (char *text : {name, signature, holder_name}) {
    if (text != nullptr) jvmti->Deallocate(reinterpret_cast<unsigned char *>(text));
  }
  if (holder != nullptr) env->DeleteLocalRef(holder);
  if (loader != nullptr) env->DeleteLocalRef(loader);
}

bool same(const LoggedFrame &a, const LoggedFrame &b) { return a.method == b.method && a.location == b.location; }

/* Makes the sample wrong. Returns whether it differs now. */
bool plant(ThreadLog *log, std::vector<LoggedFrame> &frames, int32_t &result) {
  auto any = [&](size_t from) { return from + next_random(log) % (frames.size() - from); };
  if (frames.size() < 3) return false;
  switch (options.fault) {
    case Planted::None:
      return false;
    case Planted::Drop:
      frames.erase(frames.begin() + static_cast<long>(any(0)));
      return true;
    case Planted::Swap: {
      size_t at = any(1);
      for (size_t i = 1; i < frames.size(); i++, at = at + 1 < frames.size() ? at + 1 : 1) {
        if (frames[at].method != frames[at - 1].method) {
          std::swap(frames[at], frames[at - 1]);
          return true;
        }
      }
      return false;
    }
    case Planted::Shift:
    case Planted::Native: {
      size_t at = any(1);
      for (size_t i = 1; i < frames.size(); i++, at = at + 1 < frames.size() ? at + 1 : 1) {
        if (frames[at].location >= 0) {
          frames[at].location = options.fault == Planted::Shift ? frames[at].location + 1 : -1;
          return true;
        }
      }
      return false;
    }
    case Planted::Null:
      frames[any(0)].method = 0;
      return true;
    case Planted::Error:
      frames.clear();
      result = -5;
      return true;
    case Planted::Stale: {
      std::lock_guard<std::mutex> guard(stale_lock);
      if (stale.size() == frames.size() && std::equal(frames.begin(), frames.end(), stale.begin(), same)) return false;
      if (stale.empty()) return false;
      frames = stale;
      return true;
    }
  }
  return false;
}

/* Appends a sample to the log of the thread. `result` is the number of frames or an error. */
void put(ThreadLog *log, Api api, uint32_t probe, int32_t result, bool truncated, std::vector<LoggedFrame> &frames) {
  uint64_t number = samples++;
  if (options.fault != Planted::None) {
    std::vector<LoggedFrame> right = frames;
    /* Where a stack is cut off, a fault need not show: a recursion may be deeper than the cut. */
    bool due = result > 0 && !truncated && number % options.fault_every == 0;
    if (due && plant(log, frames, result)) planted++;
    std::lock_guard<std::mutex> guard(stale_lock);
    stale = right;
  }
  if (result > 0) result = static_cast<int32_t>(frames.size());
  SampleHeader header = {};
  header.size = static_cast<uint32_t>(sizeof header + frames.size() * sizeof(LoggedFrame));
  header.api = api;
  header.truncated = truncated;
  header.hit = log->hits;
  header.tsc = __rdtsc();
  header.result = result;
  header.probe = probe;
  log->record.resize(header.size);
  memcpy(log->record.data(), &header, sizeof header);
  if (!frames.empty()) {
    memcpy(log->record.data() + sizeof header, frames.data(), frames.size() * sizeof(LoggedFrame));
  }
  if (write(log->fd, log->record.data(), header.size) != static_cast<ssize_t>(header.size)) {
    fail("cannot write a sample", strerror(errno));
    log->dead = true;
  }
}

void take_gst(JNIEnv *env, ThreadLog *log, uint32_t probe) {
  jint count = 0;
  jvmtiError error = jvmti->GetStackTrace(nullptr, 0, options.max_depth, log->infos.data(), &count);
  std::vector<LoggedFrame> frames;
  for (jint i = 0; error == JVMTI_ERROR_NONE && i < count; i++) {
    const jvmtiFrameInfo &f = log->infos[static_cast<size_t>(i)];
    describe(env, f.method);
    frames.push_back({reinterpret_cast<uint64_t>(f.method), static_cast<int32_t>(f.location), 0});
  }
  put(log, GST, probe, error == JVMTI_ERROR_NONE ? count : -static_cast<int32_t>(error), count == options.max_depth, frames);
}

void take_asgct(JNIEnv *env, ThreadLog *log, uint32_t probe) {
  ucontext_t context;
  getcontext(&context);
  CallTrace trace = {env, 0, log->call_frames.data()};
  async_get_call_trace(&trace, options.max_depth, &context);
  std::vector<LoggedFrame> frames;
  for (jint i = 0; i < trace.num_frames; i++) {
    const CallFrame &f = log->call_frames[static_cast<size_t>(i)];
    describe(env, f.method_id);
    frames.push_back({reinterpret_cast<uint64_t>(f.method_id), f.lineno, 0});
  }
  put(log, ASGCT, probe, trace.num_frames, trace.num_frames == options.max_depth, frames);
}

/* The number of a method that is known by names. */
uint64_t number_of(const std::string &names) {
  std::lock_guard<std::mutex> guard(methods_lock);
  auto [at, fresh] = named.try_emplace(names, NAMED | named.size());
  if (fresh && methods_file != nullptr) {
    fprintf(methods_file, "%llx\t%s\n", static_cast<unsigned long long>(at->second), names.c_str());
  }
  return at->second;
}

std::string text_of(JNIEnv *env, jstring text) {
  const char *chars = env->GetStringUTFChars(text, nullptr);
  if (chars == nullptr) return "";
  std::string copy = chars;
  env->ReleaseStringUTFChars(text, chars);
  return copy;
}

/* Stacks.frame(String, String, String, int) */
jboolean JNICALL java_frame(JNIEnv *env, jclass, jstring type, jstring method, jstring descriptor, jint bci) {
  ThreadLog *log = log_;
  if (log == nullptr || !inside) return JNI_FALSE;
  log->java_count++;
  /* Class.getName has dots, and a slash before the suffix of a hidden class. */
  std::string class_name = text_of(env, type);
  std::replace(class_name.begin(), class_name.end(), '/', '+');
  std::replace(class_name.begin(), class_name.end(), '.', '/');
  std::string name = text_of(env, method);
  if (class_name == "jportal/oracle/Probe" && name == "hit") log->seen_hit = true;
  if (!log->seen_hit) return JNI_TRUE; /* a frame of the agent */
  log->java_frames.push_back({number_of(class_name + "\t0\t" + name + "\t" + text_of(env, descriptor)), bci, 0});
  return log->java_frames.size() < static_cast<size_t>(options.max_depth);
}

/* Stacks.bci(Throwable, int) */
jint JNICALL java_bci(JNIEnv *env, jclass, jthrowable exception, jint index) {
  jobject chunk = env->GetObjectField(exception, backtrace_field);
  for (; chunk != nullptr && index >= CHUNK; index -= CHUNK) {
    jobject next = env->GetObjectArrayElement(static_cast<jobjectArray>(chunk), CHUNK_NEXT);
    env->DeleteLocalRef(chunk);
    chunk = next;
  }
  if (chunk == nullptr) return -2;
  auto bcis = static_cast<jintArray>(env->GetObjectArrayElement(static_cast<jobjectArray>(chunk), CHUNK_BCIS));
  jint one = 0;
  env->GetIntArrayRegion(bcis, index, 1, &one);
  env->DeleteLocalRef(bcis);
  env->DeleteLocalRef(chunk);
  /* The lower half is the version of the method (Backtrace::merge_bci_and_version). */
  return static_cast<jint>(static_cast<uint32_t>(one) >> 16);
}

void take_java(JNIEnv *env, ThreadLog *log, uint32_t probe, Api api, jmethodID method) {
  log->java_frames.clear();
  log->java_count = 0;
  log->seen_hit = false;
  env->CallStaticVoidMethod(stacks_class, method);
  bool threw = env->ExceptionCheck();
  if (threw) {
    env->ExceptionClear();
    log->java_frames.clear();
  }
  size_t depth = static_cast<size_t>(options.max_depth);
  if (log->java_frames.size() > depth) log->java_frames.resize(depth);
  bool truncated = log->java_frames.size() == depth || (api == THROWABLE && log->java_count >= MAX_TRACE);
  int32_t result = threw ? THREW : static_cast<int32_t>(log->java_frames.size());
  put(log, api, probe, result, truncated, log->java_frames);
}

/* Probe.hit(II)V */
void JNICALL hit(JNIEnv *env, jclass, jint hi, jint lo) {
  ThreadLog *log = log_;
  if (log == nullptr) log = open_log();
  if (!log->dead && !inside && is_chosen(log)) {
    inside = true;
    uint32_t probe = static_cast<uint32_t>(hi) << 16 | (static_cast<uint32_t>(lo) & 0xffffu);
    if (options.gst) take_gst(env, log, probe);
    if (options.asgct) take_asgct(env, log, probe);
    if (options.walker) take_java(env, log, probe, WALKER, walk_method);
    if (options.throwable) take_java(env, log, probe, THROWABLE, thrown_method);
    inside = false;
  }
  log->hits++;
}

/* Sets the directory of the logs. */
void use_directory(const char *path) {
  std::string name = std::string(path) + "/methods.tsv";
  std::lock_guard<std::mutex> guard(methods_lock);
  if (methods_file != nullptr) return;
  if (mkdir(path, 0755) != 0 && errno != EEXIST) return fail(path, strerror(errno));
  snprintf(directory, sizeof directory, "%s", path);
  methods_file = fopen(name.c_str(), "we");
  if (methods_file == nullptr) return fail(name.c_str(), strerror(errno));
  fprintf(methods_file, "id\tclass\tloader\tmethod\tdescriptor\n");
  is_open = true;
}

/* Probe.open(String) */
void JNICALL open_directory(JNIEnv *env, jclass, jstring path) {
  const char *text = env->GetStringUTFChars(path, nullptr);
  if (text == nullptr) return;
  use_directory(text);
  env->ReleaseStringUTFChars(path, text);
}

/* Appends a sample taken at any moment: one write, which may be in a signal handler. */
void put_async(SampledThread *t, std::vector<char> &record, Api api, uint64_t tsc, uint64_t pc, int32_t result, size_t count) {
  SampleHeader header = {};
  header.size = static_cast<uint32_t>(sizeof header + count * sizeof(LoggedFrame));
  header.api = api;
  header.truncated = count == static_cast<size_t>(options.max_depth);
  header.hit = t->number++;
  header.tsc = tsc;
  header.pc = pc;
  header.result = result;
  memcpy(record.data(), &header, sizeof header);
  samples++;
  if (write(t->fd, record.data(), header.size) != static_cast<ssize_t>(header.size)) t->dead = true;
}

void put_frame(std::vector<char> &record, size_t i, uint64_t method, int32_t location) {
  LoggedFrame frame = {method, location, 0};
  memcpy(record.data() + sizeof(SampleHeader) + i * sizeof frame, &frame, sizeof frame);
}

/* The thread that got the signal takes its own stack. */
extern "C" __attribute__((used, visibility("hidden"))) void jportal_stacks_take(int, siginfo_t *, void *context) {
  SampledThread *t = sampled_;
  if (t == nullptr || inside || t->fd < 0 || t->dead) return;
  int saved = errno;
  uint64_t tsc = __rdtsc();
  CallTrace trace = {t->env, 0, t->frames.data()};
  async_get_call_trace(&trace, options.max_depth, context);
  size_t count = trace.num_frames > 0 ? static_cast<size_t>(trace.num_frames) : 0;
  for (size_t i = 0; i < count; i++) {
    auto id = reinterpret_cast<uint64_t>(t->frames[i].method_id);
    see(id);
    put_frame(t->record, i, id, t->frames[i].lineno);
  }
  auto pc = static_cast<uint64_t>(static_cast<ucontext_t *>(context)->uc_mcontext.gregs[REG_RIP]);
  put_async(t, t->record, ASGCT_ASYNC, tsc, pc, trace.num_frames, count);
  errno = saved;
}

/* The signal handler. QEMU 7.2 calls handlers with a stack that is not aligned as the ABI says, and
   the VM's code relies on that. The `push` comes first: by it the emulated unit finds the signal's
   frame. */
__attribute__((naked)) void on_signal(int, siginfo_t *, void *) {
  asm("push %rbp\n\tmov %rsp, %rbp\n\tand $-16, %rsp\n\tcall jportal_stacks_take\n\tleave\n\tret");
}

/* Writes the lines of the methods that handlers have seen. */
void describe_seen(JNIEnv *env) {
  size_t count = std::min<size_t>(seen_count, SEEN);
  for (; seen_described < count; seen_described++) {
    uint64_t id = seen_order[seen_described].load(std::memory_order_acquire);
    if (id == 0) return; /* its handler is about to store it */
    describe(env, reinterpret_cast<jmethodID>(id));
  }
}

/* The CPU time of a thread in ns. */
uint64_t used_by(pid_t tid) {
  /* Linux: the clock of a thread (CPUCLOCK_SCHED, per thread). */
  auto clock = static_cast<clockid_t>((~static_cast<unsigned>(tid) << 3) | 6u);
  timespec time = {};
  if (clock_gettime(clock, &time) != 0) return 0;
  return static_cast<uint64_t>(time.tv_sec) * 1000000000u + static_cast<uint64_t>(time.tv_nsec);
}

/* The stack of a thread by GetStackTrace: the sampler asks for it. The target stops for it where
   it polls, or is outside of Java code. `pc` of the sample is the time afterwards. */
void take_gst_other(JNIEnv *env, SampledThread *t, std::vector<jvmtiFrameInfo> &infos, std::vector<char> &record) {
  jint count = 0;
  uint64_t before = __rdtsc();
  jvmtiError error = jvmti->GetStackTrace(static_cast<jthread>(t->thread), 0, options.max_depth, infos.data(), &count);
  uint64_t after = __rdtsc();
  if (error == JVMTI_ERROR_THREAD_NOT_ALIVE) return;
  size_t frames = error == JVMTI_ERROR_NONE ? static_cast<size_t>(count) : 0;
  for (size_t i = 0; i < frames; i++) {
    describe(env, infos[i].method);
    put_frame(record, i, reinterpret_cast<uint64_t>(infos[i].method), static_cast<int32_t>(infos[i].location));
  }
  put_async(t, record, GST_OTHER, before, after, error == JVMTI_ERROR_NONE ? count : -static_cast<int32_t>(error), frames);
}

/* The name of the sampler's thread. */
const char *const SAMPLER = "jportal-stacks";

/* The sampler: takes the stack of a thread at each interval. */
void JNICALL sample(jvmtiEnv *, JNIEnv *env, void *) {
  ThreadLog random;
  random.random = options.seed;
  std::vector<jvmtiFrameInfo> infos(static_cast<size_t>(options.max_depth) + 1);
  std::vector<char> record(sizeof(SampleHeader) + (static_cast<size_t>(options.max_depth) + 1) * sizeof(LoggedFrame));
  bool other = false;
  while (!stopping) {
    timespec pause = {options.interval / 1000000, options.interval % 1000000 * 1000};
    nanosleep(&pause, nullptr);
    if (!is_open) continue;
    std::lock_guard<std::mutex> guard(threads_lock);
    if (stopping) break;
    size_t from = threads.empty() ? 0 : next_random(&random) % threads.size();
    for (size_t i = 0; i < threads.size(); i++) {
      SampledThread *t = threads[(from + i) % threads.size()];
      uint64_t used = used_by(t->tid);
      if (t->dead || (used <= t->used && !options.idle)) continue;
      t->used = used;
      if (t->fd < 0) t->fd = create_log(static_cast<uint32_t>(t->tid), ".async");
      if (t->fd < 0) {
        t->dead = true;
        continue;
      }
      other = options.gst_other && (!options.asgct_async || !other);
      if (other) {
        take_gst_other(env, t, infos, record);
      } else if (syscall(SYS_tgkill, getpid(), t->tid, SIGPROF) == 0) {
        sent++;
      }
      break;
    }
    describe_seen(env);
  }
}

bool is_sampling() { return options.asgct_async || options.gst_other; }

/* Whether the thread runs no Java code of the program: the sampler's own, which has more CPU time
   than most and would take most of the signals, and those of compilers. */
bool is_left_out(JNIEnv *env, jthread thread) {
  jvmtiThreadInfo info = {};
  if (jvmti->GetThreadInfo(thread, &info) != JVMTI_ERROR_NONE) return false;
  bool found = info.name != nullptr && (strcmp(info.name, SAMPLER) == 0 || strstr(info.name, "CompilerThread") != nullptr);
  if (info.name != nullptr) jvmti->Deallocate(reinterpret_cast<unsigned char *>(info.name));
  if (info.thread_group != nullptr) env->DeleteLocalRef(info.thread_group);
  if (info.context_class_loader != nullptr) env->DeleteLocalRef(info.context_class_loader);
  return found;
}

void JNICALL on_thread_start(jvmtiEnv *, JNIEnv *env, jthread thread) {
  if (sampled_ != nullptr) return; /* the main thread */
  if (is_left_out(env, thread)) return;
  auto *t = new SampledThread;
  t->env = env;
  t->thread = env->NewGlobalRef(thread);
  t->tid = static_cast<pid_t>(syscall(SYS_gettid));
  t->frames.resize(static_cast<size_t>(options.max_depth) + 1);
  t->record.resize(sizeof(SampleHeader) + t->frames.size() * sizeof(LoggedFrame));
  sampled_ = t;
  std::lock_guard<std::mutex> guard(threads_lock);
  threads.push_back(t);
}

void JNICALL on_thread_end(jvmtiEnv *, JNIEnv *env, jthread) {
  SampledThread *t = sampled_;
  if (t == nullptr) return;
  {
    std::lock_guard<std::mutex> guard(threads_lock);
    threads.erase(std::remove(threads.begin(), threads.end(), t), threads.end());
  }
  /* A signal that is still pending finds nothing to do. */
  sampled_ = nullptr;
  std::atomic_signal_fence(std::memory_order_seq_cst);
  env->DeleteGlobalRef(t->thread);
  if (t->fd >= 0) close(t->fd);
  delete t;
}

/* Starts the sampler. It is not sampled itself. */
void start_sampler(JNIEnv *env, jthread current) {
  on_thread_start(nullptr, env, current);
  if (options.asgct_async) {
    struct sigaction action = {};
    action.sa_sigaction = on_signal;
    action.sa_flags = SA_SIGINFO | SA_RESTART;
    sigfillset(&action.sa_mask);
    /* A fault inside AsyncGetCallTrace is the VM's own. */
    for (int fault : {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGTRAP}) sigdelset(&action.sa_mask, fault);
    if (sigaction(SIGPROF, &action, nullptr) != 0) return fail("cannot handle SIGPROF", strerror(errno));
  }
  jclass type = env->FindClass("java/lang/Thread");
  jmethodID init = type == nullptr ? nullptr : env->GetMethodID(type, "<init>", "(Ljava/lang/String;)V");
  jstring name = env->NewStringUTF(SAMPLER);
  jobject thread = init == nullptr || name == nullptr ? nullptr : env->NewObject(type, init, name);
  if (thread == nullptr || jvmti->RunAgentThread(static_cast<jthread>(thread), sample, nullptr, JVMTI_THREAD_MAX_PRIORITY) != JVMTI_ERROR_NONE) {
    fail("cannot start the sampler", "the VM refused it");
  }
}

void JNICALL on_vm_init(jvmtiEnv *, JNIEnv *env, jthread current) {
  asgct::prime_all(jvmti, env);
  if (is_sampling()) start_sampler(env, current);
}

void JNICALL on_vm_death(jvmtiEnv *, JNIEnv *env) {
  if (is_sampling()) {
    stopping = true;
    std::lock_guard<std::mutex> guard(threads_lock);
    for (SampledThread *t : threads) t->dead = true;
    describe_seen(env);
    if (seen_count > SEEN) fail("more methods than this agent keeps", std::to_string(SEEN).c_str());
  }
  std::lock_guard<std::mutex> guard(methods_lock);
  if (methods_file != nullptr) fflush(methods_file);
  std::string name = std::string(directory) + "/stacks.tsv";
  FILE *f = fopen(name.c_str(), "we");
  if (f == nullptr) return fail(name.c_str(), strerror(errno));
  fprintf(f, "format\t%u\npid\t%d\nsamples\t%llu\nplanted\t%llu\nsent\t%llu\n", FORMAT_VERSION, getpid(),
          static_cast<unsigned long long>(samples), static_cast<unsigned long long>(planted),
          static_cast<unsigned long long>(sent));
  fclose(f);
}

const char *const KNOWN =
    "gst asgct walker throwable asgct-async gst-other interval=MICROSECONDS idle out=DIR check=SHARE max-depth=N seed=N "
    "fault=drop|swap|shift|stale|native|null|error fault-every=N; names of the published tool:";

/* The names of the published tool trace_validation: ours, or null where the option has nothing to
   change here, and why. */
struct PublishedName {
  const char *name;
  const char *ours;
  const char *why;
};
const char *const ALL_ARE_LOGGED = "each stack is logged, and jportal validate stacks prints";
const PublishedName PUBLISHED[] = {
    {"cnmProb", "check", nullptr},
    {"maxDepth", "max-depth", nullptr},
    {"sampleInterval", "interval", nullptr},
    {"traceCollectionProbability", nullptr, ALL_ARE_LOGGED},
    {"checkEveryNthStackFully", nullptr, "each stack is compared as a whole"},
    {"printAllTraces", nullptr, ALL_ARE_LOGGED},
    {"printEveryNthBrokenTrace", nullptr, ALL_ARE_LOGGED},
    {"printEveryNthValidTrace", nullptr, ALL_ARE_LOGGED},
    {"printStatsEveryNthTrace", nullptr, ALL_ARE_LOGGED},
    {"printStatsEveryNthBrokenTrace", nullptr, ALL_ARE_LOGGED},
    {"traceIgnoreInstrumentation", nullptr, "frames of this agent are never compared"},
};

void say_unusable(const std::string &option) {
  fprintf(stderr, "jportal stacks: cannot use the option \"%s\"; known: %s", option.c_str(), KNOWN);
  for (const PublishedName &p : PUBLISHED) fprintf(stderr, " %s", p.name);
  fprintf(stderr, "\n");
}

bool parse_fault(const std::string &value) {
  const std::pair<const char *, Planted> all[] = {
      {"drop", Planted::Drop},     {"swap", Planted::Swap}, {"shift", Planted::Shift}, {"stale", Planted::Stale},
      {"native", Planted::Native}, {"null", Planted::Null}, {"error", Planted::Error},
  };
  for (auto &[name, fault] : all) {
    if (value == name) {
      options.fault = fault;
      return true;
    }
  }
  return false;
}

bool parse(const std::string &key, const std::string &value) {
  char *end = nullptr;
  double number = strtod(value.c_str(), &end);
  bool is_number = !value.empty() && *end == 0 && number >= 0;
  bool is_count = is_number && number >= 1 && number <= 1 << 20 && number == static_cast<double>(static_cast<int>(number));
  if (key == "gst") return options.gst = true;
  if (key == "asgct") return options.asgct = true;
  if (key == "walker") return options.walker = true;
  if (key == "throwable") return options.throwable = true;
  if (key == "asgct-async") return options.asgct_async = true;
  if (key == "gst-other") return options.gst_other = true;
  if (key == "idle") return options.idle = true;
  if (key == "interval" && is_number && number >= 10 && number <= 1e9) return options.interval = static_cast<int>(number), true;
  if (key == "out" && !value.empty()) return use_directory(value.c_str()), is_open.load();
  if (key == "fault") return parse_fault(value);
  if (key == "check" && is_number && number > 0 && number <= 1) return options.check = number, true;
  if (key == "max-depth" && is_count) return options.max_depth = static_cast<int>(number), true;
  if (key == "fault-every" && is_count) return options.fault_every = static_cast<uint64_t>(number), true;
  if (key == "seed" && is_number) return options.seed = static_cast<uint64_t>(number), true;
  return false;
}

bool parse_all(const char *text) {
  std::string rest = text == nullptr ? "" : text;
  while (!rest.empty()) {
    size_t comma = std::min(rest.find(','), rest.size());
    std::string one = rest.substr(0, comma);
    rest = rest.substr(std::min(comma + 1, rest.size()));
    size_t equals = std::min(one.find('='), one.size());
    std::string value = one.substr(std::min(equals + 1, one.size()));
    std::string key = one.substr(0, equals);
    bool has_effect = !one.empty();
    for (const PublishedName &p : PUBLISHED) {
      if (key != p.name) continue;
      has_effect = p.ours != nullptr;
      if (has_effect) {
        key = p.ours;
      } else {
        fprintf(stderr, "jportal stacks: %s changes nothing here: %s\n", p.name, p.why);
      }
      break;
    }
    if (has_effect && !parse(key, value)) {
      say_unusable(one);
      return false;
    }
  }
  if (!options.gst && !options.asgct && !options.walker && !options.throwable && !is_sampling()) {
    fprintf(stderr, "jportal stacks: nothing to do; name an interface: -agentpath:LIBRARY=gst,asgct\n");
    return false;
  }
  return true;
}

}  // namespace

extern "C" JNIEXPORT jint JNICALL Agent_OnLoad(JavaVM *vm, char *text, void *) {
  if (!parse_all(text)) return JNI_ERR;
  if (vm->GetEnv(reinterpret_cast<void **>(&jvmti), JVMTI_VERSION_11) != JNI_OK) return JNI_ERR;
  if (options.asgct || options.asgct_async) {
    async_get_call_trace = asgct::find();
    if (async_get_call_trace == nullptr) {
      fprintf(stderr, "jportal stacks: this VM has no AsyncGetCallTrace; leave out asgct and asgct-async\n");
      return JNI_ERR;
    }
  }
  jvmtiEventCallbacks callbacks = {};
  callbacks.ClassPrepare = asgct::on_class_prepare;
  callbacks.ClassLoad = asgct::on_class_load;
  callbacks.VMInit = on_vm_init;
  callbacks.VMDeath = on_vm_death;
  callbacks.ThreadStart = on_thread_start;
  callbacks.ThreadEnd = on_thread_end;
  if (jvmti->SetEventCallbacks(&callbacks, sizeof callbacks) != JVMTI_ERROR_NONE) return JNI_ERR;
  for (jvmtiEvent event : {JVMTI_EVENT_CLASS_PREPARE, JVMTI_EVENT_CLASS_LOAD, JVMTI_EVENT_VM_INIT, JVMTI_EVENT_VM_DEATH,
                           JVMTI_EVENT_THREAD_START, JVMTI_EVENT_THREAD_END}) {
    bool is_thread = event == JVMTI_EVENT_THREAD_START || event == JVMTI_EVENT_THREAD_END;
    if (is_thread && !is_sampling()) continue;
    if (jvmti->SetEventNotificationMode(JVMTI_ENABLE, event, nullptr) != JVMTI_ERROR_NONE) return JNI_ERR;
  }
  return pthread_key_create(&exit_key, close_log) == 0 ? JNI_OK : JNI_ERR;
}

/* The oracle agent loads the library a second time, for its native methods. */
extern "C" JNIEXPORT jint JNICALL JNI_OnLoad(JavaVM *vm, void *) {
  JNIEnv *env;
  if (vm->GetEnv(reinterpret_cast<void **>(&env), JNI_VERSION_1_8) != JNI_OK) return JNI_ERR;
  if (jvmti == nullptr) {
    fprintf(stderr, "jportal stacks: the library is not an agent yet; also give -agentpath:LIBRARY=OPTIONS\n");
    return JNI_ERR;
  }
  jclass probe = env->FindClass("jportal/oracle/Probe");
  if (probe == nullptr) return JNI_ERR;
  char hit_name[] = "hit", hit_signature[] = "(II)V", open_name[] = "open", open_signature[] = "(Ljava/lang/String;)V";
  JNINativeMethod methods[] = {
      {hit_name, hit_signature, reinterpret_cast<void *>(hit)},
      {open_name, open_signature, reinterpret_cast<void *>(open_directory)},
  };
  if (env->RegisterNatives(probe, methods, 2) != JNI_OK) return JNI_ERR;
  jclass stacks = env->FindClass("jportal/oracle/Stacks");
  jclass throwable = env->FindClass("java/lang/Throwable");
  if (stacks == nullptr || throwable == nullptr) return JNI_ERR;
  char frame_name[] = "frame", frame_signature[] = "(Ljava/lang/String;Ljava/lang/String;Ljava/lang/String;I)Z";
  char bci_name[] = "bci", bci_signature[] = "(Ljava/lang/Throwable;I)I";
  JNINativeMethod more[] = {
      {frame_name, frame_signature, reinterpret_cast<void *>(java_frame)},
      {bci_name, bci_signature, reinterpret_cast<void *>(java_bci)},
  };
  if (env->RegisterNatives(stacks, more, 2) != JNI_OK) return JNI_ERR;
  stacks_class = static_cast<jclass>(env->NewGlobalRef(stacks));
  walk_method = env->GetStaticMethodID(stacks, "walk", "()V");
  thrown_method = env->GetStaticMethodID(stacks, "thrown", "()V");
  backtrace_field = env->GetFieldID(throwable, "backtrace", "Ljava/lang/Object;");
  if (walk_method == nullptr || thrown_method == nullptr || backtrace_field == nullptr) return JNI_ERR;
  return JNI_VERSION_1_8;
}
