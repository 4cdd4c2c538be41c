// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0
/* Programs to trace: `main SCENARIO N`. What is in section `traced` is in the filter range, except
 * where a scenario says otherwise. */
#define _GNU_SOURCE
#include "pt.h"
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <ucontext.h>

#define TRACED __attribute__((section("traced"), noinline, noclone))
extern char __start_traced[], __stop_traced[];
extern char** environ;

static volatile unsigned long sink;

/* ---- plain control flow ------------------------------------------------------------------ */

TRACED static unsigned long leaf(unsigned long x) { return x * 3 + 1; }
TRACED static unsigned long other(unsigned long x) { return (x & 1) ? leaf(x) : x / 2; }
TRACED static unsigned long third(unsigned long x) { return x ^ 0x55; }
static unsigned long (*const table[])(unsigned long) = {leaf, other, third};

TRACED static unsigned long fib(unsigned n) { return n < 2 ? n : fib(n - 1) + fib(n - 2); }

TRACED static unsigned long choose(unsigned long x) {
    switch (x % 9) {
        case 0: return x + 7;
        case 1: return x * 5;
        case 2: return leaf(x);
        case 3: return x - 9;
        case 4: return other(x);
        case 5: return x >> 3;
        case 6: return x << 1;
        default: return x;
    }
}

/* call +0, a conditional branch to the next instruction, a return that is no return */
TRACED static unsigned long odd_branches(unsigned long x) {
    unsigned long out;
    __asm__ volatile(
        "call 1f\n1: pop %0\n"
        "test %1, %1\n jz 2f\n2:\n"
        "lea 3f(%%rip), %0\n push %0\n ret\n3:\n"
        "mov $3, %%ecx\n4: loop 4b\n"
        : "=&r"(out) : "r"(x) : "rcx", "cc", "memory");
    return out & 1;
}

TRACED static void strings(char* to, const char* from, long n) {
    long a = n, b = n;
    __asm__ volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(a)::"memory");
    to -= n;
    __asm__ volatile("xor %%eax, %%eax\n rep stosb" : "+D"(to), "+c"(b)::"rax", "memory");
}

TRACED static unsigned long cpuid_in_range(void) {
    unsigned a = 0, b, c = 0, d;
    __asm__ volatile("cpuid" : "+a"(a), "=b"(b), "+c"(c), "=d"(d));
    return a;
}

TRACED static int compare(const void* a, const void* b) {
    long x = *(const long*)a, y = *(const long*)b;
    return x < y ? -1 : x > y;
}

TRACED static unsigned long leaves_and_returns(unsigned long x) {
    char text[64];
    snprintf(text, sizeof text, "%lu", x); /* out of the range and back */
    return strlen(text);
}

TRACED static void flow(unsigned long n) {
    static char from[300], to[300];
    for (unsigned long i = 0; i < n; i++) {
        sink += table[i % 3](i) + choose(i);
        sink += odd_branches(i);
        if (i % 16 == 0) strings(to, from, i % 300);
        if (i % 64 == 0) sink += leaves_and_returns(i) + cpuid_in_range();
    }
    sink += fib(12);
}

static void scenario_flow(unsigned long n) {
    pt_enable((uint64_t)__start_traced, (uint64_t)__stop_traced);
    flow(n);
    long numbers[200];
    for (int i = 0; i < 200; i++) numbers[i] = (i * 7919) % 211;
    qsort(numbers, 200, sizeof(long), compare);
    pt_disable();
    pt_expect(fib, 465);
    pt_expect(cpuid_in_range, (n + 63) / 64);
    pt_expect(choose, n);
    pt_expect(odd_branches, n);
    pt_expect(third, n / 3);
}

/* ---- system calls inside the range ------------------------------------------------------- */

TRACED static long raw_syscall(long number) {
    long result;
    __asm__ volatile("syscall" : "=a"(result) : "a"(number) : "rcx", "r11", "memory");
    return result;
}

