// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0
/*
 * The native methods of the oracle agent. Probe.hit(II)V appends a probe id to the log of the
 * calling OS thread.
 *
 * The log is a shared file mapping, so a stored id survives any end of the process, even kill -9.
 * The fast path runs no Java code and looks nothing up: one TLS access, one compare, one store.
 * FORMAT.md describes the layout of the file.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <jni.h>
#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
#include <x86intrin.h>

/* The size in bytes of a thread's mapping, by which its log grows. A multiple of the page size. */
#define WINDOW (1u << 20)
#define FORMAT_VERSION 1u

typedef struct {
  char magic[8];
  uint32_t version;
  uint32_t tid;
  uint64_t start_ns;
  uint64_t start_tsc;
} LogHeader;
_Static_assert(sizeof(LogHeader) == 32, "FORMAT.md: the header has 32 bytes");

/* The log of one thread. If `next == end`, the window is full or the log is not open. */
typedef struct {
  uint32_t *next;
  uint32_t *end;
  char *window;
  off_t window_offset;
  int fd;
  int dead; /* logging has failed, or close_log has run */
} Log;

static __thread Log log_ __attribute__((tls_model("initial-exec"))) = {0, 0, 0, 0, -1, 0};
static pthread_key_t exit_key;
static char directory[PATH_MAX];
static atomic_int failed;

/* Stops logging in this thread. The first call of the process reports the reason on stderr and in
   error.txt. */
static void fail(const char *what, int error) {
  log_.dead = 1;
  log_.next = log_.end = NULL;
  if (atomic_exchange(&failed, 1)) return;
  char path[PATH_MAX + 16], text[512];
  int length = snprintf(text, sizeof text, "jportal oracle: %s: %s; the log is incomplete\n", what, strerror(error));
  if (length > (int)sizeof text - 1) length = sizeof text - 1;
  ssize_t ignored = write(2, text, (size_t)length);
  snprintf(path, sizeof path, "%s/error.txt", directory);
  int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (fd >= 0) {
    ignored = write(fd, text, (size_t)length);
    close(fd);
  }
  (void)ignored;
}

/* Creates the file of this thread. If the tid was used before, the name gets the next free
   number. */
static int create_file(uint32_t tid) {
  char path[PATH_MAX + 64];
  for (int n = 0;; n++) {
    if (n == 0) snprintf(path, sizeof path, "%s/t%u.probes", directory, tid);
    else snprintf(path, sizeof path, "%s/t%u.%d.probes", directory, tid, n);
    int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
    if (fd >= 0 || errno != EEXIST) return fd;
  }
}

/* Maps the window at `offset` and allocates its disk blocks, so that a full disk is an error here
   and not a SIGBUS later. */
static int map_window(off_t offset) {
  int error = posix_fallocate(log_.fd, offset, WINDOW);
  if (error != 0) {
    fail("cannot extend the probe log", error);
    return -1;
  }
  void *window = mmap(NULL, WINDOW, PROT_READ | PROT_WRITE, MAP_SHARED, log_.fd, offset);
  if (window == MAP_FAILED) {
    fail("cannot map the probe log", errno);
    return -1;
  }
  log_.window = window;
  log_.window_offset = offset;
  log_.next = window;
  log_.end = (uint32_t *)((char *)window + WINDOW);
  return 0;
}

static int open_log(void) {
  uint32_t tid = (uint32_t)syscall(SYS_gettid);
  log_.fd = create_file(tid);
  if (log_.fd < 0) {
    fail("cannot create a probe log", errno);
    return -1;
  }
  if (map_window(0) != 0) return -1;
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  LogHeader header = {"JPPROBE", FORMAT_VERSION, tid, (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec, __rdtsc()};
  memcpy(log_.window, &header, sizeof header);
  log_.next = (uint32_t *)(log_.window + sizeof header);
  pthread_setspecific(exit_key, &log_);
  return 0;
}

static __attribute__((noinline)) void hit_slow(uint32_t id) {
  if (log_.dead) return;
  if (log_.window == NULL) {
    if (open_log() != 0) return;
  } else {
    off_t next = log_.window_offset + WINDOW;
    munmap(log_.window, WINDOW);
    log_.window = NULL;
    if (map_window(next) != 0) return;
  }
  *log_.next++ = id;
}

static void JNICALL hit(JNIEnv *env, jclass probe, jint hi, jint lo) {
  (void)env;
  (void)probe;
  uint32_t id = ((uint32_t)hi << 16) | ((uint32_t)lo & 0xffffu);
  if (__builtin_expect(log_.next != log_.end, 1)) *log_.next++ = id;
  else hit_slow(id);
}

/* The destructor of exit_key: the thread ends. Truncates the file to the ids that were written. */
static void close_log(void *value) {
  Log *log = value;
  if (log->window != NULL) {
    off_t length = log->window_offset + ((char *)log->next - log->window);
    munmap(log->window, WINDOW);
    if (ftruncate(log->fd, length) != 0) { /* the file stays longer; zero words are a valid end */
    }
  }
  if (log->fd >= 0) close(log->fd);
  log->window = NULL;
  log->next = log->end = NULL;
  log->fd = -1;
  log->dead = 1;
}

/* Probe.open(String) sets the directory of the logs. Called once, before any class is
   instrumented. */
static void JNICALL open_directory(JNIEnv *env, jclass probe, jstring path) {
  (void)probe;
  const char *text = (*env)->GetStringUTFChars(env, path, NULL);
  if (text == NULL) return;
  snprintf(directory, sizeof directory, "%s", text);
  (*env)->ReleaseStringUTFChars(env, path, text);
}

/* Registers the native methods of Probe, so that the first call needs no lookup, which would run
   Java code. */
JNIEXPORT jint JNICALL JNI_OnLoad(JavaVM *vm, void *reserved) {
  (void)reserved;
  JNIEnv *env;
  if ((*vm)->GetEnv(vm, (void **)&env, JNI_VERSION_1_8) != JNI_OK) return JNI_ERR;
  if (pthread_key_create(&exit_key, close_log) != 0) return JNI_ERR;
  jclass probe = (*env)->FindClass(env, "jportal/oracle/Probe");
  if (probe == NULL) return JNI_ERR;
  JNINativeMethod methods[] = {
      {"hit", "(II)V", (void *)hit},
      {"open", "(Ljava/lang/String;)V", (void *)open_directory},
  };
  if ((*env)->RegisterNatives(env, probe, methods, 2) != JNI_OK) return JNI_ERR;
  return JNI_VERSION_1_8;
}
