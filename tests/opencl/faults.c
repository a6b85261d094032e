/* SPDX-License-Identifier: Apache-2.0
 *
 * cl-faults NAME FOLDER: a model on an OpenCL plugin in one process, again and again: with the n-th memory object that
 * cannot be made, for every n until all are made, and with a device that is lost at the n-th kernel, for n through a
 * prompt and the steps behind it. Each time the run succeeds or fails as a device's failure with a cause (code 5 of the
 * commands), and the host device, opened in the same process afterwards, writes what it writes. The n-th build that
 * fails, with nothing remembered from before, ends in another kernel or in a refusal with its reason; builds take
 * seconds, so that every BUILD_BY-th is tried (TENON_TEST_ALL: every one).
 */
#include <dlfcn.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tenon/tenon.h>
#include <unistd.h>

enum { PROMPT = 5, STEPS = 2, MAX_N = 2000, LOSE_BY = 13, BUILD_BY = 11, HOST_EVERY = 32 };

static char folder[] = "/tmp/tenon-cl-faults-XXXXXX", model[1024];
static const char *plugin, *plugin_dir;
static uint64_t (*counter)(const char *);
static void (*again)(const char *);
static unsigned wrong, caches; /* caches: how many there were; a run uses the newest */

static bool write_profile(const char *path, const char *name) {
  FILE *f = fopen(path, "w");
  if (!f) return false;
  if (strcmp(name, "host"))
    fprintf(f, "plugins:\n  - {name: %s, options: {device_type: any}}\n  - host\nrequire: [%s]\nmax_seq: 64\n", name,
            name);
  else
    fprintf(f, "plugins: [host]\nmax_seq: 64\n");
  return fclose(f) == 0;
}

static tn_status score(tn_chat *chat, float *last, tn_error *err) {
  const float *logits = NULL;
  size_t rows = 0, vocab = 0;
  int32_t ids[PROMPT];
  for (int i = 0; i < PROMPT; i++) ids[i] = 5 + 131 * i;
  tn_status st = tn_chat_score(chat, ids, PROMPT, &logits, &rows, &vocab, err);
  for (int i = 0; st == TN_OK && i < STEPS; i++) st = tn_chat_score(chat, ids + i, 1, &logits, &rows, &vocab, err);
  if (st == TN_OK) *last = logits[(rows - 1) * vocab + 7];
  return st;
}

static tn_status run(const char *name, float *last, tn_error *err) {
  char profile[128], cache[128];
  tn_runtime *rt = NULL;
  tn_lm *lm = NULL;
  tn_chat *chat = NULL;
  snprintf(profile, sizeof profile, "%s/%s.yaml", folder, strcmp(name, "host") ? "device" : "host");
  snprintf(cache, sizeof cache, "%s/cache%u", folder, caches);
  tn_error_init(err);
  if (!write_profile(profile, name)) return TN_E_IO;
  const tn_runtime_opts o = {.h = {sizeof o, 1, 0},
                             .profile = profile,
                             .plugin_dirs = &plugin_dir,
                             .n_plugin_dirs = 1,
                             .cache_dir = cache,
                             .threads = 2,
                             .flags = TN_RT_TEST_WRITABLE | TN_RT_NO_PROBE};
  const tn_lm_opts lo = {.h = {sizeof lo, 1, 0}};
  tn_status st = tn_runtime_create(&o, &rt, err);
  if (st == TN_OK) st = tn_lm_load(rt, model, &lo, &lm, err);
  if (st == TN_OK) st = tn_chat_create(lm, &chat, err);
  if (st == TN_OK) st = score(chat, last, err);
  tn_chat_destroy(chat);
  tn_lm_destroy(lm);
  tn_runtime_destroy(rt);
  return st;
}

static void complain(const char *words, const char *what, tn_status st, const tn_error *err) {
  wrong++;
  printf("WRONG with '%s': %s (status %d: %s)\n", words, what, (int)st, err->message);
}

