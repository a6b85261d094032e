/* SPDX-License-Identifier: Apache-2.0
 *
 * Generation end to end, on the host device, through tenon.h only. Goldens lie beside the models.
 */
#include <CUnit/Basic.h>
#include <jansson.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tenon/lm.h>
#include <unistd.h>

#include "tests/llm/lm_kit.h"

/* The streamed text is what decoding gives, cut after the prompt. */
static void test_stories(void) {
  tn_lm *lm = kit_load("lm/stories260k-onnx");
  tn_chat *c = kit_talk(lm);
  kit_sink *s = calloc(3, sizeof *s);
  tn_gen_params p = kit_greedy(200);
  tn_gen_result r = kit_say(c, "", &p, &s[0]);
  CU_ASSERT(r.new_tokens == 200 && r.prompt_tokens == 1 && r.reason == TN_STOP_LENGTH && s[0].n == 200);
  CU_ASSERT(strncmp(s[0].text, "Once upon a time, there was a little girl named Lily. She loved to", 66) == 0);
  char *all = NULL;
  size_t n = 0;
  CU_ASSERT_EQUAL_FATAL(tn_lm_decode(lm, s[0].ids, s[0].n, 1, &all, &n, NULL), TN_OK);
  CU_ASSERT(n == s[0].text_n && memcmp(all, s[0].text, n) == 0);
  free(all);
  /* In two calls: the conversation goes on where it was. */
  tn_chat_reset(c);
  p.max_tokens = 77;
  kit_say(c, "", &p, &s[1]);
  p.max_tokens = 123;
  kit_say(c, "", &p, &s[1]);
  CU_ASSERT(s[1].n == 200 && memcmp(s[0].ids, s[1].ids, 200 * sizeof(int32_t)) == 0);
  CU_ASSERT_STRING_EQUAL(s[0].text, s[1].text);
  /* A prompt in the middle of a sentence: the first word keeps its space. */
  tn_chat_reset(c);
  p.max_tokens = 5;
  r = kit_say(c, "Once upon a time, there was a", &p, &s[2]);
  CU_ASSERT(s[2].text[0] == ' ' && r.prompt_tokens > 5);
  tn_chat_destroy(c);
  tn_lm_destroy(lm);
  free(s);
}

static size_t ids_of(json_t *v, int32_t *out) {
  size_t n = json_array_size(v);
  for (size_t i = 0; i < n; i++) out[i] = (int32_t)json_integer_value(json_array_get(v, i));
  return n;
}

static void link_to(const char *folder, const char *name) {
  char from[600], to[600];
  snprintf(from, sizeof from, "%s/lm/demo-lm/%s", kit_data, name);
  snprintf(to, sizeof to, "%s/%s", folder, name);
  CU_ASSERT_EQUAL(symlink(from, to), 0);
}

/* The demo model with add_bos_token, as models/demo says it: prompts of the golden give its ids. */
static void test_demo(void) {
  static const char *const names[] = {"model.onnx", "config.json", "generation_config.json", "tokenizer.json"};
  char folder[] = "/tmp/tenon-lm-XXXXXX", path[600];
  CU_ASSERT_PTR_NOT_NULL_FATAL(mkdtemp(folder));
  for (size_t i = 0; i < 4; i++) link_to(folder, names[i]);
  snprintf(path, sizeof path, "%s/tokenizer_config.json", folder);
  FILE *f = fopen(path, "w");
  CU_ASSERT_PTR_NOT_NULL_FATAL(f);
  fputs("{\"bos_token\":\"<|endoftext|>\",\"add_bos_token\":true}", f);
  fclose(f);
  tn_lm *lm = kit_load_at(folder);
  snprintf(path, sizeof path, "%s/lm/demo-lm/golden.json", kit_data);
  json_t *g = json_load_file(path, 0, NULL), *v;
  size_t i;
  json_array_foreach(json_object_get(g, "cases"), i, v) {
    int32_t want[512], *ids = NULL;
    size_t n = ids_of(json_object_get(v, "prompt_ids"), want), got = 0;
    const char *prompt = json_string_value(json_object_get(v, "prompt"));
    CU_ASSERT_EQUAL_FATAL(tn_lm_encode(lm, prompt, strlen(prompt), 1, &ids, &got, NULL), TN_OK);
    CU_ASSERT(got == n && memcmp(ids, want, n * sizeof *ids) == 0);
    free(ids);
    kit_sink *s = calloc(1, sizeof *s);
    n = ids_of(json_object_get(v, "greedy_ids"), want);
    tn_chat *c = kit_talk(lm);
    tn_gen_params p = kit_greedy((uint32_t)n);
    p.flags = TN_GEN_IGNORE_EOS;
    kit_say(c, prompt, &p, s);
    CU_ASSERT(s->n == n && memcmp(s->ids, want, n * sizeof *want) == 0);
    CU_ASSERT_STRING_EQUAL(s->text, json_string_value(json_object_get(v, "text")));
    tn_chat_destroy(c);
    free(s);
  }
  CU_ASSERT(i > 0);
  json_decref(g);
  tn_lm_destroy(lm);
  for (i = 0; i < 4; i++) {
    snprintf(path, sizeof path, "%s/%s", folder, names[i]);
    unlink(path);
  }
  snprintf(path, sizeof path, "%s/tokenizer_config.json", folder);
  unlink(path);
  rmdir(folder);
}

