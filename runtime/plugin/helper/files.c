/* SPDX-License-Identifier: Apache-2.0
 *
 * Landlock: which files a plugin's process may open. The kernel's header may be older than the kernel, so what is newer
 * than Debian 12's stands here (include/uapi/linux/landlock.h of Linux 6.12).
 */
#include <dirent.h>
#include <fcntl.h>
#include <glob.h>
#include <limits.h>
#include <linux/landlock.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "runtime/plugin/helper/confine.h"

enum { NEWEST = 6 };
static const uint64_t TRUNCATE = UINT64_C(1) << 14, IOCTL_DEV = UINT64_C(1) << 15, NET = 3, SCOPE = 3;

struct ruleset_attr {
  uint64_t fs, net, scoped;
};

enum {
  READ = LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_READ_DIR,
  RUN = READ | LANDLOCK_ACCESS_FS_EXECUTE,
  /* Files and folders; no sockets, pipes, links or devices. */
  KEEP = READ | LANDLOCK_ACCESS_FS_WRITE_FILE | LANDLOCK_ACCESS_FS_REMOVE_DIR | LANDLOCK_ACCESS_FS_REMOVE_FILE |
         LANDLOCK_ACCESS_FS_MAKE_DIR | LANDLOCK_ACCESS_FS_MAKE_REG,
  OF_FILES = LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_WRITE_FILE | LANDLOCK_ACCESS_FS_EXECUTE,
  ALL_1 = (LANDLOCK_ACCESS_FS_MAKE_SYM << 1) - 1
};

typedef struct files_wall {
  int set;
  uint64_t handled;
} files_wall;

/* --- rules ------------------------------------------------------------------------------------------------------- */

static void allow_path(const files_wall *w, const char *path, uint64_t access) {
  struct landlock_path_beneath_attr rule = {.parent_fd = open(path, O_PATH | O_CLOEXEC)};
  struct stat s;
  if (rule.parent_fd < 0) return; /* what is not there needs no permission */
  if (fstat(rule.parent_fd, &s) == 0) {
    if (!S_ISDIR(s.st_mode)) access &= OF_FILES | TRUNCATE | IOCTL_DEV;
    rule.allowed_access = access & w->handled;
    (void)syscall(SYS_landlock_add_rule, w->set, LANDLOCK_RULE_PATH_BENEATH, &rule, 0);
  }
  close(rule.parent_fd);
}

static void allow_matching(const files_wall *w, const char *pattern, uint64_t access) {
  glob_t found;
  if (glob(pattern, GLOB_NOSORT, NULL, &found) == 0)
    for (size_t i = 0; i < found.gl_pathc; i++) allow_path(w, found.gl_pathv[i], access);
  globfree(&found);
}

static void allow_folder_of(const files_wall *w, const char *file, uint64_t access) {
  char path[PATH_MAX], real[PATH_MAX];
  snprintf(path, sizeof path, "%s", realpath(file, real) ? real : file);
  char *slash = strrchr(path, '/');
  if (path[0] != '/' || !slash || slash == path) return;
  *slash = '\0';
  allow_path(w, path, access);
}

/* Each part of a list such as LD_LIBRARY_PATH: a folder, or a file with the folder it lies in. */
static void allow_list(const files_wall *w, const char *variable, uint64_t access) {
  const char *at = getenv(variable);
  while (at && *at) {
    char path[PATH_MAX];
    struct stat s;
    const size_t n = strcspn(at, ":");
    snprintf(path, sizeof path, "%.*s", (int)n, at);
    if (stat(path, &s) == 0 && !S_ISDIR(s.st_mode)) allow_folder_of(w, path, access);
    if (path[0] == '/') allow_path(w, path, access);
    at += n + (at[n] == ':');
  }
}

/* The plugin's folder, and what libraries it may need: those beside it in a bundle (plugins/ and lib/), those that it
 * was installed with (lib/tenon/plugins). */
