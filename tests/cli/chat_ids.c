/* SPDX-License-Identifier: Apache-2.0
 *
 * chat-ids PROFILE MODEL TOKENS IDS...: each list of ids (5,9,33) in turn goes into one conversation on an
 * encoder-decoder, whose source it is. A line of new ids for each. test_seq.py runs it.
 */
#include <stdio.h>
#include <stdlib.h>
#include <tenon/tenon.h>

enum { MAX_IDS = 256 };

static void check(tn_status st, const tn_error *e) {
  if (st == TN_OK) return;
  fprintf(stderr, "chat-ids: %s: %s\n", e->where, e->message);
  exit(1);
}

static size_t read_ids(const char *text, int32_t *ids) {
  size_t n = 0;
  for (char *end; n < MAX_IDS && *text; text = *end ? end + 1 : end) ids[n++] = (int32_t)strtol(text, &end, 10);
  return n;
}

static int print_token(void *user, int32_t id, const char *text, size_t n) {
  (void)user, (void)text, (void)n;
  printf("%d ", (int)id);
  return 0;
}

int main(int argc, char **argv) {
  if (argc < 5) return 2;
  tn_error err;
  tn_error_init(&err);
  const tn_runtime_opts ro = {.h = {sizeof ro, 1, 0}, .profile = argv[1]};
  tn_runtime *rt = NULL;
  tn_lm *lm = NULL;
  tn_chat *chat = NULL;
  check(tn_runtime_create(&ro, &rt, &err), &err);
  check(tn_lm_load(rt, argv[2], NULL, &lm, &err), &err);
  check(tn_chat_create(lm, &chat, &err), &err);
  tn_gen_params p;
  tn_gen_params_init(&p);
  p.temperature = 0;
  p.flags = TN_GEN_IGNORE_EOS;
  p.max_tokens = (uint32_t)strtoul(argv[3], NULL, 10);
  for (int i = 4; i < argc; i++) {
    int32_t ids[MAX_IDS];
    check(tn_generate_ids(chat, ids, read_ids(argv[i], ids), &p, print_token, NULL, NULL, &err), &err);
    putchar('\n');
  }
  tn_chat_destroy(chat);
  tn_lm_destroy(lm);
  tn_runtime_destroy(rt);
  return 0;
}