static void write_in(const char *folder, const char *name, const char *text) {
  char path[600];
  snprintf(path, sizeof path, "%s/%s", folder, name);
  FILE *f = fopen(path, "w");
  CU_ASSERT_PTR_NOT_NULL_FATAL(f);
  fputs(text, f);
  fclose(f);
}

/* Ids of a prompt as AutoTokenizer of transformers 4.57 gives them for the same files (B: BOS, t: the text, E: EOS). */
static void test_wraps(void) {
  static const struct {
    const char *config, *want;
  } table[] = {{"\"tokenizer_class\":\"LlamaTokenizer\"", "Bt"},
               {"\"tokenizer_class\":\"LlamaTokenizerFast\",\"add_bos_token\":false", "t"},
               {"\"tokenizer_class\":\"CodeLlamaTokenizer\",\"add_eos_token\":true", "BtE"},
               {"\"tokenizer_class\":\"GemmaTokenizer\",\"add_bos_token\":true,\"add_eos_token\":true", "BtE"},
               {"\"tokenizer_class\":\"CohereTokenizerFast\"", "Bt"},
               {"\"tokenizer_class\":\"GPTNeoXTokenizer\"", "t"},
               {"\"tokenizer_class\":\"GPTNeoXTokenizerFast\",\"add_eos_token\":true", "tE"},
               {"\"tokenizer_class\":\"Qwen2Tokenizer\",\"add_eos_token\":true", "t"},
               {"\"tokenizer_class\":\"LlamaTokenizerFaster\"", "t"}};
  static const char *const names[] = {"model.onnx", "config.json", "tokenizer.json"};
  char folder[] = "/tmp/tenon-lm-XXXXXX", path[600], text[600];
  CU_ASSERT_PTR_NOT_NULL_FATAL(mkdtemp(folder));
  for (size_t i = 0; i < 3; i++) link_to(folder, names[i]);
  for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
    snprintf(text, sizeof text, "{\"bos_token\":\"<|endoftext|>\",\"eos_token\":\"<|endoftext|>\",%s}",
             table[i].config);
    write_in(folder, "tokenizer_config.json", text);
    tn_lm *lm = kit_load_at(folder);
    int32_t *ids = NULL;
    size_t n = 0;
    CU_ASSERT_EQUAL_FATAL(tn_lm_encode(lm, "In the", 6, 1, &ids, &n, NULL), TN_OK);
    char got[4] = "", *at = got;
    if (ids[0] == 0) *at++ = 'B';
    *at++ = 't';
    if (ids[n - 1] == 0) *at++ = 'E';
    *at = '\0';
    CU_ASSERT_STRING_EQUAL(got, table[i].want);
    free(ids);
    CU_ASSERT_EQUAL_FATAL(tn_lm_encode(lm, "In the", 6, 0, &ids, &n, NULL), TN_OK);
    CU_ASSERT(n > 0 && ids[0] != 0 && ids[n - 1] != 0);
    free(ids);
    tn_lm_destroy(lm);
  }
  snprintf(path, sizeof path, "%s/tokenizer_config.json", folder);
  unlink(path);
  for (size_t i = 0; i < 3; i++) {
    snprintf(path, sizeof path, "%s/%s", folder, names[i]);
    unlink(path);
  }
  rmdir(folder);
}

