/* SPDX-License-Identifier: Apache-2.0
 *
 * Where data lies: the demo model on discrete devices that run the host's kernels (tests/plugins/mirror). Whatever the
 * core maps too late, not at all or under an item is a fault there; what it gets right are the host's bits.
 */
#include <malloc.h>
#include <math.h>

#include "memory_test.h"
#include "runtime/memory/run.h"

enum { MAX_IN = 64, PROMPT = 24, CHUNK = 10, STEPS = 6, CAPACITY = 128, VOCAB_MAX = 8192 };

typedef struct walk {
  rig r;
  const tn_tensor *in[MAX_IN];
  tn_tensor t[MAX_IN], logits, *out[MAX_IN];
  int64_t ids[CHUNK], pos[CHUNK];
  size_t vocab;
} walk;

static bool begin_as(walk *w, const char *profile, uint32_t flags) {
  char path[1024];
  memset(w, 0, sizeof *w);
  snprintf(path, sizeof path, "%s/models/demo/model.onnx", getenv("TENON_TEST_SOURCE"));
  tn_status st = rig_init(&w->r, profile);
  if (st == TN_OK) st = rig_open(&w->r, path, flags);
  if (st == TN_OK) st = tn_session_create(w->r.m, &w->r.s, &w->r.err);
  const tn_keep_opts o = {.h = {sizeof o, 1, 0}, .capacity = CAPACITY, .max_step = CHUNK};
  if (st == TN_OK) st = tn_session_keep(w->r.s, &o, &w->r.err);
  if (st == TN_OK) w->vocab = (size_t)tn_model_output(w->r.m, 0)->dims[2];
  w->logits.h = (tn_hdr){sizeof w->logits, 1, 0};
  w->out[0] = &w->logits;
  return st == TN_OK && w->vocab <= VOCAB_MAX;
}

static bool begin(walk *w, const char *profile) { return begin_as(w, profile, 0); }

/* n positions; the last one's logits to dst. */
static bool step(walk *w, tn_session *s, int64_t n, float *dst) {
  const int64_t at = tn_session_length(s);
  for (int64_t i = 0; i < n; i++) {
    w->pos[i] = at + i;
    w->ids[i] = 3 + (at + i) * 131 % 4000;
  }
  for (uint32_t i = 0; i < tn_model_n_inputs(w->r.m); i++) {
    const char *name = tn_model_input(w->r.m, i)->name;
    int64_t *v = strcmp(name, "input_ids") == 0 ? w->ids : strcmp(name, "position_ids") == 0 ? w->pos : NULL;
    if (!v) continue;
    w->t[i] = i64_tensor(name, v, 2, 1, n);
    w->in[i] = &w->t[i];
  }
  tn_error_init(&w->r.err);
  if (tn_session_step(s, n > 1 ? TN_PHASE_PREFILL : TN_PHASE_DECODE, w->in, w->out, 1, &w->r.err) != TN_OK) {
    printf("\n    step at %lld: %s\n", (long long)at, w->r.err.message);
    return false;
  }
  const float *last = w->logits.data;
  memcpy(dst, last + (w->logits.bytes / sizeof *last - w->vocab), w->vocab * sizeof *last);
  return true;
}

/* A prompt in chunks, steps, a part forgotten, and another chunk: logits [STEPS + 2][vocab]. */
static bool go(walk *w, tn_session *s, float *dst) {
  bool ok = true;
  for (int64_t at = 0; ok && at < PROMPT; at += CHUNK) ok = step(w, s, PROMPT - at < CHUNK ? PROMPT - at : CHUNK, dst);
  for (int i = 0; ok && i < STEPS; i++) ok = step(w, s, 1, dst + (size_t)(1 + i) * w->vocab);
  ok = ok && tn_session_truncate(s, PROMPT - 3, &w->r.err) == TN_OK;
  return ok && step(w, s, CHUNK, dst + (size_t)(STEPS + 1) * w->vocab);
}

