"""Certificates and their stores: PKCS12 as Flink reads it, and PEM.

`stores` reads them. Only bytes and files, no sockets: `runtime.tls` makes TLS connections from
them. The library `cryptography` is imported inside functions, so that only runs with TLS load it.
"""