/* Model and tokenizer are read beside each other: of two errors the tokenizer's is told, whichever came first. */
static void test_damaged(void) {
  static const struct {
    const char *model, *tokenizer, *where;
  } cases[] = {{"no model", "{}", "tokenizer.json"},
               {NULL, "{}", "tokenizer.json"},
               {"no model", NULL, "model.onnx"},
               {NULL, "{\"model\": 1", "tokenizer.json"}};
  for (size_t i = 0; i < 4; i++) {
    char folder[] = "/tmp/tenon-lm-XXXXXX", path[600];
    CU_ASSERT_PTR_NOT_NULL_FATAL(mkdtemp(folder));
    if (cases[i].model)
      write_in(folder, "model.onnx", cases[i].model);
    else
      link_to(folder, "model.onnx");
    if (cases[i].tokenizer)
      write_in(folder, "tokenizer.json", cases[i].tokenizer);
    else
      link_to(folder, "tokenizer.json");
    link_to(folder, "config.json");
    tn_lm *lm = NULL;
    tn_error err;
    tn_error_init(&err);
    CU_ASSERT_NOT_EQUAL(tn_lm_load(kit_rt, folder, NULL, &lm, &err), TN_OK);
    CU_ASSERT_PTR_NULL(lm);
    CU_ASSERT_PTR_NOT_NULL(strstr(err.where, cases[i].where));
    static const char *const names[] = {"model.onnx", "tokenizer.json", "config.json"};
    for (size_t k = 0; k < 3; k++) {
      snprintf(path, sizeof path, "%s/%s", folder, names[k]);
      unlink(path);
    }
    rmdir(folder);
  }
}

static int32_t best(const float *l, size_t n) {
  size_t b = 0;
  for (size_t i = 1; i < n; i++)
    if (l[i] > l[b]) b = i;
  return (int32_t)b;
}

/* Every exporter's signature: ids generated step by step with the cache are the best of one uncached run over them. */
static void test_exports(void) {
  static const char *const names[] = {"onnx/exports/llama", "onnx/exports/qwen2", "onnx/exports/gpt2",
                                      "onnx/exports/phi3",  "onnx/exports/gemma", "lm/cappgpt-onnx",
                                      "lm/stories260k-onnx"};
  for (size_t k = 0; k < sizeof names / sizeof *names; k++) {
    tn_lm *lm = kit_load(names[k]);
    tn_chat *c = kit_talk(lm);
    kit_sink *s = calloc(1, sizeof *s);
    int32_t ids[32] = {3, 4, 5, 6};
    const float *l = NULL;
    size_t rows = 0, vocab = 0, wrong = 0;
    tn_gen_params p = kit_greedy(20);
    p.flags = TN_GEN_IGNORE_EOS;
    tn_gen_result r = {.h = {sizeof r, 1, 0}};
    CU_ASSERT_EQUAL(tn_generate_ids(c, ids, 4, &p, kit_take, s, &r, NULL), TN_OK);
    CU_ASSERT_EQUAL_FATAL(s->n, 20);
    memcpy(ids + 4, s->ids, 20 * sizeof *ids);
    tn_chat_reset(c);
    CU_ASSERT_EQUAL_FATAL(tn_chat_score(c, ids, 24, &l, &rows, &vocab, NULL), TN_OK);
    CU_ASSERT_EQUAL_FATAL(rows, 24);
    for (size_t i = 3; i < 23; i++) wrong += best(l + i * vocab, vocab) != ids[i + 1];
    if (wrong) printf("\n  %s: %zu of 20 differ", names[k], wrong);
    CU_ASSERT_EQUAL(wrong, 0);
    free(s);
    tn_chat_destroy(c);
    tn_lm_destroy(lm);
  }
}