static size_t logits_count(const walk *w) { return (STEPS + 2) * w->vocab; }

static float *host_logits;
static size_t host_count;
static double host_kv;

static double inspected(walk *w, const char *key) {
  char *json = NULL;
  if (tn_model_report(w->r.m, TN_REPORT_INSPECT, &json, &w->r.err) != TN_OK) return -1;
  const double n = json_number(json, key);
  tn_free(json);
  return n;
}

static int setup(void) {
  walk w;
  bool ok = begin(&w, "plugins: [host]\nmax_seq: 128\n");
  host_logits = ok ? malloc(logits_count(&w) * sizeof(float)) : NULL;
  ok = ok && host_logits && go(&w, w.r.s, host_logits);
  host_count = logits_count(&w);
  host_kv = inspected(&w, "kv_bytes");
  rig_finish(&w.r);
  return !ok;
}

static int teardown(void) {
  free(host_logits);
  return 0;
}

/* Largest difference to `want`, as a part of its largest logit. */
static double distance_to(const float *want, const float *got) {
  double worst = 0, most = 0;
  for (size_t i = 0; i < host_count; i++) {
    const double d = fabs((double)got[i] - want[i]);
    worst = d > worst || d != d ? d : worst;
    most = fabs((double)want[i]) > most ? fabs((double)want[i]) : most;
  }
  return worst / most;
}

static double distance(const float *got) { return distance_to(host_logits, got); }

static const char *profile_of(const char *a, const char *b, const char *more) {
  static char text[1024];
  snprintf(text, sizeof text,
           "plugins:\n  - name: mirror-a\n    options: {%s}\n%s%s%s  - name: host\nmax_seq: 128\n%s\n", a,
           b ? "  - name: mirror-b\n    options: {" : "", b ? b : "", b ? "}\n" : "", more);
  return text;
}

/* All logits of a profile; NULL: it failed, and said so. */
static float *logits_of(walk *w, const char *profile) {
  if (!begin(w, profile)) {
    printf("\n    %s\n", w->r.err.message);
    return NULL;
  }
  float *got = malloc(logits_count(w) * sizeof *got);
  if (got && go(w, w->r.s, got)) return got;
  free(got);
  return NULL;
}

#define PHASES(p, d) "phases: {prefill: [" p "], decode: [" d "]}"

/* The same bits as on the host, and no copies of caches or anything else. */
static void test_bits(void) {
  static const struct {
    const char *label, *a, *b, *more;
  } rows[] = {
      {"one device", "layout: host", NULL, ""},
      {"coherent", "coherent: true", NULL, ""},
      {"every second node", "every: 2", NULL, ""},
      {"every third node, coherent", "every: 3, coherent: true", NULL, ""},
      {"rows first", "layout: f32", NULL, ""},
      {"CPU then device", "layout: f32", NULL, PHASES("host", "mirror-a")},
      {"device then CPU", "layout: f32", NULL, PHASES("mirror-a", "host")},
      {"two devices: a shares descriptors", "share: fd", "import: fd", PHASES("mirror-a", "mirror-b")},
      {"two devices: b shares descriptors", "import: fd", "share: fd", PHASES("mirror-a", "mirror-b")},
      {"two devices: a descriptor becomes a pointer", "share: fd, coherent: true", "import: ptr, coherent: true",
       PHASES("mirror-a", "mirror-b")},
      {"two devices import the host's memory", "import: fd", "import: fd", PHASES("mirror-a", "mirror-b")},
      {"two devices import the host's pointers", "import: ptr, coherent: true", "import: both, coherent: true",
       PHASES("mirror-a", "mirror-b")},
      {"two devices: dma-bufs with a modifier", "share: dmabuf", "import: dmabuf", PHASES("mirror-a", "mirror-b")},
      {"two devices: b shares AHardwareBuffers", "import: ahb", "share: ahb", PHASES("mirror-a", "mirror-b")},
      {"two devices side by side", "every: 2, share: fd", "import: fd", ""},
      {"two devices and the CPU", "every: 3, share: fd", "every: 2, import: fd", ""},
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    walk w;
    float *got = logits_of(&w, profile_of(rows[i].a, rows[i].b, rows[i].more));
    CU_ASSERT_PTR_NOT_NULL(got);
    const bool same = got && memcmp(got, host_logits, host_count * sizeof *got) == 0;
    if (!same) printf("\n    %s: differs by %g\n", rows[i].label, got ? distance(got) : -1.0);
    CU_ASSERT(same);
    if (got) {
      CU_ASSERT(w.r.s->memory.buffers + w.r.s->memory.imports > 0);
      CU_ASSERT_EQUAL(w.r.s->memory.copies, 0);
    }
    free(got);
    rig_finish(&w.r);
  }
}