static void allow_libraries(const files_wall *w, const char *folder, uint64_t access) {
  static const char installed[] = "/tenon/plugins";
  char path[PATH_MAX];
  const size_t n = strlen(folder), m = sizeof installed - 1;
  allow_path(w, folder, access);
  if (snprintf(path, sizeof path, "%s/../lib", folder) < (int)sizeof path) allow_path(w, path, access);
  if (n > m && strcmp(folder + n - m, installed) == 0 && n - m < sizeof path) {
    snprintf(path, sizeof path, "%.*s", (int)(n - m), folder);
    allow_path(w, path, access);
  }
}

/* OpenCL's drivers: NAME.icd holds the library's path in its first line. */
static void allow_icd(const files_wall *w, const char *file) {
  char line[PATH_MAX] = "";
  FILE *f = fopen(file, "re");
  if (f && fgets(line, sizeof line, f)) {
    line[strcspn(line, "\r\n")] = '\0';
    if (line[0] == '/') allow_folder_of(w, line, RUN);
  }
  if (f) fclose(f);
}

static void allow_drivers(const files_wall *w) {
  const char *vendors = getenv("OCL_ICD_VENDORS");
  const char *folder = vendors && *vendors ? vendors : "/etc/OpenCL/vendors";
  char path[PATH_MAX];
  allow_list(w, "OCL_ICD_VENDORS", RUN);
  allow_list(w, "OPENCL_LAYERS", RUN);
  allow_icd(w, folder);
  DIR *d = opendir(folder);
  for (struct dirent *e; d && (e = readdir(d));)
    if (snprintf(path, sizeof path, "%s/%s", folder, e->d_name) < (int)sizeof path && e->d_name[0] != '.')
      allow_icd(w, path);
  if (d) closedir(d);
}

/* --- levels ------------------------------------------------------------------------------------------------------ */

/* What every process reads: libraries, locales, zones, what the processor is. */
static void allow_system(const files_wall *w, uint64_t access) {
  static const char *const places[] = {"/usr",
                                       "/lib",
                                       "/lib32",
                                       "/lib64",
                                       "/system",
                                       "/apex",
                                       "/linkerconfig",
                                       "/etc/ld.so.cache",
                                       "/etc/ld.so.preload",
                                       "/etc/localtime",
                                       "/etc/locale.alias",
                                       "/proc/self",
                                       "/proc/cpuinfo",
                                       "/proc/meminfo",
                                       "/proc/stat",
                                       "/proc/version",
                                       "/proc/filesystems",
                                       "/proc/sys/vm/overcommit_memory",
                                       "/sys/devices/system",
                                       "/sys/fs/cgroup",
                                       "/sys/kernel/mm/transparent_hugepage"};
  for (size_t i = 0; i < sizeof places / sizeof *places; i++) allow_path(w, places[i], access);
  allow_path(w, "/dev/urandom", READ);
  allow_path(w, "/dev/random", READ);
  allow_path(w, "/dev/null", READ | LANDLOCK_ACCESS_FS_WRITE_FILE | TRUNCATE);
  allow_path(w, "/dev/zero", READ | LANDLOCK_ACCESS_FS_WRITE_FILE | TRUNCATE);
}

/* And what drivers read, and the devices that they open: no disks, no terminals, no input. */
static void allow_devices(const files_wall *w) {
  static const char *const places[] = {"/bin", "/sbin",    "/etc",        "/opt",  "/vendor",
                                       "/odm", "/product", "/system_ext", "/proc", "/sys"};
  static const char *const devices[] = {
      "/dev/dri",     "/dev/kfd",      "/dev/nvidia*",  "/dev/mali*",     "/dev/kgsl*",   "/dev/dma_heap",
      "/dev/ion",     "/dev/adsprpc*", "/dev/fastrpc*", "/dev/accel",     "/dev/apu*",    "/dev/rknpu*",
      "/dev/udmabuf", "/dev/binder",   "/dev/hwbinder", "/dev/vndbinder", "/dev/pvr*",    "/dev/vha*",
      "/dev/hailo*",  "/dev/apex_*",   "/dev/galcore",  "/dev/genpu",     "/dev/sw_sync", "/dev/shm"};
  const uint64_t open_them = READ | LANDLOCK_ACCESS_FS_WRITE_FILE | LANDLOCK_ACCESS_FS_MAKE_REG |
                             LANDLOCK_ACCESS_FS_REMOVE_FILE | TRUNCATE | IOCTL_DEV;
  for (size_t i = 0; i < sizeof places / sizeof *places; i++) allow_path(w, places[i], RUN);
  for (size_t i = 0; i < sizeof devices / sizeof *devices; i++) allow_matching(w, devices[i], open_them);
  allow_path(w, "/dev", LANDLOCK_ACCESS_FS_READ_DIR);
  allow_drivers(w);
}