TRACED static void many_syscalls(unsigned long n) {
    for (unsigned long i = 0; i < n; i++) sink += raw_syscall(i % 4 ? SYS_getppid : SYS_sched_yield);
}

static void scenario_syscalls(unsigned long n) {
    pt_enable((uint64_t)__start_traced, (uint64_t)__stop_traced);
    many_syscalls(n);
    pt_disable();
    pt_expect(raw_syscall, n);
}

/* ---- signals ----------------------------------------------------------------------------- */

static volatile sig_atomic_t faults, ticks, all_signals;

/* Called first in each handler, so that the handler begins with a stack store as HotSpot's do. */
__attribute__((noinline, noclone)) static void bump(volatile sig_atomic_t* counter) { (*counter)++; }

static void on_fault(int signal, siginfo_t* info, void* context) {
    ucontext_t* u = context;
    (void)signal; (void)info;
    bump(&faults);
    u->uc_mcontext.gregs[REG_RIP] = u->uc_mcontext.gregs[REG_RBX]; /* where to resume */
}

static void on_tick(int signal, siginfo_t* info, void* context) {
    (void)signal; (void)info; (void)context;
    bump(&ticks);
    bump(&all_signals);
}

/* No push and no call: the first access to the stack is the return. */
static void on_leaf(int signal, siginfo_t* info, void* context) {
    (void)info; (void)context;
    if (signal == SIGUSR2) all_signals++;
}

static void install(int signal, void (*handler)(int, siginfo_t*, void*)) {
    struct sigaction a;
    memset(&a, 0, sizeof a);
    a.sa_sigaction = handler;
    a.sa_flags = SA_SIGINFO | SA_RESTART;
    sigfillset(&a.sa_mask);
    sigaction(signal, &a, NULL);
}

/* A load from address 0 in the middle of a block and one as a self loop's first instruction. */
TRACED static unsigned long faulting(unsigned long x) {
    unsigned long r = x;
    __asm__ volatile(
        "lea 1f(%%rip), %%rbx\n inc %0\n mov (%1), %%rax\n add $100, %0\n1: dec %0\n"
        "lea 3f(%%rip), %%rbx\n2: mov (%1), %%rax\n jmp 2b\n3:\n"
        : "+r"(r) : "r"(0L) : "rax", "rbx", "cc", "memory");
    return r;
}

TRACED static void fault_loop(unsigned long n) {
    for (unsigned long i = 0; i < n; i++) sink += faulting(i);
}

TRACED static void busy(unsigned long n) {
    static char from[4000], to[4000];
    for (unsigned long i = 0; i < n; i++) {
        sink += choose(i) + table[i % 3](i);
        if (i % 50 == 0) strings(to, from, 4000);
    }
}

static atomic_int storming;
static pthread_t target;

static void* storm(void* unused) {
    (void)unused;
    while (atomic_load(&storming)) {
        pthread_kill(target, SIGUSR1);
        pthread_kill(target, SIGUSR2); /* ignored unless the scenario has a handler */
        struct timespec t = {0, 20000};
        nanosleep(&t, NULL);
    }
    return NULL;
}

static void scenario_signals(unsigned long n) {
    pthread_t thread;
    install(SIGSEGV, on_fault);
    install(SIGUSR1, on_tick);
    signal(SIGUSR2, SIG_IGN);
    pt_enable((uint64_t)__start_traced, (uint64_t)__stop_traced);
    fault_loop(n);
    target = pthread_self();
    atomic_store(&storming, 1);
    pthread_create(&thread, NULL, storm, NULL);
    busy(n * 50);
    fault_loop(n);
    atomic_store(&storming, 0);
    pthread_join(thread, NULL);
    pt_disable();
    pt_expect(faulting, 2 * n);
    if (faults != (sig_atomic_t)(4 * n)) { fprintf(stderr, "faults %d\n", (int)faults); exit(92); }
    printf("ticks %d\n", (int)ticks);
}