/* In checked mode a byte that an item writes behind its memory is an error that names plugin, value and task; without
 * one nothing is said, and the bits are the same. */
static void test_strays(void) {
  static const struct {
    const char *a, *b, *more;
    bool strays;
  } rows[] = {{"layout: f16-rows", NULL, "checked: true", false},
              {"every: 2, share: fd", "import: fd", "checked: true", false},
              {"layout: f32, stray: 1", NULL, "checked: true", true},
              {"layout: f32, stray: 9", NULL, "checked: true", true}, /* a cache's append among them */
              {"layout: f32, stray: 10", NULL, "checked: true", true},
              {"every: 2, stray: 30", NULL, "checked: true", true},
              {"coherent: true, stray: 20", NULL, "checked: true", true},
              {"every: 2, share: fd", "import: fd, stray: 3", "checked: true", true}};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    walk w;
    float row[VOCAB_MAX], *got = NULL;
    CU_ASSERT_FATAL(begin(&w, profile_of(rows[i].a, rows[i].b, rows[i].more)));
    if (rows[i].strays) {
      CU_ASSERT_FALSE(step(&w, w.r.s, CHUNK, row));
      CU_ASSERT_EQUAL(w.r.err.code, TN_E_INTERNAL);
      const char *text = w.r.err.message, *plugin = rows[i].b ? "plugin 'mirror-b'" : "plugin 'mirror-a'";
      CU_ASSERT(strstr(text, plugin) && strstr(text, "wrote past the end of '") && strstr(text, "' in '"));
    } else if ((got = malloc(logits_count(&w) * sizeof *got))) {
      CU_ASSERT(go(&w, w.r.s, got));
      CU_ASSERT(!strstr(rows[i].a, "every") || memcmp(got, host_logits, host_count * sizeof *got) == 0);
    }
    free(got);
    rig_finish(&w.r);
  }
}

/* Nothing is made after the first decode step, and a step maps what it writes and what is read: inputs, logits. */
static void test_counts(void) {
  walk w;
  float *row = malloc(VOCAB_MAX * sizeof *row);
  CU_ASSERT_PTR_NOT_NULL_FATAL(row);
  CU_ASSERT_FATAL(begin(&w, profile_of("layout: f16", NULL, "")));
  CU_ASSERT(step(&w, w.r.s, CHUNK, row) && step(&w, w.r.s, 1, row));
  const tni_mem_counts before = w.r.s->memory;
  for (int i = 0; i < 50; i++) CU_ASSERT(step(&w, w.r.s, 1, row));
  const tni_mem_counts after = w.r.s->memory;
  CU_ASSERT_EQUAL(after.buffers, before.buffers);
  CU_ASSERT_EQUAL(after.imports, before.imports);
  CU_ASSERT_EQUAL(after.maps - before.maps, 2 * 50);
  CU_ASSERT(before.buffers <= 4 + w.r.m->graph->n_states); /* arena, outputs, inputs of both placements, caches */
  free(row);
  rig_finish(&w.r);
}

