/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/serve/speech/harmony.h"

#include <string.h>

#include "runtime/base/base.h"

/* A receiver before the channel is no longer than this. */
enum { LONGEST_TO = 200 };

static const char channel[] = "<|channel|>", start[] = "<|start|>", to[] = "to=";

static bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\r' || c == '\n'; }

/* Bytes before a blank or a mark. */
static size_t word(const char *text, size_t n) {
  size_t k = 0;
  while (k < n && !is_blank(text[k]) && text[k] != '<') k++;
  return k;
}

static bool is(const char *text, size_t n, const char *what) { return n == strlen(what) && memcmp(text, what, n) == 0; }

static const char *find_to(const char *text, size_t n) {
  for (const char *at = text; n >= sizeof to && (at = memmem(at, n - (size_t)(at - text), to, sizeof to - 1)); at++)
    if (at == text || is_blank(at[-1])) return at + sizeof to - 1;
  return NULL;
}

void srv_harmony_head(const char *text, size_t n, srv_head *out) {
  const char *at = text && n ? memmem(text, n, channel, sizeof channel - 1) : NULL,
             *who = text ? find_to(text, n) : NULL;
  *out = (srv_head){.channel = SRV_CHANNEL_FINAL};
  if (at) {
    at += sizeof channel - 1;
    const size_t k = word(at, n - (size_t)(at - text));
    if (is(at, k, "analysis")) out->channel = SRV_CHANNEL_ANALYSIS;
    if (is(at, k, "commentary")) out->channel = SRV_CHANNEL_COMMENTARY;
  }
  if (!who) return;
  out->to = who;
  out->n_to = word(who, n - (size_t)(who - text));
}

/* Whether text begins with mark: 1, 0, or -1 while it is a part of it. */
static int begins_with(const char *text, size_t n, const char *mark) {
  const size_t all = strlen(mark), k = n < all ? n : all;
  if (k && memcmp(text, mark, k) != 0) return 0;
  return n >= all ? 1 : -1;
}

int srv_harmony_begins(const char *text, size_t n) {
  const int a = begins_with(text, n, channel), b = begins_with(text, n, start), c = begins_with(text, n, to);
  if (a == 1 || b == 1) return 1;
  if (c != 1) return a | b | c ? -1 : 0;
  const size_t k = word(text + sizeof to - 1, n - (sizeof to - 1)) + sizeof to - 1;
  if (k > LONGEST_TO) return 0;
  size_t at = k;
  while (at < n && is_blank(text[at])) at++;
  return begins_with(text + at, n - at, channel);
}
