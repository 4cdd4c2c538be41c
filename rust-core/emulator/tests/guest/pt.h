// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0
/* The VM's part towards the emulated PT unit, as small as a test needs it: see the header in
 * rust-core/perf-abi/src/emulated.rs for the offsets. */
#ifndef PT_H
#define PT_H
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

static volatile char* pt_header;

#define PT_U64(offset) (*(volatile uint64_t*)(pt_header + (offset)))
#define PT_U32(offset) (*(volatile uint32_t*)(pt_header + (offset)))

static void pt_command(uint32_t enabled) {
    PT_U32(264) = enabled;
    uint64_t generation = __atomic_add_fetch((uint64_t*)(pt_header + 256), 1, __ATOMIC_SEQ_CST);
    while (__atomic_load_n((uint64_t*)(pt_header + 512), __ATOMIC_ACQUIRE) < generation) usleep(200);
}

static void pt_open(void) {
    int fd = open(getenv("JPORTAL_EMULATED_PT"), O_RDWR);
    if (fd < 0) { perror("JPORTAL_EMULATED_PT"); exit(90); }
    pt_header = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (pt_header == MAP_FAILED) { perror("mmap"); exit(91); }
    close(fd);
}

static void pt_enable(uint64_t low, uint64_t high) {
    PT_U64(272) = low;
    PT_U64(280) = high;
    pt_command(1);
}

static void pt_disable(void) { pt_command(0); }

/* How often the instruction at `address` must have been executed. */
static void pt_expect(const void* address, unsigned long n) { printf("executed %p %lu\n", address, n); }
#endif