/* Bytes that one position has in all caches. */
static uint64_t row_bytes(const tn_session *s) {
  uint64_t n = 0;
  for (uint32_t k = 0; k < s->model->graph->n_states; k++)
    n += (uint64_t)(s->states[k].rows.dims[0] * s->states[k].rows.dims[1]) * s->states[k].rows.row_bytes;
  return n;
}

/* Phases in turns: each hand-over carries what the other device appended meanwhile, and the devices' own counters say
 * so too. */
static void test_turns(void) {
  static const char *const layouts[] = {"layout: f32, count: true", "layout: f16-rows, count: true",
                                        "layout: int8-rows, count: true"};
  static const int64_t turns[] = {10, 1, 1, 1, 6, 1, 2, 2, 1, 1, 9};
  for (size_t i = 0; i < sizeof layouts / sizeof *layouts; i++) {
    uint64_t rows = 0, bytes = 0;
    int64_t at = 0, have[2] = {0, 0};
    float *want = malloc(2 * VOCAB_MAX * sizeof *want), *got = want ? want + VOCAB_MAX : NULL;
    walk one, two;
    CU_ASSERT_PTR_NOT_NULL_FATAL(want);
    CU_ASSERT_FATAL(begin(&one, profile_of(layouts[i], NULL, "")));
    CU_ASSERT_FATAL(begin(&two, profile_of(layouts[i], layouts[i], PHASES("mirror-a", "mirror-b"))));
    for (size_t k = 0; k < sizeof turns / sizeof *turns; k++) {
      const int dev = turns[k] == 1;
      CU_ASSERT(step(&one, one.r.s, turns[k], want) && step(&two, two.r.s, turns[k], got));
      CU_ASSERT_EQUAL(memcmp(want, got, one.vocab * sizeof *want), 0);
      rows += (uint64_t)(at - have[dev]);
      at += turns[k];
      have[dev] = at;
      bytes = rows * row_bytes(two.r.s);
      /* Rows that lie side by side, 48 bytes of padding behind each 144, are one piece. */
      const uint64_t pads = strncmp(layouts[i], "layout: int8-rows", 17) == 0 ? bytes / 3 : 0;
      CU_ASSERT(two.r.s->memory.copied_bytes >= bytes && two.r.s->memory.copied_bytes <= bytes + pads);
      CU_ASSERT(!pads || two.r.s->memory.copied_bytes > bytes);
    }
    CU_ASSERT(rows > 0 && rows < 2 * (uint64_t)at);
    bytes = two.r.s->memory.copied_bytes;
    rig_finish(&one.r);
    rig_finish(&two.r);
    uint64_t n[4] = {0};
    const char *a = strstr(two.r.log, "mirror-a: caches: "), *b = strstr(two.r.log, "mirror-b: caches: ");
    CU_ASSERT(a && sscanf(a, "mirror-a: caches: %lu bytes fetched, %lu sent", &n[0], &n[1]) == 2);
    CU_ASSERT(b && sscanf(b, "mirror-b: caches: %lu bytes fetched, %lu sent", &n[2], &n[3]) == 2);
    CU_ASSERT(n[0] + n[2] == bytes && n[1] + n[3] == bytes);
    free(want);
  }
}

/* Devices that share no memory: copies, counted; an error where the profile has `require`. */
static void test_apart(void) {
  walk w;
  float *got = logits_of(&w, profile_of("layout: f32", "layout: f32", PHASES("mirror-a", "mirror-b")));
  CU_ASSERT_PTR_NOT_NULL(got);
  if (got) {
    CU_ASSERT_EQUAL(memcmp(got, host_logits, host_count * sizeof *got), 0);
    char *json = NULL;
    CU_ASSERT_EQUAL(tn_model_report(w.r.m, TN_REPORT_INSPECT, &json, &w.r.err), TN_OK);
    CU_ASSERT(json && strstr(json, "\"mirror-b, mirror-a\"") == NULL);
    CU_ASSERT(json && strstr(json, "\"mirror-a, mirror-b\"") && strstr(json, "\"copied_when_handed_over\": true"));
    tn_free(json);
    /* a to b before the first single position, the prompt's rows; a still has those that the last chunk follows. */
    CU_ASSERT_EQUAL(w.r.s->memory.copies, w.r.m->graph->n_states);
    CU_ASSERT_EQUAL(w.r.s->memory.copied_bytes, PROMPT * row_bytes(w.r.s));
  }
  free(got);
  rig_finish(&w.r);
  CU_ASSERT_FALSE(begin(
      &w, profile_of("layout: f32", "layout: f32", PHASES("mirror-a", "mirror-b") "\nrequire: [mirror-a, mirror-b]")));
  CU_ASSERT_PTR_NOT_NULL(strstr(w.r.err.message, "would be copied between 'mirror-a' and 'mirror-b'"));
  rig_finish(&w.r);
}

