"""Certificates and the stores they lie in: PKCS12 as Flink reads it, PEM, a set for experiments.

`stores` reads and writes them, `generate` makes the set. Bytes and files only, no sockets: what a
TLS connection makes of them is in `runtime.tls`. The library `cryptography` is imported inside
functions, so that only runs with TLS load it.
"""
