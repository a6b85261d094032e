/* SPDX-License-Identifier: Apache-2.0
 *
 * What each command does, in a line: for `tenon help`, its --help and the man page.
 */
#include <string.h>

#include "runtime/cli/cli.h"

static const struct {
  const char *command, *text;
} summaries[] = {
    {"run", "generate text from a prompt"},
    {"infer", "run any model once on tensors from files"},
    {"verify", "compare with expected outputs or with an oracle"},
    {"check", "which device takes each node, and why others refused"},
    {"inspect", "inputs, outputs, dims, passes, memory"},
    {"embed", "vectors of texts, and which are close to a query"},
    {"classify", "classes of images; with a CLIP model, which labels fit"},
    {"plugins", "plugins, devices, formats, and why others were not loaded"},
    {"eval", "perplexity of a text"},
    {"bench", "speed of a language model, beside its peers"},
    {"trace", "one run as a trace for Perfetto"},
    {"pack", "pack weights ahead of time, and how exact they are"},
    {"conform", "the vendor kit: is this plugin correct, or here is the case where it is not"},
    {"new-plugin", "a folder to begin a backend plugin with"},
    {"bundle", "a folder with just what a model needs on one kind of device"},
    {"calibrate", "activation statistics on a text, for formats that need them"},
};

const char *cli_summary(const char *command) {
  for (size_t i = 0; i < sizeof summaries / sizeof *summaries; i++)
    if (strcmp(summaries[i].command, command) == 0) return summaries[i].text;
  return "";
}
