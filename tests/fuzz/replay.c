/* SPDX-License-Identifier: Apache-2.0
 *
 * Runs files through a target without libFuzzer: fuzz_NAME_replay FILE|FOLDER...
 * fuzz_host_replay --model OUT FILE writes the model that the generator makes of a file: what it makes changes with the
 * op table, so a regression is kept as a model.
 *
 * The process may not ask for more than 1 GiB of memory in all (where no sanitizer keeps its own).
 */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "tests/fuzz/gen.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define SANITIZED 1
#endif
#endif
#ifndef SANITIZED
#define SANITIZED 0
#endif

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);
/* What libFuzzer has for custom mutators; nothing here calls those. */
size_t LLVMFuzzerMutate(uint8_t *data, size_t n, size_t most);
size_t LLVMFuzzerMutate(uint8_t *data, size_t n, size_t most) {
  (void)data;
  (void)most;
  return n;
}
static unsigned n_files;
static const char *model_out;

static void write_model(const uint8_t *p, size_t n) {
  size_t size = 0;
  uint8_t *model = fz_generate_bytes(p, n, &size);
  FILE *f = fopen(model_out, "wb");
  if (!model || !f || fwrite(model, 1, size, f) != size || fclose(f) != 0) exit(1);
  free(model);
}

static void file(const char *path) {
  FILE *f = fopen(path, "rb");
  struct stat st;
  if (!f || fstat(fileno(f), &st) != 0) {
    fprintf(stderr, "cannot read '%s'\n", path);
    exit(1);
  }
  const size_t n = (size_t)st.st_size;
  uint8_t *p = malloc(n + 1); /* exactly n: reading past the end is seen by ASan */
  uint8_t *exact = n ? realloc(p, n) : p;
  if (!exact || fread(exact, 1, n, f) != n) {
    fprintf(stderr, "cannot read '%s'\n", path);
    exit(1);
  }
  fclose(f);
  fprintf(stderr, "%s\n", path);
  if (model_out)
    write_model(exact, n);
  else
    (void)LLVMFuzzerTestOneInput(exact, n);
  free(exact);
  n_files++;
}

static void any(const char *path) {
  DIR *d = opendir(path);
  if (!d) {
    file(path);
    return;
  }
  for (struct dirent *e; (e = readdir(d));) {
    char sub[4096];
    if (*e->d_name == '.') continue;
    snprintf(sub, sizeof sub, "%s/%s", path, e->d_name);
    any(sub);
  }
  closedir(d);
}

int main(int argc, char **argv) {
  const struct rlimit most = {1u << 30, 1u << 30};
  if (!SANITIZED) (void)setrlimit(RLIMIT_DATA, &most);
  int first = 1;
  if (argc > 3 && strcmp(argv[1], "--model") == 0) {
    model_out = argv[2];
    first = 3;
  }
  for (int i = first; i < argc; i++) any(argv[i]);
  printf("%u files\n", n_files);
  return n_files ? 0 : 1;
}
