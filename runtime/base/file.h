/* SPDX-License-Identifier: Apache-2.0
 *
 * Read-only file mappings; folders.
 */
#ifndef TENON_BASE_FILE_H
#define TENON_BASE_FILE_H

#include <stdbool.h>
#include <stdio.h>

#include "runtime/base/error.h"
#include "runtime/base/watch.h"

typedef struct tni_file {
  const void *data; /* NULL for an empty file */
  uint64_t bytes;
  /* What recognises the same file again. generation tells two files apart that had one inode after another; 0: the file
   * system does not say. */
  uint64_t device, inode, generation;
  int64_t mtime_ns, ctime_ns;
  tni_watch *watch; /* NULL: nothing, or a copy in memory, which nobody else can change */
} tni_file;

/* Opens path to read, close-on-exec; -1: errno says why. A pipe or a device that nobody writes to does not block here:
 * the caller looks what it is. */
int tni_file_open(const char *path);

/* Maps path shared and read-only. Directories, missing and unreadable files are errors that name path:
 * TN_E_UNAVAILABLE (missing), TN_E_INVALID (not a regular file), TN_E_IO. */
TN_MUST_CHECK tn_status tni_file_map(const char *path, tni_file *out, tn_error *err);
/* The same for an open descriptor, which stays the caller's. */
TN_MUST_CHECK tn_status tni_file_map_fd(int fd, const char *path, tni_file *out, tn_error *err);
/* A range that a file lacks, in whole units: offset and size of it in the whole file. */
enum { TNI_CUT_UNIT = 64 * 1024 };
typedef struct tni_cut {
  uint64_t at, bytes;
} tni_cut;
/* tni_file_map of a copy in memory, for small files: nothing that happens to the file later is seen. */
TN_MUST_CHECK tn_status tni_file_read(const char *path, tni_file *out, tn_error *err);
/* tni_file_map_fd of a file that ranges were cut out of (ascending, disjoint): out is the whole file, with zeros that
 * take no memory where they were. TN_E_CORRUPT where the file and the ranges cannot belong together. copy: as
 * tni_file_read. */
TN_MUST_CHECK tn_status tni_file_map_cut(int fd, const char *path, const tni_cut *cuts, uint32_t n, bool copy,
                                         tni_file *out, tn_error *err);
/* tni_watch_check of a mapped file. */
TN_MUST_CHECK tn_status tni_file_check(const tni_file *f, const char *path, uint32_t what, tn_error *err);
void tni_file_unmap(tni_file *f);
/* The pages of [p, p + bytes), which lie in a shared file mapping, leave this process's memory; the system may keep
 * them and gives them back when they are touched. Nothing is lost, what was written included. */
void tni_file_drop(const void *p, uint64_t bytes);
/* n bytes of an open file from `at` on. false: errno says why; EIO where the file ends before. */
bool tni_file_get(void *to, uint64_t n, int fd, uint64_t at);
bool tni_file_put(const void *from, uint64_t n, int fd, uint64_t at);
/* The disk has room for them from here on. EFBIG: not within the process's limit. */
bool tni_file_reserve(int fd, uint64_t at, uint64_t n);
/* Closes a stream that was written to. 0, or the errno of what failed, now or in an earlier write of it: ENOSPC, EIO,
 * ... */
int tni_close_written(FILE *f);
/* Makes the folder and those above it that are missing, mode 0700. 0, or an errno. */
int tni_make_folder(const char *path);
/* "FOLDER/NAME", malloc'd; NULL without memory. */
char *tni_file_in(const char *folder, const char *name);
/* The folder of a regular file, or path itself where it is not one; without slashes at the end. malloc'd; NULL without
 * memory. */
char *tni_path_folder(const char *path);
/* The path of something below the folder that it is relative to: it is not absolute, and no part of it is "..". */
bool tni_stays_inside(const char *path);

#endif
