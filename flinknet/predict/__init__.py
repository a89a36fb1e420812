"""Predictions: a recorded exchange, what is fitted to it, and what it would have done under other
settings.

Here live the contract of a recorded exchange (`recorded`), how one is made from a trace
(`exchange`, and `captured` for traces of messages that were recorded between processes), the fits
(`costs`, `delays`, `wakes`; `saturation`, `turns` and `outages` for runs at the highest rate), the
settings to try (`grid`), and the simulation under one of them (`what_if`), by the compiled kernel
(`fast_kernel`) or by the simulator with the real core. `synth` makes traces of known laws.

Arithmetic on the columns of a trace: no Spark, no sockets, no clocks. What is predicted for whole
runs, and with what error, is put together in `replay`.
"""