/* In two pieces, scores are those of one piece. */
static void test_score(void) {
  tn_lm *lm = kit_load("lm/stories260k-onnx");
  tn_chat *a = kit_talk(lm), *b = kit_talk(lm);
  static const int32_t ids[11] = {1, 403, 407, 261, 378, 432, 383, 286, 261, 400, 428};
  const float *x = NULL, *y = NULL;
  size_t n, m, v;
  CU_ASSERT_EQUAL_FATAL(tn_chat_score(a, ids, 11, &x, &n, &v, NULL), TN_OK);
  CU_ASSERT_EQUAL_FATAL(tn_chat_score(b, ids, 5, &y, &m, &v, NULL), TN_OK);
  CU_ASSERT(n == 11 && m == 5 && v == 512);
  for (size_t i = 0; i < 5 * v; i++) CU_ASSERT_DOUBLE_EQUAL(x[i], y[i], 1e-3);
  CU_ASSERT_EQUAL_FATAL(tn_chat_score(b, ids + 5, 6, &y, &m, &v, NULL), TN_OK);
  for (size_t i = 0; i < 6 * v; i++) CU_ASSERT_DOUBLE_EQUAL(x[5 * v + i], y[i], 1e-3);
  CU_ASSERT_EQUAL(tn_chat_score(b, ids, 0, &y, &m, &v, NULL), TN_E_INVALID);
  tn_chat_destroy(a);
  tn_chat_destroy(b);
  tn_lm_destroy(lm);
}

/* Too long, outside the vocabulary, bad parameters: refused before anything runs, and the conversation is as it was. */
static void test_refused(void) {
  tn_lm *lm = kit_load("lm/stories260k-onnx");
  tn_chat *c = kit_talk(lm);
  kit_sink *s = calloc(2, sizeof *s);
  int32_t *many = calloc(600, sizeof *many);
  tn_gen_params p = kit_greedy(10);
  tn_gen_result r = {.h = {sizeof r, 1, 0}, .new_tokens = 99};
  tn_error err;
  for (int i = 0; i < 600; i++) many[i] = 400;
  CU_ASSERT_EQUAL(tn_lm_context(lm), 512);
  tn_error_init(&err);
  CU_ASSERT_EQUAL(tn_generate_ids(c, many, 513, &p, kit_take, s, &r, &err), TN_E_LIMIT);
  CU_ASSERT(strstr(err.message, "513") && strstr(err.message, "512") && r.new_tokens == 99 && s->n == 0);
  many[2] = 512; /* each call says its own mistake, whatever an earlier one left */
  CU_ASSERT_EQUAL(tn_generate_ids(c, many, 5, &p, kit_take, s, &r, &err), TN_E_INVALID);
  CU_ASSERT_PTR_NOT_NULL(strstr(err.message, "id 512 at 2"));
  many[2] = -1;
  CU_ASSERT_EQUAL(tn_generate_ids(c, many, 5, &p, kit_take, s, &r, NULL), TN_E_INVALID);
  CU_ASSERT_EQUAL(tn_generate(c, "\xff", 1, &p, kit_take, s, &r, NULL), TN_E_INVALID);
  p.top_p = 2;
  CU_ASSERT_EQUAL(tn_generate(c, "a", 1, &p, kit_take, s, &r, NULL), TN_E_INVALID);
  p = kit_greedy(10);
  p.h.size = 0;
  CU_ASSERT_EQUAL(tn_generate(c, "a", 1, &p, kit_take, s, &r, NULL), TN_E_INVALID);
  p = kit_greedy(10);
  CU_ASSERT_EQUAL(tn_generate_ids(c, NULL, 0, &p, kit_take, s, &r, NULL), TN_E_INVALID);
  kit_say(c, "", &p, &s[0]);
  tn_chat *fresh = kit_talk(lm);
  kit_say(fresh, "", &p, &s[1]);
  CU_ASSERT(s[0].n == 10 && memcmp(s[0].ids, s[1].ids, 40) == 0);
  /* The context fills up: generation ends there, the next prompt does not fit. */
  many[2] = 400;
  tn_chat_reset(c);
  p = kit_greedy(0);
  p.flags = TN_GEN_IGNORE_EOS;
  CU_ASSERT_EQUAL(tn_generate_ids(c, many, 500, &p, NULL, NULL, &r, NULL), TN_OK);
  CU_ASSERT(r.reason == TN_STOP_CONTEXT && r.new_tokens == 12);
  CU_ASSERT_EQUAL(tn_generate_ids(c, many, 1, &p, NULL, NULL, &r, NULL), TN_E_LIMIT);
  free(many);
  free(s);
  tn_chat_destroy(fresh);
  tn_chat_destroy(c);
  tn_lm_destroy(lm);
}