/* Half caches: half the bytes, numbers near the host's, and the same ones whoever computes and however they lie. */
static void test_half(void) {
  static const struct {
    const char *label, *a, *more;
  } rows[] = {{"f16", "layout: f16", ""},
              {"rows first", "layout: f16-rows", ""},
              {"rows first, every second node", "layout: f16-rows, every: 2", ""},
              {"CPU then device", "layout: f16-rows", PHASES("host", "mirror-a")},
              {"device then CPU", "layout: f16", PHASES("mirror-a", "host")}};
  float *first = NULL;
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    walk w;
    float *got = logits_of(&w, profile_of(rows[i].a, NULL, rows[i].more));
    CU_ASSERT_PTR_NOT_NULL_FATAL(got);
    /* Keys and values are off by 2^-11 of themselves; a network of few layers makes little of it. */
    const double d = distance(got);
    CU_ASSERT(d > 0 && d < 32 * ldexp(1, -11));
    if (i && memcmp(got, first, host_count * sizeof *got) != 0) printf("\n    %s\n", rows[i].label);
    if (i) CU_ASSERT_EQUAL(memcmp(got, first, host_count * sizeof *got), 0);
    const double kv = inspected(&w, "kv_bytes");
    CU_ASSERT(strstr(rows[i].a, "rows") ? kv >= host_kv / 2 && kv <= host_kv : kv == host_kv / 2);
    CU_ASSERT_EQUAL(w.r.s->memory.copies, 0);
    const tni_sstate *c = &w.r.s->states[0];
    const bool rows_first = c->strides[TNI_STATE_ROWS] > c->strides[TNI_STATE_HEADS];
    CU_ASSERT(c->t.dtype == TN_DT_F16 && rows_first == (strstr(rows[i].a, "rows") != NULL));
    if (rows_first) CU_ASSERT_EQUAL(c->strides[TNI_STATE_ROWS] % 64, 0);
    if (!first)
      first = got;
    else
      free(got);
    rig_finish(&w.r);
  }
  free(first);
}

/* The format reference sees caches as they lie. It sums products in double, so a key may be rounded the other way. */
static void test_reference(void) {
  static const char *const options[] = {"layout: f16", "layout: f16-rows", "layout: f16-rows, every: 2"};
  float *device = NULL;
  for (size_t i = 0; i < sizeof options / sizeof *options; i++) {
    walk w;
    if (!device) {
      device = logits_of(&w, profile_of(options[i], NULL, ""));
      rig_finish(&w.r);
    }
    float *got = malloc(host_count * sizeof *got);
    CU_ASSERT_FATAL(device && got);
    CU_ASSERT(begin_as(&w, profile_of(options[i], NULL, ""), TN_MODEL_REFERENCE) && go(&w, w.r.s, got));
    CU_ASSERT(distance_to(device, got) < 4 * ldexp(1, -11));
    if (w.r.err.message[0]) printf("\n    %s\n", w.r.err.message);
    free(got);
    rig_finish(&w.r);
  }
  free(device);
}

