/* SPDX-License-Identifier: Apache-2.0
 *
 * A library for LD_PRELOAD that lets allocations, mappings, threads and opened files fail, one at a time. README.md
 * says how it is asked and what it answers.
 *
 * The fork mode makes one run try every point: at each point the process forks, the child's call fails and the child
 * goes on to its end, and the parent waits, notes how the child ended and goes on with the call. So a point costs what
 * is left of the run after the failure, and never the run up to it. Threads would be missing in the child, so none are
 * made in this mode: pthread_create says EAGAIN.
 */
#include <dlfcn.h>
#include <errno.h>
#include <execinfo.h>
#include <fcntl.h>
#include <link.h>
#include <poll.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))
#define CALLER __builtin_return_address(0)

void *__libc_malloc(size_t n);
void *__libc_calloc(size_t n, size_t m);
void *__libc_realloc(void *p, size_t n);
void *__libc_memalign(size_t a, size_t n);
void __libc_free(void *p);

EXPORT void *malloc(size_t n);
EXPORT void *calloc(size_t n, size_t m);
EXPORT void *realloc(void *p, size_t n);
EXPORT void *aligned_alloc(size_t a, size_t n);
EXPORT void *memalign(size_t a, size_t n);
EXPORT int posix_memalign(void **out, size_t a, size_t n);
EXPORT void free(void *p);

enum { OFF, COUNT, AT, FORK };
enum { FRAMES = 32, SLOT_BITS = 18, SLOTS = 1 << SLOT_BITS, CPU_LIMIT_S = 20, STEP_MS = 100, STEPS = 1200, OUT_MOST = 30000 };

/* What a child tells its parent; shared memory. */
typedef struct told {
  int failed, live;
  char stack[4096], leaks[4096];
} told;

typedef struct block {
  void *p;
  uint64_t seq;
} block;

static struct {
  int mode, log, out[2], std[2];
  long at, to, stride, seed, trace, copy;
  long base; /* blocks that live at the end of a run without failures */
  long n;    /* points passed */
  uint64_t seq;
  size_t live;
  bool child;
  told *told;
  uintptr_t linker[2]; /* the dynamic linker's code: its failures are its own */
  block *blocks;
} g;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static _Thread_local int inside __attribute__((tls_model("initial-exec")));

/* --- live blocks ---------------------------------------------------------------------------------------------------
 */

static size_t slot_of(const void *p) { return ((uintptr_t)p >> 4) * 0x9e3779b97f4a7c15ull >> (64 - SLOT_BITS); }

static bool of_linker(const void *caller) {
  return (uintptr_t)caller >= g.linker[0] && (uintptr_t)caller < g.linker[1];
}

static void block_add(void *p, const void *caller) {
  if (!p || !g.blocks || of_linker(caller)) return;
  pthread_mutex_lock(&lock);
  size_t i = slot_of(p);
  while (g.blocks[i].p && g.blocks[i].p != p) i = (i + 1) % SLOTS;
  if (!g.blocks[i].p) g.live++;
  if (g.live > SLOTS / 2) abort(); /* the table is too small for this program */
  g.blocks[i] = (block){p, g.seq};
  const bool wanted = g.trace && g.seq == (uint64_t)g.trace;
  g.seq++;
  pthread_mutex_unlock(&lock);
  if (wanted && !inside) {
    void *f[FRAMES];
    inside++;
    backtrace_symbols_fd(f, backtrace(f, FRAMES), 2);
    inside--;
  }
}

static void block_drop(void *p) {
  if (!p || !g.blocks) return;
  pthread_mutex_lock(&lock);
  size_t i = slot_of(p);
  while (g.blocks[i].p && g.blocks[i].p != p) i = (i + 1) % SLOTS;
  if (g.blocks[i].p) {
    g.live--;
    g.blocks[i].p = NULL;
    /* What lies behind it moves up, so that no search ends too early. */
    for (size_t j = (i + 1) % SLOTS; g.blocks[j].p; j = (j + 1) % SLOTS) {
      const size_t home = slot_of(g.blocks[j].p);
      if ((j - home) % SLOTS < (j - i) % SLOTS) continue;
      g.blocks[i] = g.blocks[j];
      g.blocks[j].p = NULL;
      i = j;
    }
  }
  pthread_mutex_unlock(&lock);
}

static int frame_text(char *to, size_t room, const void *at) {
  Dl_info d;
  if (!dladdr(at, &d) || !d.dli_fname) return snprintf(to, room, "? ");
  const char *slash = strrchr(d.dli_fname, '/');
  return snprintf(to, room, "%s+0x%lx ", slash ? slash + 1 : d.dli_fname,
                  (unsigned long)((uintptr_t)at - (uintptr_t)d.dli_fbase));
}

