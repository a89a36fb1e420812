"""Certificates and their stores: PKCS12 as Flink reads it, PEM, and a set for experiments.

`stores` reads and writes stores, and creates the set. Only bytes and files, no sockets:
`runtime.tls` makes TLS connections from them. The library `cryptography` is imported inside
functions, so that only runs with TLS load it.
"""
