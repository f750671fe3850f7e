#!/usr/bin/env python3
"""Run llama.cpp's own C++ HTTP server from the package xllamacpp (prebuilt), as a peer to compare with.

pip install xllamacpp          # in an environment of its own
llama_server.py MODEL.gguf --port 18900 --lanes 16 --context 16384 --threads 2
"""

import argparse
import time

import xllamacpp


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("model")
    parser.add_argument("--port", type=int, default=18900)
    parser.add_argument("--lanes", type=int, default=16)
    parser.add_argument("--context", type=int, default=16384, help="KV cells, shared by all lanes")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument(
        "--pooling",
        choices=["mean", "cls", "last", "rank"],
        help="serve embeddings or ranks alone",
    )
    parser.add_argument("--seconds", type=float, default=3600.0, help="stop by itself after this long")
    args = parser.parse_args()
    params = xllamacpp.CommonParams()
    params.model.path = args.model
    params.model_alias = {"peer"}
    params.n_parallel = args.lanes
    params.n_ctx = args.context
    params.kv_unified = True
    params.cpuparams.n_threads = args.threads
    params.cpuparams_batch.n_threads = args.threads
    if args.pooling:
        params.embedding = True
        name = f"LLAMA_POOLING_TYPE_{args.pooling.upper()}"
        params.pooling_type = getattr(xllamacpp.llama_pooling_type, name)
    params.hostnames = ["127.0.0.1"]
    params.port = args.port
    server = xllamacpp.Server(params)
    print("listening at", server.listening_address, flush=True)
    time.sleep(args.seconds)


if __name__ == "__main__":
    main()