static void scenario_leaf(unsigned long n) {
    pthread_t thread;
    signal(SIGUSR1, SIG_IGN);
    install(SIGUSR2, on_leaf);
    pt_enable((uint64_t)__start_traced, (uint64_t)__stop_traced);
    target = pthread_self();
    atomic_store(&storming, 1);
    pthread_create(&thread, NULL, storm, NULL);
    busy(n * 50);
    atomic_store(&storming, 0);
    pthread_join(thread, NULL);
    pt_disable();
}

/* ---- threads ------------------------------------------------------------------------------ */

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static char line[256] __attribute__((aligned(64)));

/* A locked operation across a cache line: QEMU restarts inside the block to do it exclusively. */
TRACED static void misaligned(unsigned long n) {
    unsigned* p = (unsigned*)(line + 62);
    for (unsigned long i = 0; i < n; i++) __asm__ volatile("lock addl $1, %0" : "+m"(*p)::"memory", "cc");
}

TRACED static void worker(unsigned long n) {
    for (unsigned long i = 0; i < n; i++) {
        sink += choose(i);
        if (i % 32 == 0) {
            pthread_mutex_lock(&mutex);
            sink += fib(8);
            pthread_mutex_unlock(&mutex);
        }
    }
    misaligned(n / 16);
}

static unsigned long rounds;
static void* run_worker(void* unused) {
    (void)unused;
    worker(rounds);
    return NULL;
}

static void run_threads(unsigned long n, int count) {
    pthread_t threads[64];
    rounds = n;
    for (int i = 0; i < count; i++) pthread_create(&threads[i], NULL, run_worker, NULL);
    for (int i = 0; i < count; i++) pthread_join(threads[i], NULL);
}

static void scenario_threads(unsigned long n) {
    pt_enable((uint64_t)__start_traced, (uint64_t)__stop_traced);
    for (int i = 0; i < 3; i++) run_threads(n, 6); /* vCPU indices are used again */
    pt_disable();
    pt_expect(choose, 18 * n);
    pt_expect(worker, 18);
    if (*(unsigned*)(line + 62) != 18 * (n / 16)) exit(93);
}

/* ---- code that changes -------------------------------------------------------------------- */

static unsigned char* code_area;

/* At `at`: mov eax, value; ret. The immediate sits across a page end where `at` makes it so. */
static void write_constant(unsigned char* at, int value) {
    at[0] = 0xb8;
    memcpy(at + 1, &value, 4);
    at[5] = 0xc3;
}

/* At `at`: call callee; add eax, 1; jnz +0; ret */
static void write_caller(unsigned char* at, unsigned char* callee) {
    int distance = (int)(callee - (at + 5));
    at[0] = 0xe8;
    memcpy(at + 1, &distance, 4);
    memcpy(at + 5, "\x83\xc0\x01\x75\x00\xc3", 6);
}