static void test_refused(void) {
  walk w;
  float *got = logits_of(&w, profile_of("layout: apart", NULL, ""));
  CU_ASSERT_PTR_NOT_NULL(got);
  if (got) CU_ASSERT_EQUAL(memcmp(got, host_logits, host_count * sizeof *got), 0);
  free(got);
  uint32_t refused = 0;
  const tni_exec *x = w.r.m ? &w.r.m->execs[0] : NULL;
  for (uint32_t n = 0; x && n < x->view.n_nodes; n++)
    refused += strstr(x->claims.node[0][n].text, "the elements of a head are not side by side") != NULL;
  CU_ASSERT(x && refused > w.r.m->graph->n_states); /* what appends, and what reads */
  rig_finish(&w.r);
  CU_ASSERT_FALSE(
      begin(&w, profile_of("layout: f32, share: fd", "layout: f16, import: fd", PHASES("mirror-a", "mirror-b"))));
  CU_ASSERT_PTR_NOT_NULL(
      strstr(w.r.err.message, "suits all: 'mirror-b' asks for float16 [0 2 1 3], 'mirror-a' for float32"));
  rig_finish(&w.r);
}

/* Two sessions on one device, one of which starts with what the other has. */
static void test_share(void) {
  walk w;
  tn_session *other = NULL;
  float *a = malloc(2 * VOCAB_MAX * sizeof *a), *b = a ? a + VOCAB_MAX : NULL;
  CU_ASSERT_PTR_NOT_NULL_FATAL(a);
  CU_ASSERT_FATAL(begin(&w, profile_of("layout: f16-rows", NULL, "")));
  const tn_keep_opts o = {.h = {sizeof o, 1, 0}, .capacity = 2 * CAPACITY, .max_step = CHUNK};
  CU_ASSERT_EQUAL_FATAL(tn_session_create(w.r.m, &other, &w.r.err), TN_OK);
  CU_ASSERT_EQUAL_FATAL(tn_session_keep(other, &o, &w.r.err), TN_OK);
  CU_ASSERT(step(&w, w.r.s, CHUNK, a) && step(&w, other, 3, b));
  CU_ASSERT_EQUAL(tn_session_share(other, w.r.s, CHUNK, &w.r.err), TN_OK);
  for (int i = 0; i < 5; i++) {
    CU_ASSERT(step(&w, w.r.s, 1, a) && step(&w, other, 1, b));
    CU_ASSERT_EQUAL(memcmp(a, b, w.vocab * sizeof *a), 0);
  }
  tn_session_destroy(other);
  free(a);
  rig_finish(&w.r);
}

