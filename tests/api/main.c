/* SPDX-License-Identifier: Apache-2.0
 *
 * Calls what make_cases.py wrote, each case in a process of its own: none may crash or hang, what is wrong is refused
 * with a message, and a function that fails leaves its outputs alone. Usage: test-api FOLDER (made by test_api.py)
 */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/api/fixture.h"

enum { LIMIT_S = 20 };

static char *in_folder(const char *folder, const char *name) {
  char *p = NULL;
  return asprintf(&p, "%s/%s", folder, name) < 0 ? NULL : p;
}

static void must(tn_status st, const fixture *x, const char *what) {
  if (st == TN_OK) return;
  fprintf(stderr, "the fixture's %s: %s: %s\n", what, tn_status_name(st), x->err.message);
  exit(1);
}

/* A tensor for each input of the model, one position and no past: of zeros but for masks of ones. */
static void make_inputs(fixture *x) {
  static const int64_t zeros[8192];
  static const int64_t ones[4] = {1, 1, 1, 1};
  const uint32_t n = tn_model_n_inputs(x->model);
  for (uint32_t i = 0; i < n && i < MOST_IO; i++) {
    const tn_io_info *io = tn_model_input(x->model, i);
    tn_tensor *t = &x->tensors[i];
    const bool past = strncmp(io->name, "past", 4) == 0;
    *t = (tn_tensor){
        .h = {sizeof *t, 1, 0}, .name = io->name, .dtype = io->dtype, .rank = (uint32_t)io->rank, .data = zeros};
    uint64_t count = 1;
    for (int32_t d = 0; d < io->rank; d++) {
      t->dims[d] = io->dims[d] >= 0 ? io->dims[d] : past && d == 2 ? 0 : 1;
      count *= (uint64_t)t->dims[d];
    }
    t->bytes = count * (io->dtype == TN_DT_I64 ? 8 : 4);
    if (strstr(io->name, "mask")) t->data = ones;
    x->run_in[x->n_run_in++] = t;
    x->step_in[i] = past || strstr(io->name, "mask") ? NULL : t;
  }
  x->n_run_out = 1;
  x->run_out[0] = (tn_tensor){.h = {sizeof(tn_tensor), 1, 0}};
  x->run_out[0].name = tn_model_output(x->model, 0)->name;
  static tn_tensor logits = {.h = {sizeof logits, 1, 0}};
  x->step_out[0] = &logits;
}

static void make_options(fixture *x, const char *folder) {
  x->model_path = in_folder(folder, "lm/model.onnx");
  x->lm_path = in_folder(folder, "lm");
  x->embed_path = in_folder(folder, "embed");
  x->classify_path = in_folder(folder, "classify");
  x->image_path = in_folder(folder, "image.png");
  x->tensor_path = in_folder(folder, "tensor.npy");
  x->out_path = in_folder(folder, "out.npy");
  x->bundle_path = folder;
  x->state_path = in_folder(folder, "state");
  x->chat_path = in_folder(folder, "chat");
  x->messages = (tn_messages){.h = {sizeof(tn_messages), 1, 0}, .messages = "[{\"role\": \"user\", \"content\": \"Once\"}]"};
  x->batch_opts = (tn_batch_opts){.h = {sizeof(tn_batch_opts), 1, 0}, .slots = 2, .context = 32};
  x->prefixes = (tn_batch_prefixes){.h = {sizeof(tn_batch_prefixes), 1, 0}};
  x->guesses = (tn_batch_guesses){.h = {sizeof(tn_batch_guesses), 1, 0}};
  x->runtime_opts =
      (tn_runtime_opts){.h = {sizeof(tn_runtime_opts), 1, 0}, .profile = in_folder(folder, "host.yaml"), .threads = 1};
  x->model_opts = (tn_model_opts){.h = {sizeof(tn_model_opts), 1, 0}, .flags = TN_MODEL_DECODER, .max_seq = 64};
  x->lm_opts = (tn_lm_opts){.h = {sizeof(tn_lm_opts), 1, 0}, .max_seq = 64};
  x->keep_opts = (tn_keep_opts){.h = {sizeof(tn_keep_opts), 1, 0}, .batch = 1, .capacity = 16};
  x->embed_opts = (tn_embed_opts){.h = {sizeof(tn_embed_opts), 1, 0}};
  x->classify_opts = (tn_classify_opts){.h = {sizeof(tn_classify_opts), 1, 0}};
  x->bundle_opts = (tn_bundle_opts){
      .h = {sizeof(tn_bundle_opts), 1, 0}, .model = "/nowhere", .folder = x->out_path, .program = "/nowhere"};
  x->quantize_opts = (tn_quantize_opts){.h = {sizeof(tn_quantize_opts), 1, 0},
                                        .model = "/nowhere",
                                        .folder = x->out_path,
                                        .bits = 4,
                                        .block = 32,
                                        .flags = TN_QUANTIZE_ROUND};
  x->calibration_text = (tn_calibration_text){
      .h = {sizeof(tn_calibration_text), 1, 0}, .name = "t", .bytes = "t", .n_bytes = 1, .tokens = 1};
  x->result = (tn_gen_result){.h = {sizeof(tn_gen_result), 1, 0}};
  tn_gen_params_init(&x->gen);
  x->gen.max_tokens = 1;
}