/* --- folders of the plugin's own --------------------------------------------------------------------------------- */

static bool make_folder(const char *path) {
  struct stat s;
  return tni_make_folder(path) == 0 && lstat(path, &s) == 0 && S_ISDIR(s.st_mode);
}

static const char *cache_folder(const helper_places *p, char path[PATH_MAX]) {
  if (!p->cache_dir || snprintf(path, PATH_MAX, "%s/plugins/%s", p->cache_dir, p->name) >= PATH_MAX) return NULL;
  return make_folder(path) ? path : NULL;
}

const char *helper_own_folder(const helper_places *p, bool *temporary) {
  static char path[PATH_MAX];
  static const char *const variables[] = {"XDG_CACHE_HOME", "TMPDIR", "POCL_CACHE_DIR"};
  *temporary = false;
  if (!p->cache_dir || snprintf(path, sizeof path, "%s/drivers/%s", p->cache_dir, p->name) >= (int)sizeof path ||
      !make_folder(path)) {
    const char *tmp = getenv("TMPDIR");
    snprintf(path, sizeof path, "%s/tenon-driver-XXXXXX", tmp && *tmp ? tmp : "/tmp");
    *temporary = mkdtemp(path) != NULL;
    if (!*temporary) return NULL;
  }
  for (size_t i = 0; i < sizeof variables / sizeof *variables; i++) setenv(variables[i], path, 1);
  return path;
}

/* --- the wall ---------------------------------------------------------------------------------------------------- */

static uint64_t handled_by(uint32_t version) {
  return ALL_1 | (version >= 2 ? (uint64_t)LANDLOCK_ACCESS_FS_REFER : 0) | (version >= 3 ? TRUNCATE : 0) |
         (version >= 5 ? IOCTL_DEV : 0);
}

static int make_ruleset(uint32_t version, uint64_t handled) {
  const struct ruleset_attr a = {handled, version >= 4 ? NET : 0, version >= 6 ? SCOPE : 0};
  const size_t size = version >= 6 ? sizeof a : version >= 4 ? 16 : 8; /* what the kernel knows of it */
  return (int)syscall(SYS_landlock_create_ruleset, &a, size, 0);
}

uint32_t helper_wall_files(uint32_t level, const helper_places *p) {
  const long found = syscall(SYS_landlock_create_ruleset, NULL, 0, LANDLOCK_CREATE_RULESET_VERSION);
  if (found <= 0) return 0;
  const uint32_t version = found > NEWEST ? NEWEST : (uint32_t)found;
  files_wall w = {.handled = handled_by(version)};
  char cache[PATH_MAX];
  if ((w.set = make_ruleset(version, w.handled)) < 0) return 0;
  const bool driver = level == TNI_CONFINE_DRIVER;
  allow_system(&w, driver ? RUN : READ);
  allow_libraries(&w, p->folder, READ);
  allow_list(&w, "LD_LIBRARY_PATH", READ);
  if (cache_folder(p, cache)) allow_path(&w, cache, KEEP | TRUNCATE);
  if (driver) {
    allow_devices(&w);
    if (p->own) allow_path(&w, p->own, KEEP | TRUNCATE | LANDLOCK_ACCESS_FS_EXECUTE | LANDLOCK_ACCESS_FS_REFER);
  }
  const bool ok = syscall(SYS_landlock_restrict_self, w.set, 0) == 0;
  close(w.set);
  return ok ? version : 0;
}