/* How many blocks live, and where they lie in the order of allocations (OOM_TRACE shows who made one). */
static void tell_live(told *t) {
  size_t n = 0;
  t->live = (int)g.live;
  t->leaks[0] = '\0';
  for (size_t i = 0; (long)g.live > g.base && i < SLOTS && n + 32 < sizeof t->leaks; i++)
    if (g.blocks[i].p)
      n += (size_t)snprintf(t->leaks + n, sizeof t->leaks - n, "%llu ", (unsigned long long)g.blocks[i].seq);
}

/* --- points --------------------------------------------------------------------------------------------------------
 */

static void tell_stack(told *t) {
  void *f[FRAMES];
  const int n = backtrace(f, FRAMES);
  size_t at = 0;
  t->failed = 1;
  t->stack[0] = '\0';
  for (int i = 2; i < n && at + 128 < sizeof t->stack; i++)
    at += (size_t)frame_text(t->stack + at, sizeof t->stack - at, (char *)f[i] - 1);
}

static uint64_t hash_file(int fd, char *head, size_t room) {
  uint64_t h = 1469598103934665603ull;
  char b[4096];
  off_t at = 0;
  size_t kept = 0;
  for (ssize_t n; (n = pread(fd, b, sizeof b, at)) > 0; at += n)
    for (ssize_t i = 0; i < n; i++) {
      h = (h ^ (unsigned char)b[i]) * 1099511628211ull;
      if (kept + 1 < room) head[kept++] = b[i];
    }
  if (room) head[kept] = '\0';
  return h;
}

static void log_text(const char *name, const char *s) {
  char b[2 * OUT_MOST + 64];
  size_t n = (size_t)snprintf(b, sizeof b, "%s ", name);
  for (; *s && n + 3 < sizeof b; s++) {
    if (*s == '\n' || *s == '\\') b[n++] = '\\';
    b[n++] = *s == '\n' ? 'n' : *s;
  }
  b[n++] = '\n';
  if (write(g.log, b, n) < 0) _exit(99);
}

static void log_point(long n, const char *kind, size_t size, const char *end) {
  char b[256];
  const int m = snprintf(b, sizeof b, "point %ld %s %zu %s\n", n, kind, size, end);
  if (write(g.log, b, (size_t)m) < 0) _exit(99);
}

static void log_end(void) {
  char head[OUT_MOST], b[64];
  snprintf(b, sizeof b, "%016llx", (unsigned long long)hash_file(g.out[0], head, sizeof head));
  log_text("stdout", b);
  log_text("output", head);
  (void)hash_file(g.out[1], head, sizeof head);
  log_text("stderr", head);
  snprintf(b, sizeof b, "%d", g.told->live);
  log_text("live", b);
  log_text("blocks", g.told->leaks);
  log_text("stack", g.told->stack);
}

static void copy_so_far(int from, int to) {
  char b[65536];
  off_t at = 0;
  if (ftruncate(to, 0) != 0) _exit(99);
  (void)lseek(to, 0, SEEK_SET);
  for (ssize_t n; (n = pread(from, b, sizeof b, at)) > 0; at += n)
    if (write(to, b, (size_t)n) != n) _exit(99);
}

enum { MOST_FDS = 64 };
static void keep_offsets(off_t *at, bool back) {
  for (int fd = 3; fd < MOST_FDS; fd++) {
    if (!back) at[fd] = lseek(fd, 0, SEEK_CUR);
    if (back && at[fd] >= 0) (void)lseek(fd, at[fd], SEEK_SET);
  }
}

static time_t cpu_seconds(pid_t pid) {
  clockid_t clock;
  struct timespec t = {0};
  return clock_getcpuclockid(pid, &clock) == 0 && clock_gettime(clock, &t) == 0 ? t.tv_sec : 0;
}

/* How the child ended, as text. A child that does not end is killed, with what it started: after 20 s of its processor time, or
 * 120 s asleep. Steps are counted, not the clock: what a busy or stopped machine does not give is no hang. */
static void wait_child(pid_t pid, char *text, size_t room) {
  const int fd = (int)syscall(SYS_pidfd_open, pid, 0);
  struct pollfd p = {.fd = fd, .events = POLLIN};
  bool ended = false;
  for (int i = 0; !ended && i < STEPS && cpu_seconds(pid) < CPU_LIMIT_S; i++) ended = poll(&p, 1, STEP_MS) > 0;
  const bool hung = !ended;
  if (hung) kill(pid, 9);
  int st = 0;
  waitpid(pid, &st, 0);
  close(fd);
  if (hung)
    snprintf(text, room, "hang");
  else if (WIFSIGNALED(st))
    snprintf(text, room, "signal-%d", WTERMSIG(st));
  else
    snprintf(text, room, "exit-%d", WEXITSTATUS(st));
}

