/* SPDX-License-Identifier: Apache-2.0
 *
 * The filter of system calls, a BPF program of our own: a list of what may be called (strict), or of what may not
 * (driver).
 *
 * What is refused answers EPERM, or ENOSYS where C libraries then try an older way: clone3, whose flags a filter cannot
 * see, and what is newer than these lists.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <linux/sockios.h>
#include <sched.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "runtime/plugin/helper/confine.h"
#include "runtime/plugin/helper/syscalls.h"

#if defined(__x86_64__)
static const uint32_t own_arch = AUDIT_ARCH_X86_64;
#elif defined(__aarch64__)
static const uint32_t own_arch = AUDIT_ARCH_AARCH64;
#else
static const uint32_t own_arch = 0;
#endif

enum { MOST = 1024, NEWER = 435 /* clone3: from here on old programs get ENOSYS */ };

typedef struct program {
  struct sock_filter code[MOST];
  uint16_t n;
  bool full;
} program;

/* --- code -------------------------------------------------------------------------------------------------------- */

static void put(program *p, uint16_t code, uint8_t yes, uint8_t no, uint32_t k) {
  if (p->n == MOST) {
    p->full = true;
    return;
  }
  p->code[p->n++] = (struct sock_filter){code, yes, no, k};
}

static void load(program *p, size_t offset) { put(p, BPF_LD | BPF_W | BPF_ABS, 0, 0, (uint32_t)offset); }
static void answer(program *p, uint32_t what) { put(p, BPF_RET | BPF_K, 0, 0, what); }
static uint32_t refuse(int e) { return SECCOMP_RET_ERRNO | ((uint32_t)e & SECCOMP_RET_DATA); }

static size_t argument(uint32_t i) { return offsetof(struct seccomp_data, args) + i * 8; } /* its lower half */

static void load_number(program *p) { load(p, offsetof(struct seccomp_data, nr)); }

static void on_number(program *p, uint32_t nr, uint32_t what) {
  put(p, BPF_JMP | BPF_JEQ | BPF_K, 0, 1, nr);
  answer(p, what);
}

/* Call `nr` with argument i equal to one of the values: `is`; else `other`. The number is loaded again after that. */
static void on_argument(program *p, uint32_t nr, uint32_t i, const uint32_t *values, uint32_t n, uint32_t is,
                        uint32_t other) {
  put(p, BPF_JMP | BPF_JEQ | BPF_K, 0, (uint8_t)(2 + 2 * n), nr);
  load(p, argument(i));
  for (uint32_t k = 0; k < n; k++) on_number(p, values[k], is);
  answer(p, other);
}

/* Allowed where all `bits` of argument i are set. */
static void on_bits(program *p, uint32_t nr, uint32_t i, uint32_t bits, uint32_t other) {
  put(p, BPF_JMP | BPF_JEQ | BPF_K, 0, 5, nr);
  load(p, argument(i));
  put(p, BPF_ALU | BPF_AND | BPF_K, 0, 0, bits);
  put(p, BPF_JMP | BPF_JEQ | BPF_K, 0, 1, bits);
  answer(p, SECCOMP_RET_ALLOW);
  answer(p, other);
}

/* --- rules of both levels ---------------------------------------------------------------------------------------- */

static const uint32_t ALLOW = SECCOMP_RET_ALLOW;

/* Another machine's numbers, and x32's, mean other calls. */
static void put_head(program *p) {
  load(p, offsetof(struct seccomp_data, arch));
  put(p, BPF_JMP | BPF_JEQ | BPF_K, 1, 0, own_arch);
  answer(p, SECCOMP_RET_KILL_PROCESS);
  load_number(p);
#if defined(__x86_64__)
  put(p, BPF_JMP | BPF_JGE | BPF_K, 0, 1, 0x40000000);
  answer(p, refuse(ENOSYS));
#endif
}