static void test_stops(void) {
  tn_lm *lm = kit_load("lm/stories260k-onnx");
  tn_chat *c = kit_talk(lm);
  kit_sink *s = calloc(4, sizeof *s);
  tn_gen_params p = kit_greedy(100);
  p.stop = (const char *const[]){"nowhere", "little girl"};
  p.n_stop = 2;
  tn_gen_result r = kit_say(c, "", &p, &s[0]);
  CU_ASSERT_EQUAL(r.reason, TN_STOP_STRING);
  CU_ASSERT_STRING_EQUAL(s[0].text, "Once upon a time, there was a ");
  tn_chat_reset(c);
  p = kit_greedy(100);
  s[1].stop_after = 7;
  r = kit_say(c, "", &p, &s[1]);
  CU_ASSERT(r.reason == TN_STOP_CALLBACK && r.new_tokens == 7);
  /* Cancelled from within, as another thread would: the conversation stays usable. */
  tn_chat_reset(c);
  s[2].cancel = c;
  CU_ASSERT_EQUAL(tn_generate(c, "", 0, &p, kit_take, &s[2], &r, NULL), TN_E_CANCELLED);
  CU_ASSERT_EQUAL(s[2].n, 3);
  tn_chat_reset(c);
  p = kit_greedy(20);
  r = kit_say(c, "", &p, &s[3]);
  CU_ASSERT_EQUAL(s[3].n, 20);
  tn_chat_destroy(c);
  tn_lm_destroy(lm);
  free(s);
}

static void test_sampling(void) {
  tn_lm *lm = kit_load("lm/stories260k-onnx");
  kit_sink *s = calloc(3, sizeof *s);
  for (int k = 0; k < 3; k++) {
    tn_chat *c = kit_talk(lm);
    tn_gen_params p;
    tn_lm_gen_defaults(lm, &p);
    CU_ASSERT(p.temperature == 1 && p.top_p == 1 && p.repeat_penalty == 1);
    p.max_tokens = 50;
    p.top_k = 40;
    p.repeat_penalty = 1.1f;
    p.seed = k < 2 ? 5 : 6;
    kit_say(c, "", &p, &s[k]);
    tn_chat_destroy(c);
  }
  CU_ASSERT_STRING_EQUAL(s[0].text, s[1].text);
  CU_ASSERT_STRING_NOT_EQUAL(s[0].text, s[2].text);
  free(s);
  tn_lm_destroy(lm);
}

/* A folder without tokenizer.json: ids work, text names the file. */
static void test_ids_only(void) {
  tn_lm *lm = kit_load("lm/cappgpt-onnx");
  tn_chat *c = kit_talk(lm);
  tn_gen_params p = kit_greedy(3);
  tn_gen_result r = {.h = {sizeof r, 1, 0}};
  tn_error err;
  tn_error_init(&err);
  CU_ASSERT_EQUAL(tn_generate(c, "a", 1, &p, NULL, NULL, &r, &err), TN_E_UNAVAILABLE);
  CU_ASSERT_PTR_NOT_NULL(strstr(err.where, "tokenizer.json"));
  CU_ASSERT_EQUAL(tn_generate_ids(c, (int32_t[]){1, 2}, 2, &p, NULL, NULL, &r, NULL), TN_OK);
  CU_ASSERT_EQUAL(tn_lm_context(lm), 512);
  CU_ASSERT(tn_lm_is_eos(lm, 51) && !tn_lm_is_eos(lm, 50));
  tn_chat_destroy(c);
  tn_lm_destroy(lm);
}

typedef struct job {
  tn_lm *lm;
  kit_sink s;
  tn_status st;
} job;

static void *worker(void *arg) {
  job *j = arg;
  tn_chat *c = NULL;
  tn_gen_params p = kit_greedy(100);
  tn_gen_result r = {.h = {sizeof r, 1, 0}};
  j->st = tn_chat_create(j->lm, &c, NULL);
  if (j->st == TN_OK) j->st = tn_generate(c, "", 0, &p, kit_take, &j->s, &r, NULL);
  tn_chat_destroy(c);
  return NULL;
}

