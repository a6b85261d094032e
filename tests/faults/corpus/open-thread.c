/* SPDX-License-Identifier: Apache-2.0 */
#include <pthread.h>
#include <signal.h>

#include "whole.h"

/* A thread as drivers start them, without a thought of signals: it says which of the application's it would get. */
static void *look(void *arg) {
  static const int theirs[] = {SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGCHLD, SIGALRM};
  sigset_t mine;
  int *got = arg;
  pthread_sigmask(SIG_BLOCK, NULL, &mine);
  for (size_t i = 0; i < sizeof theirs / sizeof *theirs; i++)
    if (!sigismember(&mine, theirs[i])) *got = theirs[i];
  if (sigismember(&mine, SIGSEGV)) *got = SIGSEGV;
  return NULL;
}

static tn_status thread(tn_plugin *p, uint32_t index, tn_device **out, tn_error *e) {
  pthread_t t;
  int got = 0;
  if (pthread_create(&t, NULL, look, &got) != 0) return TN_E_NO_MEMORY;
  pthread_join(t, NULL);
  if (got) return fail(e, TN_E_UNAVAILABLE, "a thread of open stands wrong to signal %d", got);
  return open_device(p, index, out, e);
}

WHOLE(w->pub.open = thread)