/* A plain run: the caller's past goes into the device's caches, present comes out, in the model's dtype. */
static void test_plain(void) {
  enum { N = 6, PAST = 4 };
  static float past[32 * 1 * 64 * PAST * 64];
  float *got[2] = {NULL};
  size_t n = 0;
  for (int device = 0; device < 2; device++) {
    walk w;
    tn_tensor in[MAX_IN], out[MAX_IN];
    const tn_tensor *ptr[MAX_IN];
    int64_t ids[N], pos[N], mask[N + PAST];
    memset(&w, 0, sizeof w);
    char path[1024];
    snprintf(path, sizeof path, "%s/models/demo/model.onnx", getenv("TENON_TEST_SOURCE"));
    tn_status st = rig_init(&w.r, device ? profile_of("layout: f32, every: 2", NULL, "") : "plugins: [host]\n");
    if (st == TN_OK) st = rig_open(&w.r, path, 0);
    if (st == TN_OK) st = tn_session_create(w.r.m, &w.r.s, &w.r.err);
    CU_ASSERT_EQUAL_FATAL(st, TN_OK);
    for (int i = 0; i < N; i++) {
      ids[i] = 5 + i;
      pos[i] = PAST + i;
    }
    for (int i = 0; i < N + PAST; i++) mask[i] = 1;
    for (size_t i = 0; i < sizeof past / sizeof *past; i++) past[i] = (float)(i % 13) / 13 - 0.4f;
    const uint32_t n_in = tn_model_n_inputs(w.r.m), n_out = tn_model_n_outputs(w.r.m);
    for (uint32_t i = 0; i < n_in; i++) {
      const tn_io_info *x = tn_model_input(w.r.m, i);
      if (strcmp(x->name, "input_ids") == 0 || strcmp(x->name, "position_ids") == 0)
        in[i] = i64_tensor(x->name, strcmp(x->name, "input_ids") == 0 ? ids : pos, 2, 1, N);
      else if (strcmp(x->name, "attention_mask") == 0)
        in[i] = i64_tensor(x->name, mask, 2, 1, N + PAST);
      else {
        in[i] = f32_tensor(x->name, past, 4, 1, x->dims[1], PAST);
        in[i].dims[3] = x->dims[3];
        in[i].bytes = sizeof(float) * (uint64_t)(x->dims[1] * PAST * x->dims[3]);
      }
      ptr[i] = &in[i];
    }
    memset(out, 0, sizeof out);
    for (uint32_t o = 0; o < n_out; o++) out[o].h = (tn_hdr){sizeof(tn_tensor), 1, 0};
    st = tn_session_run(w.r.s, TN_PHASE_ANY, ptr, n_in, out, n_out, &w.r.err);
    if (st != TN_OK) printf("\n    %s\n", w.r.err.message);
    CU_ASSERT_EQUAL_FATAL(st, TN_OK);
    n = 0;
    for (uint32_t i = 0; i < n_out; i++) n += out[i].bytes;
    got[device] = malloc(n);
    CU_ASSERT_PTR_NOT_NULL_FATAL(got[device]);
    size_t at = 0;
    for (uint32_t i = 0; i < n_out; i++) {
      memcpy((char *)got[device] + at, out[i].data, out[i].bytes);
      at += out[i].bytes;
    }
    rig_finish(&w.r);
  }
  CU_ASSERT_EQUAL(memcmp(got[0], got[1], n), 0);
  free(got[0]);
  free(got[1]);
}

/* Memory that runs out at any buffer is a status that names the plugin, and everything closes. */
static void test_no_memory(void) {
  int failed = 0, last = 0;
  for (int n = 1; n < 4096 && failed == last; n += n < 4 ? 1 : n / 2) {
    char options[64];
    walk w;
    last++;
    snprintf(options, sizeof options, "layout: f16, fail_create: %d", n);
    if (begin(&w, profile_of(options, NULL, ""))) {
      rig_finish(&w.r);
      continue;
    }
    failed++;
    CU_ASSERT_EQUAL(w.r.err.code, TN_E_NO_MEMORY);
    CU_ASSERT_PTR_NOT_NULL(strstr(w.r.err.message, "mirror-a"));
    if (!strstr(w.r.err.message, "mirror-a")) printf("\n    %d: %s\n", n, w.r.err.message);
    rig_finish(&w.r);
  }
  CU_ASSERT(failed > 5 && last == failed + 1);
}

/* Two runtimes with two plugins in one process, steps taken in turns. */
static void test_two(void) {
  walk a, b;
  float *x = malloc(2 * VOCAB_MAX * sizeof *x), *y = x ? x + VOCAB_MAX : NULL;
  CU_ASSERT_PTR_NOT_NULL_FATAL(x);
  CU_ASSERT_FATAL(begin(&a, profile_of("layout: f32", NULL, "")));
  CU_ASSERT_FATAL(begin(&b, "plugins: [mirror-b, host]\nmax_seq: 128\n"));
  for (int i = 0; i < 5; i++) {
    CU_ASSERT(step(&a, a.r.s, 2, x) && step(&b, b.r.s, 2, y));
    CU_ASSERT_EQUAL(memcmp(x, y, a.vocab * sizeof *x), 0);
  }
  rig_finish(&a.r);
  CU_ASSERT(step(&b, b.r.s, 1, y));
  rig_finish(&b.r);
  free(x);
}

