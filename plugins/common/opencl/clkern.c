/* SPDX-License-Identifier: Apache-2.0 */
#include "plugins/common/opencl/clkern.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "plugins/common/opencl/clsource.h"

/* Operands' names in macros T_..., by kind. */
static const char *const kernel_macros[TNI_CLK_COUNT][7] = {
    [TNI_CLK_GATHER] = {"T", "I", "Y"},
    [TNI_CLK_NORM] = {"X", "S", "B", "Y"},
    [TNI_CLK_GEMV] = {"X", "W", "WS", "Y"},
    [TNI_CLK_GEMM] = {"X", "W", "WS", "Y"},
    [TNI_CLK_EW] = {NULL},
    [TNI_CLK_ROTARY] = {"X", "C", "S", "P", "Y"},
    [TNI_CLK_APPEND] = {"X", "P", "Y"},
    [TNI_CLK_ATTN] = {"Q", "K", "V", "M", "VALID", "Y"},
    [TNI_CLK_MATMUL] = {"A", "B", "Y"},
};

/* --- what is known of a program from earlier starts ------------------------------------------------------------- */

enum { STATE_BUILDING = 1, STATE_FAILED = 2, STATE_BUILT = 3, STATE_GOOD = 4, STATE_WRONG = 5 };
typedef struct build_state {
  uint32_t what;
  int32_t pid;
  char text[120];
} build_state;

typedef struct cache_key {
  char *text;
  size_t n;
} cache_key;

/* "binary\0name\0options\0source": the host adds plugin and driver. */
static cache_key make_key(tni_cl_kernels *k, const tni_cl_program *p, const char *what) {
  const char *parts[] = {what, p->name, p->options, p->source};
  cache_key o = {0};
  for (size_t i = 0; i < 4; i++) o.n += strlen(parts[i]) + 1;
  o.text = k->host->alloc(k->host->ctx, o.n, 16, TN_TAG_PLUGIN);
  for (size_t i = 0, at = 0; o.text && i < 4; i++) {
    memcpy(o.text + at, parts[i], strlen(parts[i]) + 1);
    at += strlen(parts[i]) + 1;
  }
  return o;
}

static void put_in_cache(tni_cl_kernels *k, const tni_cl_program *p, const char *what, const void *data, size_t n) {
  cache_key o = make_key(k, p, what);
  if (o.text) (void)!k->host->cache_put(k->host->ctx, o.text, o.n, data, n);
  k->host->free(k->host->ctx, o.text);
}

static bool get_from_cache(tni_cl_kernels *k, const tni_cl_program *p, const char *what, const void **data,
                           uint64_t *n) {
  cache_key o = make_key(k, p, what);
  tn_status st = o.text ? k->host->cache_get(k->host->ctx, o.text, o.n, data, n) : TN_E_NO_MEMORY;
  k->host->free(k->host->ctx, o.text);
  return st == TN_OK;
}

static void remember_state(tni_cl_kernels *k, const tni_cl_program *p, uint32_t what, const char *text) {
  build_state s = {.what = what, .pid = (int32_t)getpid()};
  snprintf(s.text, sizeof s.text, "%s", text);
  put_in_cache(k, p, "state", &s, sizeof s);
}

static build_state recall_state(tni_cl_kernels *k, const tni_cl_program *p) {
  const void *data;
  uint64_t n;
  build_state s = {0};
  if (get_from_cache(k, p, "state", &data, &n) && n == sizeof s) memcpy(&s, data, sizeof s);
  s.text[sizeof s.text - 1] = 0;
  return s;
}

/* --- building --------------------------------------------------------------------------------------------------- */

static void log_program(tni_cl_kernels *k, uint32_t level, const tni_cl_program *p, const char *text) {
  char line[320];
  snprintf(line, sizeof line, "%s: kernel %s: %s", k->c->info->name, p->name, text);
  k->host->log(k->host->ctx, level, line);
}

static const char *keep_text(tni_cl_kernels *k, const char *text) {
  const char *copy = tni_cm_text(&k->mem, "", text);
  return copy ? copy : "out of memory";
}

/* Kept after a binary: drivers crash on one that is damaged. */
enum { SUM_BYTES = sizeof(uint64_t) };

static bool is_whole(const unsigned char *bytes, uint64_t n) {
  uint64_t sum;
  if (n <= SUM_BYTES) return false;
  memcpy(&sum, bytes + n - SUM_BYTES, SUM_BYTES);
  return sum == tni_cl_fnv(TNI_CL_FNV, bytes, (size_t)n - SUM_BYTES);
}

static bool build_binary(tni_cl_kernels *k, tni_cl_program *p) {
  const tni_cl_api *a = k->c->api;
  const void *data;
  uint64_t n;
  cl_int status = CL_SUCCESS, code = CL_SUCCESS;
  if (!get_from_cache(k, p, "binary", &data, &n)) return false;
  const unsigned char *bytes = data;
  if (!is_whole(bytes, n)) return false;
  const size_t size = (size_t)n - SUM_BYTES;
  cl_program prog = a->CreateProgramWithBinary(k->c->context, 1, &k->c->info->id, &size, &bytes, &status, &code);
  if (prog && code == CL_SUCCESS && status == CL_SUCCESS)
    code = a->BuildProgram(prog, 1, &k->c->info->id, p->options, NULL, NULL);
  if (prog && code == CL_SUCCESS && status == CL_SUCCESS) {
    p->program = prog;
    k->binary_builds++;
    return true;
  }
  if (prog) a->ReleaseProgram(prog);
  return false;
}

