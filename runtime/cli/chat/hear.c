/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/cli/chat/hear.h"

#include <stdlib.h>

tn_status hear_marks(tn_lm *lm, tn_error *err) { return tn_lm_marks(lm, srv_speech_marks, srv_speech_n_channel_marks, err); }

static bool open_text(hear_text *t) { return (t->f = open_memstream(&t->v, &t->n)) != NULL; }

static void close_text(hear_text *t) {
  if (t->f) fclose(t->f);
  free(t->v);
}

bool hear_begin(hearing *h, const cli_chat *with) {
  *h = (hearing){.with = with};
  srv_speech_init(&h->s, NULL, false, false);
  return open_text(&h->all) && open_text(&h->said) && open_text(&h->thoughts);
}

static void put_channels(hearing *h) {
  srv_speech *s = &h->s;
  if (s->thoughts.n) {
    h->with->say("%.*s", (int)s->thoughts.n, s->thoughts.v);
    fwrite(s->thoughts.v, 1, s->thoughts.n, h->thoughts.f);
    h->thought = true;
  }
  if (s->content.n && h->thought) {
    h->with->say("\n");
    h->thought = false;
  }
  if (s->content.n) {
    fwrite(s->content.v, 1, s->content.n, stdout);
    fwrite(s->content.v, 1, s->content.n, h->said.f);
  }
  s->content.n = s->thoughts.n = 0;
}

void hear(hearing *h, const char *text, size_t n, bool last) {
  fwrite(text, 1, n, h->all.f);
  if (h->plain) {
    fwrite(text, 1, n, stdout);
  } else {
    srv_speech_push(&h->s, text, n, last);
    if (!h->s.began && !last) return; /* the first letters tell */
    h->plain = h->s.place == SRV_NO_CHANNELS;
    fflush(h->all.f);
    if (h->plain)
      fwrite(h->all.v, 1, h->all.n, stdout);
    else
      put_channels(h);
  }
  if (!last) return;
  if (h->thought) h->with->say("\n");
  fflush(h->all.f);
  fflush(h->said.f);
  fflush(h->thoughts.f);
}

const hear_text *hear_said(const hearing *h) { return h->plain ? &h->all : &h->said; }

void hear_finish(hearing *h) {
  close_text(&h->all);
  close_text(&h->said);
  close_text(&h->thoughts);
  srv_speech_finish(&h->s);
}