/* The child's own copy of the working folder: a command that writes is given relative paths. */
static void own_folder(void) {
  char line[256];
  if (!g.copy) return;
  snprintf(line, sizeof line, "cp -a . ../copy.%d", (int)getpid());
  if (system(line) != 0) _exit(97);
  snprintf(line, sizeof line, "../copy.%d", (int)getpid());
  if (chdir(line) != 0) _exit(97);
}

static void drop_folder(pid_t pid) {
  char line[256];
  if (!g.copy) return;
  snprintf(line, sizeof line, "rm -rf ../copy.%d", (int)pid);
  if (system(line) != 0) _exit(97);
}

/* True in the child, whose call fails. */
static bool fork_here(const char *kind, size_t size) {
  static off_t at[MOST_FDS];
  char end[32];
  const int saved = errno;
  copy_so_far(g.std[0], g.out[0]);
  copy_so_far(g.std[1], g.out[1]);
  keep_offsets(at, false);
  memset(g.told, 0, sizeof *g.told);
  const pid_t pid = fork();
  if (pid == 0) {
    prctl(PR_SET_PDEATHSIG, 9);
    g.child = true;
    g.mode = OFF;
    dup2(g.out[0], 1);
    dup2(g.out[1], 2);
    own_folder();
    tell_stack(g.told);
    return true;
  }
  if (pid < 0) _exit(98);
  wait_child(pid, end, sizeof end);
  drop_folder(pid);
  keep_offsets(at, true);
  log_point(g.n, kind, size, end);
  log_end();
  errno = saved;
  return false;
}

static bool chosen(long n) {
  if (n < g.at || (g.to && n > g.to)) return false;
  if (g.stride <= 1) return true;
  const uint64_t h = ((uint64_t)n + (uint64_t)g.seed * 1000003) * 0x9e3779b97f4a7c15ull;
  return (h >> 33) % (uint64_t)g.stride == 0;
}

static bool fails(const char *kind, size_t size, const void *caller) {
  if (g.mode == OFF || inside || of_linker(caller)) return false;
  inside++;
  bool yes = false;
  const long n = __atomic_add_fetch(&g.n, 1, __ATOMIC_RELAXED);
  if (g.mode == AT && n == g.at) {
    log_point(n, kind, size, "here");
    tell_stack(g.told);
    yes = true;
  } else if (g.mode == FORK && gettid() == getpid() && chosen(n)) {
    yes = fork_here(kind, size);
  }
  inside--;
  return yes;
}

/* --- what is intercepted -------------------------------------------------------------------------------------------
 */

void *malloc(size_t n) {
  if (fails("malloc", n, CALLER)) return errno = ENOMEM, NULL;
  void *p = __libc_malloc(n);
  block_add(p, CALLER);
  return p;
}

void *calloc(size_t n, size_t m) {
  if (fails("calloc", n * m, CALLER)) return errno = ENOMEM, NULL;
  void *p = __libc_calloc(n, m);
  block_add(p, CALLER);
  return p;
}

void *realloc(void *p, size_t n) {
  if (fails("realloc", n, CALLER)) return errno = ENOMEM, NULL;
  block_drop(p);
  void *q = __libc_realloc(p, n);
  if (q || !n)
    block_add(q, CALLER);
  else
    block_add(p, CALLER);
  return q;
}

static void *aligned(size_t a, size_t n, void *caller) {
  if (fails("aligned", n, caller)) return errno = ENOMEM, NULL;
  void *p = __libc_memalign(a, n);
  block_add(p, caller);
  return p;
}

void *aligned_alloc(size_t a, size_t n) { return aligned(a, n, CALLER); }
void *memalign(size_t a, size_t n) { return aligned(a, n, CALLER); }
int posix_memalign(void **out, size_t a, size_t n) {
  void *p = aligned(a, n, CALLER);
  if (p) *out = p;
  return p ? 0 : ENOMEM;
}

void free(void *p) {
  block_drop(p);
  __libc_free(p);
}

EXPORT void *mmap(void *at, size_t n, int prot, int flags, int fd, off_t off) {
  if (fails("mmap", n, CALLER)) return errno = ENOMEM, MAP_FAILED;
  return (void *)syscall(SYS_mmap, at, n, prot, flags, fd, off);
}
EXPORT void *mmap64(void *at, size_t n, int prot, int flags, int fd, off_t off) {
  if (fails("mmap", n, CALLER)) return errno = ENOMEM, MAP_FAILED;
  return (void *)syscall(SYS_mmap, at, n, prot, flags, fd, off);
}

static void *next(const char *name) {
  inside++;
  void *f = dlsym(RTLD_NEXT, name);
  inside--;
  return f;
}