/* A driver without compiled code at hand gives size 0: nothing is kept then. */
static void keep_binary(tni_cl_kernels *k, const tni_cl_program *p) {
  const tni_cl_api *a = k->c->api;
  size_t n = 0;
  if (a->GetProgramInfo(p->program, CL_PROGRAM_BINARY_SIZES, sizeof n, &n, NULL) != CL_SUCCESS || n == 0) return;
  unsigned char *bytes = k->host->alloc(k->host->ctx, n + SUM_BYTES, 64, TN_TAG_SCRATCH);
  if (!bytes) return;
  if (a->GetProgramInfo(p->program, CL_PROGRAM_BINARIES, sizeof bytes, &bytes, NULL) == CL_SUCCESS) {
    const uint64_t sum = tni_cl_fnv(TNI_CL_FNV, bytes, n);
    memcpy(bytes + n, &sum, SUM_BYTES);
    put_in_cache(k, p, "binary", bytes, n + SUM_BYTES);
  }
  k->host->free(k->host->ctx, bytes);
}

static const char *build_log(tni_cl_kernels *k, cl_program prog, cl_int code) {
  char text[2048] = "", line[160], buf[32];
  size_t n = 0;
  (void)!k->c->api->GetProgramBuildInfo(prog, k->c->info->id, CL_PROGRAM_BUILD_LOG, sizeof text - 1, text, &n);
  const char *at = strstr(text, "error");
  snprintf(line, sizeof line, "build failed, %s: %.100s", tni_cl_error(code, buf), at ? at : text);
  for (char *c = line; *c; c++)
    if (*c == '\n') *c = ' ';
  return keep_text(k, line);
}

static cl_int build_once(tni_cl_kernels *k, tni_cl_program *p) {
  const tni_cl_api *a = k->c->api;
  const char *texts[] = {p->source};
  cl_int code = CL_SUCCESS;
  cl_program prog = a->CreateProgramWithSource(k->c->context, 1, texts, NULL, &code);
  if (!prog) return code ? code : CL_OUT_OF_HOST_MEMORY;
  k->source_builds++;
  code = a->BuildProgram(prog, 1, &k->c->info->id, p->options, NULL, NULL);
  if (code == CL_SUCCESS) {
    p->program = prog;
    return code;
  }
  p->why = build_log(k, prog, code);
  a->ReleaseProgram(prog);
  return code;
}

/* Some drivers compile when the first kernel is made: its binary is taken after that. */
static cl_int touch_kernel(tni_cl_kernels *k, const tni_cl_program *p) {
  cl_int code = CL_SUCCESS;
  cl_kernel kernel = k->c->api->CreateKernel(p->program, p->name, &code);
  if (kernel) k->c->api->ReleaseKernel(kernel);
  return kernel ? CL_SUCCESS : code ? code : CL_INVALID_KERNEL_NAME;
}

static void build_source(tni_cl_kernels *k, tni_cl_program *p) {
  remember_state(k, p, STATE_BUILDING, "");
  cl_int code = build_once(k, p);
  if (code == CL_OUT_OF_HOST_MEMORY) { /* seen to pass when tried again */
    k->c->api->Finish(k->c->queue);
    code = build_once(k, p);
  }
  if (code == CL_SUCCESS) code = touch_kernel(k, p);
  if (code == CL_SUCCESS) {
    p->why = NULL;
    keep_binary(k, p);
    remember_state(k, p, STATE_BUILT, "");
    return;
  }
  if (!p->why) {
    char buf[32], line[96];
    snprintf(line, sizeof line, "no kernel: %s", tni_cl_error(code, buf));
    p->why = keep_text(k, line);
  }
  if (p->program) k->c->api->ReleaseProgram(p->program);
  p->program = NULL;
  remember_state(k, p, code == CL_BUILD_PROGRAM_FAILURE ? STATE_FAILED : 0, p->why);
  log_program(k, TN_LOG_WARN, p, p->why);
}

static bool process_alive(int32_t pid) { return pid > 0 && pid != getpid() && (kill(pid, 0) == 0 || errno == EPERM); }

static void build_program(tni_cl_kernels *k, tni_cl_program *p) {
  const build_state s = recall_state(k, p);
  if (s.what == STATE_BUILDING && !process_alive(s.pid)) p->why = "the driver crashed when it was built before";
  if (s.what == STATE_FAILED || s.what == STATE_WRONG) p->why = keep_text(k, s.text);
  if (p->why) {
    k->skipped++;
    log_program(k, TN_LOG_WARN, p, p->why);
    return;
  }
  if (build_binary(k, p))
    p->tested = s.what == STATE_GOOD;
  else
    build_source(k, p);
}