static void test_threads(void) {
  tn_lm *lm = kit_load("lm/stories260k-onnx");
  job *j = calloc(3, sizeof *j);
  pthread_t t[3];
  for (int i = 0; i < 3; i++) {
    j[i].lm = lm;
    CU_ASSERT_EQUAL_FATAL(pthread_create(&t[i], NULL, worker, &j[i]), 0);
  }
  for (int i = 0; i < 3; i++) {
    pthread_join(t[i], NULL);
    CU_ASSERT(j[i].st == TN_OK && j[i].s.n == 100 && memcmp(j[i].s.ids, j[0].s.ids, 400) == 0);
  }
  free(j);
  tn_lm_destroy(lm);
}

/* --- messages ------------------------------------------------------------------------------------------------------
 */

static const char two_messages[] =
    "[{\"role\":\"user\",\"content\":\"In the beginning\"},{\"role\":\"assistant\",\"content\":\"God\"}]";

static tn_status apply(tn_lm *lm, const char *messages, char **text, int32_t **ids, size_t *n, tn_error *err) {
  const tn_messages m = {.h = TN_API_HDR(tn_messages), .flags = TN_MESSAGES_PROMPT, .messages = messages};
  size_t n_text;
  return tn_lm_apply(lm, &m, text, &n_text, ids, n, err);
}

static void test_messages(void) {
  tn_lm *lm = kit_load_demo();
  char *text = NULL;
  int32_t *ids = NULL, *same = NULL;
  size_t n = 0, n_same = 0, kept = 1;
  tn_error err;
  tn_error_init(&err);
  CU_ASSERT_TRUE(tn_lm_has_template(lm));
  CU_ASSERT_EQUAL_FATAL(apply(lm, two_messages, &text, &ids, &n, &err), TN_OK);
  CU_ASSERT_STRING_EQUAL(text, "<|endoftext|>In the beginning\nGod\n");
  /* On a clean conversation: the ids of the text, whose special tokens are recognised. */
  CU_ASSERT_EQUAL_FATAL(tn_lm_encode(lm, text, strlen(text), 0, &same, &n_same, &err), TN_OK);
  CU_ASSERT_EQUAL_FATAL(n, n_same);
  CU_ASSERT_EQUAL(memcmp(ids, same, n * sizeof *ids), 0);
  /* A conversation keeps what it has in common with ids, less than all of them. */
  tn_chat *c = kit_talk(lm);
  const tn_gen_params p = kit_greedy(4);
  kit_sink s = {.n = 0};
  CU_ASSERT_EQUAL_FATAL(tn_chat_rewind(c, ids, n, &kept, &err), TN_OK);
  CU_ASSERT_EQUAL(kept, 0);
  CU_ASSERT_EQUAL_FATAL(tn_generate_ids(c, ids, n, &p, kit_take, &s, NULL, &err), TN_OK);
  CU_ASSERT_EQUAL(tn_chat_length(c), n + 4);
  CU_ASSERT_EQUAL_FATAL(tn_chat_rewind(c, ids, n, &kept, &err), TN_OK);
  CU_ASSERT_EQUAL(kept, n - 1);
  kit_sink again = {.n = 0};
  CU_ASSERT_EQUAL_FATAL(tn_generate_ids(c, ids + kept, n - kept, &p, kit_take, &again, NULL, &err), TN_OK);
  CU_ASSERT_EQUAL(memcmp(s.ids, again.ids, 4 * sizeof *s.ids), 0);
  ids[2] ^= 1;
  CU_ASSERT_EQUAL_FATAL(tn_chat_rewind(c, ids, n, &kept, &err), TN_OK);
  CU_ASSERT_EQUAL(kept, 2);
  CU_ASSERT_EQUAL(tn_chat_length(c), 2);
  tn_chat_destroy(c);
  tn_free(text);
  tn_free(ids);
  tn_free(same);
  tn_lm_destroy(lm);
}