/* What lm.h makes of a model. */
static void make_texts(fixture *x) {
  const float *logits;
  size_t rows;
  uint32_t slot;
  memcpy(x->ids, (int32_t[]){1, 2, 3}, sizeof x->ids);
  must(tn_chat_create(x->lm, &x->chat, &x->err), x, "chat");
  must(tn_chat_save(x->chat, x->chat_path, &x->err), x, "saved chat");
  must(tn_batch_create(x->lm, &x->batch_opts, &x->batch, &x->err), x, "batch");
  must(tn_batch_start(x->batch, x->ids, 3, &x->gen, NULL, NULL, &slot, &x->err), x, "text of a batch");
  must(tn_grammar_create(x->lm, TN_GRAMMAR_JSON_SCHEMA, "{}", 2, &x->grammar, &x->err), x, "grammar");
  must(tn_sampler_create(x->lm, &x->gen, x->ids, 3, &x->sampler, &x->err), x, "sampler");
  tn_chat *c;
  must(tn_chat_create(x->lm, &c, &x->err), x, "chat");
  must(tn_chat_score(c, x->ids, 3, &logits, &rows, &x->vocab, &x->err), x, "logits");
  tn_chat_destroy(c);
  x->logits = calloc(x->vocab, sizeof *x->logits);
  if (!x->logits) exit(1);
}

static void make_objects(fixture *x) {
  static const float values[4] = {1, 2, 3, 4};
  static const uint8_t pixels[32 * 32 * 3];
  tn_error_init(&x->err);
  tn_long_error_init(&x->long_err);
  must(tn_runtime_create(&x->runtime_opts, &x->rt, &x->err), x, "runtime");
  must(tn_model_load(x->rt, x->model_path, &x->model_opts, &x->model, &x->err), x, "model");
  must(tn_session_create(x->model, &x->session, &x->err), x, "session");
  must(tn_session_create(x->model, &x->keeping, &x->err), x, "keeping session");
  must(tn_session_create(x->model, &x->keeping2, &x->err), x, "keeping session");
  must(tn_session_keep(x->keeping, &x->keep_opts, &x->err), x, "caches");
  must(tn_session_keep(x->keeping2, &x->keep_opts, &x->err), x, "caches");
  tn_keep_opts slots = x->keep_opts;
  slots.batch = 2;
  slots.flags = TN_KEEP_SLOTS;
  must(tn_session_create(x->model, &x->slotted, &x->err), x, "session of slots");
  must(tn_session_keep(x->slotted, &slots, &x->err), x, "slots");
  must(tn_session_save(x->keeping2, x->state_path, NULL, 0, &x->err), x, "saved caches");
  must(tn_lm_load(x->rt, x->lm_path, &x->lm_opts, &x->lm, &x->err), x, "lm");
  make_texts(x);
  must(tn_embedder_load(x->rt, x->embed_path, &x->embed_opts, &x->embedder, &x->err), x, "embedder");
  must(tn_classifier_load(x->rt, x->classify_path, &x->classify_opts, &x->classifier, &x->err), x, "classifier");
  x->tensor = (tn_tensor){.h = {sizeof(tn_tensor), 1, 0},
                          .name = "t",
                          .dtype = TN_DT_F32,
                          .rank = 1,
                          .dims = {4},
                          .data = values,
                          .bytes = 16};
  x->image = (tn_image){.h = {sizeof(tn_image), 1, 0}, .width = 32, .height = 32, .channels = 3, .pixels = pixels};
  x->format_params[0] = 32;
  x->texts[0] = "a big dog";
  x->lengths[0] = 9;
  make_inputs(x);
}

/* What the case did, as the child's exit status: 0 as it should be. */
static int judge(const api_case *c, fixture *x) {
  struct outputs before;
  memset(&x->out, 0x5a, sizeof x->out);
  before = x->out;
  alarm(LIMIT_S);
  const tn_status st = c->call(x);
  if (st == NO_STATUS) return 0;
  if (st != TN_OK && memcmp(&before, &x->out, sizeof before) != 0) return 3;
  if (st != TN_OK && !strstr(c->what, "err NULL") && !x->err.message[0]) return 4;
  if (c->expect == GOOD && st != TN_OK) return fprintf(stderr, "    %s: %s\n", tn_status_name(st), x->err.message), 5;
  return c->expect == BAD && st == TN_OK ? 6 : 0;
}