/* With the accident of `words`; must: the run cannot succeed. */
static void with(const char *words, bool must, float want) {
  tn_error err;
  float got = NAN;
  again(words);
  tn_status st = run(plugin, &got, &err);
  if (st == TN_OK && must) complain(words, "it went through", st, &err);
  if (st == TN_OK && got != want) complain(words, "other logits", st, &err);
  if (st == TN_OK) return;
  if (st != TN_E_NO_MEMORY && st != TN_E_DEVICE_LOST && st != TN_E_INTERNAL)
    complain(words, "not a device's failure", st, &err);
  if (!err.message[0]) complain(words, "no cause", st, &err);
}

/* Another kernel adds in another order: only that there are logits is asked. */
static void with_build(uint64_t n) {
  char words[64];
  tn_error err;
  float got = NAN;
  caches++;
  snprintf(words, sizeof words, "fail_build=%llu", (unsigned long long)n);
  again(words);
  tn_status st = run(plugin, &got, &err);
  if (st == TN_OK && !isfinite(got)) complain(words, "no logits", st, &err);
  if (st == TN_OK) return;
  if (st != TN_E_UNSUPPORTED && st != TN_E_UNAVAILABLE && st != TN_E_INTERNAL)
    complain(words, "not a refusal", st, &err);
  if (!err.message[0]) complain(words, "no cause", st, &err);
}

static void host_runs(const char *words, float want) {
  tn_error err;
  float got = NAN;
  tn_status st = run("host", &got, &err);
  if (st != TN_OK || got != want) complain(words, "the host device does not do what it did before", st, &err);
}

static void each(const char *what, uint64_t first, uint64_t end, uint64_t by, bool must, float want, float host) {
  char words[64];
  for (uint64_t n = first; n <= end && n < MAX_N && wrong < 5; n += by) {
    snprintf(words, sizeof words, what, (unsigned long long)n);
    with(words, must, want);
    if (n / by % HOST_EVERY == 1) host_runs(words, host);
  }
}

static void clean(void) {
  char command[128];
  snprintf(command, sizeof command, "rm -rf %s", folder);
  if (system(command)) wrong++;
}

int main(int argc, char **argv) {
  float want = NAN, host = NAN;
  tn_error err;
  if (argc < 4 || !mkdtemp(folder)) return 2;
  plugin = argv[1];
  plugin_dir = argv[2];
  snprintf(model, sizeof model, "%s", argv[3]);
  tn_status st = run(plugin, &want, &err); /* loads the loader and with it the layer; builds and tests kernels */
  void *layer = dlopen(getenv("OPENCL_LAYERS"), RTLD_NOW | RTLD_NOLOAD);
  if (layer) *(void **)&counter = dlsym(layer, "tenon_cl_layer_counter");
  if (layer) *(void **)&again = dlsym(layer, "tenon_cl_layer_again");
  if (st != TN_OK || !counter || !again || run("host", &host, &err) != TN_OK) {
    printf("cannot begin: %s\n", err.message);
    clean();
    return 1;
  }
  with("", false, want);
  const uint64_t objects = counter("objects"), kernels = counter("kernels_run");
  caches++;
  with("", false, want);
  const uint64_t builds = counter("source_builds"), by = getenv("TENON_TEST_ALL") ? 1 : BUILD_BY;
  for (uint64_t n = 1; n <= builds && wrong < 5; n += by) with_build(n);
  host_runs("fail_build", host);
  each("fail_alloc=%llu", 1, objects + 1, 1, false, want, host);
  each("lose=%llu lost=late", 1, kernels, LOSE_BY, true, want, host);
  each("lose_event=%llu lost=late", 1, kernels, 4 * LOSE_BY, true, want, host);
  with("", false, want); /* and whole again */
  host_runs("", host);
  printf("%s: %llu objects, %llu kernels, %llu builds, %u wrong\n", plugin, (unsigned long long)objects,
         (unsigned long long)kernels, (unsigned long long)builds, wrong);
  clean();
  return wrong || objects < 8 || kernels < 50 || builds < 8;
}
