/* SPDX-License-Identifier: Apache-2.0
 *
 * Inside tn_bundle_make. It goes: open the devices and place the model (make.c); copy what is needed into a temporary
 * folder beside the bundle's name (tree.c: every file is hashed on its way), model (model.c), profile (profile.c),
 * plugins and program with their libraries (elf.c, parts.c), licences (licence.c); pack into it; write run.sh, SPDX and
 * bundle.json (list.c); rename. Paths of entries are relative to the bundle.
 */
#ifndef TENON_BUNDLE_INTERNAL_H
#define TENON_BUNDLE_INTERNAL_H

#include <stdbool.h>

#include <tenon/bundle.h>

#include "runtime/base/base.h"
#include "runtime/base/json.h"
#include "runtime/place/place.h"

typedef struct tni_bd_sums {
  uint64_t bytes;
  uint8_t sha256[32], sha1[20];
  uint64_t xxh[2]; /* low, high */
  uint32_t crc;    /* as POSIX cksum prints it */
} tni_bd_sums;

typedef struct tni_bd_file {
  const char *path, *role;
  const char *package; /* Debian's, of a library; NULL: Tenon's own, or nobody's */
  tni_bd_sums sums;
} tni_bd_file;

enum { TNI_BD_FILES = 4096, TNI_BD_NAMES = 64 };

/* What a plugin asked for with host->resource while the model was packed. */
typedef struct tni_bd_resource {
  struct tni_bd_resource *next;
  uint32_t plugin; /* its index */
  const char *name;
} tni_bd_resource;

typedef struct tni_bd {
  tni_arena *arena;
  tn_runtime_opts ro;
  tn_bundle_opts o;
  char *stage; /* the temporary folder; NULL: none yet */
  tni_bd_file files[TNI_BD_FILES];
  uint32_t n_files;
  const char *names[TNI_BD_NAMES]; /* plugins to ship, the host apart */
  const char *paths[TNI_BD_NAMES]; /* their .so */
  uint32_t nodes[TNI_BD_NAMES], n_names;
  const char *formats[TNI_BD_NAMES];  /* what their option `format` is to say; NULL: what it says */
  tni_bd_resource *resources;
  const char *packages[TNI_BD_NAMES]; /* that were linked into the program */
  uint32_t n_packages;
  bool foreign, linked;
  uint16_t machine; /* ELF's, of the program */
  const char *arch; /* "x86-64" */
  const char *model, *command, *calibration;
  tni_profile *profile; /* the one that was asked for */
  json_t *left_out;
  int missed; /* errno of what could not be looked at (tni_bd_missed); 0: nothing */
  tn_error *err;
} tni_bd;

/* tree.c. Relative folders are made as needed; times and modes are set. role is kept, not copied. */
tn_status tni_bd_sum(const char *path, tni_bd_sums *out, tn_error *err);
tn_status tni_bd_copy(tni_bd *b, const char *from, const char *to, const char *role, bool executable);
tn_status tni_bd_write(tni_bd *b, const char *to, const void *data, size_t n, const char *role, bool executable);
tn_status tni_bd_adopt(tni_bd *b, const char *to, const char *role); /* a file that lies in the stage already */
tn_status tni_bd_stage(tni_bd *b);
tn_status tni_bd_publish(tni_bd *b);
void tni_bd_discard(tni_bd *b);
const tni_bd_file *tni_bd_find(const tni_bd *b, const char *path);
/* A file that was taken lies in that folder. */
bool tni_bd_find_in(const tni_bd *b, const char *folder);
void tni_bd_sort(tni_bd *b);
uint64_t tni_bd_total(const tni_bd *b);
char *tni_bd_text(tni_bd *b, const char *fmt, ...) TN_PRINTF(2, 3); /* the arena's; NULL without memory, which is noted */
/* A question was not answered: e, an errno, says why. That something is not there or not for us to read is an answer; of
 * what else there is, the first is noted, and tni_bd_whole fails. For questions whose "no" is no error. */
void tni_bd_missed(tni_bd *b, int e);
tn_status tni_bd_whole(const tni_bd *b);
/* realpath into *to, of PATH_MAX bytes; false: noted where that is due. */
bool tni_bd_real(tni_bd *b, const char *path, char *to);
void tni_bd_leave(tni_bd *b, const char *what, const char *why);
/* Takes ranges out of a file that lies in the stage. */
tn_status tni_bd_cut(tni_bd *b, const char *to, const tni_cut *cuts, uint32_t n);

/* profile.c. The profile's text with these plugins only; paths as they are to stand in it (calibration NULL: none;
 * plugin_path: whether it stays, made absolute). *out: malloc'd. */
tn_status tni_bd_profile(const tni_bd *b, const char *const *names, uint32_t n, const char *calibration,
                         bool plugin_path, char **out);

/* model.c */
tn_status tni_bd_model(tni_bd *b, const tn_model *m);

/* leave.c. Tables that nobody reads once they are packed (`embeddings: packed`). find: of a model whose weights are
 * packed; cut: after it is closed, *n: how many there were. */
struct tni_bd_tables;
tn_status tni_bd_tables_find(tni_bd *b, const tn_model *m, struct tni_bd_tables **out);
tn_status tni_bd_tables_cut(tni_bd *b, const struct tni_bd_tables *t, uint32_t *n);

/* elf.c */
typedef struct tni_elf {
  uint16_t machine;
  const char *needed[128], *runpath; /* the arena's */
  uint32_t n_needed;
} tni_elf;
tn_status tni_elf_read(tni_arena *a, const char *path, tni_elf *out, tn_error *err);
const char *tni_elf_arch(uint16_t machine); /* "x86-64", "aarch64" or NULL */

/* parts.c: program, plugins, and the libraries that they need. */
tn_status tni_bd_parts(tni_bd *b);
/* Files of the plugins' folders, once it is known which they ask for. */
tn_status tni_bd_resources(tni_bd *b);

/* licence.c: of Tenon and of the packages that libraries come from. */
const char *tni_bd_package(tni_bd *b, const char *path);
const char *tni_bd_version(tni_bd *b, const char *package);
tn_status tni_bd_licences(tni_bd *b);

/* list.c */
tn_status tni_bd_script(tni_bd *b);
tn_status tni_bd_spdx(tni_bd *b);
tn_status tni_bd_list(tni_bd *b);
json_t *tni_bd_report(const tni_bd *b);
void tni_bd_hex(const uint8_t *p, size_t n, char *out); /* 2n + 1 */

#endif
