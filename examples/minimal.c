/* SPDX-License-Identifier: Apache-2.0
 *
 * The smallest program that generates text with Tenon.
 *
 *   cc minimal.c $(pkg-config --cflags --libs tenon) -o minimal
 *   ./minimal models/demo "In the beginning"
 */
#include <stdio.h>
#include <string.h>
#include <tenon/tenon.h>

/* Called for each token with the text that became sure with it; returning nonzero would stop. */
static int print_token(void *user, int32_t id, const char *text, size_t n) {
  (void)user;
  (void)id;
  fwrite(text, 1, n, stdout);
  fflush(stdout);
  return 0;
}

static int complain(const char *what, const tn_error *err) {
  fprintf(stderr, "%s: %s (%s)\n", what, err->message, tn_status_name(err->code));
  return 1;
}

int main(int argc, char **argv) {
  if (argc < 3) {
    fprintf(stderr, "usage: minimal MODEL PROMPT [PROFILE]\n");
    return 2;
  }
  tn_error err;
  tn_error_init(&err);

  /* A runtime opens the devices that a profile names. */
  tn_runtime *rt = NULL;
  tn_runtime_opts ro = {.h = TN_API_HDR(tn_runtime_opts), .profile = argc > 3 ? argv[3] : "default"};
  if (tn_runtime_create(&ro, &rt, &err) != TN_OK) return complain("runtime", &err);

  /* A language model is a folder: model.onnx, tokenizer.json, config.json. */
  tn_lm *lm = NULL;
  if (tn_lm_load(rt, argv[1], NULL, &lm, &err) != TN_OK) {
    tn_runtime_destroy(rt);
    return complain("model", &err);
  }

  /* A chat holds the KV cache. Several may run at once on one model. */
  tn_chat *chat = NULL;
  tn_gen_params params;
  tn_gen_result result = {.h = TN_API_HDR(tn_gen_result)};
  tn_gen_params_init(&params);
  params.max_tokens = 32;
  params.temperature = 0; /* greedy */
  tn_status st = tn_chat_create(lm, &chat, &err);
  if (st == TN_OK) st = tn_generate(chat, argv[2], strlen(argv[2]), &params, print_token, NULL, &result, &err);
  printf("\n");
  if (st == TN_OK)
    fprintf(stderr, "%u tokens in, %u out\n", result.prompt_tokens, result.new_tokens);
  else
    complain("generate", &err);

  tn_chat_destroy(chat);
  tn_lm_destroy(lm);
  tn_runtime_destroy(rt);
  return st == TN_OK ? 0 : 1;
}
