#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# install.sh VENV: the peers of bench/peers from PyPI in a Python environment of their own. llama-cpp-python is compiled for this
# machine's processor (GGML_NATIVE, as llama.cpp builds itself), which takes minutes to an hour; JOBS (default 2) compilers at once. By clang
# where there is one: gcc 12 loses stores before LDTILECFG, and llama.cpp dies on a processor with AMX.
set -eu
[ $# = 1 ] || { echo "usage: install.sh VENV" >&2; exit 2; }
python3 -m venv "$1"
pip="nice -n 19 $1/bin/pip install --quiet"
$pip numpy onnx gguf openvino onnxruntime onnxruntime-genai
! command -v clang++ >/dev/null || export CC=clang CXX=clang++
CMAKE_ARGS="-DGGML_NATIVE=ON" CMAKE_BUILD_PARALLEL_LEVEL="${JOBS:-2}" $pip llama-cpp-python
"$1/bin/pip" list 2>/dev/null | grep -E '^(gguf|openvino|onnxruntime|llama)'