EXPORT int pthread_create(pthread_t *t, const pthread_attr_t *a, void *(*fn)(void *), void *arg) {
  static int (*real)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
  if (!real) *(void **)&real = next("pthread_create");
  if (g.mode == FORK || g.child || fails("thread", 0, CALLER)) return EAGAIN;
  return real(t, a, fn, arg);
}

static int open_at(int dir, const char *path, int flags, mode_t mode, const void *caller) {
  if (fails("open", 0, caller)) return errno = EMFILE, -1;
  return (int)syscall(SYS_openat, dir, path, flags, mode);
}

#define MODE_OF(flags, mode)               \
  mode_t mode = 0;                         \
  if ((flags) & (O_CREAT | __O_TMPFILE)) { \
    va_list ap;                            \
    va_start(ap, flags);                   \
    mode = va_arg(ap, mode_t);             \
    va_end(ap);                            \
  }

EXPORT int open(const char *path, int flags, ...) {
  MODE_OF(flags, mode)
  return open_at(AT_FDCWD, path, flags, mode, CALLER);
}
EXPORT int open64(const char *path, int flags, ...) {
  MODE_OF(flags, mode)
  return open_at(AT_FDCWD, path, flags, mode, CALLER);
}
EXPORT int openat(int dir, const char *path, int flags, ...) {
  MODE_OF(flags, mode)
  return open_at(dir, path, flags, mode, CALLER);
}
EXPORT int openat64(int dir, const char *path, int flags, ...) {
  MODE_OF(flags, mode)
  return open_at(dir, path, flags, mode, CALLER);
}

EXPORT FILE *fopen(const char *path, const char *mode) {
  static FILE *(*real)(const char *, const char *);
  if (!real) *(void **)&real = next("fopen");
  if (fails("fopen", 0, CALLER)) return errno = EMFILE, NULL;
  return real(path, mode);
}
EXPORT FILE *fopen64(const char *path, const char *mode);
FILE *fopen64(const char *path, const char *mode) { return fopen(path, mode); }

/* --- beginning and end ---------------------------------------------------------------------------------------------
 */

static int find_linker(struct dl_phdr_info *i, size_t size, void *user) {
  (void)size;
  (void)user;
  if (!i->dlpi_name || !strstr(i->dlpi_name, "ld-linux")) return 0;
  for (int s = 0; s < i->dlpi_phnum; s++) {
    const ElfW(Phdr) *h = &i->dlpi_phdr[s];
    if (h->p_type != PT_LOAD || !(h->p_flags & PF_X)) continue;
    g.linker[0] = i->dlpi_addr + h->p_vaddr;
    g.linker[1] = g.linker[0] + h->p_memsz;
  }
  return 0;
}

static long number(const char *name) {
  const char *v = getenv(name);
  const long n = v ? atol(v) : 0;
  unsetenv(name);
  return n;
}

__attribute__((constructor)) static void begin(void) {
  static const char *const modes[] = {"off", "count", "at", "fork"};
  const char *mode = getenv("OOM_MODE"), *log = getenv("OOM_LOG");
  void *f[FRAMES];
  if (!mode || !log) return;
  inside++;
  (void)backtrace(f, FRAMES); /* loads what it needs */
  g.told = mmap(NULL, sizeof *g.told, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  g.blocks = mmap(NULL, SLOTS * sizeof *g.blocks, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  g.log = fcntl((int)syscall(SYS_openat, AT_FDCWD, log, O_WRONLY | O_CREAT | O_APPEND, 0600), F_DUPFD_CLOEXEC, 200);
  for (int i = 0; i < 2; i++) {
    g.out[i] = fcntl(memfd_create("out", 0), F_DUPFD_CLOEXEC, 200);
    g.std[i] = fcntl(i + 1, F_DUPFD_CLOEXEC, 200);
  }
  dl_iterate_phdr(find_linker, NULL);
  int want = OFF;
  for (int i = 0; i < 4; i++)
    if (strcmp(mode, modes[i]) == 0) want = i;
  g.at = number("OOM_AT");
  g.to = number("OOM_TO");
  g.stride = number("OOM_STRIDE");
  g.seed = number("OOM_SEED");
  g.trace = number("OOM_TRACE");
  g.base = number("OOM_LIVE");
  g.copy = number("OOM_COPY");
  unsetenv("LD_PRELOAD"); /* programs that this one starts are not tested */
  unsetenv("OOM_MODE");
  unsetenv("OOM_LOG");
  inside--;
  g.mode = want;
}

__attribute__((destructor)) static void end(void) {
  if (!g.told) return;
  inside++;
  g.mode = OFF;
  tell_live(g.told);
  if (!g.child) {
    copy_so_far(g.std[0], g.out[0]);
    copy_so_far(g.std[1], g.out[1]);
    log_point(g.n, "end", 0, "here");
    log_end();
  }
}