/* What a user types never becomes a control id, and its text stays what it was. */
/* A special token is text of a generation where it is named, and with a prompt that has it too. */
static void test_marks(void) {
  static const char *const marks[] = {"<|nobody|>", "<|endoftext|>", ""}, *const none[] = {NULL};
  tn_lm *lm = kit_load_demo();
  tn_gen_params p = kit_greedy(2);
  const tn_logit_bias always = {.id = tn_lm_bos(lm), .bias = 1e4f};
  p.flags |= TN_GEN_IGNORE_EOS;
  p.bias = &always;
  p.n_bias = 1;
  for (uint32_t n = 0; n <= 3; n++) {
    kit_sink s = {.n = 0};
    tn_chat *c = kit_talk(lm);
    CU_ASSERT_EQUAL(tn_lm_marks(lm, n ? marks : NULL, n, NULL), TN_OK);
    (void)kit_say(c, "And <|endoftext|> God said", &p, &s);
    CU_ASSERT_EQUAL(s.n, 2);
    CU_ASSERT_STRING_EQUAL(s.text, n < 2 ? "" : "<|endoftext|><|endoftext|>");
    tn_chat_destroy(c);
  }
  CU_ASSERT_EQUAL(tn_lm_marks(lm, NULL, 1, NULL), TN_E_INVALID);
  CU_ASSERT_EQUAL(tn_lm_marks(lm, none, 1, NULL), TN_E_INVALID);
  CU_ASSERT_EQUAL(tn_lm_marks(NULL, marks, 1, NULL), TN_E_INVALID);
  tn_lm_destroy(lm);
}

static void test_typed_tokens(void) {
  tn_lm *lm = kit_load_demo();
  char *text = NULL, *back = NULL;
  int32_t *ids = NULL;
  size_t n = 0, n_back = 0;
  tn_error err;
  tn_error_init(&err);
  CU_ASSERT_EQUAL_FATAL(
      apply(lm, "[{\"role\":\"user\",\"content\":\"a<|endoftext|>b <|endoftext|>\"}]", &text, &ids, &n, &err), TN_OK);
  size_t control = 0;
  for (size_t i = 0; i < n; i++) control += ids[i] == 0;
  CU_ASSERT_EQUAL(control, 1);
  CU_ASSERT_EQUAL_FATAL(tn_lm_decode(lm, ids, n, 0, &back, &n_back, &err), TN_OK);
  CU_ASSERT_STRING_EQUAL(back, text);
  tn_free(text);
  tn_free(back);
  tn_free(ids);
  static const char *const bad[] = {"{}", "[1]", "[{\"content\":\"x\"}]", "[", "[] x"};
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
    CU_ASSERT_EQUAL(apply(lm, bad[i], &text, NULL, NULL, &err), TN_E_INVALID); /* no ids wanted */
  const tn_messages named = {.h = TN_API_HDR(tn_messages), .messages = "[]", .name = "rag"};
  CU_ASSERT_EQUAL(tn_lm_apply(lm, &named, NULL, NULL, NULL, NULL, &err), TN_E_UNAVAILABLE);
  CU_ASSERT_PTR_NOT_NULL(strstr(err.message, "'rag'"));
  tn_lm_destroy(lm);
}

int main(void) {
  const int ready = kit_begin();
  if (ready) return ready;
  CU_initialize_registry();
  CU_pSuite s = CU_add_suite("language models", NULL, NULL);
  CU_add_test(s, "stories260k: text and continuation", test_stories);
  CU_add_test(s, "demo-lm: golden ids and texts", test_demo);
  CU_add_test(s, "special tokens by class", test_wraps);
  CU_add_test(s, "damaged files", test_damaged);
  CU_add_test(s, "exports: with and without cache", test_exports);
  CU_add_test(s, "scores", test_score);
  CU_add_test(s, "refusals and the context's end", test_refused);
  CU_add_test(s, "stops and cancelling", test_stops);
  CU_add_test(s, "sampling by seed", test_sampling);
  CU_add_test(s, "messages", test_messages);
  CU_add_test(s, "special tokens that are typed", test_typed_tokens);
  CU_add_test(s, "special tokens that are text", test_marks);
  CU_add_test(s, "ids only", test_ids_only);
  CU_add_test(s, "three conversations at once", test_threads);
  CU_basic_set_mode(CU_BRM_VERBOSE);
  CU_basic_run_tests();
  unsigned failed = CU_get_number_of_failures();
  CU_cleanup_registry();
  tn_runtime_destroy(kit_rt);
  return failed != 0;
}