/* Only what the kernel computed is remembered: memory that was short today may be there tomorrow. */
bool tni_cl_kernel_tested(tni_cl_kernels *k, tni_cl_program *p, tni_cl_test_fn fn, const void *like) {
  if (p->why || p->tested || !k->self_test) return !p->why;
  bool wrong = false;
  p->why = fn(k, p, like, &wrong);
  p->tested = true;
  if (!p->why || wrong) remember_state(k, p, p->why ? STATE_WRONG : STATE_GOOD, p->why ? p->why : "");
  if (p->why) log_program(k, TN_LOG_WARN, p, p->why);
  return !p->why;
}

/* --- finding ---------------------------------------------------------------------------------------------------- */

static tni_cl_program *find_program(tni_cl_kernels *k, const tni_cl_variant *v, const char *name, const char *source,
                                    const char *options) {
  for (tni_cl_program *p = k->first; p; p = p->next)
    if (p->variant == v && !strcmp(p->name, name) && !strcmp(p->options, options) &&
        (v || !strcmp(p->source + strlen(tni_cl_prologue), source)))
      return p;
  tni_cl_program *p = tni_cm_new(&k->mem, 1, sizeof *p);
  if (!p) return NULL;
  *p = (tni_cl_program){.variant = v,
                        .name = tni_cm_text(&k->mem, "", name),
                        .options = tni_cm_text(&k->mem, "", options),
                        .source = tni_cm_text(&k->mem, tni_cl_prologue, source),
                        .next = k->first};
  if (!p->name || !p->options || !p->source) return NULL;
  k->first = p;
  build_program(k, p);
  return p;
}

static void common_options(const tni_cl_kernels *k, const char *more, char *out, size_t size) {
  snprintf(out, size, "%s-cl-mad-enable -DFP16=%d %s", strstr(more, "-cl-std=") ? "" : "-cl-std=CL1.2 ",
           k->features & TNI_CLF_FP16 ? 1 : 0, more);
}

static void options_of(const tni_cl_kernels *k, const tni_cl_variant *v, const tni_cl_shape *s, char *out,
                       size_t size) {
  common_options(k, v->options ? v->options : "", out, size);
  for (uint32_t i = 0; i < s->n_operands && i < 7 && kernel_macros[s->kind][i]; i++) {
    size_t n = strlen(out);
    snprintf(out + n, size - n, " -DT_%s=%u", kernel_macros[s->kind][i], s->types[i]);
  }
  const size_t n = strlen(out);
  if (s->bits) snprintf(out + n, size - n, " -DBITS=%u", s->bits);
}

static void write_reason(char *text, size_t size, const char *name, const char *why) {
  size_t n = strlen(text);
  if (n + 1 < size) snprintf(text + n, size - n, "%s%s: %s", n ? "; " : "", name, why);
}

tn_status tni_cl_kernel_for(tni_cl_kernels *k, const tni_cl_shape *s, tni_cl_program **out, tn_error *err) {
  char why[200] = "", options[512];
  for (uint32_t t = 0; t < 2; t++)
    for (uint32_t i = 0; i < k->n[t]; i++) {
      const tni_cl_variant *v = &k->tables[t][i];
      if (v->kind != s->kind || (v->flags && s->no_image)) continue;
      if (v->needs & ~k->features) {
        write_reason(why, sizeof why, v->name, "needs what the device lacks");
        continue;
      }
      if (v->fits && !v->fits(k->c->info, s)) {
        write_reason(why, sizeof why, v->name, "does not take these sizes");
        continue;
      }
      options_of(k, v, s, options, sizeof options);
      tni_cl_program *p = find_program(k, v, v->name, v->source, options);
      if (!p) return tni_cm_fail(err, TN_E_NO_MEMORY, v->name, "out of memory");
      if (tni_cl_kernel_tested(k, p, tni_cl_self_test, s)) {
        *out = p;
        return TN_OK;
      }
      write_reason(why, sizeof why, v->name, p->why);
    }
  return tni_cm_fail(err, TN_E_UNAVAILABLE, k->c->info->name, "no kernel works: %s", why);
}

tn_status tni_cl_kernel_of_source(tni_cl_kernels *k, const char *name, const char *source, const char *options,
                                  tni_cl_program **out, tn_error *err) {
  char all[256];
  common_options(k, options, all, sizeof all);
  tni_cl_program *p = find_program(k, NULL, name, source, all);
  if (!p) return tni_cm_fail(err, TN_E_NO_MEMORY, name, "out of memory");
  if (p->why) return tni_cm_fail(err, TN_E_UNAVAILABLE, k->c->info->name, "kernel %s: %s", name, p->why);
  *out = p;
  return TN_OK;
}

void tni_cl_kernels_finish(tni_cl_kernels *k) {
  for (tni_cl_program *p = k->first; p; p = p->next)
    if (p->program) k->c->api->ReleaseProgram(p->program);
  k->first = NULL;
  tni_cm_free(&k->mem);
}