static const char *fault(int status, char *text, size_t room) {
  static const char *const said[] = {NULL,
                                     "exit",
                                     "exit",
                                     "fails and changes its outputs",
                                     "fails without a message",
                                     "is right and refused",
                                     "is wrong and accepted"};
  if (WIFSIGNALED(status)) {
    snprintf(text, room, WTERMSIG(status) == SIGALRM ? "hangs" : "dies of signal %d", WTERMSIG(status));
    return text;
  }
  const int rc = WEXITSTATUS(status);
  return rc < 7 ? said[rc] : "exit";
}

/* --- the order of destruction: what stands on something keeps it, and the log says so -------------------------------
 */

static char told[1024];

static void keep_line(void *user, uint32_t level, const char *line) {
  (void)user;
  if (level == TN_LOG_ERROR) snprintf(told + strlen(told), sizeof told - strlen(told), "%s\n", line);
}

static bool says(const char *text) {
  if (strstr(told, text)) return true;
  printf("order of destruction: '%s' is not said: %s\n", text, told);
  return false;
}

/* Runtime first, session last; then lm before its chat. */
static size_t wrong_order(fixture *x) {
  tn_runtime *rt = NULL;
  tn_model *m = NULL;
  tn_session *s = NULL;
  tn_lm *lm = NULL;
  tn_chat *c = NULL;
  size_t bad = 0;
  const float *logits;
  size_t rows, vocab;
  x->runtime_opts.log = keep_line;
  must(tn_runtime_create(&x->runtime_opts, &rt, &x->err), x, "runtime");
  must(tn_model_load(rt, x->model_path, &x->model_opts, &m, &x->err), x, "model");
  must(tn_session_create(m, &s, &x->err), x, "session");
  must(tn_session_keep(s, &x->keep_opts, &x->err), x, "caches");
  must(tn_lm_load(rt, x->lm_path, &x->lm_opts, &lm, &x->err), x, "lm");
  must(tn_chat_create(lm, &c, &x->err), x, "chat");
  tn_runtime_destroy(rt);
  bad += !says("tn_runtime_destroy before tn_model_destroy: 2 models are still there");
  tn_model_destroy(m);
  bad += !says("tn_model_destroy before tn_session_destroy: 1 session of");
  must(tn_session_step(s, TN_PHASE_ANY, x->step_in, x->step_out, 1, &x->err), x, "step of what stays");
  tn_session_destroy(s);
  told[0] = '\0';
  tn_lm_destroy(lm);
  bad += !says("tn_model_destroy before tn_session_destroy");
  must(tn_chat_score(c, x->ids, 3, &logits, &rows, &vocab, &x->err), x, "chat of what stays");
  tn_chat_destroy(c);
  told[0] = '\0';
  must(tn_runtime_create(&x->runtime_opts, &rt, &x->err), x, "runtime");
  must(tn_model_load(rt, x->model_path, &x->model_opts, &m, &x->err), x, "model");
  tn_model_destroy(m);
  tn_runtime_destroy(rt);
  if (told[0]) printf("order of destruction: right, and said to be wrong: %s\n", told);
  return bad + (told[0] != 0);
}

static void destroy_objects(fixture *x) {
  tn_session_destroy(x->session);
  tn_session_destroy(x->keeping);
  tn_session_destroy(x->keeping2);
  tn_model_destroy(x->model);
  tn_sampler_destroy(x->sampler);
  tn_grammar_destroy(x->grammar);
  tn_batch_destroy(x->batch);
  free(x->logits);
  tn_chat_destroy(x->chat);
  tn_lm_destroy(x->lm);
  tn_embedder_destroy(x->embedder);
  tn_classifier_destroy(x->classifier);
  tn_runtime_destroy(x->rt);
}

int main(int argc, char **argv) {
  static fixture x;
  size_t bad = 0;
  if (argc < 2) return 2;
  make_options(&x, argv[1]);
  make_objects(&x);
  fflush(NULL);
  for (size_t i = 0; i < n_api_cases; i++) {
    const api_case *c = &api_cases[i];
    char text[64];
    int status = 0;
    if (argc > 2 && !strstr(c->function, argv[2])) continue;
    const pid_t pid = fork();
    if (pid == 0) _exit(judge(c, &x));
    waitpid(pid, &status, 0);
    if (!status) continue;
    printf("%s: %s: %s\n", c->function, c->what, fault(status, text, sizeof text));
    bad++;
  }
  bad += wrong_order(&x);
  destroy_objects(&x);
  printf("%zu cases, %zu mistakes\n", n_api_cases, bad);
  return bad > 0;
}