/* --- a device that is lost --------------------------------------------------------------------------------------- */

static char lost_bytes[4096];
static int lost_unmaps;

static tn_status lost_create(tn_device *d, const tn_buffer_req *req, tn_buffer **out, tn_error *err) {
  static tn_buffer b = {.h = TN_HDR(tn_buffer)};
  (void)d, (void)err;
  b.bytes = req->bytes;
  *out = &b;
  return TN_OK;
}

static void lost_destroy(tn_buffer *b) { (void)b; }

static tn_status lost_map(tn_buffer *b, uint64_t offset, uint64_t n, uint32_t access, void **ptr, tn_error *err) {
  (void)b, (void)n, (void)access, (void)err;
  *ptr = lost_bytes + offset;
  return TN_OK;
}

static tn_status lost_unmap(tn_buffer *b, void *ptr, tn_error *err) {
  (void)b, (void)ptr, (void)err;
  lost_unmaps++;
  return TN_E_DEVICE_LOST;
}

/* What the CPU has of it is given back, each piece, though none is taken. */
static void test_lost(void) {
  enum { SPANS = 3 };
  static const tn_caps caps = {.h = TN_HDR(tn_caps), .name = "lost", .driver = "none"};
  tn_device device = {.h = TN_HDR(tn_device),
                      .caps = &caps,
                      .create = lost_create,
                      .destroy = lost_destroy,
                      .map = lost_map,
                      .unmap = lost_unmap};
  tni_devlock lock;
  tni_devlock_init(&lock);
  const tni_dev dev = {.name = "lost", .device = &device, .lock = &lock};
  const tni_mem_spec spec = {.users = {.devices = 1, .cpu = true}, .bytes = sizeof lost_bytes, .align = 64, .what = "x"};
  tni_mem_counts counts = {0};
  tni_mem m;
  tn_error err;
  tni_error_init(&err);
  CU_ASSERT_EQUAL_FATAL(tni_mem_create(&dev, &spec, &counts, &m, &err), TN_OK);
  tni_span spans[SPANS];
  for (int i = 0; i < SPANS; i++) {
    spans[i] = (tni_span){.mem = &m, .offset = (uint64_t)i * 64, .bytes = 64};
    CU_ASSERT_EQUAL_FATAL(tni_span_take(&spans[i], TN_NONE, TN_READ | TN_WRITE, &err), TN_OK);
  }
  tni_mem_destroy(&m);
  CU_ASSERT_EQUAL(lost_unmaps, SPANS);
  for (int i = 0; i < SPANS; i++) CU_ASSERT(!spans[i].ptr && !spans[i].access);
  tni_devlock_finish(&lock);
}

int main(void) {
  if (CU_initialize_registry() != CUE_SUCCESS) return 1;
  CU_pSuite s = CU_add_suite("where data lies", setup, teardown);
  CU_add_test(s, "the host's bits on devices with memory of their own", test_bits);
  CU_add_test(s, "what a step makes and maps", test_counts);
  CU_add_test(s, "strays of a device", test_strays);
  CU_add_test(s, "devices that share no memory", test_apart);
  CU_add_test(s, "phases in turns carry what is new", test_turns);
  CU_add_test(s, "half caches", test_half);
  CU_add_test(s, "the format reference over caches of devices", test_reference);
  CU_add_test(s, "layouts that nobody has, and that do not meet", test_refused);
  CU_add_test(s, "sessions share a prefix on a device", test_share);
  CU_add_test(s, "a plain run with a past", test_plain);
  CU_add_test(s, "a device without memory", test_no_memory);
  CU_add_test(s, "two plugins in one process", test_two);
  CU_add_test(s, "a device that is lost", test_lost);
  CU_basic_set_mode(CU_BRM_VERBOSE);
  CU_basic_run_tests();
  const unsigned failures = CU_get_number_of_failures() + (CU_get_number_of_suites_failed() != 0);
  CU_cleanup_registry();
  return failures != 0;
}