/* Signals and limits are for the process itself; a descriptor may name nobody who gets signals. */
static void put_own(program *p) {
  const uint32_t self[] = {(uint32_t)getpid()}, self_or_0[] = {0, self[0]};
  const uint32_t owners[] = {F_SETOWN, F_SETOWN_EX, F_SETSIG};
  on_argument(p, SYS_kill, 0, self, 1, ALLOW, refuse(EPERM));
  on_argument(p, SYS_tgkill, 0, self, 1, ALLOW, refuse(EPERM));
  on_argument(p, SYS_rt_sigqueueinfo, 0, self, 1, ALLOW, refuse(EPERM));
  on_argument(p, SYS_rt_tgsigqueueinfo, 0, self, 1, ALLOW, refuse(EPERM));
  on_argument(p, SYS_prlimit64, 0, self_or_0, 2, ALLOW, refuse(EPERM));
  on_argument(p, SYS_fcntl, 1, owners, 3, refuse(EPERM), ALLOW);
}

/* --- strict ------------------------------------------------------------------------------------------------------ */

#ifdef TNI_SANITIZED
enum { PROCESSES = 1 }; /* a sanitizer's report starts a program, its leak checker traces its own process */
#else
enum { PROCESSES = 0 };
#endif

static void put_strict(program *p) {
  static const uint32_t controls[] = {TCGETS, FIONREAD, FIONBIO, FIOCLEX, FIONCLEX};
  static const uint32_t options[] = {PR_SET_NAME,       PR_GET_NAME,         PR_GET_DUMPABLE,
                                     PR_GET_SECCOMP,    PR_GET_NO_NEW_PRIVS, PR_CAPBSET_READ,
                                     PR_SET_TIMERSLACK, PR_GET_TIMERSLACK,   0x53564d41 /* SET_VMA */};
  for (size_t i = 0; i < sizeof helper_strict / sizeof *helper_strict; i++) on_number(p, helper_strict[i], ALLOW);
  if (PROCESSES)
    for (size_t i = 0; i < sizeof helper_processes / sizeof *helper_processes; i++)
      on_number(p, helper_processes[i], ALLOW);
  else
    on_bits(p, SYS_clone, 0, CLONE_VM | CLONE_SIGHAND | CLONE_THREAD, refuse(EPERM));
  on_argument(p, SYS_ioctl, 1, controls, sizeof controls / sizeof *controls, ALLOW, refuse(ENOTTY));
  on_argument(p, SYS_prctl, 0, options, sizeof options / sizeof *options, ALLOW, refuse(EPERM));
  on_number(p, SYS_clone3, refuse(ENOSYS));
  put(p, BPF_JMP | BPF_JGE | BPF_K, 0, 1, NEWER);
  answer(p, refuse(ENOSYS));
  answer(p, refuse(EPERM));
}

/* --- driver ------------------------------------------------------------------------------------------------------ */

static void put_driver(program *p) {
  static const uint32_t options[] = {PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER, PR_SET_PTRACER};
  static const uint32_t controls[] = {TIOCSTI, FIOSETOWN, SIOCSPGRP};
  if (PROCESSES) on_number(p, SYS_ptrace, ALLOW); /* Landlock keeps it to its own processes */
  for (size_t i = 0; i < sizeof helper_denied / sizeof *helper_denied; i++)
    on_number(p, helper_denied[i], refuse(EPERM));
  on_argument(p, SYS_prctl, 0, options, sizeof options / sizeof *options, refuse(EPERM), ALLOW);
  on_argument(p, SYS_ioctl, 1, controls, sizeof controls / sizeof *controls, refuse(EPERM), ALLOW);
  answer(p, ALLOW);
}

bool helper_wall_calls(uint32_t level) {
  static program p;
  if (!own_arch) return false;
  put_head(&p);
  put_own(&p);
  (level == TNI_CONFINE_DRIVER ? put_driver : put_strict)(&p);
  const struct sock_fprog all = {p.n, p.code};
  return !p.full && syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &all) == 0;
}
