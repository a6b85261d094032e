#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""OpenVINO's CPU plugin, in the manner of llama-bench.

  VENV/bin/python bench/peers/run_openvino.py -m FOLDER -t 2 -p 512 -n 128 -d 0 -r 1 -o json

Settings are OpenVINO's own for one request at a time (PERFORMANCE_HINT LATENCY): caches in 8 bits, dynamic quantization where
the processor has it. Fails where the plugin has widened a product's weights to more than 4 bits.
"""
import os
import sys

import peer


def widened(compiled):
    """Products whose weights are no 4-bit constant in the graph that runs, and all products."""
    products = [n for n in compiled.get_runtime_model().get_ops()
                if n.get_rt_info()["layerType"].astype(str) == "FullyConnected"]
    wide = [n.get_friendly_name() for n in products if n.input_value(1).get_element_type().bitwidth != 4]
    return wide, products


class Engine(peer.Greedy):
    def __init__(self, model, threads, room):
        del room  # caches grow
        import numpy as np
        import openvino as ov
        self.np = np
        core = ov.Core()
        graph = core.read_model(os.path.join(model, "openvino_model.xml"))
        settings = {"PERFORMANCE_HINT": "LATENCY", "INFERENCE_NUM_THREADS": threads}
        compiled = core.compile_model(graph, "CPU", settings)
        wide, products = widened(compiled)
        if wide or not products:
            raise peer.Refused(f"{len(wide)} of {len(products)} products run without 4-bit weights: {', '.join(wide[:3])}")
        self.request = compiled.create_infer_request()
        self.vocab = graph.output("logits").partial_shape[-1].get_length()
        self.label = f"{graph.get_rt_info(['tenon', 'label']).astype(str)}, OpenVINO {ov.__version__.split('-')[0]}"
        self.at = 0

    def reset(self):
        self.request.reset_state()
        self.at = 0

    def prompt(self, ids):
        np, n = self.np, len(ids)
        out = self.request.infer({"input_ids": np.array([ids], np.int64), "beam_idx": np.zeros(1, np.int32),
                                  "position_ids": np.arange(self.at, self.at + n, dtype=np.int64)[None]},
                                 share_inputs=True, share_outputs=True)
        self.logits = out["logits"]
        self.at += n


if __name__ == "__main__":
    sys.exit(peer.main(__doc__, "openvino", Engine))