static void scenario_patching(unsigned long n) {
    code_area = mmap(NULL, 4 * 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    unsigned char *a = code_area + 64, *b = code_area + 4096 - 3, *caller = code_area + 2 * 4096 - 7;
    write_constant(a, 1);
    write_constant(b, 2);
    write_caller(caller, a);
    pt_enable((uint64_t)code_area, (uint64_t)code_area + 4 * 4096);
    int (*call)(void) = (int (*)(void))caller;
    unsigned long sum = 0;
    for (unsigned long i = 0; i < n; i++) {
        write_caller(caller, i % 2 ? a : b);
        if (i % 3 == 0) write_constant(a, (int)i);
        sum += (unsigned long)call();
    }
    pt_disable();
    sink = sum;
    pt_expect(caller, n);
    pt_expect(a, n / 2);
    pt_expect(b, (n + 1) / 2);
}

/* ---- processes ---------------------------------------------------------------------------- */

static void scenario_fork(unsigned long n) {
    pt_enable((uint64_t)__start_traced, (uint64_t)__stop_traced);
    flow(n);
    for (int i = 0; i < 3; i++) {
        pid_t child = fork();
        if (child == 0) {
            flow(n); /* not ours any more */
            _exit(7);
        }
        int status = 0;
        waitpid(child, &status, 0);
        if (!WIFEXITED(status) || WEXITSTATUS(status) != 7) exit(94);
        flow(n);
    }
    char* arguments[] = {"true", NULL};
    pid_t child;
    int status = 0;
    if (posix_spawnp(&child, "true", NULL, NULL, arguments, environ) != 0) exit(95);
    waitpid(child, &status, 0);
    flow(n);
    pt_disable();
    pt_expect(choose, 5 * n);
}

TRACED static void for_ever(void) {
    for (unsigned long i = 0;; i++) sink += choose(i);
}
static void* run_for_ever(void* unused) {
    (void)unused;
    for_ever();
    return NULL;
}

/* The process ends while threads run inside the range, without telling the unit. */
static void scenario_exit(unsigned long n) {
    pthread_t thread;
    pt_enable((uint64_t)__start_traced, (uint64_t)__stop_traced);
    for (int i = 0; i < 3; i++) pthread_create(&thread, NULL, run_for_ever, NULL);
    flow(n);
    exit(0);
}

static void scenario_exec(unsigned long n) {
    pt_enable((uint64_t)__start_traced, (uint64_t)__stop_traced);
    flow(n);
    char* none[] = {"none", NULL};
    execv("/nonexistent/program", none); /* fails: tracing continues */
    flow(n);
    pt_disable();
    pt_expect(choose, 2 * n);
}

/* Tracing stops and starts again while threads are inside the range. Each time lasts until every
 * thread has had its turns in it, however late the host lets it run. */
static atomic_int toggling;
static atomic_ulong turns[3];

TRACED static void* run_turns(void* of) {
    atomic_ulong* mine = of;
    while (atomic_load(&toggling)) {
        worker(rounds);
        atomic_fetch_add(mine, 1);
    }
    return NULL;
}

static void wait_for_turns(void) {
    for (int i = 0; i < 3; i++) {
        /* The one that was begun before, and a whole one. */
        unsigned long wanted = atomic_load(&turns[i]) + 2;
        while (atomic_load(&turns[i]) < wanted) usleep(200);
    }
}

static void scenario_toggle(unsigned long n) {
    pthread_t threads[3];
    pt_enable((uint64_t)__start_traced, (uint64_t)__stop_traced);
    rounds = n;
    atomic_store(&toggling, 1);
    for (int i = 0; i < 3; i++) pthread_create(&threads[i], NULL, run_turns, &turns[i]);
    for (int i = 0; i < 10; i++) {
        wait_for_turns();
        pt_disable();
        wait_for_turns();
        pt_enable((uint64_t)__start_traced, (uint64_t)__stop_traced);
    }
    wait_for_turns();
    atomic_store(&toggling, 0);
    for (int i = 0; i < 3; i++) pthread_join(threads[i], NULL);
    pt_disable();
}

static const struct { const char* name; void (*run)(unsigned long); } scenarios[] = {
    {"flow", scenario_flow},         {"syscalls", scenario_syscalls}, {"signals", scenario_signals},
    {"threads", scenario_threads},   {"patching", scenario_patching}, {"fork", scenario_fork},
    {"exit", scenario_exit},         {"exec", scenario_exec},         {"toggle", scenario_toggle},
    {"leaf", scenario_leaf},
};

int main(int argc, char** argv) {
    if (argc != 3) return 2;
    pt_open();
    for (unsigned i = 0; i < sizeof scenarios / sizeof scenarios[0]; i++) {
        if (strcmp(argv[1], scenarios[i].name) == 0) {
            scenarios[i].run(strtoul(argv[2], NULL, 0));
            return 0;
        }
    }
    return 2;
}
